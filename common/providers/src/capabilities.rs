//! The operations of /v1. The name of an operation is its entitlement, its entry in `/v1/capabilities` and
//! `error.capability`.
//!
//! [`Grants::state`] alone decides whether a key may perform an operation; the routes and `/v1/capabilities` both use
//! it.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use foundation::error::{Error, Result};

macro_rules! operations {
    ($($name:ident = $text:literal,)*) => {
        /// An operation of /v1. Each is a separate entitlement.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Permission { $($name,)* }

        impl Permission {
            /// Every operation, in the order of `/v1/capabilities`.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// `resource.verb`.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

operations! {
    CustomersCreate = "customers.create",
    CustomersRetrieve = "customers.retrieve",
    CustomersUpdate = "customers.update",
    CustomersDelete = "customers.delete",
    CustomersList = "customers.list",
    PaymentMethodsCreate = "payment_methods.create",
    PaymentMethodsUpdate = "payment_methods.update",
    PaymentMethodsList = "payment_methods.list",
    PaymentMethodsRetrieve = "payment_methods.retrieve",
    PaymentMethodsDefault = "payment_methods.default",
    PaymentMethodsDelete = "payment_methods.delete",
    CheckoutSessionsCreate = "checkout_sessions.create",
    TokensCreate = "tokens.create",
    PaymentsCreate = "payments.create",
    PaymentsAuthorize = "payments.authorize",
    PaymentsRetrieve = "payments.retrieve",
    PaymentsUpdate = "payments.update",
    PaymentsList = "payments.list",
    PaymentsCapture = "payments.capture",
    PaymentsPartialCapture = "payments.partial_capture",
    PaymentsVoid = "payments.void",
    PaymentsRefund = "payments.refund",
    PaymentsPartialRefund = "payments.partial_refund",
    RefundsRetrieve = "refunds.retrieve",
    RefundsList = "refunds.list",
    DisputesRetrieve = "disputes.retrieve",
    DisputesList = "disputes.list",
    SettlementsRetrieve = "settlements.retrieve",
    EventsRetrieve = "events.retrieve",
    EventsList = "events.list",
    WebhookEndpointsCreate = "webhook_endpoints.create",
    WebhookEndpointsRetrieve = "webhook_endpoints.retrieve",
    WebhookEndpointsUpdate = "webhook_endpoints.update",
    WebhookEndpointsList = "webhook_endpoints.list",
    WebhookEndpointsDelete = "webhook_endpoints.delete",
    WebhookEndpointsRotateSecret = "webhook_endpoints.rotate_secret",
    WebhookEndpointsTest = "webhook_endpoints.test",
    WebhookDeliveriesList = "webhook_deliveries.list",
    WebhookDeliveriesRetrieve = "webhook_deliveries.retrieve",
    WebhookDeliveriesReplay = "webhook_deliveries.replay",
    AddressesCreate = "addresses.create",
    AddressesRetrieve = "addresses.retrieve",
    AddressesUpdate = "addresses.update",
    AddressesList = "addresses.list",
    AddressesDefault = "addresses.default",
    PlansCreate = "plans.create",
    PlansRetrieve = "plans.retrieve",
    PlansUpdate = "plans.update",
    PlansList = "plans.list",
    SubscriptionsCreate = "subscriptions.create",
    SubscriptionsRetrieve = "subscriptions.retrieve",
    SubscriptionsUpdate = "subscriptions.update",
    SubscriptionsList = "subscriptions.list",
    SubscriptionsCancel = "subscriptions.cancel",
    InvoicesCreate = "invoices.create",
    InvoicesRetrieve = "invoices.retrieve",
    InvoicesUpdate = "invoices.update",
    InvoicesList = "invoices.list",
    InvoicesIssue = "invoices.issue",
    InvoicesVoid = "invoices.void",
    InvoicesSchedule = "invoices.schedule",
    InvoicesCancelSchedule = "invoices.cancel_schedule",
    InvoicesAttempts = "invoices.attempts",
    InvoicesSchedulerRun = "invoices.scheduler_run",
    TestClockRetrieve = "test_clock.retrieve",
    TestClockAdvance = "test_clock.advance",
    RecurringInvoicesCreate = "recurring_invoices.create",
    RecurringInvoicesRetrieve = "recurring_invoices.retrieve",
    RecurringInvoicesUpdate = "recurring_invoices.update",
    RecurringInvoicesList = "recurring_invoices.list",
    RecurringInvoicesPause = "recurring_invoices.pause",
    RecurringInvoicesResume = "recurring_invoices.resume",
    RecurringInvoicesCancel = "recurring_invoices.cancel",
    PaymentLinksCreate = "payment_links.create",
    PaymentLinksRetrieve = "payment_links.retrieve",
    PaymentLinksUpdate = "payment_links.update",
    PaymentLinksList = "payment_links.list",
    PaymentLinksCancel = "payment_links.cancel",
}

impl Permission {
    /// The operation whose route this one uses, and which is therefore required too.
    const fn parent(self) -> Option<Self> {
        if matches!(self, Self::PaymentsAuthorize) {
            Some(Self::PaymentsCreate)
        } else if matches!(self, Self::PaymentsPartialCapture) {
            Some(Self::PaymentsCapture)
        } else if matches!(self, Self::PaymentsPartialRefund) {
            Some(Self::PaymentsRefund)
        } else {
            None
        }
    }
}

/// Which connection to a provider an operation requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Connection {
    /// None: the operation uses only our database.
    None,
    /// The provider for the account's new payments.
    Current,
    /// Any provider of the account: the operation uses the provider of the charge or card.
    Any,
}

impl Permission {
    /// Whether only test accounts have it: a live account has no test clock, and the scheduler collects its invoices.
    pub const fn is_test_only(self) -> bool {
        matches!(self, Self::InvoicesSchedulerRun | Self::TestClockRetrieve | Self::TestClockAdvance)
    }

    const fn connection(self) -> Connection {
        match self {
            Self::PaymentMethodsCreate
            | Self::CheckoutSessionsCreate
            | Self::TokensCreate
            | Self::PaymentsCreate
            | Self::PaymentsAuthorize
            | Self::PaymentLinksCreate => Connection::Current,
            Self::PaymentsCapture
            | Self::PaymentsPartialCapture
            | Self::PaymentsVoid
            | Self::PaymentsRefund
            | Self::PaymentsPartialRefund
            | Self::SubscriptionsCreate
            | Self::InvoicesSchedule => Connection::Any,
            Self::CustomersCreate
            | Self::CustomersRetrieve
            | Self::CustomersUpdate
            | Self::CustomersDelete
            | Self::CustomersList
            | Self::PaymentMethodsUpdate
            | Self::PaymentMethodsList
            | Self::PaymentMethodsRetrieve
            | Self::PaymentMethodsDefault
            | Self::PaymentMethodsDelete
            | Self::PaymentsRetrieve
            | Self::PaymentsUpdate
            | Self::PaymentsList
            | Self::RefundsRetrieve
            | Self::RefundsList
            | Self::DisputesRetrieve
            | Self::DisputesList
            | Self::SettlementsRetrieve
            | Self::EventsRetrieve
            | Self::EventsList
            | Self::WebhookEndpointsCreate
            | Self::WebhookEndpointsRetrieve
            | Self::WebhookEndpointsUpdate
            | Self::WebhookEndpointsList
            | Self::WebhookEndpointsDelete
            | Self::WebhookEndpointsRotateSecret
            | Self::WebhookEndpointsTest
            | Self::WebhookDeliveriesList
            | Self::WebhookDeliveriesRetrieve
            | Self::WebhookDeliveriesReplay
            | Self::AddressesCreate
            | Self::AddressesRetrieve
            | Self::AddressesUpdate
            | Self::AddressesList
            | Self::AddressesDefault
            | Self::PlansCreate
            | Self::PlansRetrieve
            | Self::PlansUpdate
            | Self::PlansList
            | Self::SubscriptionsRetrieve
            | Self::SubscriptionsUpdate
            | Self::SubscriptionsList
            | Self::SubscriptionsCancel
            | Self::InvoicesCreate
            | Self::InvoicesRetrieve
            | Self::InvoicesUpdate
            | Self::InvoicesList
            | Self::InvoicesIssue
            | Self::InvoicesVoid
            | Self::InvoicesCancelSchedule
            | Self::InvoicesAttempts
            | Self::InvoicesSchedulerRun
            | Self::TestClockRetrieve
            | Self::TestClockAdvance
            | Self::RecurringInvoicesCreate
            | Self::RecurringInvoicesRetrieve
            | Self::RecurringInvoicesUpdate
            | Self::RecurringInvoicesList
            | Self::RecurringInvoicesPause
            | Self::RecurringInvoicesResume
            | Self::RecurringInvoicesCancel
            | Self::PaymentLinksRetrieve
            | Self::PaymentLinksUpdate
            | Self::PaymentLinksList
            | Self::PaymentLinksCancel => Connection::None,
        }
    }
}

impl fmt::Display for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The name is not the name of an operation.
#[derive(Debug, thiserror::Error)]
#[error("not an operation of /v1")]
pub struct UnknownPermission;

impl FromStr for Permission {
    type Err = UnknownPermission;

    fn from_str(text: &str) -> Result<Self, UnknownPermission> {
        Self::ALL.iter().copied().find(|permission| permission.name() == text).ok_or(UnknownPermission)
    }
}

/// Whether the key may perform the operation:
/// - `active`: it may.
/// - `unavailable`: 403. The key lacks the entitlement, the account's settings forbid it, or the account is not connected
///   to its provider. This may change.
/// - `not_supported`: 501. The provider does not support it, with any key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum State {
    Active,
    Unavailable,
    NotSupported,
}

/// What a key may do: its entitlements, limited to what its provider supports.
#[derive(Clone, Debug)]
pub struct Grants {
    /// `None` grants every entitlement.
    pub entitlements: Option<Vec<String>>,
    /// Operations that the account's provider does not support.
    pub unsupported: Vec<String>,
    /// Operations that the account's settings forbid.
    pub forbidden: Vec<Permission>,
    pub connected: Connected,
}

/// Which providers of an account are connected.
#[derive(Clone, Copy, Debug)]
pub struct Connected {
    /// The provider for the account's new payments.
    pub current: bool,
    /// Any provider, including the current one.
    pub any: bool,
}

impl Connected {
    pub const ALL: Self = Self { current: true, any: true };
}

impl Grants {
    /// Returns the state of an operation. `NotSupported` takes precedence, because it is permanent.
    pub fn state(&self, permission: Permission) -> State {
        let required = || permission.parent().into_iter().chain([permission]);
        let names = |list: &[String], required: Permission| list.iter().any(|name| name == required.name());
        if required().any(|required| names(&self.unsupported, required)) {
            State::NotSupported
        } else if self.entitlements.as_deref().is_none_or(|list| required().all(|required| names(list, required)))
            && !required().any(|required| self.forbidden.contains(&required))
            && self.is_connected(permission)
        {
            State::Active
        } else {
            State::Unavailable
        }
    }

    fn is_connected(&self, permission: Permission) -> bool {
        match permission.connection() {
            Connection::None => true,
            Connection::Current => self.connected.current,
            Connection::Any => self.connected.any,
        }
    }

    /// Checks that an operation is active.
    ///
    /// # Errors
    /// [`Error::NotSupported`] (501), [`Error::NotConnected`] or [`Error::NotEntitled`] (403), naming the operation.
    pub fn require(&self, permission: Permission) -> Result<()> {
        match self.state(permission) {
            State::Active => Ok(()),
            State::Unavailable if !self.is_connected(permission) => Err(Error::NotConnected(permission.name())),
            State::Unavailable => Err(Error::NotEntitled(permission.name())),
            State::NotSupported => Err(Error::NotSupported(permission.name())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn not_supported_takes_precedence_over_unavailable() {
        let connected = Connected::ALL;
        let unsupported = vec!["payments.create".into()];
        let grants = Grants { entitlements: Some(vec![]), unsupported, forbidden: vec![], connected };
        assert_eq!(grants.state(Permission::PaymentsCreate), State::NotSupported);
        assert_eq!(grants.state(Permission::PaymentsList), State::Unavailable);
        let only = Some(vec!["payments.authorize".into()]);
        let authorize = Grants { entitlements: only, unsupported: vec![], forbidden: vec![], connected };
        assert_eq!(authorize.state(Permission::PaymentsAuthorize), State::Unavailable, "authorizing requires creating");
        let all = Grants { entitlements: None, unsupported: vec![], forbidden: vec![], connected };
        assert!(Permission::ALL.iter().all(|permission| all.state(*permission) == State::Active));
        let some = Grants { forbidden: vec![Permission::PaymentsVoid], ..all };
        assert_eq!(some.state(Permission::PaymentsVoid), State::Unavailable);
    }

    #[test]
    fn operations_of_a_provider_require_its_connection() {
        let connected = Connected { current: false, any: true };
        let moved = Grants { entitlements: None, unsupported: vec![], forbidden: vec![], connected };
        let refused = |permission| matches!(moved.require(permission), Err(Error::NotConnected(_)));
        assert!(refused(Permission::PaymentsAuthorize) && refused(Permission::TokensCreate));
        assert_eq!(moved.state(Permission::PaymentsRefund), State::Active, "its provider is still connected");
        let none = Grants { connected: Connected { current: false, any: false }, ..moved };
        assert_eq!(none.state(Permission::PaymentsPartialRefund), State::Unavailable);
        assert_eq!(none.state(Permission::InvoicesCreate), State::Active);
        let gap = Grants { unsupported: vec!["payments.create".into()], ..none };
        assert_eq!(gap.state(Permission::PaymentsCreate), State::NotSupported, "takes precedence over the connection");
    }

    #[test]
    fn names_round_trip() {
        for permission in Permission::ALL {
            assert_eq!(permission.name().parse::<Permission>().expect("its own name"), *permission);
        }
        assert!("payments.everything".parse::<Permission>().is_err());
    }
}
