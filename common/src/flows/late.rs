//! Outcomes that come late: the operation has ended, or another worker has it. A charge that nobody wants is recorded and
//! reversed, never dropped; a request that did nothing counts only while its claim is the latest.

use super::outcome::misfit;
use crate::db::Tx;
use crate::error::Result;
use crate::id::{AnomalyId, OperationId, PaymentId};
use crate::money::Money;
use crate::operations::{self, Claimed, Kind, Locked, NewOperation, Origin, Subject};
use crate::payments::Payment;
use crate::proof::{self, Rule};
use crate::providers::{Action, Answer, ProviderKind};
use crate::time::Timestamp;

/// What became of an outcome that was to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Recorded {
    /// It is the end of its operation, whose latest claim had this fencing token.
    Written {
        /// The token.
        fence: i64,
        /// Whether the lease of that claim lay ahead.
        held: bool,
    },
    /// The operation had come to its end before.
    Late,
    /// It says that a request did nothing, and another worker has the operation.
    Overtaken,
}

impl Recorded {
    /// It is the end of this operation, which is as it was when it was locked.
    pub(super) const fn end_of(operation: &Locked) -> Self {
        Self::Written { fence: operation.fence, held: operation.is_held }
    }
}

/// Whether this says only that this one request did nothing. That of an approval, or of a decline that the provider has in its
/// books, is a fact about the operation, whoever tells it.
pub(super) fn is_empty_handed(claimed: &Claimed, answer: &Answer) -> bool {
    match answer {
        Answer::Refused { .. } => true,
        // The card gateway enters nothing of what its limits decline, and leaves the reference free.
        Answer::Declined { .. } => claimed.provider == ProviderKind::CardGateway,
        Answer::Charged { .. }
        | Answer::Mismatched { .. }
        | Answer::Challenged { .. }
        | Answer::Done { .. }
        | Answer::Stored { .. } => false,
    }
}

/// Whether another worker has taken the operation over since, and this says nothing of what that one has sent.
pub(super) fn is_overtaken(claimed: &Claimed, operation: &Locked, answer: &Answer) -> bool {
    let overtaken = is_empty_handed(claimed, answer) && operation.fence != claimed.fence && proof::holds(Rule::Fence);
    if overtaken {
        tracing::info!(operation = %claimed.id, "a request did nothing, and another worker has the operation by now: its word counts");
    }
    overtaken
}

/// Whether a charge comes too late to be the outcome of its payment, which is locked with its operation; then what is to be
/// done about it has been done.
pub(super) async fn too_late(
    tx: &mut Tx,
    claimed: &Claimed,
    payment: &Payment,
    operation: &Locked,
    answer: &Answer,
    now: Timestamp,
) -> Result<Option<Recorded>> {
    if is_overtaken(claimed, operation, answer) {
        return Ok(Some(Recorded::Overtaken));
    }
    if operation.state.is_final() {
        late_charge(tx, claimed, payment, operation, answer, now).await?;
        return Ok(Some(Recorded::Late));
    }
    if !payment.status.is_under_way() {
        return Err(misfit(claimed, &format!("a charge of a payment that is {}", payment.status.name())));
    }
    Ok(None)
}

/// What comes of an answer that is no outcome of its operation, which is locked: that has ended, or is another worker's.
pub(super) fn no_outcome(claimed: &Claimed, operation: &Locked, answer: &Answer) -> Option<Recorded> {
    if operation.state.is_final() {
        return Some(Recorded::Late);
    }
    is_overtaken(claimed, operation, answer).then_some(Recorded::Overtaken)
}

/// The same of a capture, void or refund. One that has ended and is done once more, or after all, is for a person: it cannot be
/// undone.
pub(super) fn change_too_late(claimed: &Claimed, operation: &Locked, answer: &Answer) -> Option<Recorded> {
    if operation.state.is_final()
        && let Answer::Done { provider_ref } = answer
        && operation.provider_ref.as_ref() != Some(provider_ref)
    {
        tracing::error!(
            operation = %claimed.id, kind = claimed.kind.name(), recorded = operation.provider_ref, provider_ref,
            "the provider did this although our books have another end of it: a person must put it right"
        );
        metrics::counter!("payments_late_changes_total", "provider" => claimed.provider.name()).increment(1);
    }
    no_outcome(claimed, operation, answer)
}

/// An answer to an operation that has ended. The same charge again is no news; another one is reversed.
async fn late_charge(
    tx: &mut Tx,
    claimed: &Claimed,
    payment: &Payment,
    operation: &Locked,
    answer: &Answer,
    now: Timestamp,
) -> Result<()> {
    match answer {
        Answer::Charged { provider_ref, amount, .. } if operation.provider_ref.as_ref() != Some(provider_ref) => {
            reverse(tx, claimed, payment, provider_ref, *amount, Anomaly::SecondCharge, now).await
        }
        Answer::Mismatched { provider_ref, total } if operation.provider_ref.as_ref() != Some(provider_ref) => {
            reverse(tx, claimed, payment, provider_ref, *total, Anomaly::AmountMismatch, now).await
        }
        Answer::Charged { .. }
        | Answer::Mismatched { .. }
        | Answer::Challenged { .. }
        | Answer::Declined { .. }
        | Answer::Refused { .. }
        | Answer::Done { .. }
        | Answer::Stored { .. } => Ok(()),
    }
}

