//! /v1/payment_methods

use axum::extract::State;
use axum::response::IntoResponse;
use domain::deleted::DeletedView;
use domain::idempotency::{CreationResult, EarlierRequest};
use domain::operations;
use domain::payment_methods::{self, PaymentMethod, PaymentMethodView, Status};
use engine::NewCard;
use foundation::error::Error;
use foundation::id::{CustomerId, PaymentMethodId};
use foundation::queues;
use providers::FailureCode;
use queue::Wake;
use serde::Deserialize;
use utoipa::ToSchema;

use super::merchant_data::MerchantDataFields;
use crate::app::App;
use crate::body::{Body, ExternalId, Metadata, Reference, merchant_data, required};
use crate::error::{ApiError, ApiResult, created, ok};
use crate::guard::Authenticated;
use crate::path::Path;
use crate::replays::{IdempotentCreate, mark_replayed, respond, stored_response};
use crate::waiting::Waiting;

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NewCardFields {
    /// The customer who owns the card.
    customer_id: Option<Reference>,
    /// A payment token, or in test accounts a test token. It can be used only once.
    payment_token: Option<Reference>,
    /// Your own data.
    metadata: Option<Metadata>,
    /// Your own id. It need not be unique.
    external_id: Option<ExternalId>,
}

pub(super) async fn create(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    idempotent: IdempotentCreate,
    Body { fields, .. }: Body<NewCardFields>,
) -> ApiResult {
    let customer = required("customerId", fields.customer_id)?.0;
    let payment_token = required("paymentToken", fields.payment_token)?.0;
    let merchant_data = merchant_data(fields.metadata, fields.external_id)?;
    let new = NewCard { customer_id: CustomerId::from_request(&customer)?, payment_token, merchant_data };
    let origin = app.origin(Some(caller.key_id));
    let now = app.now(&caller).await?;
    let creation = engine::save_card(&app.db, &caller, &new, &origin, &app.encryption, idempotent.key(), now).await?;
    let (id, is_earlier) = match &creation {
        CreationResult::New((id, _)) => (*id, false),
        CreationResult::Earlier(EarlierRequest::SavingCard(id)) => (*id, true),
        CreationResult::Earlier(_) => {
            return respond(&app, creation, |_| ApiError::internal().into_response());
        }
    };
    let waiter = app.replies.register(id.uuid());
    if let CreationResult::New((_, operation)) = creation {
        app.publisher.post(queues::PAYMENTS, Wake { id: operation.uuid(), request_id: origin.request_id });
    }
    let processing = PaymentMethod::processing(id, &caller, new.customer_id, new.merchant_data, now);
    let card = outcome(&app, Waiting::new(waiter), processing).await;
    if card.status == Status::Failed {
        let code = operations::store_card_failure(&app.db, caller.account_id, id).await?;
        return Err(Error::conflict(failure_message(code)).into());
    }
    let stored = match idempotent.key() {
        // No response is stored while the outcome is unknown.
        Some(key) if card.status != Status::Processing => stored_response(&app, key).await,
        _ => Ok(None),
    };
    // The card is saved, even if the stored response cannot be read.
    let response = stored.ok().flatten().unwrap_or_else(|| created(PaymentMethodView::new(&card)));
    Ok(if is_earlier { mark_replayed(response) } else { response })
}

/// Waits for the outcome; returns the card, still `processing` at the timeout.
async fn outcome(app: &App, mut waiting: Waiting, mut card: PaymentMethod) -> PaymentMethod {
    while waiting.next_poll().await {
        match payment_methods::retrieve_from(&app.db, card.account_id, card.id).await {
            Ok(read) => card = read,
            Err(error) => tracing::warn!(%error, payment_method = %card.id, "the card could not be read; retrying"),
        }
        if card.status != Status::Processing {
            break;
        }
    }
    card
}

fn failure_message(code: Option<FailureCode>) -> &'static str {
    match code {
        Some(FailureCode::ProviderUnavailable) => {
            "the provider could not be reached, so the card was not saved; retry with a new token"
        }
        Some(FailureCode::Configuration) => {
            "the account is not set up for this at the provider, so the card was not saved; a retry needs a new token"
        }
        Some(FailureCode::ProviderRefused | FailureCode::AmountMismatch | FailureCode::Withdrawn) | None => {
            "the provider declined to save this card; a retry needs a new token"
        }
    }
}

pub(super) async fn update(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
    Body { fields, .. }: Body<MerchantDataFields>,
) -> ApiResult {
    let (id, change) = (PaymentMethodId::from_request(&id)?, fields.into_change());
    let updated = payment_methods::update(&app.db, caller.account_id, id, change).await?;
    Ok(ok(PaymentMethodView::new(&updated)))
}

pub(super) async fn set_default(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
) -> ApiResult {
    let id = PaymentMethodId::from_request(&id)?;
    let card = engine::set_default(&app.db, &caller, id, app.now(&caller).await?).await?;
    Ok(ok(PaymentMethodView::new(&card)))
}

pub(super) async fn retrieve(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
) -> ApiResult {
    let id = PaymentMethodId::from_request(&id)?;
    let card = payment_methods::retrieve_from(&app.db, caller.account_id, id).await?;
    Ok(ok(PaymentMethodView::new(&card)))
}

pub(super) async fn delete(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
) -> ApiResult {
    let id = PaymentMethodId::from_request(&id)?;
    engine::detach_card(&app.db, &caller, id, app.now(&caller).await?).await?;
    Ok(ok(DeletedView::payment_method(id)))
}
