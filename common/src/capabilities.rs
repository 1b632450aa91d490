//! The operations of /v1: the name of each is its entitlement, its line in `/v1/capabilities` and `error.capability`.
//!
//! One function, [`Grants::state`], says whether a key may do a thing; the routes and `/v1/capabilities` both ask it.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use crate::error::{Error, Result};

macro_rules! operations {
    ($($name:ident = $text:literal,)*) => {
        /// An operation of /v1, each an entitlement of its own.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[allow(missing_docs, reason = "each is named and described by its text")]
        pub enum Operation { $($name,)* }

        impl Operation {
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
    CustomersList = "customers.list",
    PaymentMethodsCreate = "payment_methods.create",
    PaymentMethodsList = "payment_methods.list",
    PaymentMethodsDefault = "payment_methods.default",
    CheckoutSessionsCreate = "checkout_sessions.create",
    TokensCreate = "tokens.create",
    PaymentsCreate = "payments.create",
    PaymentsAuthorize = "payments.authorize",
    PaymentsRetrieve = "payments.retrieve",
    PaymentsList = "payments.list",
    PaymentsCapture = "payments.capture",
    PaymentsPartialCapture = "payments.partial_capture",
    PaymentsVoid = "payments.void",
    PaymentsRefund = "payments.refund",
    PaymentsPartialRefund = "payments.partial_refund",
    WebhookEndpointsCreate = "webhook_endpoints.create",
    WebhookEndpointsRetrieve = "webhook_endpoints.retrieve",
    WebhookEndpointsUpdate = "webhook_endpoints.update",
    WebhookEndpointsList = "webhook_endpoints.list",
    WebhookEndpointsDelete = "webhook_endpoints.delete",
    WebhookEndpointsRotateSecret = "webhook_endpoints.rotate_secret",
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
    PlansList = "plans.list",
    SubscriptionsCreate = "subscriptions.create",
    SubscriptionsRetrieve = "subscriptions.retrieve",
    SubscriptionsList = "subscriptions.list",
    SubscriptionsCancel = "subscriptions.cancel",
    InvoicesCreate = "invoices.create",
    InvoicesRetrieve = "invoices.retrieve",
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
    PaymentLinksList = "payment_links.list",
    PaymentLinksCancel = "payment_links.cancel",
}

impl Operation {
    /// The operation whose route this one is asked on, and which it therefore needs too.
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

/// What of the account must be connected to its provider for an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Connection {
    /// Nothing: our own books alone are read or written.
    None,
    /// The provider that takes the account's new money.
    Current,
    /// Any provider of the account: what is asked for is done where the charge or the card is.
    Any,
}

impl Operation {
    /// Whether test accounts alone have it: a live account has no clock of its own, and its invoices are collected by the scheduler.
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
            | Self::CustomersList
            | Self::PaymentMethodsList
            | Self::PaymentMethodsDefault
            | Self::PaymentsRetrieve
            | Self::PaymentsList
            | Self::WebhookEndpointsCreate
            | Self::WebhookEndpointsRetrieve
            | Self::WebhookEndpointsUpdate
            | Self::WebhookEndpointsList
            | Self::WebhookEndpointsDelete
            | Self::WebhookEndpointsRotateSecret
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
            | Self::PlansList
            | Self::SubscriptionsRetrieve
            | Self::SubscriptionsList
            | Self::SubscriptionsCancel
            | Self::InvoicesCreate
            | Self::InvoicesRetrieve
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
            | Self::PaymentLinksList
            | Self::PaymentLinksCancel => Connection::None,
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// No operation has this name.
#[derive(Debug, thiserror::Error)]
#[error("not an operation of /v1")]
pub struct UnknownOperation;

impl FromStr for Operation {
    type Err = UnknownOperation;

    fn from_str(text: &str) -> Result<Self, UnknownOperation> {
        Self::ALL.iter().copied().find(|operation| operation.name() == text).ok_or(UnknownOperation)
    }
}

/// Whether an operation can be done with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It can.
    Active,
    /// The key lacks the entitlement, the account's settings forbid it, or the account is not connected to its provider: 403, and
    /// may change.
    Unavailable,
    /// The provider cannot do it: 501, whatever the key.
    NotSupported,
}

/// What a key may do: its entitlements, within what its provider can do.
#[derive(Clone, Debug)]
pub struct Grants {
    /// `None` is every entitlement.
    pub entitlements: Option<Vec<String>>,
    /// Operations that the provider behind the account cannot do.
    pub unsupported: Vec<String>,
    /// Operations that the account's settings forbid.
    pub forbidden: Vec<Operation>,
    /// Which providers of the account can be reached.
    pub connected: Connected,
}

/// Which providers of an account an operator has connected.
#[derive(Clone, Copy, Debug)]
pub struct Connected {
    /// The one that takes the account's new money.
    pub current: bool,
    /// Any, the current one included.
    pub any: bool,
}

impl Connected {
    /// All that matter.
    pub const YES: Self = Self { current: true, any: true };
}

impl Grants {
    /// The state of one operation. What the provider cannot do wins: it is the permanent answer.
    pub fn state(&self, operation: Operation) -> State {
        let needed = || operation.parent().into_iter().chain([operation]);
        let names = |list: &[String], needed: Operation| list.iter().any(|name| name == needed.name());
        if needed().any(|needed| names(&self.unsupported, needed)) {
            State::NotSupported
        } else if self.entitlements.as_deref().is_none_or(|list| needed().all(|needed| names(list, needed)))
            && !needed().any(|needed| self.forbidden.contains(&needed))
            && self.is_connected(operation)
        {
            State::Active
        } else {
            State::Unavailable
        }
    }

    fn is_connected(&self, operation: Operation) -> bool {
        match operation.connection() {
            Connection::None => true,
            Connection::Current => self.connected.current,
            Connection::Any => self.connected.any,
        }
    }

    /// Refuses an operation that is not active.
    ///
    /// # Errors
    /// [`Error::NotSupported`] (501), [`Error::NotConnected`] or [`Error::NotEntitled`] (403), naming the operation.
    pub fn require(&self, operation: Operation) -> Result<()> {
        match self.state(operation) {
            State::Active => Ok(()),
            State::Unavailable if !self.is_connected(operation) => Err(Error::NotConnected(operation.name())),
            State::Unavailable => Err(Error::NotEntitled(operation.name())),
            State::NotSupported => Err(Error::NotSupported(operation.name())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn not_supported_wins_over_unavailable() {
        let connected = Connected::YES;
        let unsupported = vec!["payments.create".into()];
        let grants = Grants { entitlements: Some(vec![]), unsupported, forbidden: vec![], connected };
        assert_eq!(grants.state(Operation::PaymentsCreate), State::NotSupported);
        assert_eq!(grants.state(Operation::PaymentsList), State::Unavailable);
        let only = Some(vec!["payments.authorize".into()]);
        let authorize = Grants { entitlements: only, unsupported: vec![], forbidden: vec![], connected };
        assert_eq!(authorize.state(Operation::PaymentsAuthorize), State::Unavailable, "to authorize is to create");
        let all = Grants { entitlements: None, unsupported: vec![], forbidden: vec![], connected };
        assert!(Operation::ALL.iter().all(|operation| all.state(*operation) == State::Active));
        let some = Grants { forbidden: vec![Operation::PaymentsVoid], ..all };
        assert_eq!(some.state(Operation::PaymentsVoid), State::Unavailable);
    }

    #[test]
    fn what_needs_a_provider_needs_it_connected() {
        let connected = Connected { current: false, any: true };
        let moved = Grants { entitlements: None, unsupported: vec![], forbidden: vec![], connected };
        let refused = |operation| matches!(moved.require(operation), Err(Error::NotConnected(_)));
        assert!(refused(Operation::PaymentsAuthorize) && refused(Operation::TokensCreate));
        assert_eq!(moved.state(Operation::PaymentsRefund), State::Active, "the charge is where it was");
        let none = Grants { connected: Connected { current: false, any: false }, ..moved };
        assert_eq!(none.state(Operation::PaymentsPartialRefund), State::Unavailable);
        assert_eq!(none.state(Operation::InvoicesCreate), State::Active);
        let gap = Grants { unsupported: vec!["payments.create".into()], ..none };
        assert_eq!(gap.state(Operation::PaymentsCreate), State::NotSupported, "connecting it would not help");
    }

    #[test]
    fn names_are_read_back() {
        for operation in Operation::ALL {
            assert_eq!(operation.name().parse::<Operation>().expect("its own name"), *operation);
        }
        assert!("payments.everything".parse::<Operation>().is_err());
    }
}
