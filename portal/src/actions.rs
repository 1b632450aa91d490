//! What users can do: each action is a request of /v1, with the form for its fields.

use providers::capabilities::Permission;
use serde_json::Value;

/// What is done to an object, or creates one.
pub(crate) struct Action {
    /// In the address.
    pub(crate) name: &'static str,
    /// On the button.
    pub(crate) label: &'static str,
    /// The path of the list with its objects.
    pub(crate) list: &'static str,
    pub(crate) permission: Permission,
    /// Whether it makes sense for an object in this state. /v1 decides whether it is done.
    pub(crate) applies: fn(&Value) -> bool,
    pub(crate) request: Request,
    pub(crate) fields: &'static [Field],
}

/// The request of /v1.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Request {
    /// `POST /v1/{resource}`, with an idempotency key.
    Create,
    /// `POST /v1/{resource}/{id}/{name}`
    Post,
    /// As [`Self::Post`], with an `externalId` that makes it idempotent.
    PostOnce,
    /// `DELETE /v1/{resource}/{id}`
    Delete,
}

/// A field of a form.
pub(crate) struct Field {
    /// In /v1, or in `metadata` for a reason.
    pub(crate) name: &'static str,
    pub(crate) label: &'static str,
    pub(crate) kind: Kind,
    pub(crate) required: bool,
}

/// What is entered.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// In major units of the object's currency, or of the one entered.
    Amount,
    Currency,
    Text,
    Email,
    /// A date and a time in UTC.
    Time,
    /// One of these.
    Choice(&'static [&'static str]),
    /// Stored as `reason` in the metadata.
    Reason,
}

const fn required(name: &'static str, label: &'static str, kind: Kind) -> Field {
    Field { name, label, kind, required: true }
}

const fn optional(name: &'static str, label: &'static str, kind: Kind) -> Field {
    Field { name, label, kind, required: false }
}

const AMOUNT: Field = required("amount", "Amount", Kind::Amount);
const CURRENCY: Field = required("currency", "Currency", Kind::Currency);
const DESCRIPTION: Field = optional("description", "Description", Kind::Text);
const CUSTOMER: Field = required("customerId", "Customer ID", Kind::Text);

fn has_status(object: &Value, list: &[&str]) -> bool {
    object["status"].as_str().is_some_and(|status| list.contains(&status))
}

