//! The statuses of endpoints and deliveries.

use serde::Serialize;

/// Whether the endpoint receives events:
/// - `enabled`: it does.
/// - `disabled`: not until it is enabled again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, sqlx::Type, utoipa::ToSchema)]
#[sqlx(type_name = "webhook_endpoint_status", rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum EndpointStatus {
    Enabled,
    Disabled,
}

impl EndpointStatus {
    pub const ALL: [Self; 2] = [Self::Enabled, Self::Disabled];

    /// The name in the API.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Enabled => "enabled",
            Self::Disabled => "disabled",
        }
    }
}

/// Why the endpoint is disabled:
/// - `merchant`: an update disabled it.
/// - `gone`: it returned 410.
/// - `failing`: it failed for five days.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, sqlx::Type, utoipa::ToSchema)]
#[sqlx(type_name = "text", rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum DisabledReason {
    Merchant,
    Gone,
    Failing,
}

impl DisabledReason {
    pub const ALL: [Self; 3] = [Self::Merchant, Self::Gone, Self::Failing];

    /// The name in the database and the API.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Merchant => "merchant",
            Self::Gone => "gone",
            Self::Failing => "failing",
        }
    }
}

/// The result of the attempt:
/// - `pending`: it is planned or under way.
/// - `succeeded`: the endpoint returned 2xx in time.
/// - `failed`: it did not, or nothing was sent. See `failureReason`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, sqlx::Type, utoipa::ToSchema)]
#[sqlx(type_name = "webhook_delivery_status", rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum DeliveryStatus {
    Pending,
    Succeeded,
    Failed,
}

impl DeliveryStatus {
    pub const ALL: [Self; 3] = [Self::Pending, Self::Succeeded, Self::Failed];

    /// The name in the API.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
        }
    }

    /// Whether a delivery in this status has been in `status`. Deliveries begin as pending, and the other statuses are
    /// final.
    pub const fn has_been(self, status: Self) -> bool {
        match status {
            Self::Pending => true,
            Self::Succeeded => matches!(self, Self::Succeeded),
            Self::Failed => matches!(self, Self::Failed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::DeliveryStatus::{self, Failed, Pending, Succeeded};

    #[test]
    fn ended_deliveries_have_been_pending_and_in_no_other_status() {
        for status in DeliveryStatus::ALL {
            assert!(status.has_been(status) && status.has_been(Pending), "{status:?}");
        }
        for (status, other) in [(Pending, Succeeded), (Pending, Failed), (Succeeded, Failed), (Failed, Succeeded)] {
            assert!(!status.has_been(other), "{status:?} {other:?}");
        }
    }
}
