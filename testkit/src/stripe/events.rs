//! Events, signed as Stripe signs them (docs.stripe.com/webhooks, "Verify webhook signatures manually").

use std::fmt::Write as _;

use anyhow::Result;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;

/// The header `Stripe-Signature` of a body that is sent at this many seconds since 1970.
///
/// # Panics
/// Never: HMAC accepts keys of every length.
#[must_use]
pub fn sign(secret: &str, at: i64, body: &str) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("any length");
    mac.update(format!("{at}.{body}").as_bytes());
    let mut header = format!("t={at},v1=");
    for byte in mac.finalize().into_bytes() {
        let _ = write!(header, "{byte:02x}");
    }
    header
}

/// An event about an object.
pub(super) fn event(id: &str, kind: &str, object: &Value, now: i64) -> Value {
    json!({
        "id": id, "object": "event", "type": kind, "created": now, "livemode": false, "pending_webhooks": 1,
        "api_version": super::shapes::API.version, "request": null, "data": {"object": object},
    })
}

pub(super) async fn deliver(secret: &str, endpoint: &str, events: &[Value], now: i64) -> Result<Vec<u16>> {
    let http = reqwest::Client::new();
    let mut statuses = Vec::new();
    for event in events {
        let body = event.to_string();
        let request = http.post(endpoint).header("Stripe-Signature", sign(secret, now, &body));
        let response = request.header("Content-Type", "application/json; charset=utf-8").body(body).send().await?;
        statuses.push(response.status().as_u16());
    }
    Ok(statuses)
}
