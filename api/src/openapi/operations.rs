//! The documentation of each operation, in the order of the route table.

mod invoices;
mod payment_links;
mod recurring_invoices;
mod subscriptions;
mod test_clock;

use domain::addresses::AddressView;
use domain::customers::CustomerView;
use domain::deleted::DeletedView;
use domain::disputes::DisputeView;
use domain::events::EventView;
use domain::payment_methods::PaymentMethodView;
use domain::payments::{PaymentView, RefundView};
use domain::plans::PlanView;
use domain::settlements::SettlementView;
use domain::webhooks::{DeliveryView, EndpointView};
use foundation::id::{
    AddressId, CustomerId, DisputeId, EventId, PaymentId, PaymentMethodId, PlanId, RefundId, WebhookDeliveryId,
    WebhookEndpointId,
};
use foundation::schema;
use serde_json::json;
use utoipa::{PartialSchema, ToSchema};

pub(crate) use self::invoices::*;
pub(crate) use self::payment_links::*;
pub(crate) use self::recurring_invoices::*;
pub(crate) use self::subscriptions::*;
pub(crate) use self::test_clock::*;
use super::operation_doc::OperationDoc;
use crate::routes::addresses::{AddressFields, RoleField};
use crate::routes::capabilities::Capabilities;
use crate::routes::checkout::{ExchangeFields, SessionFields, SessionView, TokenView};
use crate::routes::customers::CustomerFields;
use crate::routes::merchant_data::MerchantDataFields;
use crate::routes::payment_methods::NewCardFields;
use crate::routes::payments::{AmountField, PaymentFields, RefundFields};
use crate::routes::plans::PlanFields;
use crate::routes::webhook_endpoints::{EndpointFields, NewEndpointFields};

/// An update of `metadata` and `externalId` alone.
fn merchant_data_update<Id: PartialSchema, View: ToSchema>(
    summary: &'static str,
    returned: &'static str,
) -> OperationDoc {
    let description = "Changes `metadata` and `externalId`, whatever the status. There is no event.";
    OperationDoc::new(summary, description)
        .path_id::<Id>()
        .request_body::<MerchantDataFields>("OwnDataUpdate", &[], json!({"metadata": {"order": "1042", "note": null}}))
        .response::<View>(200, returned)
        .errors(&[404, 422])
}

pub(crate) fn capabilities() -> OperationDoc {
    OperationDoc::new(
        "List what this key may do",
        "Every operation with its state for this key. The operation's name is also the name of the entitlement and of \
         `error.capability`.",
    )
    .response::<Capabilities>(200, "Every operation.")
}

pub(crate) fn customers_create() -> OperationDoc {
    OperationDoc::new("Create a customer", "`name` defaults to the local part of `email`.")
        .idempotent()
        .request_body::<CustomerFields>(
            "CustomerCreate",
            &["email"],
            json!({"email": "ada@example.com", "externalId": "u-1815", "customFields": [{"name": "Size", "type": "text", "value": "M"}]}),
        )
        .response::<CustomerView<'_>>(201, "The customer.")
        .errors(&[409, 422])
        .links(&["customers.retrieve", "customers.update"])
}

pub(crate) fn customers_retrieve() -> OperationDoc {
    OperationDoc::new("Retrieve a customer", "Takes our id only; to find a customer by your own id, use the list.")
        .path_id::<CustomerId>()
        .response::<CustomerView<'_>>(200, "The customer.")
        .errors(&[404])
}

pub(crate) fn customers_update() -> OperationDoc {
    OperationDoc::new(
        "Update a customer",
        "Only the fields that are sent change. `externalId` can be set only once. `customFields` replaces the whole \
         list; `null` and `[]` clear it.",
    )
    .path_id::<CustomerId>()
    .request_body::<CustomerFields>("CustomerUpdate", &[], json!({"name": "Ada Lovelace", "customFields": null}))
    .response::<CustomerView<'_>>(200, "The updated customer.")
    .errors(&[404, 409, 422])
}

pub(crate) fn customers_delete() -> OperationDoc {
    OperationDoc::new(
        "Delete a customer",
        "The customer is not found from then on. Name, e-mail address, phone number, custom fields, metadata, external id \
         and addresses are erased, also in earlier events and deliveries, and cards are detached. Payments and invoices \
         stay, with the customer's id. It returns 409 while something is in progress: a subscription or recurring \
         invoice that has not ended, a scheduled invoice, a payment that is in progress or held, or a card that is being \
         saved.",
    )
    .path_id::<CustomerId>()
    .response::<DeletedView>(200, "The customer is deleted.")
    .errors(&[404, 409])
}

