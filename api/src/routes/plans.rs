//! /v1/plans

use axum::extract::State;
use domain::plans::{self, Creation, NewPlan, PlanView};
use foundation::id::PlanId;
use foundation::money::Money;
use serde::Deserialize;
use utoipa::ToSchema;

use super::merchant_data::MerchantDataFields;
use crate::app::App;
use crate::body::{
    Amount, Body, CurrencyCode, ExternalId, IntervalCount, Metadata, PlanInterval, Text, merchant_data, required,
};
use crate::error::{ApiResult, created, ok};
use crate::guard::Authenticated;
use crate::path::Path;
use crate::replays::{IdempotentCreate, respond};
use crate::trusted::ExpectedVersion;

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PlanFields {
    /// The display name.
    name: Option<Text>,
    /// The price per cycle, in the currency's minor unit.
    amount: Option<Amount>,
    /// ISO 4217, case-insensitive.
    currency: Option<CurrencyCode>,
    /// The unit of the billing interval.
    interval: Option<PlanInterval>,
    /// The number of intervals between two charges. At most three years: 1095 days, 156 weeks, 36 months.
    #[schema(default = 1)]
    interval_count: Option<IntervalCount>,
    /// Your own data. If the plan exists already, it keeps its own.
    metadata: Option<Metadata>,
    /// Your own id. It need not be unique. If the plan exists already, it keeps its own.
    external_id: Option<ExternalId>,
}

pub(super) async fn create(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    idempotent: IdempotentCreate,
    Body { fields, .. }: Body<PlanFields>,
) -> ApiResult {
    let minor = required("amount", fields.amount)?.0;
    let currency = required("currency", fields.currency)?.0;
    let new = NewPlan {
        name: required("name", fields.name)?.0,
        price: Money { minor, currency },
        interval: required("interval", fields.interval)?.0,
        interval_count: fields.interval_count.map_or(1, |count| count.0),
        merchant_data: merchant_data(fields.metadata, fields.external_id)?,
    };
    let livemode = caller.livemode();
    let creation = engine::create_plan(&app.db, &caller, new, idempotent.key(), app.now(&caller).await?).await?;
    respond(&app, creation, |plan| match plan {
        Creation::New(plan) => created(PlanView::new(plan, livemode)),
        Creation::Existing(plan) => ok(PlanView::new(plan, livemode)),
    })
}

pub(super) async fn retrieve(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
) -> ApiResult {
    let id = PlanId::from_request(&id)?;
    let plan = plans::retrieve(&*app.db, caller.account_id, id).await?;
    Ok(ok(PlanView::new(&plan, caller.livemode())))
}

pub(super) async fn update(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    expected: ExpectedVersion,
    Path(id): Path<String>,
    Body { fields, .. }: Body<MerchantDataFields>,
) -> ApiResult {
    let (id, change) = (PlanId::from_request(&id)?, fields.into_change_of(expected));
    let updated = plans::update(&app.db, caller.account_id, id, change).await?;
    Ok(ok(PlanView::new(&updated, caller.livemode())))
}
