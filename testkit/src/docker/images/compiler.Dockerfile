# The stand-in for the published image of Rust: the compiler of this machine, and the crates that Cargo.lock names, because
# a build has no network here.
FROM compiler
COPY --from=toolchain . /usr/local/rust/
COPY --from=crates . /usr/local/cargo/crates/
COPY crates.toml /usr/local/cargo/config.toml
ENV CARGO_HOME=/usr/local/cargo PATH=/usr/local/rust/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
