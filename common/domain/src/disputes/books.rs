//! Disputed money as reconciliation compares it with a provider's books.

use sqlx::PgPool;

use foundation::error::Result;
use foundation::id::{AccountId, DisputeId, PaymentId, ProviderAccountId};
use foundation::money::{Currency, Money};
use foundation::time::Timestamp;
use providers::Entry;

/// Money that was withdrawn because of a dispute, or given back, as our books record it.
#[derive(Clone, Debug)]
pub struct DisputeMovement {
    pub entry: Entry,
    pub dispute_id: DisputeId,
    pub payment_id: PaymentId,
    /// The provider's reference for it.
    pub provider_ref: String,
    pub money: Money,
    /// When its dispute was last written, by the database's clock.
    pub written_at: Option<Timestamp>,
}

struct Row {
    id: DisputeId,
    payment_id: PaymentId,
    provider_ref: String,
    /// Set only for a won dispute.
    reinstatement_ref: Option<String>,
    amount: i64,
    currency: Currency,
    written_at: Option<Timestamp>,
}

impl Row {
    fn movements(self) -> impl Iterator<Item = DisputeMovement> {
        let withdrawn = DisputeMovement {
            entry: Entry::DisputeWithdrawn,
            dispute_id: self.id,
            payment_id: self.payment_id,
            provider_ref: self.provider_ref,
            money: Money { minor: self.amount, currency: self.currency },
            written_at: self.written_at,
        };
        let reinstated = self.reinstatement_ref.map(|provider_ref| DisputeMovement {
            entry: Entry::DisputeReinstated,
            provider_ref,
            ..withdrawn.clone()
        });
        [withdrawn].into_iter().chain(reinstated)
    }
}

/// The columns are shared by all queries.
macro_rules! movements {
    ($rest:literal, $($arg:expr),* $(,)?) => {
        sqlx::query_as!(
            Row,
            "SELECT d.id, d.payment_id, d.provider_ref, d.reinstatement_ref, d.amount, d.currency, d.written_at
             FROM disputes d " + $rest,
            $($arg),*
        )
    };
}

/// Returns all movements of disputed money of these payments.
///
/// # Errors
/// Database errors only.
pub async fn of_payments(db: &PgPool, account: AccountId, payments: &[PaymentId]) -> Result<Vec<DisputeMovement>> {
    if payments.is_empty() {
        return Ok(vec![]);
    }
    let payments: Vec<_> = payments.iter().map(|payment| payment.uuid()).collect();
    let query = movements!("WHERE d.account_id = $1 AND d.payment_id = ANY ($2)", account.uuid(), &payments);
    Ok(query.fetch_all(db).await?.into_iter().flat_map(Row::movements).collect())
}

/// Returns the movements of up to `limit` disputes at a provider account that were last written within an interval, in
/// the order in which they were written.
///
/// # Errors
/// Database errors only.
pub async fn written(
    db: &PgPool,
    at: ProviderAccountId,
    from: Timestamp,
    to: Timestamp,
    limit: i64,
) -> Result<Vec<DisputeMovement>> {
    let query = movements!(
        "WHERE d.provider_account_id = $1 AND d.written_at >= $2 AND d.written_at < $3
         ORDER BY d.provider_account_id, d.written_at LIMIT $4",
        at.uuid(),
        from,
        to,
        limit,
    );
    Ok(query.fetch_all(db).await?.into_iter().flat_map(Row::movements).collect())
}