/// The payment whose charge has this name.
async fn paid_by(tx: &mut Tx, claimed: &Claimed, provider_ref: &str) -> Result<Option<PaymentId>> {
    let query = sqlx::query_scalar!(
        r#"SELECT id AS "id!: PaymentId" FROM payments WHERE provider_account_id = $1 AND provider_ref = $2"#,
        claimed.provider_account_id.uuid(),
        provider_ref,
    );
    Ok(query.fetch_optional(&mut **tx).await?)
}

/// Why no payment wants a charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, sqlx::Type)]
#[sqlx(type_name = "text", rename_all = "snake_case")]
pub(super) enum Anomaly {
    /// Another one pays for its payment, or it has failed.
    SecondCharge,
    /// It is of another total than was asked.
    AmountMismatch,
}

/// Records a charge that no payment wants, with the operation that reverses it. Once for each charge.
pub(super) async fn reverse(
    tx: &mut Tx,
    claimed: &Claimed,
    payment: &Payment,
    provider_ref: &str,
    amount: i64,
    anomaly: Anomaly,
    now: Timestamp,
) -> Result<()> {
    let recorded = sqlx::query_scalar!(
        r#"SELECT EXISTS (SELECT 1 FROM charge_anomalies WHERE operation_id = $1 AND provider_ref = $2) AS "recorded!""#,
        claimed.id.uuid(),
        provider_ref
    )
    .fetch_one(&mut **tx)
    .await?;
    if recorded {
        return Ok(());
    }
    // To reverse it would take away what a payment was made with.
    if let Some(paid) = paid_by(tx, claimed, provider_ref).await? {
        tracing::error!(
            operation = %claimed.id, payment = %payment.id, provider_ref, amount, pays = %paid,
            "the provider tells of a second charge under the name of one that pays a payment: nothing is reversed, a person must ask it"
        );
        metrics::counter!("payments_late_changes_total", "provider" => claimed.provider.name()).increment(1);
        return Ok(());
    }
    tracing::error!(
        operation = %claimed.id, payment = %payment.id, provider_ref, amount, asked = payment.amount_requested, ?anomaly,
        "an approved charge that no payment wants: recorded as an anomaly, and its reversal is on its way"
    );
    let counter = match anomaly {
        Anomaly::SecondCharge => "payments_duplicate_charges_total",
        Anomaly::AmountMismatch => "payments_amount_mismatches_total",
    };
    metrics::counter!(counter, "provider" => claimed.provider.name()).increment(1);
    let reversal = begin_reversal(tx, claimed, payment, provider_ref, amount, now).await?;
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

/// Begins a reversal anew, for an anomaly whose reversal has ended without effect.
pub(super) async fn reverse_again(tx: &mut Tx, claimed: &Claimed, payment: &Payment, now: Timestamp) -> Result<()> {
    let Action::Void { charge } = &claimed.request.action else { return Err(misfit(claimed, "its action")) };
    let anomaly = sqlx::query!(
        "SELECT id, amount FROM charge_anomalies
         WHERE account_id = $1 AND provider_ref = $2 AND reversal_operation_id = $3",
        claimed.account_id.uuid(),
        charge,
        claimed.id.uuid(),
    );
    let Some(anomaly) = anomaly.fetch_optional(&mut **tx).await? else { return Ok(()) };
    let reversal = begin_reversal(tx, claimed, payment, charge, anomaly.amount, now).await?;
    sqlx::query!("UPDATE charge_anomalies SET reversal_operation_id = $2 WHERE id = $1", anomaly.id, reversal.uuid())
        .execute(&mut **tx)
        .await?;
    Ok(())
}

async fn begin_reversal(
    tx: &mut Tx,
    claimed: &Claimed,
    payment: &Payment,
    provider_ref: &str,
    amount: i64,
    now: Timestamp,
) -> Result<OperationId> {
    let reversal = OperationId::new(now);
    let money = Money { minor: amount, currency: payment.currency };
    operations::insert(
        tx,
        &NewOperation {
            id: reversal,
            account_id: claimed.account_id,
            provider_account_id: claimed.provider_account_id,
            subject: Subject::Payment(payment.id),
            refund_id: None,
            kind: Kind::Reverse,
            money: Some(money),
            source: None,
            target_ref: Some(provider_ref),
            action_token: None,
            by_system: true,
            origin: &Origin::default(),
        },
    )
    .await?;
    Ok(reversal)
}
