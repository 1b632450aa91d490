//! A server that is gone without a word: its machine has lost power, or the network drops what is sent to it.
//!
//! The limits of statements are the server's, so nothing ends a statement that was sent to such a one but the system's patience
//! with the connection, a quarter of an hour and more. Until then whoever sent it hangs, though another server has long taken
//! over: a loop that hands out work, or every connection of a pool. So one connection is asked all the time. If it says nothing
//! while a new one is answered, the process ends, and its supervisor starts it again. What it had begun is taken up by others,
//! as after any crash.

use std::pin::pin;
use std::time::Duration;

use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions, Connection, PgConnection};
use tokio::time::{sleep, timeout};

/// How often the connection is asked.
const ASKED_EVERY: Duration = Duration::from_secs(5);
/// After so long without an answer a new connection is tried. No statement of ours may take as long.
const SILENT_FOR: Duration = Duration::from_secs(30);
/// How long a new connection may take, and how long the old one has to answer beside it.
const PATIENCE: Duration = Duration::from_secs(5);

/// Resolves when a connection has gone silent while new ones are answered. One that is closed is another matter: whoever uses
/// it is told.
pub async fn gone_silent(options: &PgConnectOptions) {
    loop {
        if let Some(connection) = connect(options).await
            && falls_silent(connection, options).await
        {
            return;
        }
        sleep(ASKED_EVERY).await;
    }
}

/// Asks a connection for as long as it lives, and answers whether it fell silent.
async fn falls_silent(mut connection: PgConnection, options: &PgConnectOptions) -> bool {
    loop {
        let mut answer = pin!(connection.ping());
        let mut answered = timeout(SILENT_FOR, &mut answer).await;
        while answered.is_err() {
            // With nobody there all that can be done is to wait.
            let another = connect(options).await.is_some();
            answered = timeout(PATIENCE, &mut answer).await;
            if another && answered.is_err() {
                return true;
            }
        }
        if !matches!(answered, Ok(Ok(()))) {
            return false;
        }
        sleep(ASKED_EVERY).await;
    }
}

async fn connect(options: &PgConnectOptions) -> Option<PgConnection> {
    timeout(PATIENCE, options.connect()).await.ok()?.ok()
}
