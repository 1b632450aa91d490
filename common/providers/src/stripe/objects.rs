//! Stripe's objects, as far as we read them. Fields that are not listed may change without effect.

use std::collections::HashMap;

use serde::Deserialize;

use super::amount;
use crate::{Card, ProviderError};
use foundation::money::Money;
use foundation::time::Timestamp;

/// Where we keep our reference in Stripe's metadata.
pub(super) const REFERENCE: &str = "reference";
/// Where the capture of a payment keeps its own.
pub(super) const FOLLOW_UP: &str = "follow_up";
/// Marks the refund that voids a captured charge.
pub(super) const VOID: &str = "void";

/// Why Stripe itself cancels an authorization. Before 2025-03-31 it said "automatic".
const EXPIRED: [&str; 2] = ["expired", "automatic"];

#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct StripeError {
    #[serde(rename = "type", default)]
    pub(super) kind: String,
    pub(super) code: Option<String>,
    pub(super) decline_code: Option<String>,
    /// What Stripe advises about another attempt.
    pub(super) advice_code: Option<String>,
    pub(super) message: Option<String>,
    /// The card of a declined attempt.
    pub(super) payment_method: Option<PaymentMethod>,
}

impl StripeError {
    /// For operators.
    pub(super) fn reason(&self) -> String {
        let code = self.decline_code.as_ref().or(self.code.as_ref()).unwrap_or(&self.kind);
        format!("{code}: {}", self.message.as_deref().unwrap_or_default())
    }

    pub(super) fn card(&self) -> Option<Card> {
        self.payment_method.as_ref()?.card.as_ref()?.card()
    }
}

#[derive(Deserialize)]
pub(super) struct ErrorBody {
    pub(super) error: StripeError,
}

#[derive(Deserialize)]
pub(super) struct List<T> {
    pub(super) data: Vec<T>,
    #[serde(default)]
    pub(super) has_more: bool,
}

/// What we wrote into an object. Stripe has `null` for none in some objects.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(from = "Option<HashMap<String, String>>")]
pub(super) struct Metadata(HashMap<String, String>);

impl From<Option<HashMap<String, String>>> for Metadata {
    fn from(fields: Option<HashMap<String, String>>) -> Self {
        Self(fields.unwrap_or_default())
    }
}

