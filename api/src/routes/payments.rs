//! /v1/payments

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use domain::accounts::Caller;
use domain::idempotency::IdempotencyKey;
use domain::payments::payment_keys;
use domain::payments::{self, Payment, PaymentView, RefundView, Status, refunds};
use engine::Change;
use engine::PaymentRequest;
use engine::PaymentSource;
use engine::TakenPayment;
use foundation::error::Error;
use foundation::id::{PaymentId, RefundId};
use foundation::money::Money;
use foundation::queues;
use providers::capabilities::Permission;
use queue::Wake;
use serde::Deserialize;
use utoipa::ToSchema;

use super::merchant_data::MerchantDataFields;
use crate::app::App;
use crate::body::{
    Amount, Body, CurrencyCode, Description, ExternalId, Flag, Metadata, Reference, WebUrl, merchant_data, required,
};
use crate::error::{ApiResult, accepted, created, ok};
use crate::guard::Authenticated;
use crate::path::Path;
use crate::replays::{PaymentKey, json_response, mark_replayed};
use crate::waiting::{Waiting, outcome};

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PaymentFields {
    /// In the currency's minor unit.
    amount: Option<Amount>,
    /// ISO 4217, case-insensitive.
    currency: Option<CurrencyCode>,
    /// A payment token. Test accounts on the mock also accept test tokens, such as `tok_ok`.
    payment_token: Option<Reference>,
    /// A saved card, instead of `paymentToken`.
    payment_method_id: Option<Reference>,
    /// `true` captures at once; `false` only authorizes.
    #[schema(default = true)]
    capture: Option<Flag>,
    /// Where the cardholder returns after a 3-D Secure challenge, up to 2,048 characters.
    return_url: Option<WebUrl>,
    /// Your own description of the payment.
    description: Option<Description>,
    /// The customer who pays with `paymentToken`. The card is not saved.
    customer_id: Option<Reference>,
    /// Your own data.
    metadata: Option<Metadata>,
    /// Your own id. It need not be unique.
    external_id: Option<ExternalId>,
}

pub(super) async fn create(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Body { fields, .. }: Body<PaymentFields>,
    PaymentKey(key): PaymentKey,
) -> ApiResult {
    let has_key = key.is_some();
    let request = payment_request(fields, key)?;
    if !request.capture {
        caller.require(Permission::PaymentsAuthorize)?;
    }
    let origin = app.origin(Some(caller.key_id));
    match engine::take_payment(&app.intents, &caller, &request, &origin, &app.encryption, app.now(&caller).await?)
        .await?
    {
        TakenPayment::New(payment, operation) => {
            let waiter = app.replies.register(payment.id.uuid());
            app.publisher.post(queues::PAYMENTS, Wake { id: operation.uuid(), request_id: origin.request_id });
            let payment = outcome(&app, Waiting::new(waiter), *payment).await;
            if has_key {
                return Ok(stored_response(&app, &caller, &payment).await);
            }
            Ok(created(PaymentView::new(&payment, &[])))
        }
        TakenPayment::Earlier(id) => replay(&app, &caller, id).await,
    }
}

/// Checks that there is exactly one funding source. The field types, or the code after the key lookup, check the rest.
fn payment_request(fields: PaymentFields, idempotency_key: Option<IdempotencyKey>) -> Result<PaymentRequest, Error> {
    let minor = required("amount", fields.amount)?.0;
    let currency = required("currency", fields.currency)?.0;
    let source = match (fields.payment_token, fields.payment_method_id) {
        (Some(token), None) => PaymentSource::Token(token.0),
        (None, Some(id)) => PaymentSource::PaymentMethod(id.0),
        (Some(_), Some(_)) => {
            return Err(Error::invalid("paymentMethodId", "paymentMethodId must not be sent with paymentToken"));
        }
        (None, None) => return Err(Error::invalid("paymentToken", "paymentToken or paymentMethodId is required")),
    };
    if fields.customer_id.is_some() && matches!(source, PaymentSource::PaymentMethod(_)) {
        return Err(Error::invalid(
            "customerId",
            "customerId must not be sent with paymentMethodId, which has its customer",
        ));
    }
    Ok(PaymentRequest {
        money: Money { minor, currency },
        source,
        capture: fields.capture.is_none_or(|flag| flag.0),
        return_url: fields.return_url.map(|url| url.0),
        description: fields.description.map(|text| text.0),
        customer_id: fields.customer_id.map(|id| id.0),
        merchant_data: merchant_data(fields.metadata, fields.external_id)?,
        idempotency_key,
    })
}

/// Returns the response of the first request with this key, waiting for its outcome.
async fn replay(app: &App, caller: &Caller, id: PaymentId) -> ApiResult {
    let waiting = Waiting::new(app.replies.register(id.uuid()));
    let mut payment = app.payments.retrieve(caller.account_id, id).await?;
    if payment.status == Status::Processing {
        payment = outcome(app, waiting, payment).await;
    }
    Ok(mark_replayed(stored_response(app, caller, &payment).await))
}

