//! /v1/payments

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use common::accounts::Caller;
use common::capabilities::Operation;
use common::error::Error;
use common::flows::{self, Change, Funding, PaymentRequest, Taken};
use common::id::PaymentId;
use common::idempotency::IdempotencyKey;
use common::money::Money;
use common::page::ListView;
use common::payments::idempotency;
use common::payments::{self, Payment, PaymentView, RefundView, Status};
use common::queues;
use queue::Wake;
use serde::Deserialize;
use utoipa::ToSchema;

use crate::answer::{Answer, accepted, created, ok};
use crate::app::App;
use crate::body::{Amount, Body, CurrencyCode, ExternalId, Flag, Reference, WebUrl, required};
use crate::envelope::RequestId;
use crate::guard::Authenticated;
use crate::idempotency::{PaymentKey, as_json, mark_replayed};
use crate::path::Path;
use crate::query::Params;
use crate::waiting::{Waiting, outcome};

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PaymentFields {
    /// In the currency's minor unit.
    amount: Option<Amount>,
    /// A code of ISO 4217, in any case.
    currency: Option<CurrencyCode>,
    /// What pays: a payment token, or in test accounts `tok_ok`, `tok_partial` or `tok_insufficient`.
    payment_token: Option<Reference>,
    /// Or a saved card.
    payment_method_id: Option<Reference>,
    /// `true`, if not said, takes the money at once; `false` only holds it.
    capture: Option<Flag>,
    /// Where a cardholder returns to after a challenge, up to 2,048 bytes.
    return_url: Option<WebUrl>,
}

pub(super) async fn create(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    request_id: RequestId,
    Body { fields, .. }: Body<PaymentFields>,
    PaymentKey(key): PaymentKey,
) -> Answer {
    let keyed = key.is_some();
    let request = payment_request(fields, key)?;
    if !request.capture {
        caller.require(Operation::PaymentsAuthorize)?;
    }
    let origin = app.origin(request_id, Some(caller.key_id));
    match flows::take_payment(&app.db, &caller, &request, &origin, &app.encryption, app.now(&caller).await?).await? {
        Taken::New(payment, operation) => {
            let waiter = app.replies.register(payment.id.uuid());
            app.push(queues::MONEY, Wake { id: operation.uuid(), request_id: origin.request_id });
            let payment = outcome(&app, Waiting::new(waiter), *payment).await;
            if keyed {
                return Ok(answer_kept(&app, &caller, &payment).await);
            }
            Ok(created(PaymentView::new(&payment, &[])))
        }
        Taken::Earlier(id) => replay(&app, &caller, id).await,
    }
}

/// Both funding sources or none are refused here; everything else by the fields' types, or after the key is looked up.
fn payment_request(fields: PaymentFields, idempotency_key: Option<IdempotencyKey>) -> Result<PaymentRequest, Error> {
    let minor = required("amount", fields.amount)?.0;
    let currency = required("currency", fields.currency)?.0;
    let funding = match (fields.payment_token, fields.payment_method_id) {
        (Some(token), None) => Funding::Token(token.0),
        (None, Some(id)) => Funding::PaymentMethod(id.0),
        (Some(_), Some(_)) => {
            return Err(Error::invalid("paymentMethodId", "send paymentToken or paymentMethodId, not both"));
        }
        (None, None) => return Err(Error::invalid("paymentToken", "paymentToken or paymentMethodId is required")),
    };
    Ok(PaymentRequest {
        money: Money { minor, currency },
        funding,
        capture: fields.capture.is_none_or(|flag| flag.0),
        return_url: fields.return_url.map(|url| url.0),
        idempotency_key,
    })
}

/// Answers as the first request with this key was or will be answered.
async fn replay(app: &App, caller: &Caller, id: PaymentId) -> Answer {
    let waiting = Waiting::new(app.replies.register(id.uuid()));
    let mut payment = payments::retrieve(&app.db, caller.account_id, id).await?;
    if payment.status == Status::Processing {
        payment = outcome(app, waiting, payment).await;
    }
    Ok(mark_replayed(answer_kept(app, caller, &payment).await))
}