impl Metadata {
    pub(super) fn get(&self, field: &str) -> Option<&str> {
        self.0.get(field).map(String::as_str)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum IntentStatus {
    RequiresPaymentMethod,
    RequiresConfirmation,
    RequiresAction,
    Processing,
    RequiresCapture,
    Canceled,
    Succeeded,
    #[serde(other)]
    Unknown,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct PaymentIntent {
    pub(super) id: String,
    pub(super) status: IntentStatus,
    pub(super) amount: i64,
    #[serde(default)]
    pub(super) amount_received: i64,
    #[serde(default)]
    pub(super) amount_capturable: i64,
    pub(super) currency: String,
    /// Seconds since 1970.
    pub(super) created: i64,
    #[serde(default)]
    pub(super) metadata: Metadata,
    pub(super) capture_method: Option<String>,
    pub(super) canceled_at: Option<i64>,
    pub(super) cancellation_reason: Option<String>,
    pub(super) next_action: Option<NextAction>,
    pub(super) last_payment_error: Option<Box<StripeError>>,
    pub(super) latest_charge: Option<Expandable<Charge>>,
}

impl PaymentIntent {
    /// Our reference of the charge; empty if it is not ours.
    pub(super) fn reference(&self) -> &str {
        reference(&self.metadata)
    }

    /// Our reference of its capture.
    pub(super) fn follow_up(&self) -> Option<&str> {
        self.metadata.get(FOLLOW_UP)
    }

    /// Whether it was to be captured at once.
    pub(super) fn is_sale(&self) -> bool {
        self.capture_method.as_deref() != Some("manual")
    }

    /// Whether the issuer approved it, also if it was cancelled or has expired since. That is known only if Stripe returned
    /// the charge.
    pub(super) fn was_approved(&self) -> bool {
        match self.status {
            IntentStatus::Succeeded | IntentStatus::RequiresCapture => true,
            IntentStatus::Canceled => self.charge().is_some_and(|charge| charge.status == "succeeded"),
            IntentStatus::RequiresPaymentMethod
            | IntentStatus::RequiresConfirmation
            | IntentStatus::RequiresAction
            | IntentStatus::Processing
            | IntentStatus::Unknown => false,
        }
    }

    /// Whether Stripe itself has cancelled the authorization.
    pub(super) fn has_expired(&self) -> bool {
        self.cancellation_reason.as_deref().is_some_and(|why| EXPIRED.contains(&why))
    }

    pub(super) fn charge(&self) -> Option<&Charge> {
        self.latest_charge.as_ref().and_then(Expandable::object)
    }

    /// The card of the latest charge, if Stripe returned it.
    pub(super) fn card(&self) -> Option<Card> {
        self.charge()?.payment_method_details.as_ref()?.card.as_ref()?.card()
    }

    pub(super) fn money(&self, amount: i64) -> Result<Money, ProviderError> {
        money(&self.id, amount, &self.currency)
    }
}

/// The reference that we wrote into the metadata of an object; empty if it is not ours.
pub(super) fn reference(metadata: &Metadata) -> &str {
    metadata.get(REFERENCE).unwrap_or_default()
}

/// # Errors
/// [`ProviderError::Unknown`] for money that we cannot book.
pub(super) fn money(id: &str, amount: i64, currency: &str) -> Result<Money, ProviderError> {
    let unknown = || ProviderError::Unknown(format!("{id} has the amount {amount} {currency}, which cannot be booked"));
    amount::from_stripe(amount, currency).ok_or_else(unknown)
}

/// # Errors
/// [`ProviderError::Unknown`] for a time outside the calendar.
pub(super) fn time(seconds: i64) -> Result<Timestamp, ProviderError> {
    let time = seconds.checked_mul(1000).and_then(Timestamp::from_millisecond);
    time.ok_or_else(|| ProviderError::Unknown(format!("{seconds} is not a time")))
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct NextAction {
    pub(super) redirect_to_url: Option<Redirect>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Redirect {
    pub(super) url: Option<String>,
}

/// The id of an object, or the object itself.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Expandable<T> {
    Object(Box<T>),
    Id(String),
}

impl<T> Expandable<T> {
    pub(super) fn object(&self) -> Option<&T> {
        match self {
            Self::Object(object) => Some(object),
            Self::Id(_) => None,
        }
    }
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Charge {
    pub(super) status: String,
    pub(super) payment_intent: Option<Expandable<PaymentIntent>>,
    pub(super) payment_method_details: Option<Details>,
    pub(super) balance_transaction: Option<Expandable<BalanceTransaction>>,
}

impl Charge {
    /// The movement of its money, if Stripe has booked and returned it.
    pub(super) fn transaction(&self) -> Option<&BalanceTransaction> {
        self.balance_transaction.as_ref()?.object()
    }
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Details {
    pub(super) card: Option<CardDetails>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct CardDetails {
    pub(super) brand: Option<String>,
    pub(super) last4: Option<String>,
    pub(super) exp_month: Option<i16>,
    pub(super) exp_year: Option<i16>,
    /// When an authorization ends, in seconds since 1970.
    pub(super) capture_before: Option<i64>,
}

impl CardDetails {
    pub(super) fn card(&self) -> Option<Card> {
        let card = Card {
            brand: self.brand.clone()?,
            last4: self.last4.clone()?,
            exp_month: self.exp_month?,
            exp_year: self.exp_year?,
        };
        card.is_valid().then_some(card)
    }
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct PaymentMethod {
    pub(super) id: String,
    pub(super) card: Option<CardDetails>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Customer {
    pub(super) id: String,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct SetupIntent {
    pub(super) status: String,
    pub(super) payment_method: Option<Expandable<PaymentMethod>>,
    pub(super) last_setup_error: Option<StripeError>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum RefundStatus {
    Pending,
    RequiresAction,
    Succeeded,
    Failed,
    Canceled,
    #[serde(other)]
    Unknown,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Refund {
    pub(super) id: String,
    pub(super) status: Option<RefundStatus>,
    pub(super) amount: i64,
    pub(super) currency: String,
    pub(super) created: i64,
    pub(super) payment_intent: Option<Expandable<PaymentIntent>>,
    #[serde(default)]
    pub(super) metadata: Metadata,
    pub(super) failure_reason: Option<String>,
}

impl Refund {
    /// Whether it voids a captured charge.
    pub(super) fn is_void(&self) -> bool {
        self.metadata.get(VOID).is_some()
    }

    pub(super) const fn has_failed(&self) -> bool {
        matches!(self.status, Some(RefundStatus::Failed | RefundStatus::Canceled))
    }
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Dispute {
    pub(super) id: String,
    pub(super) status: String,
    pub(super) reason: String,
    pub(super) amount: i64,
    pub(super) currency: String,
    pub(super) payment_intent: Option<Expandable<PaymentIntent>>,
    pub(super) evidence_details: Option<EvidenceDetails>,
    #[serde(default)]
    pub(super) balance_transactions: Vec<BalanceTransaction>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct EvidenceDetails {
    pub(super) due_by: Option<i64>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct BalanceTransaction {
    pub(super) id: String,
    pub(super) amount: i64,
    pub(super) currency: String,
    pub(super) created: i64,
    pub(super) available_on: i64,
    pub(super) status: String,
    pub(super) source: Option<Expandable<Source>>,
}

impl BalanceTransaction {
    /// Whether the money is available to the merchant, and not only expected.
    pub(super) fn is_available(&self) -> bool {
        self.status == "available"
    }
}

/// What a balance transaction belongs to.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "object", rename_all = "snake_case")]
pub(super) enum Source {
    Charge(Charge),
    Refund(Refund),
    Dispute(Dispute),
    #[serde(other)]
    Other,
}
