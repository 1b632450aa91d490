//! /v1/payment_links

use axum::extract::State;
use common::accounts;
use common::flows;
use common::id::PaymentLinkId;
use common::money::Money;
use common::page::ListView;
use common::payment_links::{self, NewPaymentLink, PaymentLinkView};
use serde::Deserialize;
use utoipa::ToSchema;

use crate::answer::{Answer, created, ok};
use crate::app::App;
use crate::body::{Amount, Body, CurrencyCode, Instant, Text, required};
use crate::guard::Authenticated;
use crate::idempotency::{Once, answer};
use crate::path::Path;
use crate::query::Params;

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PaymentLinkFields {
    /// What is to be paid, in the currency's minor unit.
    amount: Option<Amount>,
    /// ISO 4217, in any case.
    currency: Option<CurrencyCode>,
    /// What it is for: the cardholder reads it.
    description: Option<Text>,
    /// Until when it can be paid, 30 days from now if not said. It must lie ahead.
    expires_at: Option<Instant>,
}

pub(super) async fn create(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    once: Once,
    Body { fields, .. }: Body<PaymentLinkFields>,
) -> Answer {
    let minor = required("amount", fields.amount)?.0;
    let currency = required("currency", fields.currency)?.0;
    // A link that nobody could pay is none.
    accounts::settlement(&*app.db, caller.provider_account_id).await?.require(currency)?;
    let new = NewPaymentLink {
        money: Money { minor, currency },
        description: fields.description.map(|text| text.0),
        expires_at: fields.expires_at.map(|instant| instant.0),
    };
    let made = flows::create_payment_link(&app.db, &caller, new, once.key(), app.now(&caller).await?).await?;
    answer(&app, made, |link| created(PaymentLinkView::new(link)))
}

pub(super) async fn retrieve(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
) -> Answer {
    let link = payment_links::retrieve(&app.db, caller.account_id, PaymentLinkId::named(&id)?, app.now(&caller).await?)
        .await?;
    Ok(ok(PaymentLinkView::new(&link)))
}

pub(super) async fn cancel(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
) -> Answer {
    let link =
        payment_links::cancel(&app.db, caller.account_id, PaymentLinkId::named(&id)?, app.now(&caller).await?).await?;
    Ok(ok(PaymentLinkView::new(&link)))
}

pub(super) async fn list(State(app): State<App>, Authenticated(caller): Authenticated, params: Params) -> Answer {
    let rows = payment_links::list(&app.db, caller.account_id, params.page()?, app.now(&caller).await?).await?;
    let views = rows.views(PaymentLinkView::new);
    Ok(ok(ListView::new(views, |view| view.id.to_string())))
}
