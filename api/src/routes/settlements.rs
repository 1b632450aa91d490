//! /v1/settlements

use axum::extract::{RawQuery, State};
use domain::{accounts, settlements};
use foundation::calendar::Date;
use foundation::error::{Error, Result};
use foundation::form;

use crate::app::App;
use crate::error::{ApiResult, ok};
use crate::guard::Authenticated;

pub(super) async fn retrieve(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    RawQuery(query): RawQuery,
) -> ApiResult {
    let day = day_of(query.as_deref().unwrap_or_default())?;
    let zone = accounts::timezone(&*app.db, caller.account_id).await?;
    Ok(ok(settlements::retrieve(&app.db, caller.account_id, &zone, day).await?))
}

/// The parameter `day`. Unknown, repeated and undecodable ones were rejected before.
fn day_of(query: &str) -> Result<Date> {
    let mut parameters = form::fields(query.as_bytes()).flatten();
    let (_, day) =
        parameters.find(|(name, _)| name == "day").ok_or_else(|| Error::invalid("day", "day is required"))?;
    day.parse().map_err(|_| Error::invalid("day", "day must be an existing date, YYYY-MM-DD"))
}
