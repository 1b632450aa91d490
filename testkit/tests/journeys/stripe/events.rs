//! Events of Stripe: verified, repeatable, in any order, and never more than the cause of a look-up.

use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use testkit::stripe::{CardBehavior, sign};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;
use tokio::sync::Notify;

use super::{Shop, shop};
use crate::support::{concurrently, created, eventually, id, ok, unix_time};

/// Posts an event with this signature and returns the status.
async fn post(shop: &Shop<'_>, signature: &str, body: &str) -> Result<u16> {
    let request = reqwest::Client::new().post(&shop.endpoint).header("Stripe-Signature", signature);
    Ok(request.body(body.to_owned()).send().await?.status().as_u16())
}

/// A settled payment, and its id at Stripe.
async fn settled(shop: &Shop<'_>, amount: i64) -> Result<(String, String)> {
    let payment = shop.sale(amount).await?;
    let settled = "UPDATE payments SET status = 'settled', settled = true, inquiry_at = NULL, version = version + 1
                   WHERE account_id = $1 AND amount_requested = $2";
    sqlx::query(settled).bind(shop.merchant.books.account).bind(amount).execute(&shop.merchant.books.db).await?;
    Ok((payment, shop.intent(amount)?["id"].as_str().context("an id")?.to_owned()))
}

async fn dispute_of(shop: &Shop<'_>, payment: &str, status: &str) -> Result<Value> {
    eventually("the dispute", async || {
        let found = ok(&shop.merchant.api.get(&format!("/v1/disputes?paymentId={payment}")).await?)["data"].clone();
        Ok(found.get(0).filter(|dispute| dispute["status"] == status).cloned())
    })
    .await
}

#[tokio::test]
async fn an_event_alone_changes_nothing() -> Result<()> {
    let shop = shop().await?;
    let (payment, intent) = settled(&shop, 500).await?;
    let before = shop.merchant.payment(&payment).await?;
    let lie = json!({"id": "evt_1", "object": "event", "type": "charge.dispute.created", "data": {"object": {
        "id": "du_1", "object": "dispute", "payment_intent": intent, "amount": 500, "status": "needs_response"}}});
    assert_eq!(shop.stripe.deliver(&shop.keys, &shop.endpoint, &[lie]).await?, [200]);
    looked_up(&shop).await?;
    assert_eq!(shop.merchant.payment(&payment).await?, before);
    Ok(())
}

/// Waits until no inquiry is due any more.
async fn looked_up(shop: &Shop<'_>) -> Result<()> {
    eventually("the look-up", async || {
        let done: bool = sqlx::query_scalar("SELECT bool_and(inquiry_at IS NULL) FROM payments WHERE account_id = $1")
            .bind(shop.merchant.books.account)
            .fetch_one(&shop.merchant.books.db)
            .await?;
        Ok(done.then_some(()))
    })
    .await
}

/// Stripe sends an event about each void and each late refund.
#[tokio::test]
async fn an_event_about_a_cancelled_payment_causes_one_look_up() -> Result<()> {
    let shop = shop().await?;
    let held = id(created(&shop.pay(CardBehavior::Approve, 700, json!({"capture": false})).await?))?;
    let sold = shop.sale(800).await?;
    for payment in [&held, &sold] {
        ok(&shop.merchant.void(payment).await?);
    }
    shop.deliver_events().await?;
    looked_up(&shop).await
}

/// Nobody read the statement in time, or Stripe added the line late.
#[tokio::test]
async fn a_dispute_that_the_statement_shows_late_is_found() -> Result<()> {
    let shop = shop().await?;
    let (payment, intent) = settled(&shop, 950).await?;
    let _ = shop.stripe.dispute(&shop.keys, &intent, "fraudulent");
    shop.stripe.book_earlier(&shop.keys, Duration::from_secs(180));
    let due = "UPDATE provider_accounts SET created_at = created_at - interval '1 hour', reconcile_at = now(),
                   reconciled_until = now() - interval '1 hour' WHERE account_id = $1";
    sqlx::query(due).bind(shop.merchant.books.account).execute(&shop.merchant.books.db).await?;
    dispute_of(&shop, &payment, "needs_response").await?;
    // It was a difference until then, which the next reading ends.
    eventually("the end of the difference", async || {
        let due = "UPDATE provider_accounts SET reconcile_at = now() WHERE account_id = $1";
        sqlx::query(due).bind(shop.merchant.books.account).execute(&shop.merchant.books.db).await?;
        let found = "SELECT count(*), count(resolved_at) FROM book_differences WHERE account_id = $1";
        let found = sqlx::query_as::<_, (i64, i64)>(found).bind(shop.merchant.books.account);
        Ok((found.fetch_one(&shop.merchant.books.db).await? == (1, 1)).then_some(()))
    })
    .await
}

