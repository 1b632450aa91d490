//! When a key was last used. It is noted beside the requests and never in their way: by one task of the process, at most once a
//! minute for each key, whatever the number of processes.

use sqlx::PgPool;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use uuid::Uuid;

use super::rehash::Tries;
use crate::id::KeyId;

/// Keys that are noted with one statement.
const BATCH: usize = 100;

/// What has been used and is about to be noted.
pub(super) struct Uses {
    recent: Tries,
    sender: UnboundedSender<KeyId>,
}

impl Uses {
    /// Notes uses in this database for as long as it is kept.
    #[expect(clippy::disallowed_methods, reason = "may be lost with the process: the next use of the key is noted")]
    pub(super) fn noting_in(db: PgPool) -> Self {
        let (sender, receiver) = unbounded_channel();
        tokio::spawn(note_all(db, receiver));
        Self { recent: Tries::default(), sender }
    }

    /// The key was used now.
    pub(super) fn note(&self, key: KeyId) {
        if self.recent.begin(key) {
            // The task has ended only where the runtime has.
            let _ = self.sender.send(key);
        }
    }
}

async fn note_all(db: PgPool, mut used: UnboundedReceiver<KeyId>) {
    let mut keys = Vec::with_capacity(BATCH);
    while used.recv_many(&mut keys, BATCH).await > 0 {
        let ids: Vec<_> = keys.drain(..).map(KeyId::uuid).collect();
        if let Err(error) = write(&db, &ids).await {
            tracing::warn!(%error, keys = ids.len(), "the use of keys was not noted; their next use in a minute is");
        }
    }
}

/// Rows that somebody else holds are left alone: another process notes the same, or the key is being revoked.
async fn write(db: &PgPool, keys: &[Uuid]) -> sqlx::Result<()> {
    sqlx::query!(
        "UPDATE api_keys SET last_used_at = clock_timestamp() WHERE id IN (
             SELECT id FROM api_keys
             WHERE id = ANY ($1) AND (last_used_at IS NULL OR last_used_at < (SELECT clock_timestamp() - interval '1 minute'))
             ORDER BY id FOR NO KEY UPDATE SKIP LOCKED)",
        keys,
    )
    .execute(db)
    .await?;
    Ok(())
}
