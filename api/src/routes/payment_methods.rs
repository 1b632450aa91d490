//! /v1/payment_methods

use axum::extract::State;
use common::customers;
use common::error::Error;
use common::flows::{self, NewCard};
use common::id::{CustomerId, PaymentMethodId};
use common::operations;
use common::page::ListView;
use common::payment_methods::{self, PaymentMethod, PaymentMethodView, Status};
use common::providers::FailureCode;
use common::queues;
use queue::Wake;
use serde::Deserialize;
use utoipa::ToSchema;

use crate::answer::{Answer, created, ok};
use crate::app::App;
use crate::body::{Body, Reference, required};
use crate::envelope::RequestId;
use crate::guard::Authenticated;
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
    Body { fields, .. }: Body<NewCardFields>,
) -> Answer {
    let customer = required("customerId", fields.customer_id)?.0;
    let payment_token = required("paymentToken", fields.payment_token)?.0;
    let new = NewCard { customer_id: CustomerId::named(&customer)?, payment_token };
    let origin = app.origin(request_id, Some(caller.key_id));
    let now = app.now(&caller).await?;
    let (id, operation) = flows::save_card(&app.db, &caller, &new, &origin, &app.encryption, now).await?;

    let waiter = app.replies.register(id.uuid());
    app.push(queues::MONEY, Wake { id: operation.uuid(), request_id: origin.request_id });
    let mut waiting = Waiting::new(waiter);
    let mut card = PaymentMethod::processing(id, &caller, new.customer_id, now);
    while waiting.worth_a_look().await {
        match payment_methods::retrieve_from(&app.db, caller.account_id, id).await {
            Ok(read) => card = read,
            Err(error) => tracing::warn!(%error, payment_method = %id, "the card could not be read; waiting on"),
        }
        if card.status != Status::Processing {
            break;
        }
    }
    if card.status == Status::Failed {
        let code = operations::failure_code(&app.db, caller.account_id, operation).await?;
        return Err(Error::conflict(match code {
            Some(FailureCode::ProviderUnavailable) => {
                "the provider could not be reached, so the card was not saved; its token is spent: try again with another"
            }
            Some(FailureCode::Configuration) => {
                "the account is not set up for this at the provider, so the card was not saved; its token is spent"
            }
            Some(FailureCode::ProviderRefused | FailureCode::AmountMismatch) | None => {
                "the provider would not save this card; its token is spent"
            }
        })
        .into());
    }
    Ok(created(PaymentMethodView::new(&card)))
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
