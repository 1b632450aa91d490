//! The lists of the portal and how they are shown.

/// A list and how it is shown.
pub(crate) struct List {
    /// In addresses of pages.
    pub(crate) path: &'static str,
    /// Of the ids of its objects.
    pub(crate) prefix: &'static str,
    /// In /v1.
    pub(crate) resource: &'static str,
    pub(crate) title: &'static str,
    /// Of one object.
    pub(crate) singular: &'static str,
    pub(crate) columns: &'static [(&'static str, Cell)],
    pub(crate) statuses: &'static [&'static str],
    /// The filters of /v1 by other objects.
    pub(crate) filters: &'static [&'static str],
    pub(crate) search: Search,
}

/// What a column shows.
pub(crate) enum Cell {
    Amount(&'static str),
    Status,
    Time(&'static str),
    Text(&'static str),
    /// The id of an object.
    Link(&'static str),
    Number(&'static str),
    /// Shown if it is true.
    Yes(&'static str),
    /// A value in words.
    Words(&'static str),
    /// The field of an object in it.
    Inner(&'static str, &'static str),
}

use Cell::{Amount, Inner, Link, Number, Status, Text, Time, Words, Yes};

/// The filters of /v1 for what is searched for.
#[derive(Clone, Copy)]
pub(crate) struct Search {
    /// For a text with `@`.
    pub(crate) email: Option<&'static str>,
    /// For four digits.
    pub(crate) digits: Option<&'static str>,
    /// For any other text.
    pub(crate) name: Option<&'static str>,
    /// If nothing is found by these.
    pub(crate) other: Option<&'static str>,
}

const NO_SEARCH: Search = Search { email: None, digits: None, name: None, other: None };
const BY_REFERENCE: Search = Search { email: None, digits: None, name: None, other: Some("externalId") };
const CREATED: (&str, Cell) = ("Created", Time("createdAt"));
const AMOUNT: (&str, Cell) = ("Amount", Amount("amount"));
const STATUS: (&str, Cell) = ("Status", Status);

/// All lists, in the order of the navigation. The last ones are in the menu for developers.
pub(crate) const LISTS: [List; 13] = [
    List {
        path: "payments",
        prefix: "pay_",
        resource: "payments",
        title: "Payments",
        singular: "Payment",
        columns: &[
            AMOUNT,
            STATUS,
            ("Card", Inner("card", "last4")),
            ("Reason", Words("declineCode")),
            ("Description", Text("description")),
            CREATED,
        ],
        statuses: &[
            "processing",
            "requires_action",
            "authorized",
            "partially_authorized",
            "pending_settlement",
            "settled",
            "partially_refunded",
            "refunded",
            "declined",
            "failed",
            "cancelled",
            "expired",
        ],
        filters: &["customerId", "invoiceId", "subscriptionId", "paymentLinkId", "last4"],
        search: Search { email: None, digits: Some("last4"), name: None, other: Some("externalId") },
    },
    List {
        path: "refunds",
        prefix: "ref_",
        resource: "refunds",
        title: "Refunds",
        singular: "Refund",
        columns: &[AMOUNT, STATUS, ("Payment", Link("paymentId")), CREATED],
        statuses: &["pending", "succeeded", "failed"],
        filters: &["paymentId"],
        search: BY_REFERENCE,
    },
    List {
        path: "customers",
        prefix: "cus_",
        resource: "customers",
        title: "Customers",
        singular: "Customer",
        columns: &[("Name", Text("name")), ("E-mail", Text("email")), CREATED],
        statuses: &[],
        filters: &[],
        search: Search { email: Some("email"), digits: None, name: Some("name"), other: Some("externalId") },
    },
    List {
        path: "cards",
        prefix: "pm_",
        resource: "payment_methods",
        title: "Cards",
        singular: "Card",
        columns: &[
            ("Card", Text("last4")),
            ("Brand", Words("brand")),
            ("Expiry month", Number("expMonth")),
            ("Expiry year", Number("expYear")),
            STATUS,
            ("Default", Yes("isDefault")),
            CREATED,
        ],
        statuses: &[],
        filters: &["customerId"],
        search: BY_REFERENCE,
    },
    List {
        path: "invoices",
        prefix: "inv_",
        resource: "invoices",
        title: "Invoices",
        singular: "Invoice",
        columns: &[
            ("Number", Text("number")),
            AMOUNT,
            STATUS,
            ("Customer", Link("customerId")),
            ("Due", Time("dueAt")),
            CREATED,
        ],
        statuses: &["draft", "open", "scheduled", "paid", "voided"],
        filters: &["customerId", "subscriptionId", "recurringInvoiceId"],
        search: Search { email: None, digits: None, name: Some("number"), other: Some("externalId") },
    },
    List {
        path: "recurring-invoices",
        prefix: "rinv_",
        resource: "recurring_invoices",
        title: "Recurring invoices",
        singular: "Recurring invoice",
        columns: &[("Name", Text("name")), STATUS, ("Next invoice", Text("nextInvoiceDate")), CREATED],
        statuses: &["active", "paused", "parked", "completed", "cancelled"],
        filters: &["customerId"],
        search: BY_REFERENCE,
    },
    List {
        path: "subscriptions",
        prefix: "sub_",
        resource: "subscriptions",
        title: "Subscriptions",
        singular: "Subscription",
        columns: &[
            STATUS,
            ("Customer", Link("customerId")),
            ("Plan", Link("planId")),
            ("Next billing", Time("nextBillingAt")),
            CREATED,
        ],
        statuses: &["scheduled", "active", "past_due", "cancelled"],
        filters: &["customerId", "planId"],
        search: BY_REFERENCE,
    },
    List {
        path: "payment-links",
        prefix: "plink_",
        resource: "payment_links",
        title: "Payment links",
        singular: "Payment link",
        columns: &[AMOUNT, STATUS, ("Description", Text("description")), ("Expires", Time("expiresAt")), CREATED],
        statuses: &["open", "paid", "expired", "cancelled"],
        filters: &[],
        search: BY_REFERENCE,
    },
    List {
        path: "plans",
        prefix: "plan_",
        resource: "plans",
        title: "Plans",
        singular: "Plan",
        columns: &[("Name", Text("name")), AMOUNT, ("Interval", Words("interval")), CREATED],
        statuses: &[],
        filters: &[],
        search: BY_REFERENCE,
    },
    List {
        path: "disputes",
        prefix: "dp_",
        resource: "disputes",
        title: "Disputes",
        singular: "Dispute",
        columns: &[AMOUNT, STATUS, ("Reason", Words("reason")), ("Respond by", Time("respondBy")), CREATED],
        statuses: &["needs_response", "under_review", "won", "lost"],
        filters: &["paymentId"],
        search: NO_SEARCH,
    },
    List {
        path: "events",
        prefix: "evt_",
        resource: "events",
        title: "Events",
        singular: "Event",
        columns: &[("Type", Words("type")), CREATED],
        statuses: &[],
        filters: &["objectId"],
        search: Search { email: None, digits: None, name: None, other: Some("type") },
    },
    List {
        path: "webhooks",
        prefix: "we_",
        resource: "webhook_endpoints",
        title: "Webhooks",
        singular: "Endpoint",
        columns: &[("URL", Text("url")), STATUS, CREATED],
        statuses: &[],
        filters: &[],
        search: NO_SEARCH,
    },
    List {
        path: "deliveries",
        prefix: "whd_",
        resource: "webhook_deliveries",
        title: "Deliveries",
        singular: "Delivery",
        columns: &[("Event", Words("eventType")), STATUS, ("Endpoint", Link("endpointId")), CREATED],
        statuses: &["pending", "succeeded", "failed"],
        filters: &["endpointId", "eventId"],
        search: NO_SEARCH,
    },
];

impl List {
    pub(crate) fn find(path: &str) -> Option<&'static Self> {
        LISTS.iter().find(|list| list.path == path)
    }

    /// Whether it has a link in the navigation. Cards are listed only for a customer.
    pub(crate) fn is_in_navigation(&self) -> bool {
        self.path != "cards"
    }

    /// What can be searched for.
    pub(crate) fn search_hint(&self) -> &'static str {
        match self.path {
            "payments" => "ID, last four digits, own reference, customer",
            "customers" => "ID, name, e-mail, own reference",
            "invoices" => "ID, number, own reference, customer",
            "events" => "ID, type",
            _ if self.search.other.is_none() => "ID",
            _ if self.filters.contains(&"customerId") => "ID, own reference, customer",
            _ => "ID, own reference",
        }
    }

    /// Whether /v1 filters it by the time of creation.
    pub(crate) fn has_dates(&self) -> bool {
        matches!(self.path, "payments" | "refunds" | "customers" | "invoices" | "events")
    }

    /// Whether /v1 filters it by currency and amount.
    pub(crate) fn has_amounts(&self) -> bool {
        self.path == "payments"
    }

    /// Whether the link to it is in the menu for developers.
    pub(crate) fn is_for_developers(&self) -> bool {
        matches!(self.path, "webhooks" | "deliveries")
    }
}
