//! Returns of charges that the cardholder did not owe: of those that belong to no payment, which are recorded as
//! anomalies, and of partial approvals, which never pay an invoice or a link. A charge is voided, or refunded if it has
//! already settled.

use std::time::Duration;

use sqlx::PgExecutor;

use crate::charge::counters;
use crate::charge::outcome::follow_up::{end_follow_up, refusal};
use crate::charge::outcome::stale::{Recorded, unexpected_response};
use domain::charges::{self, Claimed, NewOperation};
use domain::operations::{OperationKind, Origin};
use domain::payments::{self, Payment, Refund, RefundStatus, Status, refunds};
use foundation::clock::Clock;
use foundation::db::Tx;
use foundation::error::Result;
use foundation::failpoint;
use foundation::id::{AnomalyId, OperationId, PaymentId, RefundId};
use foundation::queues;
use foundation::time::Timestamp;
use providers::{Action, ProviderResponse};

/// Delay after a refusal before the provider is queried for the charge's status.
const INQUIRY_DELAY: Duration = Duration::from_secs(10);

/// No client waits for a reversal.
static NO_ORIGIN: Origin = Origin { reply_to: None, request_id: None, requested_by: None, payer_address: None };

/// Why a charge belongs to no payment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, sqlx::Type)]
#[sqlx(type_name = "text", rename_all = "snake_case")]
pub enum Anomaly {
    /// Its payment has another charge, or has failed.
    SecondCharge,
    /// Its total differs from the requested amount.
    AmountMismatch,
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
    let reversal = begin(tx, new_reversal(claimed, payment, OperationKind::Reverse, provider_ref, amount, now)).await?;
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

/// Returns the payment that has this charge.
async fn payment_with_charge(tx: &mut Tx, claimed: &Claimed, provider_ref: &str) -> Result<Option<PaymentId>> {
    let query = sqlx::query_scalar!(
        r#"SELECT id AS "id!: PaymentId" FROM payments WHERE provider_account_id = $1 AND provider_ref = $2"#,
        claimed.provider_account_id.uuid(),
        provider_ref,
    );
    Ok(query.fetch_optional(&mut **tx).await?)
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

/// Records a reversal. A charge that cannot be cancelled, because it has settled, is refunded.
pub async fn record_reversal(
    tx: &mut Tx,
    claimed: &Claimed,
    id: PaymentId,
    response: &ProviderResponse,
    clock: &Clock,
) -> Result<Recorded> {
    let (recorded, payment) = end_follow_up(tx, claimed, id, response).await?;
    let Some(payment) = payment else { return Ok(recorded) };
    if let Some((_, reason)) = refusal(claimed, response)? {
        if claimed.kind == OperationKind::Reverse {
            let now = claimed.time.now(&mut **tx, clock).await?;
            refund_instead(tx, claimed, &payment, now).await?;
        } else {
            tracing::error!(
                operation = %claimed.id, payment = %id, reason,
                "the provider refused to return a charge that belongs to no payment: the cardholder has paid too much until an operator returns it"
            );
        }
    }
    Ok(recorded)
}

/// Begins to refund an anomaly that could not be voided.
async fn refund_instead(tx: &mut Tx, claimed: &Claimed, payment: &Payment, now: Timestamp) -> Result<()> {
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
    let kind = OperationKind::ReverseByRefund;
    let reversal = begin(tx, new_reversal(claimed, payment, kind, charge, anomaly.amount, now)).await?;
    sqlx::query!("UPDATE charge_anomalies SET reversal_operation_id = $2 WHERE id = $1", anomaly.id, reversal.uuid())
        .execute(&mut **tx)
        .await?;
    Ok(())
}

/// Begins to void a partial charge, in the transaction that recorded it. The payment is locked.
///
/// # Errors
/// Database errors only.
pub async fn reverse_partial(tx: &mut Tx, payment: &mut Payment, now: Timestamp) -> Result<()> {
    payment.pending_operation = Some(OperationKind::Void);
    payments::save(tx, payment).await?;
    let id = OperationId::new(now);
    begin(tx, NewOperation::of_payment(id, payment, OperationKind::Void, payment.amount, &NO_ORIGIN)).await?;
    Ok(())
}

/// Whether a charge is a partial one that must be returned and has not been yet.
pub fn is_unwanted_partial(payment: &Payment) -> bool {
    let has_parent = payment.invoice_id.is_some() || payment.payment_link_id.is_some();
    let is_part = payment.amount < payment.amount_requested;
    has_parent && is_part && payment.amount_captured > payment.amount_refunded && payment.status != Status::Cancelled
}

/// Handles a refused void or refund: the charge may have settled, or the provider may be unavailable. A partial charge
/// must be returned anyway, so an inquiry is scheduled, and its result decides how to retry (`reconcile/inquire.rs`).
pub fn schedule_inquiry_after_refusal(payment: &mut Payment, now: Timestamp) {
    if is_unwanted_partial(payment) {
        payment.inquiry_at = Some(now.plus(INQUIRY_DELAY));
    }
}

/// Begins to refund the rest of a settled partial charge. The caller saves the payment.
///
/// # Errors
/// Database errors only.
pub async fn refund_partial(tx: &mut Tx, payment: &mut Payment, now: Timestamp) -> Result<()> {
    let withdrawn = payment.amount_refunded + payment.amount_disputed;
    let left = payment.amount_captured - withdrawn - payment.amount_refund_pending;
    if left <= 0 {
        return Ok(());
    }
    let refund = Refund {
        id: RefundId::new(now),
        payment_id: payment.id,
        amount: left,
        amount_asked: None,
        external_id: None,
        metadata: None,
        version: 1,
        status: RefundStatus::Pending,
        created_at: now,
        failure_code: None,
        requested_by: None,
    };
    payment.amount_refund_pending += left;
    payment.has_refunds = true;
    refunds::insert(tx, payment.account_id, &refund).await?;
    let operation = NewOperation::of_payment(OperationId::new(now), payment, OperationKind::Refund, left, &NO_ORIGIN);
    begin(tx, NewOperation { refund_id: Some(refund.id), ..operation }).await?;
    Ok(())
}

/// The operation that returns a charge which belongs to no payment, where it was made.
fn new_reversal<'a>(
    claimed: &Claimed,
    payment: &'a Payment,
    kind: OperationKind,
    charge: &'a str,
    amount: i64,
    now: Timestamp,
) -> NewOperation<'a> {
    NewOperation {
        provider_account_id: claimed.provider_account_id,
        target_ref: Some(charge),
        ..NewOperation::of_payment(OperationId::new(now), payment, kind, amount, &NO_ORIGIN)
    }
}

async fn begin(tx: &mut Tx, operation: NewOperation<'_>) -> Result<OperationId> {
    let id = operation.id;
    charges::insert(tx, &[NewOperation { by_system: true, ..operation }]).await?;
    failpoint!("reversal.begun");
    // Until a reversal ends, nothing else can be charged for the same invoice or link.
    tx.wake(queues::PAYMENTS, id.uuid());
    Ok(id)
}
