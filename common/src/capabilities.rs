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
    /// The key lacks the entitlement, or the account's settings forbid it: 403, and may change.
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
        {
            State::Active
        } else {
            State::Unavailable
        }
    }

    /// Refuses an operation that is not active.
    ///
    /// # Errors
    /// [`Error::NotSupported`] (501) or [`Error::NotEntitled`] (403), naming the operation.
    pub fn require(&self, operation: Operation) -> Result<()> {
        match self.state(operation) {
            State::Active => Ok(()),
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
        let grants =
            Grants { entitlements: Some(vec![]), unsupported: vec!["payments.create".into()], forbidden: vec![] };
        assert_eq!(grants.state(Operation::PaymentsCreate), State::NotSupported);
        assert_eq!(grants.state(Operation::PaymentsList), State::Unavailable);
        let only = Some(vec!["payments.authorize".into()]);
        let authorize = Grants { entitlements: only, unsupported: vec![], forbidden: vec![] };
        assert_eq!(authorize.state(Operation::PaymentsAuthorize), State::Unavailable, "to authorize is to create");
        let all = Grants { entitlements: None, unsupported: vec![], forbidden: vec![] };
        assert!(Operation::ALL.iter().all(|operation| all.state(*operation) == State::Active));
        let some = Grants { forbidden: vec![Operation::PaymentsVoid], ..all };
        assert_eq!(some.state(Operation::PaymentsVoid), State::Unavailable);
    }

    #[test]
    fn names_are_read_back() {
        for operation in Operation::ALL {
            assert_eq!(operation.name().parse::<Operation>().expect("its own name"), *operation);
        }
        assert!("payments.everything".parse::<Operation>().is_err());
    }
}
