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

/// What only the portal does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Area {
    /// API keys and the origins that may use them.
    Keys,
    /// Settings and the team.
    Settings,
    /// One's own password, second factor, passkeys, language and sessions.
    Profile,
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

    /// Whether the role includes what only the portal does.
    pub fn may(self, area: Area) -> bool {
        match area {
            Area::Keys => matches!(self, Self::Owner | Self::Developer),
            Area::Settings => self == Self::Owner,
            Area::Profile => true,
        }
    }

    /// Whether the role includes an operation of /v1.
    pub fn allows(self, operation: Permission) -> bool {
        use Permission as P;
        match operation {
            P::CustomersRetrieve
            | P::CustomersList
            | P::PaymentMethodsList
            | P::PaymentMethodsRetrieve
            | P::PaymentsRetrieve
            | P::PaymentsList
            | P::RefundsRetrieve
            | P::RefundsList
            | P::DisputesRetrieve
            | P::DisputesList
            | P::SettlementsRetrieve
            | P::EventsRetrieve
            | P::EventsList
            | P::WebhookEndpointsRetrieve
            | P::WebhookEndpointsList
            | P::WebhookDeliveriesList
            | P::WebhookDeliveriesRetrieve
            | P::AddressesRetrieve
            | P::AddressesList
            | P::PlansRetrieve
            | P::PlansList
            | P::SubscriptionsRetrieve
            | P::SubscriptionsList
            | P::InvoicesRetrieve
            | P::InvoicesList
            | P::InvoicesAttempts
            | P::TestClockRetrieve
            | P::RecurringInvoicesRetrieve
            | P::RecurringInvoicesList
            | P::PaymentLinksRetrieve
            | P::PaymentLinksList => true,
            P::CustomersCreate
            | P::CustomersUpdate
            | P::PaymentMethodsCreate
            | P::PaymentMethodsUpdate
            | P::PaymentMethodsDefault
            | P::PaymentMethodsDelete
            | P::PaymentsCreate
            | P::PaymentsAuthorize
            | P::PaymentsUpdate
            | P::PaymentsCapture
            | P::PaymentsPartialCapture
            | P::PaymentsVoid
            | P::PaymentsRefund
            | P::PaymentsPartialRefund
            | P::AddressesCreate
            | P::AddressesUpdate
            | P::AddressesDefault
            | P::PlansCreate
            | P::PlansUpdate
            | P::SubscriptionsCreate
            | P::SubscriptionsUpdate
            | P::SubscriptionsCancel
            | P::InvoicesCreate
            | P::InvoicesUpdate
            | P::InvoicesIssue
            | P::InvoicesVoid
            | P::InvoicesSchedule
            | P::InvoicesCancelSchedule
            | P::InvoicesSchedulerRun
            | P::RecurringInvoicesCreate
            | P::RecurringInvoicesUpdate
            | P::RecurringInvoicesPause
            | P::RecurringInvoicesResume
            | P::RecurringInvoicesCancel
            | P::PaymentLinksCreate
            | P::PaymentLinksUpdate
            | P::PaymentLinksCancel => self != Self::Viewer,
            P::CustomersDelete => matches!(self, Self::Owner | Self::Support),
            P::WebhookEndpointsCreate
            | P::WebhookEndpointsUpdate
            | P::WebhookEndpointsDelete
            | P::WebhookEndpointsRotateSecret
            | P::WebhookEndpointsTest
            | P::WebhookDeliveriesReplay
            | P::TestClockAdvance => matches!(self, Self::Owner | Self::Developer),
            // Only browsers of customers.
            P::CheckoutSessionsCreate | P::TokensCreate => false,
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
    fn only_owners_change_settings() {
        for (area, roles) in [(Area::Keys, [1, 1, 0, 0]), (Area::Settings, [1, 0, 0, 0]), (Area::Profile, [1; 4])] {
            assert_eq!(Role::ALL.map(|role| u8::from(role.may(area))), roles, "{area:?}");
        }
    }

    #[test]
    fn a_viewer_changes_nothing() {
        for name in Role::Viewer.entitlements() {
            assert!([".list", ".retrieve", ".attempts"].iter().any(|verb| name.ends_with(verb)), "{name}");
        }
    }
}
