//! The sheet of each operation, in the order of the route table.

mod invoices;
mod payment_links;

pub(crate) use invoices::*;
mod recurring_invoices;
mod subscriptions;
mod test_clock;
pub(crate) use payment_links::*;

use common::addresses::AddressView;
use common::customers::CustomerView;
use common::id::{AddressId, CustomerId, PaymentId, PaymentMethodId, PlanId, WebhookDeliveryId, WebhookEndpointId};
use common::idempotency::MAX_KEY;
use common::payment_methods::PaymentMethodView;
use common::payments::{PaymentView, RefundView};
use common::plans::PlanView;
use common::webhooks::{DeletedEndpointView, DeliveryStatus, DeliveryView, EndpointView};
use serde_json::{Value, json};
use utoipa::PartialSchema;

pub(crate) use self::recurring_invoices::*;
pub(crate) use self::subscriptions::{
    subscriptions_cancel, subscriptions_create, subscriptions_list, subscriptions_retrieve,
};
use super::sheet::Sheet;
use crate::routes::addresses::{AddressFields, RoleField};
use crate::routes::capabilities::Capabilities;
use crate::routes::checkout::{ExchangeFields, SessionFields, SessionView, TokenView};
use crate::routes::customers::CustomerFields;
use crate::routes::payment_methods::NewCardFields;
use crate::routes::payments::{AmountField, PaymentFields, RefundFields};
use crate::routes::plans::PlanFields;
use crate::routes::webhook_endpoints::{EndpointFields, NewEndpointFields};

pub(crate) use test_clock::{test_clock_advance, test_clock_retrieve};

fn id<T: PartialSchema>() -> Value {
    serde_json::to_value(T::schema()).unwrap_or_default()
}

/// The header of an answer that was given before.
fn replayed() -> Value {
    json!({
        "description": "There and `true` if this answer was given before, to an earlier request for the same.",
        "schema": {"type": "string", "enum": ["true"]},
    })
}

impl Sheet {
    /// It creates an object, once for each key.
    fn once(self) -> Self {
        let key = json!({"type": "string", "minLength": 1, "maxLength": MAX_KEY, "pattern": "^[!-~]+$"});
        let about = "Your own name for this request, the same for each retry. The same key with the same body gets the first answer \
            again; with another body it is 422.";
        self.parameter("header", "Idempotency-Key", false, about, key).header("Idempotent-Replayed", replayed())
    }

    fn of_one<T: PartialSchema>(self) -> Self {
        self.parameter("path", "id", true, "An unknown id and another account's are both 404.", id::<T>())
    }
}

pub(crate) fn capabilities() -> Sheet {
    Sheet::new(
        "What this key may do",
        "Every operation once, in the state in which its route would find it. The same name is the entitlement and \
         `error.capability`.",
    )
    .answers::<Capabilities>(200, "Every operation.")
}

pub(crate) fn customers_create() -> Sheet {
    Sheet::new("Create a customer", "`name` defaults to the local part of `email`, once.")
        .once()
    .takes::<CustomerFields>(
            "CustomerCreate",
            &["email"],
            json!({"email": "ada@example.com", "externalId": "u-1815", "customFields": [{"name": "Size", "type": "text", "value": "M"}]}),
        )
        .answers::<CustomerView<'_>>(201, "The customer.")
        .refuses(&[409, 422])
        .followed_by(&["customers.retrieve", "customers.update"])
}

pub(crate) fn customers_list() -> Sheet {
    let external_id = json!({"type": "string", "minLength": 1});
    Sheet::new("List customers", "Newest first.")
        .lists::<CustomerView<'_>>("A page of customers.", id::<CustomerId>())
        .parameter("query", "externalId", false, "Your own id, exactly: one customer or none.", external_id)
        .refuses(&[422])
}

pub(crate) fn customers_retrieve() -> Sheet {
    Sheet::new("Retrieve a customer", "By our id alone; your own id is for the list.")
        .of_one::<CustomerId>()
        .answers::<CustomerView<'_>>(200, "The customer.")
        .refuses(&[404])
}

pub(crate) fn customers_update() -> Sheet {
    Sheet::new(
        "Update a customer",
        "Only what is sent changes. `externalId` is written once. `customFields` replaces the whole list; `null` and \
         `[]` clear it.",
    )
    .of_one::<CustomerId>()
    .takes::<CustomerFields>("CustomerUpdate", &[], json!({"name": "Ada Lovelace", "customFields": null}))
    .answers::<CustomerView<'_>>(200, "The customer as it is now.")
    .refuses(&[404, 409, 422])
}

