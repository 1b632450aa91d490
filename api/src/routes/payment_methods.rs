//! /v1/payment_methods

use axum::extract::State;
use axum::response::IntoResponse;
use common::customers;
use common::error::Error;
use common::flows::{self, NewCard};
use common::id::{CustomerId, PaymentMethodId};
use common::idempotency::{Earlier, Made};
use common::operations;
use common::page::ListView;
use common::payment_methods::{self, PaymentMethod, PaymentMethodView, Status};
use common::providers::FailureCode;
use common::queues;
use queue::Wake;
use serde::Deserialize;
use utoipa::ToSchema;

use crate::answer::{Answer, Refusal, created, ok};
use crate::app::App;
use crate::body::{Body, Reference, required};
use crate::envelope::RequestId;
use crate::guard::Authenticated;
use crate::idempotency::{Once, answer, mark_replayed};
use crate::path::Path;
use crate::query::Params;
use crate::waiting::Waiting;

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NewCardFields {
    /// Whose card it is.
    customer_id: Option<Reference>,
    /// A payment token, or in test accounts a test token. It is spent.
    payment_token: Option<Reference>,
}

pub(super) async fn create(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    request_id: RequestId,
    once: Once,
    Body { fields, .. }: Body<NewCardFields>,
) -> Answer {
    let customer = required("customerId", fields.customer_id)?.0;
    let payment_token = required("paymentToken", fields.payment_token)?.0;
    let new = NewCard { customer_id: CustomerId::named(&customer)?, payment_token };
    let origin = app.origin(request_id, Some(caller.key_id));
    let now = app.now(&caller).await?;
    let made = flows::save_card(&app.db, &caller, &new, &origin, &app.encryption, once.key(), now).await?;
    let (id, is_earlier) = match &made {
        Made::New((id, _)) => (*id, false),
        Made::Earlier(Earlier::Saving(id)) => (*id, true),
        Made::Earlier(Earlier::Answered(_)) => return answer(&app, made, |_| Refusal::fault().into_response()),
    };
    let waiter = app.replies.register(id.uuid());
    if let Made::New((_, operation)) = made {
        app.push(queues::MONEY, Wake { id: operation.uuid(), request_id: origin.request_id });
    }
    let processing = PaymentMethod::processing(id, &caller, new.customer_id, now);
    let card = outcome(&app, Waiting::new(waiter), processing).await;
    if card.status == Status::Failed {
        return Err(
            Error::conflict(why_not_saved(operations::why_not_saved(&app.db, caller.account_id, id).await?)).into()
        );
    }
    // Until the outcome is known, nothing is kept.
    let kept = if card.status == Status::Processing { None } else { once.kept(&app).await };
    let response = kept.unwrap_or_else(|| created(PaymentMethodView::new(&card)));
    Ok(if is_earlier { mark_replayed(response) } else { response })
}

/// The card once it is known what came of it, or as it stands when patience ends.
async fn outcome(app: &App, mut waiting: Waiting, mut card: PaymentMethod) -> PaymentMethod {
    while waiting.worth_a_look().await {
        match payment_methods::retrieve_from(&app.db, card.account_id, card.id).await {
            Ok(read) => card = read,
            Err(error) => tracing::warn!(%error, payment_method = %card.id, "the card could not be read; waiting on"),
        }
        if card.status != Status::Processing {
            break;
        }
    }
    card
}

fn why_not_saved(code: Option<FailureCode>) -> &'static str {
    match code {
        Some(FailureCode::ProviderUnavailable) => {
            "the provider could not be reached, so the card was not saved; its token is spent: try again with another"
        }
        Some(FailureCode::Configuration) => {
            "the account is not set up for this at the provider, so the card was not saved; its token is spent"
        }
        Some(FailureCode::ProviderRefused | FailureCode::AmountMismatch) | None => {
            "the provider would not save this card; its token is spent"
        }
    }
}

pub(super) async fn list(State(app): State<App>, Authenticated(caller): Authenticated, params: Params) -> Answer {
    let page = params.page()?;
    let id = required("customerId", params.get("customerId"))?;
    let customer = customers::retrieve(&app.db, caller.account_id, CustomerId::named(id)?).await?;
    let default = customer.default_payment_method_id;
    let rows = payment_methods::list(&app.db, caller.account_id, customer.id, default, page).await?;
    let views = rows.views(PaymentMethodView::new);
    Ok(ok(ListView::new(views, |view| view.id.to_string())))
}

pub(super) async fn set_default(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
) -> Answer {
    let id = PaymentMethodId::named(&id)?;
    let card = flows::set_default(&app.db, &caller, id, app.now(&caller).await?).await?;
    Ok(ok(PaymentMethodView::new(&card)))
}
