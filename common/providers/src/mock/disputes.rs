//! Disputes at the mock: a charge by some test cards is disputed when it settles, and decided later.

use std::time::Duration;

use sqlx::{PgConnection, PgExecutor};

use super::CardBehavior;
use crate::{DisputeReason, DisputeStatus, ProviderError, ReportedDispute};
use foundation::crypto::random_hex;
use foundation::id::ProviderAccountId;
use foundation::time::Timestamp;

/// The time from settlement, when the dispute is opened, to its decision, on the account's clock.
pub const DISPUTE_DECIDED_AFTER: Duration = Duration::from_secs(10 * 24 * 3600);
/// How long the merchant may respond.
const RESPOND_WITHIN: Duration = Duration::from_secs(7 * 24 * 3600);

/// A dispute in the mock's books.
struct Row {
    id: String,
    amount: i64,
    nature: String,
    opened_at: Timestamp,
}

/// How the mock disputes charges by a test card.
struct Plan {
    reason: DisputeReason,
    decision: DisputeStatus,
}

impl Plan {
    const fn of(behavior: CardBehavior) -> Option<Self> {
        match behavior {
            CardBehavior::Disputed => Some(Self { reason: DisputeReason::Fraudulent, decision: DisputeStatus::Lost }),
            CardBehavior::DisputedWon => {
                Some(Self { reason: DisputeReason::ProductNotReceived, decision: DisputeStatus::Won })
            }
            CardBehavior::Approves
            | CardBehavior::Partial
            | CardBehavior::Declined
            | CardBehavior::Insufficient
            | CardBehavior::Lost
            | CardBehavior::Stolen
            | CardBehavior::Expired
            | CardBehavior::IncorrectCvc
            | CardBehavior::Authentication => None,
        }
    }
}

impl Row {
    fn report(self, now: Timestamp) -> Option<ReportedDispute> {
        let plan = Plan::of(CardBehavior::of_token(&self.nature)?)?;
        let decided_at = self.opened_at.plus(DISPUTE_DECIDED_AFTER);
        Some(ReportedDispute {
            provider_ref: self.id,
            amount: self.amount,
            reason: plan.reason,
            status: if decided_at <= now { plan.decision } else { DisputeStatus::NeedsResponse },
            respond_by: Some(self.opened_at.plus(RESPOND_WITHIN)),
            until: Some(decided_at),
        })
    }
}

/// Opens the dispute of a charge that has just settled, if its card is disputed and money is left. The charge is locked.
pub(super) async fn open(
    tx: &mut PgConnection,
    account: ProviderAccountId,
    charge: &str,
    nature: &str,
    amount: i64,
    now: Timestamp,
) -> Result<(), ProviderError> {
    if amount < 1 || CardBehavior::of_token(nature).and_then(Plan::of).is_none() {
        return Ok(());
    }
    sqlx::query!(
        "INSERT INTO mock.disputes (id, account, charge, amount, nature, opened_at) VALUES ($1, $2, $3, $4, $5, $6)
         ON CONFLICT (charge) DO NOTHING",
        format!("mockdp_{}", random_hex(12)),
        account.uuid(),
        charge,
        amount,
        nature,
        now,
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Returns the disputes of a charge at this time.
pub(super) async fn of_charge(
    db: impl PgExecutor<'_>,
    charge: &str,
    now: Timestamp,
) -> Result<Vec<ReportedDispute>, ProviderError> {
    let rows =
        sqlx::query_as!(Row, "SELECT id, amount, nature, opened_at FROM mock.disputes WHERE charge = $1", charge);
    Ok(rows.fetch_all(db).await?.into_iter().filter_map(|row| row.report(now)).collect())
}
