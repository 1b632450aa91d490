//! Disputes of charges, as providers report them.

use serde::Serialize;

use foundation::time::Timestamp;

/// - `needs_response`: the money was withdrawn, and the merchant may respond at the provider.
/// - `under_review`: the issuer is deciding.
/// - `won`: the money was given back. Final.
/// - `lost`: the money stays withdrawn. If the issuer gives it back later, the dispute becomes `won`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, sqlx::Type, utoipa::ToSchema)]
#[sqlx(type_name = "dispute_status", rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum DisputeStatus {
    NeedsResponse,
    UnderReview,
    Won,
    Lost,
}

impl DisputeStatus {
    pub const ALL: [Self; 4] = [Self::NeedsResponse, Self::UnderReview, Self::Won, Self::Lost];

    /// Name in the API.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NeedsResponse => "needs_response",
            Self::UnderReview => "under_review",
            Self::Won => "won",
            Self::Lost => "lost",
        }
    }

    pub const fn is_closed(self) -> bool {
        match self {
            Self::NeedsResponse | Self::UnderReview => false,
            Self::Won | Self::Lost => true,
        }
    }

    /// Whether a dispute in this status can be reported in the status `next`. An issuer may give the money of a lost
    /// dispute back, for example because the cardholder has withdrawn it; nothing else follows a decision.
    pub const fn may_become(self, next: Self) -> bool {
        match self {
            Self::NeedsResponse | Self::UnderReview => true,
            Self::Lost => matches!(next, Self::Won),
            Self::Won => false,
        }
    }
}

foundation::filter_by_name!(DisputeStatus);

/// Why the cardholder disputes the charge:
/// - `fraudulent`: the cardholder did not make the payment.
/// - `unrecognized`: the cardholder does not recognize the payment.
/// - `product_not_received`: the cardholder did not get what was paid for.
/// - `product_unacceptable`: what the cardholder got was faulty or not as described.
/// - `duplicate`: the cardholder was charged twice.
/// - `credit_not_processed`: the cardholder did not get a refund.
/// - `subscription_cancelled`: the cardholder was charged for a cancelled subscription.
/// - `other`: another reason; see the provider's dashboard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, sqlx::Type, utoipa::ToSchema)]
#[sqlx(type_name = "text", rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum DisputeReason {
    Fraudulent,
    Unrecognized,
    ProductNotReceived,
    ProductUnacceptable,
    Duplicate,
    CreditNotProcessed,
    SubscriptionCancelled,
    Other,
}

impl DisputeReason {
    /// Name in the API.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fraudulent => "fraudulent",
            Self::Unrecognized => "unrecognized",
            Self::ProductNotReceived => "product_not_received",
            Self::ProductUnacceptable => "product_unacceptable",
            Self::Duplicate => "duplicate",
            Self::CreditNotProcessed => "credit_not_processed",
            Self::SubscriptionCancelled => "subscription_cancelled",
            Self::Other => "other",
        }
    }
}

/// A dispute of a charge at the provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportedDispute {
    /// The provider's reference for it.
    pub provider_ref: String,
    /// In minor units of the charge's currency.
    pub amount: i64,
    pub reason: DisputeReason,
    pub status: DisputeStatus,
    /// Until when the merchant may respond.
    pub respond_by: Option<Timestamp>,
    /// If known, the time before which an open dispute does not change by itself.
    pub until: Option<Timestamp>,
    /// The provider's reference for giving the money back; `None` if it was not given back, or the statement shows none.
    pub reinstatement_ref: Option<String>,
}

impl ReportedDispute {
    /// The provider's reference for giving the money of a won dispute back. Our books have that of other disputes as
    /// withdrawn: if it was given back anyway, the books differ.
    pub fn reinstatement(&self) -> Option<&str> {
        self.reinstatement_ref.as_deref().filter(|_| self.status == DisputeStatus::Won)
    }

    /// The amount that is withdrawn at present.
    pub const fn withdrawn(&self) -> i64 {
        match self.status {
            DisputeStatus::NeedsResponse | DisputeStatus::UnderReview | DisputeStatus::Lost => self.amount,
            DisputeStatus::Won => 0,
        }
    }
}
