//! Detects a server that disappeared without closing connections: its machine lost power, or the network drops packets.
//!
//! Statement timeouts are enforced by the server, so a statement sent to such a server ends only with the TCP timeout
//! of the operating system, after a quarter of an hour or more. Until then its caller hangs although another server may
//! have taken over. So one connection is pinged continuously. If it does not respond while a new connection does, the
//! process exits and its supervisor restarts it. Other processes take over its work, as after any crash.

use std::pin::pin;
use std::time::Duration;

use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions, Connection, PgConnection};
use tokio::time::{sleep, timeout};

/// How often the connection is pinged.
const PING_INTERVAL: Duration = Duration::from_secs(5);
/// After this time without a response a new connection is tried. Longer than any statement may take.
const PING_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a new connection may take, and how long the old one then still has to respond.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Resolves when an existing connection does not respond while new ones do. A closed connection does not count, because
/// its users get an error.
pub async fn wait_until_unresponsive(options: &PgConnectOptions) {
    loop {
        if let Some(connection) = connect(options).await
            && becomes_unresponsive(connection, options).await
        {
            return;
        }
        sleep(PING_INTERVAL).await;
    }
}

/// Pings a connection until it closes or becomes unresponsive; true in the latter case.
async fn becomes_unresponsive(mut connection: PgConnection, options: &PgConnectOptions) -> bool {
    loop {
        let mut ping = pin!(connection.ping());
        let mut response = timeout(PING_TIMEOUT, &mut ping).await;
        while response.is_err() {
            // If new connections fail too, waiting is all that can be done.
            let reachable = connect(options).await.is_some();
            response = timeout(TIMEOUT, &mut ping).await;
            if reachable && response.is_err() {
                return true;
            }
        }
        if !matches!(response, Ok(Ok(()))) {
            return false;
        }
        sleep(PING_INTERVAL).await;
    }
}

async fn connect(options: &PgConnectOptions) -> Option<PgConnection> {
    timeout(TIMEOUT, options.connect()).await.ok()?.ok()
}
