//! The sheet of each operation, in the order of the route table.

use common::customers::CustomerView;
use common::id::{CustomerId, PaymentId, PaymentMethodId};
use common::payment_methods::PaymentMethodView;
use common::payments::{PaymentView, RefundView};
use serde_json::{Value, json};
use utoipa::PartialSchema;

use super::sheet::Sheet;
use crate::routes::capabilities::Capabilities;
use crate::routes::checkout::{ExchangeFields, SessionFields, SessionView, TokenView};
use crate::routes::customers::CustomerFields;
use crate::routes::payment_methods::NewCardFields;
use crate::routes::payments::{AmountField, PaymentFields};

fn id<T: PartialSchema>() -> Value {
    serde_json::to_value(T::schema()).unwrap_or_default()
}

impl Sheet {
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
    let key = json!({"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"});
    let replayed = json!({
        "description": "There and `true` if this answer was given before to the same `Idempotency-Key`.",
        "schema": {"type": "string", "enum": ["true"]},
    });
    Sheet::new(
        "Take a payment",
        "A decline is an answer, not an error: branch on `status`. When the provider's answer is not known after 25 s \
         the payment is answered in status `processing`; retrieve it later, or send the request again with the same \
         `Idempotency-Key`.\n\nSend exactly one of `paymentToken` and `paymentMethodId`. `capture: false` only holds \
         the money, and needs `payments.authorize` too.",
    )
    .parameter(
        "header",
        "Idempotency-Key",
        false,
        "Your own name for this payment, the same for each retry. The same key with another body is 422.",
        key,
    )
    .takes::<PaymentFields>(
        "PaymentCreate",
        &["amount", "currency"],
        json!({"amount": 1250, "currency": "USD", "paymentToken": "tok_ok"}),
    )
    .answers::<PaymentView<'_>>(201, "The payment, whatever came of it.")
    .header("Idempotent-Replayed", replayed)
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
         `payments.partial_refund`. The refund is accepted here and completes later.",
    )
    .of_one::<PaymentId>()
    .takes::<AmountField>("PaymentRefund", &[], json!({"amount": 250}))
    .answers::<RefundView>(202, "The refund, accepted.")
    .refuses(&[404, 409, 422])
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
