//! /v1/payment_links

use axum::extract::State;
use domain::accounts;
use domain::payment_links::{self, NewPaymentLink, PaymentLinkView};
use foundation::id::PaymentLinkId;
use foundation::money::Money;
use serde::Deserialize;
use utoipa::ToSchema;

use super::merchant_data::MerchantDataFields;
use crate::app::App;
use crate::body::{Amount, Body, CurrencyCode, ExternalId, Instant, Metadata, Text, merchant_data, required};
use crate::error::{ApiResult, created, ok};
use crate::guard::Authenticated;
use crate::path::Path;
use crate::replays::{IdempotentCreate, respond};
use crate::trusted::ExpectedVersion;

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PaymentLinkFields {
    /// In the currency's minor unit.
    amount: Option<Amount>,
    /// ISO 4217, case-insensitive.
    currency: Option<CurrencyCode>,
    /// Shown to the cardholder.
    description: Option<Text>,
    /// When the link expires, by default in 30 days. It must be in the future.
    expires_at: Option<Instant>,
    /// Your own data, copied to its payments.
    metadata: Option<Metadata>,
    /// Your own id. It need not be unique.
    external_id: Option<ExternalId>,
}

pub(super) async fn create(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    idempotent: IdempotentCreate,
    Body { fields, .. }: Body<PaymentLinkFields>,
) -> ApiResult {
    let minor = required("amount", fields.amount)?.0;
    let currency = required("currency", fields.currency)?.0;
    let money = Money { minor, currency };
    // Rejected here, because a link that the provider does not charge could never be paid.
    accounts::settlement(&*app.db, caller.provider_account_id).await?.require(money)?;
    let new = NewPaymentLink {
        money,
        description: fields.description.map(|text| text.0),
        expires_at: fields.expires_at.map(|instant| instant.0),
        merchant_data: merchant_data(fields.metadata, fields.external_id)?,
    };
    let creation =
        engine::create_payment_link(&app.db, &caller, new, idempotent.key(), app.now(&caller).await?).await?;
    respond(&app, creation, |link| created(PaymentLinkView::new(link)))
}

pub(super) async fn retrieve(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
) -> ApiResult {
    let link = payment_links::retrieve(
        &*app.db,
        caller.account_id,
        PaymentLinkId::from_request(&id)?,
        app.now(&caller).await?,
    )
    .await?;
    Ok(ok(PaymentLinkView::new(&link)))
}

pub(super) async fn cancel(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
) -> ApiResult {
    let link =
        payment_links::cancel(&app.db, caller.account_id, PaymentLinkId::from_request(&id)?, app.now(&caller).await?)
            .await?;
    Ok(ok(PaymentLinkView::new(&link)))
}

pub(super) async fn update(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    expected: ExpectedVersion,
    Path(id): Path<String>,
    Body { fields, .. }: Body<MerchantDataFields>,
) -> ApiResult {
    let (id, change) = (PaymentLinkId::from_request(&id)?, fields.into_change_of(expected));
    let now = app.now(&caller).await?;
    let updated = payment_links::update(&app.db, caller.account_id, id, change, now).await?;
    Ok(ok(PaymentLinkView::new(&updated)))
}