pub(crate) fn payment_methods_create() -> Sheet {
    Sheet::new(
        "Save a card",
        "The provider saves it. A provider that takes longer than 25 s leaves the card in `processing`; it appears in \
         the list once it is saved. The customer's first card becomes the default.",
    )
    .once()
    .takes::<NewCardFields>(
        "PaymentMethodCreate",
        &["customerId", "paymentToken"],
        json!({"customerId": "cus_01KAJ4M2V8Q0S5T7W9X1Y3Z5A7", "paymentToken": "tok_ok"}),
    )
    .answers::<PaymentMethodView<'_>>(201, "The card.")
    .refuses(&[404, 409, 422])
    .followed_by(&["payment_methods.default"])
}

pub(crate) fn payment_methods_list() -> Sheet {
    Sheet::new("List a customer's cards", "Active cards: the default one first, the others newest first.")
        .parameter("query", "customerId", true, "Whose cards.", id::<CustomerId>())
        .lists::<PaymentMethodView<'_>>("A page of cards.", id::<PaymentMethodId>())
        .refuses(&[404, 422])
}

pub(crate) fn payment_methods_default() -> Sheet {
    Sheet::new("Make a card the default", "It is charged when nothing else is named.")
        .of_one::<PaymentMethodId>()
        .answers::<PaymentMethodView<'_>>(200, "The card, now the default.")
        .refuses(&[404, 409])
}

pub(crate) fn payments_create() -> Sheet {
    Sheet::new(
        "Take a payment",
        "A decline is an answer, not an error: branch on `status`. When the provider's answer is not known after 25 s \
         the payment is answered in status `processing`; retrieve it later, or send the request again with the same \
         `Idempotency-Key`.\n\nSend exactly one of `paymentToken` and `paymentMethodId`. `capture: false` only holds \
         the money, and needs `payments.authorize` too.",
    )
    .once()
    .takes::<PaymentFields>(
        "PaymentCreate",
        &["amount", "currency"],
        json!({"amount": 1250, "currency": "USD", "paymentToken": "tok_ok"}),
    )
    .answers::<PaymentView<'_>>(201, "The payment, whatever came of it.")
    .refuses(&[404, 409, 422])
    .followed_by(&["payments.retrieve", "payments.capture", "payments.void", "payments.refund"])
}

pub(crate) fn payments_list() -> Sheet {
    Sheet::new("List payments", "Newest first.")
        .lists::<PaymentView<'_>>("A page of payments.", id::<PaymentId>())
        .refuses(&[422])
}

pub(crate) fn payments_retrieve() -> Sheet {
    Sheet::new("Retrieve a payment", "Its present state, with its refunds.")
        .of_one::<PaymentId>()
        .answers::<PaymentView<'_>>(200, "The payment.")
        .refuses(&[404])
}

pub(crate) fn payments_capture() -> Sheet {
    Sheet::new(
        "Capture a payment",
        "Takes authorized money, once: all of it if no `amount` is sent. Less than all needs \
         `payments.partial_capture`. While the outcome is unknown the payment shows `pendingOperation`.",
    )
    .of_one::<PaymentId>()
    .takes::<AmountField>("PaymentCapture", &[], json!({"amount": 1000}))
    .answers::<PaymentView<'_>>(200, "The payment.")
    .refuses(&[404, 409, 422])
}

pub(crate) fn payments_void() -> Sheet {
    Sheet::new("Void a payment", "Cancels what has not settled. It takes no body.")
        .of_one::<PaymentId>()
        .answers::<PaymentView<'_>>(200, "The payment.")
        .refuses(&[404, 409])
}

pub(crate) fn payments_refund() -> Sheet {
    Sheet::new(
        "Refund a payment",
        "Gives captured money back: all that is left if no `amount` is sent. Less than that needs \
         `payments.partial_refund`. The refund is accepted here and completes later.\n\nSend an `externalId` of your own, the same \
         with each retry: it is unique for its payment. The same again with the same amount answers the first refund; with another \
         amount it is 409. `Idempotency-Key` changes nothing here.",
    )
    .of_one::<PaymentId>()
    .takes::<RefundFields>("PaymentRefund", &[], json!({"amount": 250, "externalId": "return-1042"}))
    .answers::<RefundView>(202, "The refund, accepted.")
    .header("Idempotent-Replayed", replayed())
    .refuses(&[404, 409, 422])
}