/// The response stored with the outcome, byte for byte; while there is none, the payment itself.
async fn stored_response(app: &App, caller: &Caller, payment: &Payment) -> Response {
    if payment.status == Status::Processing {
        return created(PaymentView::new(payment, &[]));
    }
    let stored = payment_keys::stored_response(&app.db, caller.account_id, payment.id).await.unwrap_or_else(|error| {
        tracing::warn!(%error, payment = %payment.id, "the stored response could not be read; returning the payment");
        None
    });
    stored.map_or_else(|| created(PaymentView::new(payment, &[])), |body| json_response(StatusCode::CREATED, body))
}

pub(super) async fn retrieve(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
) -> ApiResult {
    let id = PaymentId::from_request(&id)?;
    let (payment, refunds) = payments::retrieve_with_refunds(&app.db, caller.account_id, id).await?;
    Ok(ok(PaymentView::new(&payment, &refunds)))
}

#[derive(Deserialize, ToSchema)]
pub(crate) struct AmountField {
    /// In the minor unit of the payment's currency; by default the whole remaining amount.
    amount: Option<Amount>,
}

pub(super) async fn capture(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
    Body { fields, .. }: Body<AmountField>,
) -> ApiResult {
    let change = Change::Capture(fields.amount.map(|amount| amount.0));
    change_and_wait(&app, &caller, &id, change).await
}

pub(super) async fn void(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
) -> ApiResult {
    change_and_wait(&app, &caller, &id, Change::Void).await
}

/// Waits for the outcome of a capture or void. The operation is already committed, so only a rejection by the provider
/// becomes an error response.
async fn change_and_wait(app: &App, caller: &Caller, id: &str, change: Change<'_>) -> ApiResult {
    let origin = app.origin(Some(caller.key_id));
    let changing =
        engine::change_payment(&app.db, caller, PaymentId::from_request(id)?, change, &origin, app.now(caller).await?)
            .await?;
    let (mut payment, mut refunds) = (changing.payment, vec![]);
    let waiter = app.replies.register(payment.id.uuid());
    app.publisher.post(queues::PAYMENTS, Wake { id: changing.operation.uuid(), request_id: origin.request_id });
    let mut waiting = Waiting::new(waiter);
    while waiting.next_poll().await {
        match engine::change_outcome(&app.db, &payment, changing.operation).await {
            Ok(Some(changed)) => {
                (payment, refunds) = changed;
                break;
            }
            Ok(None) => {}
            Err(rejected @ Error::Conflict(_)) => return Err(rejected.into()),
            Err(error) => tracing::warn!(%error, payment = %payment.id, "the payment could not be read; retrying"),
        }
    }
    Ok(ok(PaymentView::new(&payment, &refunds)))
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RefundFields {
    /// In the minor unit of the payment's currency; by default the whole remaining amount.
    amount: Option<Amount>,
    /// Your own id of this refund, unique for its payment and the same for each retry.
    external_id: Option<ExternalId>,
    /// Your own data.
    metadata: Option<Metadata>,
}

pub(super) async fn refund(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
    Body { fields, .. }: Body<RefundFields>,
) -> ApiResult {
    let merchant_data = merchant_data(fields.metadata, fields.external_id)?;
    let change = Change::Refund(fields.amount.map(|amount| amount.0), &merchant_data);
    let origin = app.origin(Some(caller.key_id));
    let changing = engine::change_payment(
        &app.db,
        &caller,
        PaymentId::from_request(&id)?,
        change,
        &origin,
        app.now(&caller).await?,
    )
    .await?;
    let refund = changing.refund.ok_or_else(|| Error::internal(format!("{} has no refund", changing.operation)))?;
    let response = accepted(RefundView::new(&refund, changing.payment.currency, caller.livemode()));
    if changing.is_earlier {
        return Ok(mark_replayed(response));
    }
    app.publisher.post(queues::PAYMENTS, Wake { id: changing.operation.uuid(), request_id: origin.request_id });
    Ok(response)
}

pub(super) async fn retrieve_refund(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
) -> ApiResult {
    let found = refunds::retrieve(&app.db, caller.account_id, RefundId::from_request(&id)?).await?;
    Ok(ok(RefundView::new(&found.refund, found.currency, caller.livemode())))
}

pub(super) async fn update(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
    Body { fields, .. }: Body<MerchantDataFields>,
) -> ApiResult {
    let (id, change) = (PaymentId::from_request(&id)?, fields.into_change());
    let (payment, refunds) = payments::update(&app.db, caller.account_id, id, change).await?;
    Ok(ok(PaymentView::new(&payment, &refunds)))
}