/// The answer that was kept with the outcome, byte for byte; before there is one, the payment as it stands.
async fn answer_kept(app: &App, caller: &Caller, payment: &Payment) -> Response {
    if payment.status == Status::Processing {
        return created(PaymentView::new(payment, &[]));
    }
    let kept = idempotency::kept_answer(&app.db, caller.account_id, payment.id).await.unwrap_or_else(|error| {
        tracing::warn!(%error, payment = %payment.id, "the kept answer could not be read; answering with the payment");
        None
    });
    kept.map_or_else(|| created(PaymentView::new(payment, &[])), |kept| as_json(StatusCode::CREATED, kept))
}

pub(super) async fn retrieve(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
) -> Answer {
    let id = PaymentId::named(&id)?;
    let (payment, refunds) = payments::retrieve_with_refunds(&app.db, caller.account_id, id).await?;
    Ok(ok(PaymentView::new(&payment, &refunds)))
}

#[derive(Deserialize, ToSchema)]
pub(crate) struct AmountField {
    /// In the minor unit of the payment's currency; all that is left, if not said.
    amount: Option<Amount>,
}

pub(super) async fn capture(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    request_id: RequestId,
    Path(id): Path<String>,
    Body { fields, .. }: Body<AmountField>,
) -> Answer {
    let change = Change::Capture(fields.amount.map(|amount| amount.0));
    change_and_wait(&app, &caller, &id, change, request_id).await
}

pub(super) async fn void(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    request_id: RequestId,
    Path(id): Path<String>,
) -> Answer {
    change_and_wait(&app, &caller, &id, Change::Void, request_id).await
}

/// Waits for the outcome of a capture or void. The intent exists by then, so nothing that goes wrong becomes an error but the
/// provider's refusal.
async fn change_and_wait(app: &App, caller: &Caller, id: &str, change: Change<'_>, request_id: RequestId) -> Answer {
    let origin = app.origin(request_id, Some(caller.key_id));
    let changing =
        flows::change_payment(&app.db, caller, PaymentId::named(id)?, change, &origin, app.now(caller).await?).await?;
    let (mut payment, mut refunds) = (changing.payment, vec![]);
    let waiter = app.replies.register(payment.id.uuid());
    app.push(queues::MONEY, Wake { id: changing.operation.uuid(), request_id: origin.request_id });
    let mut waiting = Waiting::new(waiter);
    while waiting.worth_a_look().await {
        match flows::changed(&app.db, &payment, changing.operation).await {
            Ok(Some(changed)) => {
                (payment, refunds) = changed;
                break;
            }
            Ok(None) => {}
            Err(refused @ Error::Conflict(_)) => return Err(refused.into()),
            Err(error) => tracing::warn!(%error, payment = %payment.id, "the payment could not be read; waiting on"),
        }
    }
    Ok(ok(PaymentView::new(&payment, &refunds)))
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RefundFields {
    /// In the minor unit of the payment's currency; all that is left, if not said.
    amount: Option<Amount>,
    /// Your own id of this refund, unique for its payment, the same for each retry.
    external_id: Option<ExternalId>,
}

pub(super) async fn refund(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    request_id: RequestId,
    Path(id): Path<String>,
    Body { fields, .. }: Body<RefundFields>,
) -> Answer {
    let external_id = fields.external_id.map(|id| id.0);
    let change = Change::Refund(fields.amount.map(|amount| amount.0), external_id.as_deref());
    let origin = app.origin(request_id, Some(caller.key_id));
    let changing =
        flows::change_payment(&app.db, &caller, PaymentId::named(&id)?, change, &origin, app.now(&caller).await?)
            .await?;
    let refund = changing.refund.ok_or_else(|| Error::internal(format!("{} has no refund", changing.operation)))?;
    let response = accepted(RefundView::new(&refund, &changing.payment));
    if changing.is_earlier {
        return Ok(mark_replayed(response));
    }
    app.push(queues::MONEY, Wake { id: changing.operation.uuid(), request_id: origin.request_id });
    Ok(response)
}

pub(super) async fn list(State(app): State<App>, Authenticated(caller): Authenticated, params: Params) -> Answer {
    let (rows, refunds) = payments::list_with_refunds(&app.db, caller.account_id, params.page()?).await?;
    let views = rows.views(|p| PaymentView::new(p, &refunds));
    Ok(ok(ListView::new(views, |view| view.id.to_string())))
}