pub(crate) fn payment_methods_create() -> OperationDoc {
    OperationDoc::new(
        "Save a card",
        "Saves the card at the provider. If the provider takes longer than 25 s, the card is returned in status \
         `processing`, and it appears in the list once it is saved. The customer's first card becomes the default.",
    )
    .idempotent()
    .request_body::<NewCardFields>(
        "PaymentMethodCreate",
        &["customerId", "paymentToken"],
        json!({"customerId": "cus_01KAJ4M2V8Q0S5T7W9X1Y3Z5A7", "paymentToken": "tok_ok"}),
    )
    .response::<PaymentMethodView<'_>>(201, "The card.")
    .errors(&[404, 409, 422])
    .links(&["payment_methods.default"])
}

pub(crate) fn payment_methods_retrieve() -> OperationDoc {
    OperationDoc::new("Retrieve a card", "In any status; a detached card is not found.")
        .path_id::<PaymentMethodId>()
        .response::<PaymentMethodView<'_>>(200, "The card.")
        .errors(&[404])
}

pub(crate) fn payment_methods_delete() -> OperationDoc {
    OperationDoc::new(
        "Detach a card",
        "It is not found from then on and cannot be charged. If it was the default card, the customer has none. Held \
         payments can still be captured, and past ones refunded. While the card is being saved, the request returns 409.",
    )
    .path_id::<PaymentMethodId>()
    .response::<DeletedView>(200, "The card is detached.")
    .errors(&[404, 409])
}

pub(crate) fn payment_methods_update() -> OperationDoc {
    merchant_data_update::<PaymentMethodId, PaymentMethodView<'_>>("Change your own data on a card", "The card.")
}

pub(crate) fn payment_methods_default() -> OperationDoc {
    OperationDoc::new("Make a card the default", "The default card is charged when no other card is specified.")
        .path_id::<PaymentMethodId>()
        .response::<PaymentMethodView<'_>>(200, "The card, now the default.")
        .errors(&[404, 409])
}

pub(crate) fn payments_create() -> OperationDoc {
    OperationDoc::new(
        "Take a payment",
        "A decline is not an error: branch on `status`. If the outcome is not known after 25 s, the payment is \
         returned in status `processing`; retrieve it later, or repeat the request with the same \
         `Idempotency-Key`.\n\nSend exactly one of `paymentToken` and `paymentMethodId`. `capture: false` only \
         authorizes the amount, and also needs the `payments.authorize` entitlement.",
    )
    .idempotent()
    .request_body::<PaymentFields>(
        "PaymentCreate",
        &["amount", "currency"],
        json!({"amount": 1250, "currency": "USD", "paymentToken": "tok_ok"}),
    )
    .response::<PaymentView<'_>>(201, "The payment, whatever its outcome.")
    .errors(&[404, 409, 422])
    .links(&["payments.retrieve", "payments.capture", "payments.void", "payments.refund"])
}

pub(crate) fn payments_retrieve() -> OperationDoc {
    OperationDoc::new("Retrieve a payment", "The current state, with its refunds.")
        .path_id::<PaymentId>()
        .response::<PaymentView<'_>>(200, "The payment.")
        .errors(&[404])
}

pub(crate) fn payments_update() -> OperationDoc {
    merchant_data_update::<PaymentId, PaymentView<'_>>("Change your own data on a payment", "The payment.")
}

pub(crate) fn payments_capture() -> OperationDoc {
    OperationDoc::new(
        "Capture a payment",
        "Captures an authorized payment, once: the full amount if no `amount` is sent. A partial capture needs the \
         `payments.partial_capture` entitlement. While the outcome is unknown, the payment has `pendingOperation`.",
    )
    .path_id::<PaymentId>()
    .request_body::<AmountField>("PaymentCapture", &[], json!({"amount": 1000}))
    .response::<PaymentView<'_>>(200, "The payment.")
    .ignored_key_header()
    .errors(&[404, 409, 422])
}

pub(crate) fn payments_void() -> OperationDoc {
    OperationDoc::new("Void a payment", "Cancels a payment that has not settled. It takes no body.")
        .path_id::<PaymentId>()
        .response::<PaymentView<'_>>(200, "The payment.")
        .ignored_key_header()
        .errors(&[404, 409])
}

pub(crate) fn payments_refund() -> OperationDoc {
    OperationDoc::new(
        "Refund a payment",
        "Refunds a captured payment: the whole remaining amount if no `amount` is sent. A partial refund needs the \
         `payments.partial_refund` entitlement. The refund is accepted here and completes later.\n\nSend your own \
         `externalId`, the same with each retry: it is unique for its payment. The same `externalId` with the same \
         amount returns the first refund; with another amount, it returns 409. `Idempotency-Key` has no effect here.",
    )
    .path_id::<PaymentId>()
    .request_body::<RefundFields>("PaymentRefund", &[], json!({"amount": 250, "externalId": "return-1042"}))
    .response::<RefundView>(202, "The refund, accepted.")
    .replayed_header()
    .ignored_key_header()
    .errors(&[404, 409, 422])
}

