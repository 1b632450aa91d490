//! The API process: stateless, any number of them behind any balancer. It writes intents to Postgres, hands their ids to
//! Redis, and waits a while for a worker's word.

mod again;
mod answer;
mod app;
mod body;
mod elements;
mod endpoint;
mod envelope;
mod guard;
mod idempotency;
mod input;
mod limits;
mod openapi;
mod pages;
mod path;
mod query;
mod routes;
mod signing;
mod waiting;

use std::pin::pin;
use std::sync::Arc;

use anyhow::{Context, Result};
use common::accounts::{self, Keys};
use common::clock::Clock;
use common::db::Db;
use common::{config, db, flows, public_url, queues, server, telemetry};
use queue::{Publisher, Replies};
use tokio::net::TcpListener;

use crate::app::App;
use crate::limits::Limits;

/// Connections to Postgres per process: requests need one for moments, and none while they wait for a worker.
const DATABASE_POOL: u32 = 16;

#[tokio::main]
async fn main() -> Result<()> {
    telemetry::init_logs();
    let metrics = telemetry::init_metrics()?;
    queues::count_posts_from_nought();
    flows::count_billing_from_nought();
    routes::count_failures_from_nought();
    let redis = config::redis()?;
    let pool = db::pool(&config::database_url()?, config::database_pool(DATABASE_POOL)?, "api")?;
    let publisher = Publisher::connect(&redis);
    let clock = Clock::system();
    let base = config::public_url()?;
    public_url::set(base.clone());
    let reply_channel = format!("api-{}", common::crypto::random_hex(8));
    let (peppers, encryption) = (config::peppers()?, config::encryption_keys()?);
    let keys = flows::Keys { encryption: encryption.clone(), peppers: Some(peppers.clone()) };
    let unchecked = config::keys_unchecked()?;
    let app = App {
        db: Db::new(pool.clone(), publisher.clone()),
        clock,
        keys: Arc::new(Keys::new(pool.clone(), peppers, config::key_cache()?)),
        encryption,
        limits: Limits::new(&redis, config::api_limits()?),
        public_url: base.clone().into(),
        card_gateway_url: config::card_gateway_public_url()?.map(Into::into),
        webhook_loopback: config::webhook_loopback()?,
        publisher,
        replies: Replies::start(&redis, &reply_channel),
        reply_channel: reply_channel.into(),
    };

    let (farewell, listening) = (config::farewell()?, config::listening()?);
    let stop = telemetry::shutdown_signal();
    let internal = telemetry::Internal::new(pool.clone(), metrics).reporting("api").starting();
    // Whoever is told that it is ready finds it listening.
    let listener = TcpListener::bind(config::api_bind()?).await.context("API_BIND")?;
    let metrics_address = internal.clone().serve(config::metrics_bind()?).await.context("METRICS_BIND")?;
    tracing::info!(address = %listener.local_addr()?, metrics = %metrics_address, "api is listening");

    let ready = internal.clone();
    let checking = async {
        if !unchecked {
            flows::keys_fit(&pool, &keys).await?;
        }
        accounts::public_url_fits(&pool, &base).await?;
        ready.has_started();
        anyhow::Ok(())
    };
    let draining = async move {
        stop.await;
        tracing::info!(
            "api is stopping: it says so to balancers, then takes no new requests, and answers those in flight"
        );
        internal.drain();
    };
    let publisher = app.publisher.clone();
    let mut serving =
        pin!(server::serve(listener, server::hardened(routes::router(app), &base), listening, draining, farewell));
    tokio::select! {
        // Until it is known, requests that come are answered as well as they can be.
        checked = checking => { checked?; serving.await }
        () = &mut serving => {}
    }
    publisher.flush().await;
    tracing::info!("api has stopped");
    Ok(())
}