pub(crate) fn webhook_endpoints_create() -> Sheet {
    Sheet::new(
        "Register a webhook endpoint",
        "From then on it is sent every event of the kinds in `enabledEvents`, and of every kind if that is omitted or \
         empty. `secret` is answered here and by a rotation, and never again. An account has 50 endpoints at most.",
    )
    .once()
    .takes::<NewEndpointFields>(
        "WebhookEndpointCreate",
        &["url"],
        json!({"url": "https://shop.example/webhooks", "enabledEvents": ["payment.settled", "payment.refunded"]}),
    )
    .answers::<EndpointView<'_>>(201, "The endpoint, with its secret.")
    .refuses(&[409, 422])
    .followed_by(&[
        "webhook_endpoints.retrieve",
        "webhook_endpoints.update",
        "webhook_endpoints.rotate_secret",
        "webhook_endpoints.delete",
    ])
}

pub(crate) fn webhook_endpoints_list() -> Sheet {
    Sheet::new("List webhook endpoints", "Newest first.")
        .lists::<EndpointView<'_>>("A page of endpoints.", id::<WebhookEndpointId>())
        .refuses(&[422])
}

pub(crate) fn webhook_endpoints_retrieve() -> Sheet {
    Sheet::new("Retrieve a webhook endpoint", "Without its secret.")
        .of_one::<WebhookEndpointId>()
        .answers::<EndpointView<'_>>(200, "The endpoint.")
        .refuses(&[404])
}

pub(crate) fn webhook_endpoints_update() -> Sheet {
    Sheet::new(
        "Update a webhook endpoint",
        "Only what is sent changes. `enabledEvents` replaces the whole list; `[]` is every event. `status` disables it, \
         or enables it again, whoever disabled it.",
    )
    .of_one::<WebhookEndpointId>()
    .takes::<EndpointFields>("WebhookEndpointUpdate", &[], json!({"enabledEvents": [], "status": "enabled"}))
    .answers::<EndpointView<'_>>(200, "The endpoint as it is now.")
    .refuses(&[404, 422])
}

pub(crate) fn webhook_endpoints_delete() -> Sheet {
    Sheet::new(
        "Delete a webhook endpoint",
        "No attempt begins after this is answered, which may take two seconds if attempts are under way. Its deliveries \
         stay in the list.",
    )
    .of_one::<WebhookEndpointId>()
    .answers::<DeletedEndpointView>(200, "It is deleted.")
    .refuses(&[404])
}

pub(crate) fn webhook_endpoints_rotate_secret() -> Sheet {
    Sheet::new(
        "Rotate the secret of a webhook endpoint",
        "Deliveries are signed with the new and with the former secret for 24 hours, and with the new one alone from then \
         on. It takes no body.",
    )
    .of_one::<WebhookEndpointId>()
    .answers::<EndpointView<'_>>(200, "The endpoint, with its new secret.")
    .refuses(&[404])
}

pub(crate) fn webhook_deliveries_list() -> Sheet {
    let statuses = json!({"type": "string", "enum": DeliveryStatus::ALL.map(DeliveryStatus::name)});
    let of_endpoint = "Of this endpoint alone, which may be a deleted one.";
    Sheet::new("List webhook deliveries", "Newest first: one for each attempt, made or still to be made.")
        .lists::<DeliveryView<'_>>("A page of deliveries.", id::<WebhookDeliveryId>())
        .parameter("query", "endpointId", false, of_endpoint, id::<WebhookEndpointId>())
        .parameter("query", "status", false, "In this status alone.", statuses)
        .refuses(&[404, 422])
}

pub(crate) fn webhook_deliveries_retrieve() -> Sheet {
    Sheet::new("Retrieve a webhook delivery", "With what was sent and what was answered.")
        .of_one::<WebhookDeliveryId>()
        .answers::<DeliveryView<'_>>(200, "The delivery.")
        .refuses(&[404])
}

pub(crate) fn webhook_deliveries_replay() -> Sheet {
    Sheet::new(
        "Replay a webhook delivery",
        "Sends the same bytes to the same endpoint once more, at once and without retries, under the same `webhook-id` and \
         a fresh signature. It takes no body.",
    )
    .of_one::<WebhookDeliveryId>()
    .answers::<DeliveryView<'_>>(200, "The new delivery.")
    .refuses(&[404, 409])
    .followed_by(&["webhook_deliveries.retrieve"])
}

