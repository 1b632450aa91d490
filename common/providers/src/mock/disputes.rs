//! Disputes at the mock: a charge by some test cards is disputed when it settles, and decided later.

use std::time::Duration;

use sqlx::{PgConnection, PgExecutor, PgPool};

use super::CardBehavior;
use crate::{
    DisputeReason, DisputeStatus, Entry, ParentCharge, ProviderError, ProviderResponse, ReportedDispute, StatementLine,
};
use foundation::crypto::random_hex;
use foundation::id::ProviderAccountId;
use foundation::money::{Currency, Money};
use foundation::time::Timestamp;

/// The time from settlement, when the dispute is opened, to its decision, on the account's clock.
pub const DISPUTE_DECIDED_AFTER: Duration = Duration::from_secs(10 * 24 * 3600);
/// How long the merchant may respond.
const RESPOND_WITHIN: Duration = Duration::from_secs(7 * 24 * 3600);
/// Added to the dispute's id, the reference for giving the money back.
const REINSTATED: &str = "_reinstated";

/// A dispute in the mock's books.
struct Row {
    id: String,
    amount: i64,
    nature: String,
    opened_at: Timestamp,
    is_reinstated: bool,
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
            reinstatement_ref: self.is_reinstated.then(|| format!("{}{REINSTATED}", self.id)),
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

/// Gives the money of won disputes back. The charge is locked.
pub(super) async fn reinstate(tx: &mut PgConnection, disputes: &[ReportedDispute]) -> Result<(), ProviderError> {
    let due = |dispute: &&ReportedDispute| dispute.status == DisputeStatus::Won && dispute.reinstatement_ref.is_none();
    for dispute in disputes.iter().filter(due) {
        sqlx::query!("UPDATE mock.disputes SET reinstated_at = clock_timestamp() WHERE id = $1", dispute.provider_ref)
            .execute(&mut *tx)
            .await?;
    }
    Ok(())
}

/// Returns the disputes of a charge at this time.
pub(super) async fn of_charge(
    db: impl PgExecutor<'_>,
    charge: &str,
    now: Timestamp,
) -> Result<Vec<ReportedDispute>, ProviderError> {
    let rows = sqlx::query_as!(
        Row,
        r#"SELECT id, amount, nature, opened_at, reinstated_at IS NOT NULL AS "is_reinstated!"
           FROM mock.disputes WHERE charge = $1"#,
        charge
    );
    Ok(rows.fetch_all(db).await?.into_iter().filter_map(|row| row.report(now)).collect())
}

/// Money that was withdrawn or given back, and the charge.
struct Movement {
    dispute: String,
    is_reinstatement: bool,
    amount: i64,
    currency: Currency,
    charge: String,
    charge_reference: String,
    /// By the database's clock.
    booked_at: Timestamp,
}

impl Movement {
    fn line(self) -> StatementLine {
        let (entry, suffix) =
            if self.is_reinstatement { (Entry::DisputeReinstated, REINSTATED) } else { (Entry::DisputeWithdrawn, "") };
        let provider_ref = self.dispute + suffix;
        StatementLine {
            entry,
            reference: String::new(),
            response: ProviderResponse::Done { provider_ref: provider_ref.clone() },
            provider_ref,
            money: Money { minor: self.amount, currency: self.currency },
            follows: Some(ParentCharge { provider_ref: self.charge, reference: self.charge_reference }),
            occurred_at: self.booked_at,
        }
    }
}

/// Returns what was withdrawn or given back at `since` or later, by the database's clock; nothing in class C.
pub(super) async fn statement(
    db: &PgPool,
    account: ProviderAccountId,
    since: Timestamp,
    limit: i64,
) -> Result<Vec<StatementLine>, ProviderError> {
    let rows = sqlx::query_as!(
        Movement,
        r#"SELECT m.id AS "dispute!", m.is_reinstatement AS "is_reinstatement!", m.amount AS "amount!",
                  t.currency AS "currency: Currency", t.id AS charge, t.reference AS charge_reference, m.booked_at AS "booked_at!"
           FROM ((SELECT id, charge, amount, false AS is_reinstatement, booked_at FROM mock.disputes
                  WHERE account = $1 AND booked_at >= $2 ORDER BY booked_at LIMIT $3)
                 UNION ALL
                 (SELECT id, charge, amount, true, reinstated_at FROM mock.disputes
                  WHERE account = $1 AND reinstated_at >= $2 ORDER BY reinstated_at LIMIT $3)) m
           JOIN mock.transactions t ON t.id = m.charge
           WHERE NOT EXISTS (SELECT FROM mock.accounts WHERE id = $1 AND recovery_class = 'C')
           ORDER BY m.booked_at LIMIT $3"#,
        account.uuid(),
        since,
        limit,
    );
    Ok(rows.fetch_all(db).await?.into_iter().map(Movement::line).collect())
}

/// Returns the line with this reference.
pub(super) async fn line(
    db: &PgPool,
    account: ProviderAccountId,
    provider_ref: &str,
) -> Result<Option<StatementLine>, ProviderError> {
    let (id, is_reinstatement) = provider_ref.strip_suffix(REINSTATED).map_or((provider_ref, false), |id| (id, true));
    let row = sqlx::query_as!(
        Movement,
        r#"SELECT d.id AS dispute, $3::bool AS "is_reinstatement!", d.amount, t.currency AS "currency: Currency", t.id AS charge,
                  t.reference AS charge_reference, coalesce(CASE WHEN $3::bool THEN d.reinstated_at ELSE d.booked_at END, d.opened_at) AS "booked_at!"
           FROM mock.disputes d JOIN mock.transactions t ON t.id = d.charge
           WHERE d.id = $1 AND d.account = $2 AND (d.reinstated_at IS NOT NULL OR NOT $3::bool)"#,
        id,
        account.uuid(),
        is_reinstatement,
    );
    Ok(row.fetch_optional(db).await?.map(Movement::line))
}
