//! Late outcomes: the operation has already ended, or another worker has claimed it. A charge that no payment can use
//! is recorded and reversed, never dropped; a request without effect counts only while its claim is the latest.

use crate::charge::counters;
use domain::charges::{self, Claimed, Locked, NewOperation};
use domain::operations::{OperationKind, Origin, Subject};
use domain::payments::Payment;
use foundation::db::Tx;
use foundation::error::{Error, Result};
use foundation::id::{AnomalyId, OperationId, PaymentId};
use foundation::money::Money;
use foundation::queues;
use foundation::rule_enabled;
use foundation::time::Timestamp;
use providers::{Action, ProviderResponse};
use sqlx::PgExecutor;

/// The result of recording an outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// The operation ended with this outcome.
    Written {
        /// Fencing token of the operation's latest claim.
        fence: i64,
        /// Whether that claim's lease had not expired.
        held: bool,
    },
    /// The operation had already ended.
    Late,
    /// The request had no effect, and another worker has claimed the operation.
    Superseded,
}

impl Recorded {
    /// The operation ended with this outcome; `operation` is as it was locked.
    pub const fn written(operation: &Locked) -> Self {
        Self::Written { fence: operation.fence, held: operation.is_held }
    }
}

pub fn unexpected_response(claimed: &Claimed, what: &str) -> Error {
    Error::internal(format!("{}: unexpected response: {what}", claimed.id))
}

/// Whether the response means only that this one request had no effect. An approval, or a decline that the provider has
/// recorded, concerns the operation, whichever request reports it.
pub fn had_no_effect(claimed: &Claimed, response: &ProviderResponse) -> bool {
    match response {
        ProviderResponse::Refused { .. } => true,
        ProviderResponse::Declined { .. } => !claimed.provider.records_declines(),
        ProviderResponse::Charged { .. }
        | ProviderResponse::Mismatched { .. }
        | ProviderResponse::Challenged { .. }
        | ProviderResponse::Done { .. }
        | ProviderResponse::Stored { .. } => false,
    }
}

/// Whether another worker has claimed the operation since, and this response does not cover that worker's request.
pub fn is_superseded(claimed: &Claimed, operation: &Locked, response: &ProviderResponse) -> bool {
    let superseded = had_no_effect(claimed, response) && operation.fence != claimed.fence && rule_enabled!(Fence);
    if superseded {
        tracing::info!(operation = %claimed.id, "a request had no effect, and another worker has claimed the operation since; that worker records the outcome");
    }
    superseded
}

/// Handles a response that comes too late to be the outcome of its payment, which is locked with its operation. `None`
/// if it is in time.
pub async fn stale_outcome(
    tx: &mut Tx,
    claimed: &Claimed,
    payment: &Payment,
    operation: &Locked,
    response: &ProviderResponse,
    now: Timestamp,
) -> Result<Option<Recorded>> {
    if is_superseded(claimed, operation, response) {
        return Ok(Some(Recorded::Superseded));
    }
    if operation.state.is_final() {
        late_charge(tx, claimed, payment, operation, response, now).await?;
        return Ok(Some(Recorded::Late));
    }
    if !payment.status.is_under_way() {
        return Err(unexpected_response(claimed, &format!("charge of a payment that is {}", payment.status.name())));
    }
    Ok(None)
}

/// Checks whether a response cannot be the outcome of its locked operation: the operation has ended, or belongs to
/// another worker.
pub fn no_outcome(claimed: &Claimed, operation: &Locked, response: &ProviderResponse) -> Option<Recorded> {
    if operation.state.is_final() {
        return Some(Recorded::Late);
    }
    is_superseded(claimed, operation, response).then_some(Recorded::Superseded)
}

/// Same as [`no_outcome`] for a capture, void or refund. If the provider executed one whose operation has ended
/// otherwise, an operator must correct it: it cannot be undone.
pub fn stale_change(claimed: &Claimed, operation: &Locked, response: &ProviderResponse) -> Option<Recorded> {
    if operation.state.is_final()
        && let ProviderResponse::Done { provider_ref } = response
        && operation.provider_ref.as_ref() != Some(provider_ref)
    {
        tracing::error!(
            operation = %claimed.id, kind = claimed.kind.name(), recorded = operation.provider_ref, provider_ref,
            "the provider executed this although the operation has ended otherwise; an operator must correct it"
        );
        counters::count("payments_late_changes_total", claimed);
    }
    no_outcome(claimed, operation, response)
}

/// Handles a response to an operation that has ended. A repeated report of the same charge is ignored; another charge
/// is reversed.
async fn late_charge(
    tx: &mut Tx,
    claimed: &Claimed,
    payment: &Payment,
    operation: &Locked,
    response: &ProviderResponse,
    now: Timestamp,
) -> Result<()> {
    match response {
        ProviderResponse::Charged { provider_ref, amount, .. }
            if operation.provider_ref.as_ref() != Some(provider_ref) =>
        {
            reverse(tx, claimed, payment, provider_ref, *amount, Anomaly::SecondCharge, now).await
        }
        ProviderResponse::Mismatched { provider_ref, total }
            if operation.provider_ref.as_ref() != Some(provider_ref) =>
        {
            reverse(tx, claimed, payment, provider_ref, *total, Anomaly::AmountMismatch, now).await
        }
        ProviderResponse::Charged { .. }
        | ProviderResponse::Mismatched { .. }
        | ProviderResponse::Challenged { .. }
        | ProviderResponse::Declined { .. }
        | ProviderResponse::Refused { .. }
        | ProviderResponse::Done { .. }
        | ProviderResponse::Stored { .. } => Ok(()),
    }
}

