//! The merchant portal: pages on which a merchant's people do the day's work. It has no SQL and no rules of its own: each
//! page is made of responses of /v1 to a caller that acts for the user, with the entitlements of the user's role.
//! Stateless, so any number can run behind a load balancer.

mod act;
mod actions;
mod activity;
mod address;
mod app;
mod assets;
mod catalog;
mod document;
mod failure;
mod fields;
mod form;
mod home;
mod layout;
mod lists;
mod object;
mod protection;
mod session;
mod sign_in;
mod texts;

use anyhow::Result;
use api::{InProcess, Listener};
use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};
use foundation::config;
use foundation::telemetry::MetricsHandle;

use crate::app::App;
use crate::failure::Failure;

/// Runs the process until `stop`, configured by environment variables: those of `api`, `PORTAL_BIND` and `PORTAL_URL`.
///
/// # Errors
/// The configuration is invalid, or an address cannot be bound.
pub async fn run(metrics: MetricsHandle, stop: impl Future<Output = ()> + Send + 'static) -> Result<()> {
    let (bind, url) = (config::portal_bind()?, config::portal_url()?);
    let api = InProcess::connect("portal")?;
    let router = router(App::new(api.clone(), &url)?);
    api.serve(Listener { process: "portal", bind, url }, router, metrics, stop).await
}

fn router(app: App) -> Router {
    Router::new()
        .route("/", get(home::first))
        .route("/sign-in", get(sign_in::form).post(sign_in::submit))
        .route("/sign-out", post(sign_in::sign_out))
        .route(assets::PATH, get(assets::style))
        .route("/{mode}", get(home::home))
        .route("/{mode}/activity", get(activity::activity))
        .route("/{mode}/{list}", get(lists::list))
        .route("/{mode}/{list}/new", get(act::creating).post(act::create))
        .route("/{mode}/{list}/{id}", get(object::object))
        .route("/{mode}/{list}/{id}/{action}", post(act::change))
        .fallback(async || Failure::NotFound)
        .layer(from_fn_with_state(app.clone(), protection::protect))
        .with_state(app)
}