pub(crate) fn refunds_retrieve() -> OperationDoc {
    OperationDoc::new("Retrieve a refund", "The current state. A payment shows its refunds as well.")
        .path_id::<RefundId>()
        .response::<RefundView>(200, "The refund.")
        .errors(&[404])
}

pub(crate) fn disputes_retrieve() -> OperationDoc {
    OperationDoc::new("Retrieve a dispute", "The current state.")
        .path_id::<DisputeId>()
        .response::<DisputeView>(200, "The dispute.")
        .errors(&[404])
}

pub(crate) fn settlements_retrieve() -> OperationDoc {
    let schema = serde_json::to_value(schema::date()).unwrap_or_default();
    let description = "A day of the account's time zone, by the account's clock. One in the future has no data.";
    OperationDoc::new("Retrieve a day's settlement", "What settled and what was returned on one day, by currency.")
        .parameter("query", "day", true, description, schema)
        .response::<SettlementView>(200, "The totals of the day.")
        .errors(&[422])
}

pub(crate) fn events_retrieve() -> OperationDoc {
    OperationDoc::new("Retrieve an event", "As its webhook was sent. Events are kept for the retention period.")
        .path_id::<EventId>()
        .response::<EventView>(200, "The event.")
        .errors(&[404])
}

pub(crate) fn webhook_endpoints_create() -> OperationDoc {
    OperationDoc::new(
        "Register a webhook endpoint",
        "From then on, events of the types in `enabledEvents` are delivered to it, or of all types if that is omitted \
         or empty. `secret` is returned only here and by a rotation. An account can have at most 50 endpoints.",
    )
    .idempotent()
    .request_body::<NewEndpointFields>(
        "WebhookEndpointCreate",
        &["url"],
        json!({"url": "https://shop.example/webhooks", "enabledEvents": ["payment.settled", "payment.refunded"]}),
    )
    .response::<EndpointView<'_>>(201, "The endpoint, with its secret.")
    .errors(&[409, 422])
    .links(&[
        "webhook_endpoints.retrieve",
        "webhook_endpoints.update",
        "webhook_endpoints.rotate_secret",
        "webhook_endpoints.delete",
    ])
}

pub(crate) fn webhook_endpoints_retrieve() -> OperationDoc {
    OperationDoc::new("Retrieve a webhook endpoint", "The secret is not included.")
        .path_id::<WebhookEndpointId>()
        .response::<EndpointView<'_>>(200, "The endpoint.")
        .errors(&[404])
}

pub(crate) fn webhook_endpoints_update() -> OperationDoc {
    OperationDoc::new(
        "Update a webhook endpoint",
        "Only the fields that are sent change. `enabledEvents` replaces the whole list; `[]` means all event types. \
         `status` disables the endpoint, or enables it again, even if it was not disabled by you.",
    )
    .path_id::<WebhookEndpointId>()
    .request_body::<EndpointFields>("WebhookEndpointUpdate", &[], json!({"enabledEvents": [], "status": "enabled"}))
    .response::<EndpointView<'_>>(200, "The updated endpoint.")
    .errors(&[404, 422])
}

pub(crate) fn webhook_endpoints_delete() -> OperationDoc {
    OperationDoc::new(
        "Delete a webhook endpoint",
        "No delivery attempt starts after the response, which can take two seconds while attempts are in progress. \
         Past deliveries stay in the list.",
    )
    .path_id::<WebhookEndpointId>()
    .response::<DeletedView>(200, "The endpoint is deleted.")
    .errors(&[404])
}

pub(crate) fn webhook_endpoints_rotate_secret() -> OperationDoc {
    OperationDoc::new(
        "Rotate the secret of a webhook endpoint",
        "For 24 hours deliveries are signed with both the new and the previous secret, then only with the new one. It \
         takes no body.",
    )
    .path_id::<WebhookEndpointId>()
    .response::<EndpointView<'_>>(200, "The endpoint, with its new secret.")
    .errors(&[404])
}

pub(crate) fn webhook_endpoints_test() -> OperationDoc {
    OperationDoc::new(
        "Test a webhook endpoint",
        "Sends a `webhook_endpoint.test` event to this endpoint alone, whatever it has enabled, immediately and without \
         retries. Retrieve the delivery to see the response. It takes no body.",
    )
    .path_id::<WebhookEndpointId>()
    .response::<DeliveryView<'_>>(200, "The delivery, which is pending.")
    .errors(&[404, 409])
    .links(&["webhook_deliveries.retrieve"])
}

pub(crate) fn webhook_deliveries_retrieve() -> OperationDoc {
    OperationDoc::new("Retrieve a webhook delivery", "Includes the request that was sent and the response to it.")
        .path_id::<WebhookDeliveryId>()
        .response::<DeliveryView<'_>>(200, "The delivery.")
        .errors(&[404])
}

