# syntax=docker/dockerfile:1
# One image with all programs; the command says which. docs/deploying.md says what is unrun about it.

FROM rust:1.95.0-slim-bookworm AS build
WORKDIR /src
# The statements are checked against the committed description of the schema: a build needs no database.
ENV SQLX_OFFLINE=true
COPY . .
# The caches make a second build cheap. They are no part of the image, so the programs are copied out of them.
RUN --mount=type=cache,target=/usr/local/cargo/registry --mount=type=cache,target=/src/target \
    cargo build --release --locked -p api -p worker -p scheduler -p migrations -p ctl -p gateway \
    && mkdir /out \
    && cp target/release/api target/release/worker target/release/scheduler target/release/migrate target/release/ctl target/release/gateway /out/

FROM debian:bookworm-20261005-slim
# tzdata: every process reads the rules of time zones from the system's.
RUN apt-get update \
    && apt-get install -y --no-install-recommends tzdata \
    && rm -rf /var/lib/apt/lists/* \
    && groupadd --gid 10001 payments \
    && useradd --uid 10001 --gid 10001 --no-create-home --shell /usr/sbin/nologin payments
COPY --from=build /out/ /usr/local/bin/
# By number, so that Kubernetes sees that it is not root. Nothing is written: the root may be read-only, without a /tmp.
USER 10001:10001
# The api, the card gateway, and the internal listener of every process.
EXPOSE 8080 8090 9090
CMD ["api"]
