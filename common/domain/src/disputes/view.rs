//! A dispute as API responses and events contain it.

use serde::Serialize;
use utoipa::ToSchema;

use super::Dispute;
use foundation::id::{DisputeId, PaymentId};
use foundation::money::Currency;
use foundation::schema;
use foundation::time::Timestamp;
use providers::{DisputeReason, DisputeStatus};

/// The public JSON of a dispute (docs/payments.md, Disputes).
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Dispute, description = "A cardholder's dispute of a payment.")]
pub struct DisputeView {
    pub id: DisputeId,
    #[schema(schema_with = schema::dispute)]
    object: &'static str,
    livemode: bool,
    /// When the money was withdrawn.
    created_at: Timestamp,
    #[schema(schema_with = schema::version)]
    version: i64,
    /// The disputed payment.
    payment_id: PaymentId,
    /// What the provider withdrew because of the dispute, in the currency's minor unit.
    #[schema(value_type = schema::Amount)]
    amount: i64,
    currency: Currency,
    reason: DisputeReason,
    status: DisputeStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// Until when you may respond at your provider.
    respond_by: Option<Timestamp>,
}

impl DisputeView {
    pub const fn new(dispute: &Dispute, livemode: bool) -> Self {
        Self {
            id: dispute.id,
            object: "dispute",
            livemode,
            created_at: dispute.created_at,
            version: dispute.version,
            payment_id: dispute.payment_id,
            amount: dispute.amount,
            currency: dispute.currency,
            reason: dispute.reason,
            status: dispute.status,
            respond_by: dispute.respond_by,
        }
    }
}
