//! Intents: what is committed before anything is sent.

pub mod change_payment;
pub mod collect_invoices;
pub mod save_card;
pub mod take_payment;

use sqlx::PgPool;

use domain::charges::{self, Intent};
use domain::payment_methods::{self, PaymentMethod};
use foundation::db::{Batcher, Reader};
use foundation::id::PaymentMethodId;

/// Inserts intents that neither lock nor change another row, and reads what they need. Those that arrive together are
/// inserted with one statement, which commits by itself.
pub struct Intents {
    pool: PgPool,
    cards: Reader<PaymentMethodId, PaymentMethod>,
    batches: Batcher<Intent, bool>,
}

impl Intents {
    /// Must be called inside a Tokio runtime.
    pub fn start(pool: PgPool) -> Self {
        let batches = Batcher::start(pool.clone(), |db, intents: &[Intent]| {
            Box::pin(async move {
                let inserted = charges::insert_intents(db, intents).await?;
                Ok(intents.iter().map(|intent| inserted.contains(&intent.payment.id.uuid())).collect())
            })
        });
        Self { cards: payment_methods::reader(pool.clone()), pool, batches }
    }

    /// Inserts an intent. Returns `false` if its idempotency key was used before; then nothing was inserted.
    ///
    /// # Errors
    /// Database errors. After a lost connection it may have been inserted.
    pub async fn insert(&self, intent: Intent) -> sqlx::Result<bool> {
        self.batches.call(intent).await
    }
}