/// All actions.
pub(crate) const ACTIONS: [Action; 18] = [
    Action {
        name: "capture",
        label: "Capture",
        list: "payments",
        permission: Permission::PaymentsCapture,
        applies: |payment| has_status(payment, &["authorized", "partially_authorized"]),
        request: Request::Post,
        fields: &[optional("amount", "Amount to capture", Kind::Amount)],
    },
    Action {
        name: "void",
        label: "Void",
        list: "payments",
        permission: Permission::PaymentsVoid,
        applies: |payment| has_status(payment, &["authorized", "partially_authorized", "pending_settlement"]),
        request: Request::Post,
        fields: &[],
    },
    Action {
        name: "refund",
        label: "Refund",
        list: "payments",
        permission: Permission::PaymentsRefund,
        applies: |payment| has_status(payment, &["pending_settlement", "settled", "partially_refunded"]),
        request: Request::PostOnce,
        fields: &[optional("amount", "Amount to refund", Kind::Amount), optional("reason", "Reason", Kind::Reason)],
    },
    Action {
        name: "new",
        label: "Create customer",
        list: "customers",
        permission: Permission::CustomersCreate,
        applies: |_| false,
        request: Request::Create,
        fields: &[
            required("email", "E-mail", Kind::Email),
            optional("name", "Name", Kind::Text),
            optional("externalId", "Own reference", Kind::Text),
        ],
    },
    Action {
        name: "erase",
        label: "Erase",
        list: "customers",
        permission: Permission::CustomersDelete,
        applies: |_| true,
        request: Request::Delete,
        fields: &[],
    },
    Action {
        name: "new",
        label: "Create invoice",
        list: "invoices",
        permission: Permission::InvoicesCreate,
        applies: |_| false,
        request: Request::Create,
        fields: &[CUSTOMER, AMOUNT, CURRENCY, DESCRIPTION, optional("dueAt", "Due (UTC)", Kind::Time)],
    },
    Action {
        name: "issue",
        label: "Issue",
        list: "invoices",
        permission: Permission::InvoicesIssue,
        applies: |invoice| has_status(invoice, &["draft"]),
        request: Request::Post,
        fields: &[],
    },
    Action {
        name: "schedule",
        label: "Schedule",
        list: "invoices",
        permission: Permission::InvoicesSchedule,
        applies: |invoice| has_status(invoice, &["open", "scheduled"]),
        request: Request::Post,
        fields: &[required("collectAt", "Collect at (UTC)", Kind::Time)],
    },
    Action {
        name: "cancel_schedule",
        label: "Cancel schedule",
        list: "invoices",
        permission: Permission::InvoicesCancelSchedule,
        applies: |invoice| has_status(invoice, &["scheduled"]),
        request: Request::Post,
        fields: &[],
    },
    Action {
        name: "void",
        label: "Void",
        list: "invoices",
        permission: Permission::InvoicesVoid,
        applies: |invoice| has_status(invoice, &["draft", "open", "scheduled"]),
        request: Request::Post,
        fields: &[],
    },
    Action {
        name: "pause",
        label: "Pause",
        list: "recurring-invoices",
        permission: Permission::RecurringInvoicesPause,
        applies: |recurring| has_status(recurring, &["active"]),
        request: Request::Post,
        fields: &[],
    },
    Action {
        name: "resume",
        label: "Resume",
        list: "recurring-invoices",
        permission: Permission::RecurringInvoicesResume,
        applies: |recurring| has_status(recurring, &["paused", "parked"]),
        request: Request::Post,
        fields: &[],
    },
    Action {
        name: "cancel",
        label: "Cancel recurring invoice",
        list: "recurring-invoices",
        permission: Permission::RecurringInvoicesCancel,
        applies: |recurring| !has_status(recurring, &["cancelled", "completed"]),
        request: Request::Post,
        fields: &[],
    },
    Action {
        name: "new",
        label: "Create subscription",
        list: "subscriptions",
        permission: Permission::SubscriptionsCreate,
        applies: |_| false,
        request: Request::Create,
        fields: &[CUSTOMER, required("planId", "Plan ID", Kind::Text), DESCRIPTION],
    },
    Action {
        name: "cancel",
        label: "Cancel subscription",
        list: "subscriptions",
        permission: Permission::SubscriptionsCancel,
        applies: |subscription| !has_status(subscription, &["cancelled"]),
        request: Request::Post,
        fields: &[],
    },
    Action {
        name: "new",
        label: "Create payment link",
        list: "payment-links",
        permission: Permission::PaymentLinksCreate,
        applies: |_| false,
        request: Request::Create,
        fields: &[AMOUNT, CURRENCY, DESCRIPTION],
    },
    Action {
        name: "cancel",
        label: "Cancel payment link",
        list: "payment-links",
        permission: Permission::PaymentLinksCancel,
        applies: |link| has_status(link, &["open"]),
        request: Request::Post,
        fields: &[],
    },
    Action {
        name: "new",
        label: "Create plan",
        list: "plans",
        permission: Permission::PlansCreate,
        applies: |_| false,
        request: Request::Create,
        fields: &[
            required("name", "Name", Kind::Text),
            AMOUNT,
            CURRENCY,
            required("interval", "Interval", Kind::Choice(&["month", "year", "week", "day"])),
        ],
    },
];

impl Action {
    pub(crate) fn has_amount(&self) -> bool {
        self.fields.iter().any(|field| field.kind == Kind::Amount)
    }

    pub(crate) fn find(list: &str, name: &str) -> Option<&'static Self> {
        ACTIONS.iter().find(|action| action.list == list && action.name == name)
    }
}