/// The cardholder withdrew the dispute after its decision.
#[tokio::test]
async fn a_lost_dispute_is_won_if_stripe_gives_the_money_back() -> Result<()> {
    let shop = shop().await?;
    let (payment, intent) = settled(&shop, 1350).await?;
    let dispute = shop.stripe.dispute(&shop.keys, &intent, "fraudulent");
    shop.deliver_events().await?;
    let opened = dispute_of(&shop, &payment, "needs_response").await?;
    for (won, status, version, withdrawn) in [(false, "lost", 2, 1350), (true, "won", 3, 0)] {
        shop.stripe.decide(&shop.keys, &dispute, won);
        shop.deliver_events().await?;
        assert_eq!(dispute_of(&shop, &payment, status).await?["version"], version);
        assert_eq!(shop.merchant.payment(&payment).await?["amountDisputed"], withdrawn);
    }
    let events = shop.merchant.books.events(&id(&opened)?).await?;
    let shown: Vec<_> = events.iter().map(|(kind, shown)| json!([kind, shown["status"]])).collect();
    let [created, closed] = ["dispute.created", "dispute.closed"];
    assert_eq!(shown, [json!([created, "needs_response"]), json!([closed, "lost"]), json!([closed, "won"])]);
    // A decision in favor of the merchant stays.
    shop.stripe.decide(&shop.keys, &dispute, false);
    shop.deliver_events().await?;
    looked_up(&shop).await?;
    dispute_of(&shop, &payment, "won").await?;
    Ok(())
}

#[tokio::test]
async fn what_stripe_did_not_sign_is_refused() -> Result<()> {
    let shop = shop().await?;
    let (_, intent) = settled(&shop, 600).await?;
    let body = json!({"data": {"object": {"id": intent, "object": "payment_intent"}}}).to_string();
    let now = unix_time()?;
    let secret = &shop.keys.webhook_secret;
    for signature in ["", "t=1,v1=00", &sign("whsec_other", now, &body), &sign(secret, now - 400, &body)] {
        assert_eq!(post(&shop, signature, &body).await?, 422, "{signature}");
    }
    let other = Shop { endpoint: format!("{}0", shop.endpoint), ..shop };
    assert_eq!(post(&other, &sign(&other.keys.webhook_secret, now, &body), &body).await?, 422, "another account");
    let due: bool = sqlx::query_scalar("SELECT bool_or(inquiry_at IS NOT NULL) FROM payments WHERE account_id = $1")
        .bind(other.merchant.books.account)
        .fetch_one(&other.merchant.books.db)
        .await?;
    assert!(!due, "nothing is looked up");
    Ok(())
}

/// The response to an event of which only the head and this many bytes are sent, from this address.
async fn post_part(from: &str, endpoint: &str, signature: &str, length: &str, sent: usize) -> Result<String> {
    let (address, path) = endpoint.strip_prefix("http://").and_then(|rest| rest.split_once('/')).context("a URL")?;
    let socket = TcpSocket::new_v4()?;
    socket.bind(format!("{from}:0").parse()?)?;
    let mut stream = socket.connect(address.parse()?).await?;
    let head = format!("POST /{path} HTTP/1.1\r\nHost: api\r\nStripe-Signature: {signature}\r\n{length}\r\n\r\n");
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(&vec![b'x'; sent]).await?;
    let mut response = String::new();
    stream.read_to_string(&mut response).await?;
    Ok(response)
}

#[tokio::test]
async fn no_body_is_read_without_a_recent_signature_for_a_connected_account() -> Result<()> {
    let shop = shop().await?;
    let (recent, other) = (format!("t={},v1=00", unix_time()?), format!("{}0", shop.endpoint));
    for (endpoint, signature) in [(&shop.endpoint, ""), (&shop.endpoint, "t=1,v1=00"), (&other, recent.as_str())] {
        let response = post_part("127.0.0.1", endpoint, signature, "Content-Length: 1000", 0).await?;
        assert!(response.starts_with("HTTP/1.1 422 "), "{endpoint} {signature}: {response}");
    }
    Ok(())
}

#[tokio::test]
async fn few_long_events_of_an_account_are_read_at_once_and_no_others_wait_for_them() -> Result<()> {
    let (one, other) = (shop().await?, shop().await?);
    let event = |length: usize| json!({"data": {"object": {"id": "po_1", "description": "x".repeat(length)}}});
    let deliver = async |to: &Shop<'_>, length| to.stripe.deliver(&to.keys, &to.endpoint, &[event(length)]).await;
    assert_eq!(deliver(&one, 400 * 1024).await?, [200], "a long one");
    let (signature, refused) = (format!("t={},v1=00", unix_time()?), Notify::new());
    let stalling = concurrently(40, async |nth| {
        let from = ["127.0.0.2", "127.0.0.3"][nth % 2];
        let response = post_part(from, &one.endpoint, &signature, "Content-Length: 400000", 70_000).await?;
        if response.starts_with("HTTP/1.1 503 ") {
            refused.notify_one();
        }
        anyhow::Ok(response)
    });
    let stalled = async {
        let responses = stalling.await;
        refused.notify_one();
        responses
    };
    let (stalled, delivered) = tokio::try_join!(stalled, async {
        // The account has had all its turns until then.
        refused.notified().await;
        anyhow::Ok([deliver(&one, 1024).await?, deliver(&other, 400 * 1024).await?])
    })?;
    assert_eq!(delivered, [[200], [200]], "a short one, and a long one of another account");
    for client in 0..2 {
        let responses: Vec<_> = stalled.iter().skip(client).step_by(2).collect();
        let count = |start: &str| responses.iter().filter(|response| response.starts_with(start)).count();
        assert_eq!((count("HTTP/1.1 408 "), count("HTTP/1.1 503 ")), (2, 18), "{responses:?}");
    }
    assert_eq!(stalled.iter().filter(|response| response.contains("\r\nretry-after: 1\r\n")).count(), 36);
    Ok(())
}
