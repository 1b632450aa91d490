//! The actions that are requests of /v1.

use domain::events::EventType;
use foundation::money::Money;
use providers::capabilities::Permission;
use serde_json::Value;

use super::Right::Operation;
use super::{Action, Field, Kind, Request, V1Request, action, optional, required};
use crate::fields::money;

const AMOUNT: Field = required("amount", "Amount", Kind::Amount);
const CURRENCY: Field = required("currency", "Currency", Kind::Currency);
const DESCRIPTION: Field = optional("description", "Description", Kind::Text);
const CUSTOMER: Field = required("customerId", "Customer (ID, name or e-mail)", Kind::Suggested("customers"));

/// What merchants store on an object for themselves.
const MERCHANT_DATA: [Field; 3] = [
    required("version", "Version", Kind::Version),
    optional("externalId", "Own reference", Kind::Cleared),
    optional("metadata", "Own data, a pair per line (order: 1042)", Kind::Pairs),
];

const EVENTS: Field = optional("enabledEvents", "Events (none: all)", Kind::Many(event_names));

fn event_names() -> Vec<&'static str> {
    EventType::subscribable().map(EventType::name).collect()
}

fn has_status(object: &Value, list: &[&str]) -> bool {
    object["status"].as_str().is_some_and(|status| list.contains(&status))
}

/// What can still be refunded of a payment.
fn refundable(payment: &Value) -> Option<Money> {
    let captured = money(payment, "amountCaptured")?;
    Some(Money { minor: captured.minor - money(payment, "amountRefunded")?.minor, ..captured })
}

/// The fields of an invoice, with three for each line. A line is given as its index and its number. This is a macro because
/// functions cannot join texts at compile time.
macro_rules! invoice_fields {
    ($($index:literal: $number:literal),+) => {
        [
            CUSTOMER,
            optional("amount", "Amount (without lines)", Kind::Amount),
            CURRENCY,
            DESCRIPTION,
            optional("dueAt", "Due (UTC)", Kind::Time),
            $(
                optional(concat!("items.", $index, ".description"), concat!("Description of line ", $number), Kind::Text),
                optional(concat!("items.", $index, ".quantity"), concat!("Quantity of line ", $number), Kind::Whole),
                optional(concat!("items.", $index, ".unitAmount"), concat!("Unit amount of line ", $number), Kind::Amount),
            )+
        ]
    };
}

const fn create(page: &'static str, label: &'static str, permission: Permission) -> Action {
    action(page, "new", label, Operation(permission), Request::V1(V1Request::Create))
}

const fn on_object(
    page: &'static str,
    name: &'static str,
    label: &'static str,
    permission: Permission,
    request: V1Request,
) -> Action {
    Action { has_object: true, ..action(page, name, label, Operation(permission), Request::V1(request)) }
}

const fn update(page: &'static str, permission: Permission) -> Action {
    on_object(page, "save", "Save", permission, V1Request::Update)
}

const fn post(page: &'static str, name: &'static str, label: &'static str, permission: Permission) -> Action {
    on_object(page, name, label, permission, V1Request::Post)
}

/// What is deleted has no page that could follow.
const fn delete(page: &'static str, name: &'static str, label: &'static str, permission: Permission) -> Action {
    Action { next: Some(page), ..on_object(page, name, label, permission, V1Request::Delete) }
}

