//! The lists of the portal and how they are shown.

/// A list and how it is shown.
pub(crate) struct List {
    /// In addresses of pages.
    pub(crate) path: &'static str,
    /// The prefix of the ids of its objects.
    pub(crate) prefix: &'static str,
    /// In /v1.
    pub(crate) resource: &'static str,
    pub(crate) title: &'static str,
    /// The title of one object.
    pub(crate) singular: &'static str,
    pub(crate) columns: &'static [(&'static str, Cell)],
    pub(crate) statuses: &'static [&'static str],
    /// The filters of /v1 by other objects.
    pub(crate) filters: &'static [&'static str],
    /// The filters by times and by the amount, as they are in addresses.
    pub(crate) ranges: &'static [&'static str],
    pub(crate) search: Search,
    pub(crate) menu: Menu,
    /// The other lists that have a filter for its objects, and this filter.
    pub(crate) related: &'static [(&'static str, &'static str)],
    /// What can be created for an object, and the field of the form that has its id.
    pub(crate) creations: &'static [(&'static str, &'static str)],
    /// Whether /v1 lists the attempts to collect it.
    pub(crate) has_attempts: bool,
    pub(crate) timeline: Timeline,
    pub(crate) payers: Payers,
}

/// The menu that has the link to a list.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Menu {
    Main,
    Developers,
    /// Its objects are reached from other objects.
    None,
}

/// What the timeline of an object shows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Timeline {
    None,
    Events,
    /// Also the requests to the provider.
    EventsAndOperations,
}

/// What the page of an object leads to that is made for payers.
#[derive(Clone, Copy)]
pub(crate) enum Payers {
    Nothing,
    /// The receipt, which belongs to the invoice or the link that was paid.
    Receipt,
    /// The page on which it is paid.
    Page,
    /// Nothing, but it says so if the customer has stopped receipts by e-mail on a page.
    ReceiptsByEmail,
}

