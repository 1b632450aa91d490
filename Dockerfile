# One image with all programs; the command selects one. docs/deploying.md lists what has not been tested.

# An SBOM (docker buildx build --sbom=true) then lists the crates of Cargo.lock too, not only Debian's packages.
ARG BUILDKIT_SBOM_SCAN_CONTEXT=true
FROM rust:1.95.0-slim-bookworm AS build
WORKDIR /src
# SQL is checked against the committed schema description (.sqlx), so the build needs no database.
ENV SQLX_OFFLINE=true
# Symbols would only name the functions of a backtrace. A panic states its file and line without them.
ENV CARGO_PROFILE_RELEASE_STRIP=symbols
COPY . .
# The caches speed up later builds. They are not part of the image, so the executable is copied out. It is every program,
# by the name of the link that starts it: apart they would be 130 MB.
RUN --mount=type=cache,target=/usr/local/cargo/registry --mount=type=cache,target=/src/target \
    cargo build --release --locked --package programs --features image \
    && mkdir /out \
    && cp target/release/unified-payments /out/ \
    && for program in api portal worker scheduler migrate ctl gateway; do ln -s unified-payments /out/$program; done

FROM debian:bookworm-20261005-slim
# tzdata: the programs use the system's time zone database. Fonts: invoices and receipts as PDF, in every script. The
# other designs of Noto and Nanum, which common/documents does not use, are 41 MB.
RUN apt-get update \
    && apt-get install -y --no-install-recommends tzdata fonts-noto-core fonts-droid-fallback fonts-nanum \
    && rm -rf /var/lib/apt/lists/* \
    && find /usr/share/fonts/truetype/noto -type f ! -name 'NotoSans*' -delete \
    && find /usr/share/fonts/truetype/nanum -type f ! -name NanumGothic.ttf ! -name NanumGothicBold.ttf -delete \
    && groupadd --gid 10001 payments \
    && useradd --uid 10001 --gid 10001 --no-create-home --shell /usr/sbin/nologin payments
COPY --from=build /out/ /usr/local/bin/
# A numeric user, so that Kubernetes can verify that it is not root. The programs write no files, so the root file
# system may be read-only.
USER 10001:10001
# The portal, the api, the card gateway, and the internal listener of each process.
EXPOSE 8070 8080 8090 9090
CMD ["api"]
