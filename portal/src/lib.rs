//! The merchant portal: pages on which a merchant's people do the day's work. It has no SQL and no rules of its own: each
//! page is rendered from responses of /v1 to a caller that acts for the user, with the entitlements of the user's role.
//! Stateless, so any number can run behind a load balancer.

mod act;
mod actions;
mod address;
mod app;
mod assets;
mod catalog;
mod charts;
mod device;
mod document;
mod failure;
mod fields;
mod filters;
mod form;
mod home;
mod invitations;
mod layout;
mod lists;
mod metadata;
mod notice;
mod object;
mod pages;
mod passkeys;
mod picture;
mod portal_changes;
mod posted;
mod protection;
mod qr;
mod related;
mod session;
mod sign_in;
mod texts;
mod timeline;

use anyhow::Result;
use api::{InProcess, Listener};
use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{get, post};
use foundation::config;
use foundation::telemetry::{self, MetricsHandle};

use crate::app::App;
use crate::failure::Failure;

/// The program.
///
/// # Errors
/// As [`run`].
#[tokio::main]
pub async fn start() -> Result<()> {
    telemetry::init_logs();
    run(telemetry::init_metrics()?, telemetry::shutdown_signal()).await
}

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
    let without_session = Router::new()
        .route("/sign-in", get(sign_in::form).post(sign_in::submit))
        .route("/sign-in/code", get(sign_in::code_form).post(sign_in::submit_code))
        .route("/sign-in/passkey", get(sign_in::form).post(sign_in::submit_passkey))
        .route(passkeys::SIGN_IN, post(sign_in::passkey_options))
        .route("/sign-out", post(sign_in::sign_out))
        .route("/invitations/{token}", get(invitations::form).post(invitations::accept))
        .route_layer(from_fn_with_state(app.clone(), protection::limit));
    without_session
        .route("/", get(home::first))
        .route(assets::STYLE, get(assets::style))
        .route(assets::SCRIPT, get(assets::script))
        .route(assets::PASSKEYS, get(assets::passkeys))
        .route(assets::ICON, get(assets::icon))
        .route(passkeys::REGISTRATION, post(pages::passkey_options))
        .route("/{mode}", get(home::home))
        .route("/{mode}/settings/logo.png", get(pages::logo))
        .route("/{mode}/{page}", get(pages::page))
        .route("/{mode}/{page}/new", get(act::creating).post(act::create))
        .route("/{mode}/{page}/{name}", get(pages::object).post(act::on_page))
        .route("/{mode}/{page}/{id}/{action}", get(act::confirming).post(act::on_object))
        .fallback(async || Failure::NotFound)
        .layer(from_fn_with_state(app.clone(), protection::protect))
        .layer(from_fn(texts::in_language_of_browser))
        .with_state(app)
}
