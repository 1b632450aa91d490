//! What the journeys share.

mod answers;
mod books;
mod browser;
mod clock;
mod figures;
mod load;
mod merchant;
mod payer;
mod receiver;
mod shop;
mod waiting;

use anyhow::Result;
use serde_json::{Value, json};
use testkit::{Client, Cluster};
use tokio::sync::OnceCell;

pub(crate) use answers::{accepted, conflict, created, ids, invalid, not_found, ok, refused};
pub(crate) use books::{Books, printed, uuid};
pub(crate) use browser::{Browser, ORIGIN};
pub(crate) use figures::figure;
pub(crate) use load::Load;
pub(crate) use merchant::{Merchant, id};
pub(crate) use payer::{Payer, payment_made};
pub(crate) use receiver::{FLOOD, Receiver, Reply, Request};
pub(crate) use shop::{Cardholder, Shop};
pub(crate) use waiting::{eventually, together};

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

/// Every id of a list, read in pages of `limit`. The list ends with `?` or `&`.
pub(crate) async fn walk(api: &Client, list: &str, limit: usize) -> Result<Vec<String>> {
    let mut seen: Vec<String> = Vec::new();
    loop {
        let after = seen.last().map(|id| format!("&startingAfter={id}")).unwrap_or_default();
        let page = api.get(&format!("{list}limit={limit}{after}")).await?;
        seen.extend(ids(&page));
        if page.body["hasMore"] == false {
            return Ok(seen);
        }
        assert_eq!(page.body["data"].as_array().map(Vec::len), Some(limit), "a page with more after it is full");
    }
}