pub(super) const ACTIONS: [Action; 32] = [
    Action {
        applies: |payment| has_status(payment, &["authorized", "partially_authorized"]),
        fields: &[optional("amount", "Amount to capture (empty: all)", Kind::Amount)],
        most: |payment| money(payment, "amount"),
        ..post("payments", "capture", "Capture", Permission::PaymentsCapture)
    },
    Action {
        applies: |payment| has_status(payment, &["authorized", "partially_authorized", "pending_settlement"]),
        consequence: Some("The payment is cancelled, and the card is not charged."),
        ..post("payments", "void", "Void", Permission::PaymentsVoid)
    },
    Action {
        applies: |payment| has_status(payment, &["pending_settlement", "settled", "partially_refunded"]),
        fields: &[required("amount", "Amount to refund", Kind::Amount), optional("reason", "Reason", Kind::Reason)],
        most: refundable,
        ..on_object("payments", "refund", "Refund", Permission::PaymentsRefund, V1Request::PostOnce)
    },
    Action {
        fields: &[
            required("email", "E-mail", Kind::Email),
            optional("name", "Name", Kind::Text),
            optional("externalId", "Own reference", Kind::Text),
        ],
        ..create("customers", "Create customer", Permission::CustomersCreate)
    },
    Action {
        consequence: Some(
            "Name, e-mail address, phone number, addresses and saved cards are erased, in earlier events too. Payments \
             and invoices remain, with their amounts.",
        ),
        ..delete("customers", "erase", "Erase", Permission::CustomersDelete)
    },
    Action {
        fields: &invoice_fields!(0: 1, 1: 2, 2: 3, 3: 4),
        ..create("invoices", "Create invoice", Permission::InvoicesCreate)
    },
    Action {
        applies: |invoice| has_status(invoice, &["draft"]),
        ..post("invoices", "issue", "Issue", Permission::InvoicesIssue)
    },
    Action {
        applies: |invoice| has_status(invoice, &["open", "scheduled"]),
        fields: &[required("collectAt", "Collect at (UTC)", Kind::Time)],
        ..post("invoices", "schedule", "Schedule", Permission::InvoicesSchedule)
    },
    Action {
        applies: |invoice| has_status(invoice, &["scheduled"]),
        ..post("invoices", "cancel_schedule", "Cancel schedule", Permission::InvoicesCancelSchedule)
    },
    Action {
        applies: |invoice| has_status(invoice, &["draft", "open", "scheduled"]),
        consequence: Some("The invoice can no longer be paid."),
        ..post("invoices", "void", "Void", Permission::InvoicesVoid)
    },
    Action {
        applies: |recurring| has_status(recurring, &["active"]),
        ..post("recurring-invoices", "pause", "Pause", Permission::RecurringInvoicesPause)
    },
    Action {
        applies: |recurring| has_status(recurring, &["paused", "parked"]),
        ..post("recurring-invoices", "resume", "Resume", Permission::RecurringInvoicesResume)
    },
    Action {
        applies: |recurring| !has_status(recurring, &["cancelled", "completed"]),
        consequence: Some("No further invoices are created. Those that exist remain."),
        ..post("recurring-invoices", "cancel", "Cancel recurring invoice", Permission::RecurringInvoicesCancel)
    },
    Action {
        fields: &[CUSTOMER, required("planId", "Plan ID", Kind::Suggested("plans")), DESCRIPTION],
        ..create("subscriptions", "Create subscription", Permission::SubscriptionsCreate)
    },
    Action {
        applies: |subscription| !has_status(subscription, &["cancelled"]),
        consequence: Some(
            "No further invoices are created. An open invoice can still be paid; void it if it should not be.",
        ),
        ..post("subscriptions", "cancel", "Cancel subscription", Permission::SubscriptionsCancel)
    },
    Action {
        fields: &[AMOUNT, CURRENCY, DESCRIPTION],
        ..create("payment-links", "Create payment link", Permission::PaymentLinksCreate)
    },
    Action {
        applies: |link| has_status(link, &["open"]),
        consequence: Some("The link can no longer be paid."),
        ..post("payment-links", "cancel", "Cancel payment link", Permission::PaymentLinksCancel)
    },
    Action {
        fields: &[
            required("name", "Name", Kind::Text),
            AMOUNT,
            CURRENCY,
            required("interval", "Interval", Kind::Choice(&["month", "year", "week", "day"])),
        ],
        ..create("plans", "Create plan", Permission::PlansCreate)
    },
    Action {
        fields: &[optional("email", "E-mail", Kind::Email), optional("name", "Name", Kind::Text)],
        ..update("customers", Permission::CustomersUpdate)
    },
    Action {
        applies: |card| card["isDefault"] == false,
        ..post("cards", "default", "Make default", Permission::PaymentMethodsDefault)
    },
    Action {
        consequence: Some("The card can no longer be charged."),
        // Cards have no list of their own.
        next: Some("customers"),
        ..delete("cards", "remove", "Remove", Permission::PaymentMethodsDelete)
    },
    Action { fields: &MERCHANT_DATA, ..update("plans", Permission::PlansUpdate) },
    Action { fields: &MERCHANT_DATA, ..update("invoices", Permission::InvoicesUpdate) },
    Action { fields: &MERCHANT_DATA, ..update("payment-links", Permission::PaymentLinksUpdate) },
    Action {
        fields: &[
            CUSTOMER,
            optional("name", "Name", Kind::Text),
            required("cadence.unit", "Every", Kind::Choice(&["monthly", "weekly", "daily", "yearly"])),
            optional("startDate", "First invoice", Kind::Date),
            required("template.currency", "Currency", Kind::Currency),
            required("template.items.0.description", "Description", Kind::Text),
            required("template.items.0.quantity", "Quantity", Kind::Always(1)),
            required("template.items.0.unitAmount", "Amount", Kind::Amount),
            required(
                "template.paymentTerms",
                "Payment terms",
                Kind::Choice(&["due_on_receipt", "net_7", "net_15", "net_30", "net_60"]),
            ),
        ],
        ..create("recurring-invoices", "Create recurring invoice", Permission::RecurringInvoicesCreate)
    },
    Action {
        fields: &[required("url", "URL", Kind::Url), EVENTS],
        ..create("webhooks", "Create endpoint", Permission::WebhookEndpointsCreate)
    },
    Action {
        fields: &[
            required("url", "URL", Kind::Url),
            required("status", "Status", Kind::Choice(&["enabled", "disabled"])),
            EVENTS,
        ],
        ..update("webhooks", Permission::WebhookEndpointsUpdate)
    },
    Action {
        applies: |endpoint| has_status(endpoint, &["enabled"]),
        ..post("webhooks", "test", "Send test event", Permission::WebhookEndpointsTest)
    },
    post("webhooks", "rotate_secret", "Rotate secret", Permission::WebhookEndpointsRotateSecret),
    Action {
        consequence: Some("No further events are sent to this endpoint."),
        ..delete("webhooks", "remove", "Remove", Permission::WebhookEndpointsDelete)
    },
    Action {
        applies: |delivery| has_status(delivery, &["succeeded", "failed"]),
        ..post("deliveries", "replay", "Replay", Permission::WebhookDeliveriesReplay)
    },
    Action {
        applies: |clock| clock["pending"] != true,
        fields: &[required("to", "New time (UTC)", Kind::Time)],
        ..action(
            "clock",
            "advance",
            "Advance",
            Operation(Permission::TestClockAdvance),
            Request::V1(V1Request::Advance),
        )
    },
];