pub(crate) fn addresses_create() -> Sheet {
    Sheet::new("Create an address", "It is the default for nothing until it is made so.")
        .once()
        .takes::<AddressFields>(
            "AddressCreate",
            &["customerId", "line1", "country"],
            json!({
                "customerId": "cus_01KAJ4M2V8Q0S5T7W9X1Y3Z5A7", "firstName": "Ada", "lastName": "Lovelace",
                "line1": "12 St James's Square", "city": "London", "postalCode": "SW1Y 4LB", "country": "GB",
            }),
        )
        .answers::<AddressView<'_>>(201, "The address.")
        .refuses(&[404, 422])
        .followed_by(&["addresses.retrieve", "addresses.update", "addresses.default"])
}

pub(crate) fn addresses_list() -> Sheet {
    Sheet::new("List a customer's addresses", "Newest first.")
        .parameter("query", "customerId", true, "Whose addresses.", id::<CustomerId>())
        .lists::<AddressView<'_>>("A page of addresses.", id::<AddressId>())
        .refuses(&[404, 422])
}

pub(crate) fn addresses_retrieve() -> Sheet {
    Sheet::new("Retrieve an address", "With whether it is the customer's default.")
        .of_one::<AddressId>()
        .answers::<AddressView<'_>>(200, "The address.")
        .refuses(&[404])
}

pub(crate) fn addresses_update() -> Sheet {
    Sheet::new(
        "Update an address",
        "Only what is sent changes. A field cannot be cleared, only replaced, and `customerId` cannot be changed.",
    )
    .of_one::<AddressId>()
    .takes::<AddressFields>("AddressUpdate", &[], json!({"line2": "2nd floor"}))
    .answers::<AddressView<'_>>(200, "The address as it is now.")
    .refuses(&[404, 422])
}

pub(crate) fn addresses_default() -> Sheet {
    Sheet::new(
        "Make an address a default",
        "A customer has one default billing and one default shipping address; they may be the same. The one that was \
         is none from the same moment on.",
    )
    .of_one::<AddressId>()
    .takes::<RoleField>("AddressDefault", &["type"], json!({"type": "billing"}))
    .answers::<AddressView<'_>>(200, "The address, now the default.")
    .refuses(&[404, 422])
}

pub(crate) fn plans_create() -> Sheet {
    Sheet::new(
        "Create a plan",
        "There is one plan for each `amount`, `currency`, `interval` and `intervalCount`. If it is there already it is \
         answered as it is, though its `name` may be another than the one sent.",
    )
    .once()
    .takes::<PlanFields>(
        "PlanCreate",
        &["name", "amount", "currency", "interval"],
        json!({"name": "Gold", "amount": 2900, "currency": "USD", "interval": "month"}),
    )
    .answers::<PlanView<'_>>(201, "The plan, made now.")
    .or(200, "The plan that was there.")
    .refuses(&[422])
    .followed_by(&["plans.retrieve"])
}

pub(crate) fn plans_list() -> Sheet {
    Sheet::new("List plans", "Newest first.").lists::<PlanView<'_>>("A page of plans.", id::<PlanId>()).refuses(&[422])
}

pub(crate) fn plans_retrieve() -> Sheet {
    Sheet::new("Retrieve a plan", "A plan never changes.")
        .of_one::<PlanId>()
        .answers::<PlanView<'_>>(200, "The plan.")
        .refuses(&[404])
}

pub(crate) fn checkout_sessions_create() -> Sheet {
    Sheet::new(
        "Start a checkout session",
        "From a page whose origin is on the account's allow-list. The origin is looked at before anything else.",
    )
    .parameter("header", "Origin", true, "Set by the browser.", json!({"type": "string"}))
    .takes::<SessionFields>("CheckoutSessionCreate", &[], json!({"intent": "one_time"}))
    .answers::<SessionView<'_>>(201, "The session.")
    .refuses(&[422])
}

pub(crate) fn tokens_create() -> Sheet {
    Sheet::new(
        "Exchange a session for a payment token",
        "Once for each session, with what the card field got from the provider.",
    )
    .takes::<ExchangeFields>(
        "TokenCreate",
        &["sessionId", "upstreamToken"],
        json!({"sessionId": "cs_4f1d0c9b8a7e6d5c4b3a29180716253443526170", "upstreamToken": "tok_ok"}),
    )
    .answers::<TokenView<'_>>(201, "The token.")
    .refuses(&[404, 409, 422])
}
