//! Where an endpoint and a delivery stand.

use serde::Serialize;

/// Whether an endpoint is told of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, sqlx::Type, utoipa::ToSchema)]
#[sqlx(type_name = "webhook_endpoint_status", rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum EndpointStatus {
    /// It is.
    Enabled,
    /// It is not, until it is enabled again.
    Disabled,
}

impl EndpointStatus {
    /// Both, for whoever reads one.
    pub const ALL: [Self; 2] = [Self::Enabled, Self::Disabled];

    /// As the API prints it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Enabled => "enabled",
            Self::Disabled => "disabled",
        }
    }
}

/// Who disabled an endpoint, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, sqlx::Type, utoipa::ToSchema)]
#[sqlx(type_name = "text", rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum DisabledReason {
    /// The merchant, by an update.
    Merchant,
    /// It answered 410.
    Gone,
    /// No attempt succeeded for days.
    Failing,
}

impl DisabledReason {
    /// Every reason.
    pub const ALL: [Self; 3] = [Self::Merchant, Self::Gone, Self::Failing];

    /// As it is stored and printed.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Merchant => "merchant",
            Self::Gone => "gone",
            Self::Failing => "failing",
        }
    }
}

/// What became of one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, sqlx::Type, utoipa::ToSchema)]
#[sqlx(type_name = "webhook_delivery_status", rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum DeliveryStatus {
    /// It is still to be made, or under way.
    Pending,
    /// The endpoint answered 2xx in time.
    Succeeded,
    /// It did not.
    Failed,
}

impl DeliveryStatus {
    /// Every status, for whoever reads one.
    pub const ALL: [Self; 3] = [Self::Pending, Self::Succeeded, Self::Failed];

    /// As the API prints it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
        }
    }

    /// Whether a delivery in this status is, or was, in that one. Each begins as pending, and an end is for good.
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
    fn what_has_ended_was_pending_and_nothing_else() {
        for status in DeliveryStatus::ALL {
            assert!(status.has_been(status) && status.has_been(Pending), "{status:?}");
        }
        for (status, other) in [(Pending, Succeeded), (Pending, Failed), (Succeeded, Failed), (Failed, Succeeded)] {
            assert!(!status.has_been(other), "{status:?} {other:?}");
        }
    }
}
