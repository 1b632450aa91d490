//! Helpers that the journeys share.

mod books;
mod browser;
mod clock;
mod copies;
mod dump;
mod held;
mod lease;
mod lists;
mod load;
mod merchant;
mod metrics;
mod payer;
mod receiver;
mod responses;
mod shop;
mod waiting;

use std::sync::Arc;

use anyhow::Result;
use serde_json::{Value, json};
use testkit::Cluster;
pub(crate) use testkit::receiver::{FLOOD, Reply, Request};
use tokio::sync::OnceCell;

pub(crate) use books::{Books, api_id, uuid};
pub(crate) use browser::{Browser, ORIGIN};
pub(crate) use clock::unix_time;
pub(crate) use copies::{copies, copies_with_ids};
pub(crate) use dump::{RedisMonitor, dump};
pub(crate) use lease::Lease;
pub(crate) use lists::{assert_invalid_pages_rejected, assert_listed, list_all};
pub(crate) use load::Load;
pub(crate) use merchant::{Merchant, id};
pub(crate) use metrics::metric;
pub(crate) use payer::{Payer, redirect_payment_id};
pub(crate) use receiver::Receiver;
pub(crate) use responses::{accepted, conflict, created, error_text, ids, invalid, is_replay, not_found, ok, refused};
pub(crate) use shop::{Cardholder, Shop};
pub(crate) use testkit::eventually;
pub(crate) use waiting::{concurrently, failpoint_hits, jitter, race};

/// The cluster shared by all tests without faults. It stops with the test process.
pub(crate) async fn cluster() -> Result<&'static Cluster> {
    static SHARED: OnceCell<Cluster> = OnceCell::const_new();
    SHARED.get_or_try_init(|| Cluster::builder().api(1).worker(1).scheduler(1).gateway(1).portal(1).start()).await
}

/// Another one without a scheduler: only requests change data. It costs almost nothing while it is idle.
pub(crate) async fn cluster_without_scheduler() -> Result<&'static Cluster> {
    static SHARED: OnceCell<Cluster> = OnceCell::const_new();
    SHARED.get_or_try_init(|| Cluster::builder().api(2).worker(1).start()).await
}

/// Another one with two of each process, so that racing requests run in different processes.
pub(crate) async fn redundant_cluster() -> Result<Arc<Cluster>> {
    static SHARED: Lease = Lease::new();
    SHARED.or_start(Cluster::builder().api(2).worker(2).scheduler(2).start()).await
}

/// A new merchant in the shared cluster.
pub(crate) async fn merchant() -> Result<Merchant> {
    Merchant::new(cluster().await?).await
}

/// The body of a payment with a card that is approved.
pub(crate) fn sale(amount: i64) -> Value {
    payment(amount, "tok_ok")
}

/// The body of a payment with this token.
pub(crate) fn payment(amount: i64, token: &str) -> Value {
    json!({"amount": amount, "currency": "USD", "paymentToken": token})
}

/// The body with a field added or replaced.
pub(crate) fn with(mut body: Value, field: &str, value: impl Into<Value>) -> Value {
    body[field] = value.into();
    body
}

/// The body without a field.
pub(crate) fn without(mut body: Value, field: &str) -> Value {
    body.as_object_mut().expect("bodies are objects").remove(field);
    body
}