/// What a column shows.
pub(crate) enum Cell {
    Amount(&'static str),
    Status,
    Time(&'static str),
    Day(&'static str),
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

use Cell::{Amount, Day, Inner, Link, Number, Status, Text, Time, Words, Yes};

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
    /// A field of /v1's objects without such a filter: it is compared in the latest hundred.
    pub(crate) compared: Option<&'static str>,
    /// What can be searched for.
    pub(crate) hint: &'static str,
}

const NO_SEARCH: Search = Search { email: None, digits: None, name: None, other: None, compared: None, hint: "ID" };
const BY_REFERENCE: Search = Search { other: Some("externalId"), hint: "ID, own reference", ..NO_SEARCH };
const OF_CUSTOMER: Search = Search { hint: "ID, own reference, customer", ..BY_REFERENCE };
/// What belongs to a payment is found by what its payment is found by.
const OF_PAYMENT: &str = "ID, last four digits, own reference, customer";
const DATES: &[&str] = &["from", "to"];
const DATES_AND_AMOUNTS: &[&str] = &["from", "to", "currency", "amountFrom", "amountTo"];
const CREATED: (&str, Cell) = ("Created", Time("createdAt"));
const AMOUNT: (&str, Cell) = ("Amount", Amount("amount"));
const STATUS: (&str, Cell) = ("Status", Status);

/// What most lists have.
const DEFAULT: List = List {
    path: "",
    prefix: "",
    resource: "",
    title: "",
    singular: "",
    columns: &[],
    statuses: &[],
    filters: &[],
    ranges: &[],
    search: NO_SEARCH,
    menu: Menu::Main,
    related: &[],
    creations: &[],
    has_attempts: false,
    timeline: Timeline::Events,
    payers: Payers::Nothing,
};

/// All lists, in the order of the navigation.
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
        ranges: DATES_AND_AMOUNTS,
        search: Search { digits: Some("last4"), hint: OF_PAYMENT, ..BY_REFERENCE },
        related: &[("refunds", "paymentId"), ("disputes", "paymentId")],
        timeline: Timeline::EventsAndOperations,
        payers: Payers::Receipt,
        ..DEFAULT
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
        ranges: DATES,
        search: Search { hint: OF_PAYMENT, ..BY_REFERENCE },
        ..DEFAULT
    },
    List {
        path: "customers",
        prefix: "cus_",
        resource: "customers",
        title: "Customers",
        singular: "Customer",
        columns: &[("Name", Text("name")), ("E-mail", Text("email")), CREATED],
        ranges: DATES,
        search: Search {
            email: Some("email"),
            name: Some("name"),
            hint: "ID, name, e-mail, own reference",
            ..BY_REFERENCE
        },
        related: &[
            ("cards", "customerId"),
            ("payments", "customerId"),
            ("invoices", "customerId"),
            ("subscriptions", "customerId"),
            ("recurring-invoices", "customerId"),
        ],
        creations: &[("invoices", "customerId"), ("recurring-invoices", "customerId"), ("subscriptions", "customerId")],
        payers: Payers::ReceiptsByEmail,
        ..DEFAULT
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
        filters: &["customerId"],
        search: OF_CUSTOMER,
        menu: Menu::None,
        ..DEFAULT
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
        ranges: &["from", "to", "dueFrom", "dueTo"],
        search: Search { name: Some("number"), hint: "ID, number, own reference, customer", ..BY_REFERENCE },
        related: &[("payments", "invoiceId")],
        has_attempts: true,
        payers: Payers::Page,
        ..DEFAULT
    },
    List {
        path: "recurring-invoices",
        prefix: "rinv_",
        resource: "recurring_invoices",
        title: "Recurring invoices",
        singular: "Recurring invoice",
        columns: &[("Name", Text("name")), STATUS, ("Next invoice", Day("nextInvoiceDate")), CREATED],
        statuses: &["active", "paused", "parked", "completed", "cancelled"],
        filters: &["customerId"],
        search: Search { compared: Some("name"), hint: "ID, name, own reference, customer", ..BY_REFERENCE },
        related: &[("invoices", "recurringInvoiceId")],
        ..DEFAULT
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
        search: OF_CUSTOMER,
        related: &[("invoices", "subscriptionId"), ("payments", "subscriptionId")],
        ..DEFAULT
    },
    List {
        path: "payment-links",
        prefix: "plink_",
        resource: "payment_links",
        title: "Payment links",
        singular: "Payment link",
        columns: &[AMOUNT, STATUS, ("Description", Text("description")), ("Expires", Time("expiresAt")), CREATED],
        statuses: &["open", "paid", "expired", "cancelled"],
        search: BY_REFERENCE,
        related: &[("payments", "paymentLinkId")],
        payers: Payers::Page,
        ..DEFAULT
    },
    List {
        path: "plans",
        prefix: "plan_",
        resource: "plans",
        title: "Plans",
        singular: "Plan",
        columns: &[("Name", Text("name")), AMOUNT, ("Interval", Words("interval")), CREATED],
        search: Search { compared: Some("name"), hint: "ID, name, own reference", ..BY_REFERENCE },
        related: &[("subscriptions", "planId")],
        creations: &[("subscriptions", "planId")],
        ..DEFAULT
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
        ranges: DATES,
        search: Search { hint: OF_PAYMENT, ..NO_SEARCH },
        ..DEFAULT
    },
    List {
        path: "events",
        prefix: "evt_",
        resource: "events",
        title: "Events",
        singular: "Event",
        columns: &[("Type", Words("type")), CREATED],
        filters: &["objectId"],
        ranges: DATES,
        search: Search { other: Some("type"), hint: "ID, type", ..NO_SEARCH },
        related: &[("deliveries", "eventId")],
        timeline: Timeline::None,
        ..DEFAULT
    },
    List {
        path: "webhooks",
        prefix: "we_",
        resource: "webhook_endpoints",
        title: "Webhooks",
        singular: "Endpoint",
        columns: &[("URL", Text("url")), STATUS, CREATED],
        menu: Menu::Developers,
        related: &[("deliveries", "endpointId")],
        timeline: Timeline::None,
        ..DEFAULT
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
        menu: Menu::Developers,
        timeline: Timeline::None,
        ..DEFAULT
    },
];

impl List {
    /// The type of its objects in /v1.
    pub(crate) fn object(&self) -> &'static str {
        match self.resource {
            "webhook_deliveries" => "webhook_delivery",
            plural => plural.strip_suffix('s').unwrap_or(plural),
        }
    }

    pub(crate) fn find(path: &str) -> Option<&'static Self> {
        LISTS.iter().find(|list| list.path == path)
    }

    /// The list of what its objects belong to, and its filter for that.
    pub(crate) fn parent(&self) -> Option<(&'static Self, &'static str)> {
        let parents = [("customerId", "customers"), ("paymentId", "payments")];
        let (filter, path) = parents.into_iter().find(|(filter, _)| self.filters.contains(filter))?;
        Some((Self::find(path)?, filter))
    }
}
