//! An operator has returned a charge that the provider refused to return to us.

use serde_json::json;

use super::operator_text;
use domain::audit::{AuditedTx, Entry};
use foundation::actor::Actor;
use foundation::db::Db;
use foundation::error::{Error, Result};
use foundation::id::{AccountId, AuditId, OperationId, PaymentId};

/// The charge that was returned.
#[derive(Debug)]
pub struct ReturnedCharge {
    pub account: AccountId,
    pub payment: PaymentId,
    pub provider_ref: String,
    pub amount: i64,
    pub currency: String,
}

/// Records that an operator has returned the charge of a refused reversal, with a reason in the audit log. Its invoice
/// or link can be paid again.
///
/// # Errors
/// [`Error::Conflict`] unless this is the refused reversal of a charge that has not been returned; [`Error::Invalid`]
/// for a reason that [`operator_text`] rejects.
pub async fn mark_returned(
    db: &Db,
    actor: &Actor,
    reversal: OperationId,
    reason: &str,
) -> Result<(ReturnedCharge, AuditId)> {
    let reason = operator_text("reason", reason)?;
    let mut act = AuditedTx::begin(db, actor).await?;
    let returned = sqlx::query_as!(
        ReturnedCharge,
        r#"UPDATE charge_anomalies c SET returned_at = clock_timestamp() FROM operations o
           WHERE c.reversal_operation_id = $1 AND o.id = $1 AND o.state IN ('failed', 'declined') AND c.returned_at IS NULL
           RETURNING c.account_id AS "account: AccountId", c.payment_id AS "payment: PaymentId", c.provider_ref, c.amount, c.currency"#,
        reversal.uuid(),
    );
    let Some(returned) = returned.fetch_optional(&mut **act).await? else {
        let what =
            "is not the refused reversal of a charge that has not been returned; see ctl anomalies list --refused";
        return Err(Error::conflict(format!("{reversal} {what}")));
    };
    let entry = Entry {
        action: "anomalies.returned",
        account: Some(returned.account),
        object: Some(reversal.to_string()),
        detail: json!({"reason": reason, "payment": returned.payment, "provider_ref": returned.provider_ref}),
    };
    let record = act.commit(&entry).await?;
    Ok((returned, record))
}
