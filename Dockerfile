# syntax=docker/dockerfile:1
# One image with all programs; the command says which. docs/operations.md says what is unrun about it.

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

FROM debian:bookworm-slim
# tzdata: every process reads the rules of time zones from the system's.
RUN apt-get update \
    && apt-get install -y --no-install-recommends tzdata \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 10001 --user-group --no-create-home --shell /usr/sbin/nologin payments
COPY --from=build /out/ /usr/local/bin/
USER 10001:10001
# The api, and the internal listener of every process.
EXPOSE 8080 9090
CMD ["api"]