pub(crate) fn webhook_deliveries_replay() -> OperationDoc {
    OperationDoc::new(
        "Replay a webhook delivery",
        "Sends the same payload to the same endpoint once more, immediately and without retries, with the same \
         `webhook-id` and a new signature. It takes no body.",
    )
    .path_id::<WebhookDeliveryId>()
    .response::<DeliveryView<'_>>(200, "The new delivery.")
    .errors(&[404, 409])
    .links(&["webhook_deliveries.retrieve"])
}

pub(crate) fn addresses_create() -> OperationDoc {
    OperationDoc::new("Create an address", "A new address is not a default address.")
        .idempotent()
        .request_body::<AddressFields>(
            "AddressCreate",
            &["customerId", "line1", "country"],
            json!({
                "customerId": "cus_01KAJ4M2V8Q0S5T7W9X1Y3Z5A7", "firstName": "Ada", "lastName": "Lovelace",
                "line1": "12 St James's Square", "city": "London", "postalCode": "SW1Y 4LB", "country": "GB",
            }),
        )
        .response::<AddressView<'_>>(201, "The address.")
        .errors(&[404, 422])
        .links(&["addresses.retrieve", "addresses.update", "addresses.default"])
}

pub(crate) fn addresses_retrieve() -> OperationDoc {
    OperationDoc::new("Retrieve an address", "Includes whether it is a default address of the customer.")
        .path_id::<AddressId>()
        .response::<AddressView<'_>>(200, "The address.")
        .errors(&[404])
}

pub(crate) fn addresses_update() -> OperationDoc {
    OperationDoc::new(
        "Update an address",
        "Only the fields that are sent change. A field can be replaced but not cleared, and `customerId` cannot \
         change.",
    )
    .path_id::<AddressId>()
    .request_body::<AddressFields>("AddressUpdate", &[], json!({"line2": "2nd floor"}))
    .response::<AddressView<'_>>(200, "The updated address.")
    .errors(&[404, 422])
}

pub(crate) fn addresses_default() -> OperationDoc {
    OperationDoc::new(
        "Make an address a default",
        "A customer has one default billing and one default shipping address, which may be the same. This address \
         replaces the previous default.",
    )
    .path_id::<AddressId>()
    .request_body::<RoleField>("AddressDefault", &["type"], json!({"type": "billing"}))
    .response::<AddressView<'_>>(200, "The address, now the default.")
    .errors(&[404, 422])
}

pub(crate) fn plans_create() -> OperationDoc {
    OperationDoc::new(
        "Create a plan",
        "There is one plan for each combination of `amount`, `currency`, `interval` and `intervalCount`. If it already \
         exists, it is returned unchanged, even if its `name` differs.",
    )
    .idempotent()
    .request_body::<PlanFields>(
        "PlanCreate",
        &["name", "amount", "currency", "interval"],
        json!({"name": "Gold", "amount": 2900, "currency": "USD", "interval": "month"}),
    )
    .response::<PlanView<'_>>(201, "The new plan.")
    .or_status(200, "The existing plan.")
    .errors(&[422])
    .links(&["plans.retrieve"])
}

pub(crate) fn plans_retrieve() -> OperationDoc {
    OperationDoc::new("Retrieve a plan", "A plan never changes.")
        .path_id::<PlanId>()
        .response::<PlanView<'_>>(200, "The plan.")
        .errors(&[404])
}

pub(crate) fn plans_update() -> OperationDoc {
    merchant_data_update::<PlanId, PlanView<'_>>("Change your own data on a plan", "The plan.")
}

pub(crate) fn checkout_sessions_create() -> OperationDoc {
    OperationDoc::new(
        "Start a checkout session",
        "The request must come from a page whose origin is on the account's allow-list. The origin is checked first.",
    )
    .parameter("header", "Origin", true, "Set by the browser.", json!({"type": "string"}))
    .request_body::<SessionFields>("CheckoutSessionCreate", &[], json!({"intent": "one_time"}))
    .response::<SessionView<'_>>(201, "The session.")
    .errors(&[422])
}

pub(crate) fn tokens_create() -> OperationDoc {
    OperationDoc::new(
        "Exchange a session for a payment token",
        "A session can be exchanged once, with the token that the card field received from the provider.",
    )
    .request_body::<ExchangeFields>(
        "TokenCreate",
        &["sessionId", "upstreamToken"],
        json!({"sessionId": "cs_4f1d0c9b8a7e6d5c4b3a29180716253443526170", "upstreamToken": "tok_ok"}),
    )
    .response::<TokenView<'_>>(201, "The token.")
    .errors(&[404, 409, 422])
}
