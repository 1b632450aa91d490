//! Records when a key was last used, asynchronously: one task of the process writes at most once a minute per key,
//! whatever the number of processes.

use sqlx::PgPool;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use uuid::Uuid;

use super::rehash::AttemptThrottle;
use foundation::id::KeyId;

/// Number of keys per statement.
const BATCH: usize = 100;

/// Keys that were used and are to be recorded.
pub(super) struct UsageRecorder {
    recent: AttemptThrottle,
    sender: UnboundedSender<KeyId>,
}

impl UsageRecorder {
    /// Records uses in this database until it is dropped.
    #[expect(clippy::disallowed_methods, reason = "may be lost with the process: the next use of the key is recorded")]
    pub(super) fn new(db: PgPool) -> Self {
        let (sender, receiver) = unbounded_channel();
        tokio::spawn(record_all(db, receiver));
        Self { recent: AttemptThrottle::default(), sender }
    }

    /// Records that the key was used now.
    pub(super) fn record(&self, key: KeyId) {
        if self.recent.begin(key) {
            // The receiver is dropped only with the runtime.
            let _ = self.sender.send(key);
        }
    }
}

async fn record_all(db: PgPool, mut used: UnboundedReceiver<KeyId>) {
    let mut keys = Vec::with_capacity(BATCH);
    while used.recv_many(&mut keys, BATCH).await > 0 {
        let ids: Vec<_> = keys.drain(..).map(KeyId::uuid).collect();
        if let Err(error) = write(&db, &ids).await {
            tracing::warn!(%error, keys = ids.len(), "failed to record the use of keys; the next use after a minute is recorded");
        }
    }
}

/// Skips locked rows: another process is recording the same, or the key is being revoked.
async fn write(db: &PgPool, keys: &[Uuid]) -> sqlx::Result<()> {
    sqlx::query!(
        "UPDATE api_keys SET last_used_at = clock_timestamp() WHERE id = ANY (ARRAY(
             SELECT id FROM api_keys
             WHERE id = ANY ($1) AND (last_used_at IS NULL OR last_used_at < (SELECT clock_timestamp() - interval '1 minute'))
             ORDER BY id FOR NO KEY UPDATE SKIP LOCKED))",
        keys,
    )
    .execute(db)
    .await?;
    Ok(())
}
