//! What the journeys share.

mod answers;
mod books;
mod browser;
mod clock;
mod figures;
mod lists;
mod load;
mod merchant;
mod payer;
mod receiver;
mod shop;
mod waiting;

use anyhow::Result;
use serde_json::{Value, json};
use testkit::Cluster;
use tokio::sync::OnceCell;

pub(crate) use answers::{accepted, conflict, created, ids, invalid, not_found, ok, refused, said_of};
pub(crate) use books::{Books, printed, uuid};
pub(crate) use browser::{Browser, ORIGIN};
pub(crate) use figures::figure;
pub(crate) use lists::{is_listed, refuses_what_is_no_page, walk};
pub(crate) use load::Load;
pub(crate) use merchant::{Merchant, id};
pub(crate) use payer::{Payer, payment_made};
pub(crate) use receiver::{FLOOD, Receiver, Reply, Request};
pub(crate) use shop::{Cardholder, Shop};
pub(crate) use waiting::{eventually, race, together};

/// The cluster of all tests that break nothing. It ends with the test process.
pub(crate) async fn cluster() -> Result<&'static Cluster> {
    static SHARED: OnceCell<Cluster> = OnceCell::const_new();
    SHARED.get_or_try_init(|| Cluster::builder().api(1).worker(1).scheduler(1).gateway(1).start()).await
}

/// A merchant of the shared cluster.
pub(crate) async fn merchant() -> Result<Merchant> {
    Merchant::new(cluster().await?).await
}

/// The body of a payment with a card that approves.
pub(crate) fn sale(amount: i64) -> Value {
    payment(amount, "tok_ok")
}

/// The body of a payment with this token.
pub(crate) fn payment(amount: i64, token: &str) -> Value {
    json!({"amount": amount, "currency": "USD", "paymentToken": token})
}

/// The body with one field more, or another value for it.
pub(crate) fn with(mut body: Value, field: &str, value: impl Into<Value>) -> Value {
    body[field] = value.into();
    body
}

/// The body with one field less.
pub(crate) fn without(mut body: Value, field: &str) -> Value {
    body.as_object_mut().expect("bodies are objects").remove(field);
    body
}