/// Returns the payment that has this charge.
async fn payment_with_charge(tx: &mut Tx, claimed: &Claimed, provider_ref: &str) -> Result<Option<PaymentId>> {
    let query = sqlx::query_scalar!(
        r#"SELECT id AS "id!: PaymentId" FROM payments WHERE provider_account_id = $1 AND provider_ref = $2"#,
        claimed.provider_account_id.uuid(),
        provider_ref,
    );
    Ok(query.fetch_optional(&mut **tx).await?)
}

/// Why a charge belongs to no payment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, sqlx::Type)]
#[sqlx(type_name = "text", rename_all = "snake_case")]
pub enum Anomaly {
    /// Its payment has another charge, or has failed.
    SecondCharge,
    /// Its total differs from the requested amount.
    AmountMismatch,
}

/// Whether a charge is recorded as one that belongs to no payment.
pub async fn is_recorded(db: impl PgExecutor<'_>, operation: OperationId, provider_ref: &str) -> Result<bool> {
    let recorded = sqlx::query_scalar!(
        r#"SELECT EXISTS (SELECT 1 FROM charge_anomalies WHERE operation_id = $1 AND provider_ref = $2) AS "recorded!""#,
        operation.uuid(),
        provider_ref
    );
    Ok(recorded.fetch_one(db).await?)
}

/// Records a charge that belongs to no payment, with the operation that reverses it. Once per charge.
pub async fn reverse(
    tx: &mut Tx,
    claimed: &Claimed,
    payment: &Payment,
    provider_ref: &str,
    amount: i64,
    anomaly: Anomaly,
    now: Timestamp,
) -> Result<()> {
    if is_recorded(&mut **tx, claimed.id, provider_ref).await? {
        return Ok(());
    }
    // Reversing it would cancel the charge of that payment.
    if let Some(paid) = payment_with_charge(tx, claimed, provider_ref).await? {
        tracing::error!(
            operation = %claimed.id, payment = %payment.id, provider_ref, amount, pays = %paid,
            "the provider reports a second charge with the reference of another payment's charge; nothing is reversed, an operator must ask the provider"
        );
        counters::count("payments_late_changes_total", claimed);
        return Ok(());
    }
    tracing::error!(
        operation = %claimed.id, payment = %payment.id, provider_ref, amount, requested = payment.amount_requested, ?anomaly,
        "an approved charge belongs to no payment: recorded as an anomaly, and its reversal has begun"
    );
    let counter = match anomaly {
        Anomaly::SecondCharge => "payments_duplicate_charges_total",
        Anomaly::AmountMismatch => "payments_amount_mismatches_total",
    };
    counters::count(counter, claimed);
    let reversal = begin_reversal(tx, claimed, payment, OperationKind::Reverse, provider_ref, amount, now).await?;
    sqlx::query!(
        "INSERT INTO charge_anomalies
            (id, account_id, payment_id, operation_id, reversal_operation_id, provider_ref, amount, currency, created_at, kind)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
        AnomalyId::new(now).uuid(),
        claimed.account_id.uuid(),
        payment.id.uuid(),
        claimed.id.uuid(),
        reversal.uuid(),
        provider_ref,
        amount,
        payment.currency.code(),
        now,
        anomaly as Anomaly,
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Begins to refund an anomaly that could not be voided.
pub async fn refund_instead(tx: &mut Tx, claimed: &Claimed, payment: &Payment, now: Timestamp) -> Result<()> {
    let Action::Void { charge } = &claimed.request.action else {
        return Err(unexpected_response(claimed, "reversal that is not a void"));
    };
    let anomaly = sqlx::query!(
        "SELECT id, amount FROM charge_anomalies
         WHERE account_id = $1 AND provider_ref = $2 AND reversal_operation_id = $3",
        claimed.account_id.uuid(),
        charge,
        claimed.id.uuid(),
    );
    let Some(anomaly) = anomaly.fetch_optional(&mut **tx).await? else { return Ok(()) };
    let reversal =
        begin_reversal(tx, claimed, payment, OperationKind::ReverseByRefund, charge, anomaly.amount, now).await?;
    sqlx::query!("UPDATE charge_anomalies SET reversal_operation_id = $2 WHERE id = $1", anomaly.id, reversal.uuid())
        .execute(&mut **tx)
        .await?;
    Ok(())
}

async fn begin_reversal(
    tx: &mut Tx,
    claimed: &Claimed,
    payment: &Payment,
    kind: OperationKind,
    provider_ref: &str,
    amount: i64,
    now: Timestamp,
) -> Result<OperationId> {
    let reversal = OperationId::new(now);
    let money = Money { minor: amount, currency: payment.currency };
    charges::insert(
        tx,
        &[NewOperation {
            id: reversal,
            account_id: claimed.account_id,
            provider_account_id: claimed.provider_account_id,
            subject: Subject::Payment(payment.id),
            refund_id: None,
            kind,
            money: Some(money),
            source: None,
            target_ref: Some(provider_ref),
            action_token: None,
            by_system: true,
            background: false,
            origin: &Origin::default(),
        }],
    )
    .await?;
    // Until it ends, nothing else can be charged for the same invoice or link.
    tx.wake(queues::MONEY, reversal.uuid());
    Ok(reversal)
}
