//! /v1/subscriptions

use axum::extract::State;
use common::calendar::TimeZone;
use common::flows;
use common::id::{CustomerId, PaymentMethodId, PlanId, SubscriptionId};
use common::page::ListView;
use common::subscriptions::{self, NewSubscription, SubscriptionView};
use serde::Deserialize;
use utoipa::ToSchema;

use crate::answer::{Answer, created, ok};
use crate::app::App;
use crate::body::{Body, Day, Reference, Zone, required};
use crate::guard::Authenticated;
use crate::idempotency::{Once, answer};
use crate::path::Path;
use crate::query::Params;

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SubscriptionFields {
    /// Who is to pay.
    customer_id: Option<Reference>,
    /// What, and how often.
    plan_id: Option<Reference>,
    /// With which of the customer's cards. If none is named, with the one that is the default when an invoice is collected.
    payment_method_id: Option<Reference>,
    /// From which the dates are counted; today in `timezone` if not said. It may lie in the past.
    start_at: Option<Day>,
    /// In which the days begin, by its name in IANA's database; `UTC` if not said.
    timezone: Option<Zone>,
}

pub(super) async fn create(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    once: Once,
    Body { fields, .. }: Body<SubscriptionFields>,
) -> Answer {
    let (customer, plan) = (required("customerId", fields.customer_id)?.0, required("planId", fields.plan_id)?.0);
    let new = NewSubscription {
        customer_id: CustomerId::named(&customer)?,
        plan_id: PlanId::named(&plan)?,
        payment_method_id: fields.payment_method_id.map(|card| PaymentMethodId::named(&card.0)).transpose()?,
        start_at: fields.start_at.map(|day| day.0),
        timezone: fields.timezone.map_or(TimeZone::UTC, |zone| zone.0),
    };
    let made = flows::create_subscription(&app.db, &caller, &new, once.key(), app.now(&caller).await?).await?;
    answer(&app, made, |subscription| created(SubscriptionView::new(subscription)))
}

pub(super) async fn retrieve(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
) -> Answer {
    let subscription = subscriptions::retrieve(&app.db, caller.account_id, SubscriptionId::named(&id)?).await?;
    Ok(ok(SubscriptionView::new(&subscription)))
}

pub(super) async fn cancel(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
) -> Answer {
    let id = SubscriptionId::named(&id)?;
    let subscription = flows::cancel_subscription(&app.db, &caller, id, app.now(&caller).await?).await?;
    Ok(ok(SubscriptionView::new(&subscription)))
}

pub(super) async fn list(State(app): State<App>, Authenticated(caller): Authenticated, params: Params) -> Answer {
    let rows = subscriptions::list(&app.db, caller.account_id, params.page()?).await?;
    let views = rows.views(SubscriptionView::new);
    Ok(ok(ListView::new(views, |view| view.id.to_string())))
}
