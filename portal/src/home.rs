//! The first page.

use axum::extract::{Path, State};
use axum::response::{Html, Redirect};
use domain::accounts::{self, Mode};
use domain::figures;
use domain::webhooks::endpoints;
use foundation::calendar::TimeZone;
use maud::html;
use serde_json::Value;

use crate::app::App;
use crate::catalog::List;
use crate::charts;
use crate::failure::Failure;
use crate::layout::page;
use crate::lists::table;
use crate::session::{AccountSession, User};
use crate::texts::text;

/// The days that the page covers, today included.
const DAYS: i32 = 30;

/// Leads to test data if the merchant has any: there, nothing costs money.
pub(crate) async fn first(State(app): State<App>, user: User) -> Redirect {
    let has_test = AccountSession::begin(&app, user, Mode::Test.name()).await.is_ok();
    Redirect::to(if has_test { "/test" } else { "/live" })
}

pub(crate) async fn home(
    State(app): State<App>,
    user: User,
    Path(mode): Path<String>,
) -> Result<Html<String>, Failure> {
    let session = AccountSession::begin(&app, user, &mode).await?;
    let (db, account, now) = (app.api.pool(), session.caller.account_id, app.clock.now());
    let is_behind = figures::update(db, account).await.unwrap_or_else(|error| {
        tracing::error!(%account, %error, "the figures of an account could not be brought up to date");
        true
    });
    let (today, days) = figures::read(db, account, now, DAYS).await.map_err(Failure::internal)?;
    let zone = accounts::timezone(db, account).await.map_err(Failure::internal)?;
    let utc_day = TimeZone::UTC.date_at(accounts::now(db, account, now).await.map_err(Failure::internal)?);
    let standing = figures::standing(db, account, utc_day).await.map_err(Failure::internal)?;
    let failing = endpoints::failing(db, account).await.map_err(Failure::internal)?;
    let list = List::find("payments").ok_or(Failure::NotFound)?;
    let latest = app.get(&session.caller, "/v1/payments?limit=5").await?;
    let rows = latest["data"].as_array().map_or(&[] as &[Value], Vec::as_slice);
    let content = html! {
        h1 { (text("Home")) }
        @if is_behind { p.empty role="status" { (text("The figures are being added up. Some payments are not included yet.")) } }
        (charts::sums(session.mode, (&zone, today), &days))
        (charts::standing(session.mode, utc_day, &standing, failing.len()))
        (charts::by_day(session.mode, (&zone, today), &days))
        section {
            h2 { (text("Latest payments")) }
            @if rows.is_empty() { p.empty { (text("None.")) } } @else { (table(&session, list.title, list.columns, rows)) }
        }
    };
    Ok(page(&session, "", text("Home"), &content))
}
