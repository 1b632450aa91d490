//! What each role may do.

use providers::capabilities::Permission;

/// The role of a user, for all accounts of the merchant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, sqlx::Type)]
#[sqlx(type_name = "user_role", rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Everything, settings and the team included.
    Owner,
    /// Everything but to erase customers, settings and the team.
    Developer,
    /// Daily business: everything with money and customers.
    Support,
    /// Reads everything.
    Viewer,
}

impl Role {
    pub const ALL: [Self; 4] = [Self::Owner, Self::Developer, Self::Support, Self::Viewer];

    /// In lower case.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Owner => "owner",
            Self::Developer => "developer",
            Self::Support => "support",
            Self::Viewer => "viewer",
        }
    }

    /// Whether the role includes an operation of /v1.
    pub fn allows(self, operation: Permission) -> bool {
        let (resource, verb) = operation.name().split_once('.').unwrap_or_default();
        if matches!(verb, "list" | "retrieve" | "attempts") {
            return true;
        }
        match resource {
            // Only browsers of customers.
            "checkout_sessions" | "tokens" => false,
            "webhook_endpoints" | "webhook_deliveries" | "test_clock" => {
                matches!(self, Self::Owner | Self::Developer)
            }
            "customers" if verb == "delete" => matches!(self, Self::Owner | Self::Support),
            _ => self != Self::Viewer,
        }
    }

    /// The operations that the role includes.
    pub fn entitlements(self) -> Vec<String> {
        let allowed = Permission::ALL.iter().filter(|operation| self.allows(**operation));
        allowed.map(|operation| operation.name().to_owned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_role_has_exactly_what_is_listed() {
        let count = |operation| Role::ALL.map(|role| u8::from(role.allows(operation)));
        for (operation, roles) in [
            (Permission::PaymentsRetrieve, [1, 1, 1, 1]),
            (Permission::InvoicesAttempts, [1, 1, 1, 1]),
            (Permission::TestClockRetrieve, [1, 1, 1, 1]),
            (Permission::PaymentsRefund, [1, 1, 1, 0]),
            (Permission::SubscriptionsCancel, [1, 1, 1, 0]),
            (Permission::CustomersUpdate, [1, 1, 1, 0]),
            (Permission::CustomersDelete, [1, 0, 1, 0]),
            (Permission::WebhookEndpointsCreate, [1, 1, 0, 0]),
            (Permission::WebhookDeliveriesReplay, [1, 1, 0, 0]),
            (Permission::TestClockAdvance, [1, 1, 0, 0]),
            (Permission::TokensCreate, [0, 0, 0, 0]),
        ] {
            assert_eq!(count(operation), roles, "{operation:?}");
        }
    }

    #[test]
    fn a_viewer_changes_nothing() {
        for name in Role::Viewer.entitlements() {
            assert!([".list", ".retrieve", ".attempts"].iter().any(|verb| name.ends_with(verb)), "{name}");
        }
    }
}
