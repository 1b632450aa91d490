//! Lost responses, refused requests, and idempotency keys that Stripe has forgotten.

use anyhow::{Context, Result};
use serde_json::json;
use testkit::Cluster;
use testkit::stripe::{CardBehavior, Stripe};
use uuid::Uuid;

use super::Shop;
use crate::subscriptions::{plan, subscription_body};
use crate::support::{Cardholder, Payer, created, eventually, id, ok};

/// A double and a cluster of their own, because a fault concerns all accounts.
async fn with_faults() -> Result<(Stripe, Cluster)> {
    let stripe = Stripe::start()?;
    let cluster = Cluster::builder().api(1).worker(1).scheduler(1).env("STRIPE_URL", stripe.url()).start().await?;
    Ok((stripe, cluster))
}

/// What Stripe refused unread for a day had no effect, so its key is as good as new.
#[tokio::test]
async fn after_a_day_of_refusals_an_unknown_outcome_is_sent_again() -> Result<()> {
    let (stripe, cluster) = with_faults().await?;
    let shop = Shop::new(&stripe, &cluster).await?;
    let payment = shop.sale(1000).await?;
    stripe.refuse(Some(429));
    assert_eq!(shop.merchant.refund(&payment, Some(300)).await?.status, 202);
    let refund = async |change: &str| -> Result<bool> {
        let change = format!("UPDATE operations SET {change} AND account_id = $1 AND kind = 'refund'");
        let query = sqlx::query(sqlx::AssertSqlSafe(change)).bind(shop.merchant.books.account);
        Ok(query.execute(&shop.merchant.books.db).await?.rows_affected() == 1)
    };
    let aged = "first_sent_at = now() - interval '24 hours' WHERE state = 'ready' AND not_processed > 0";
    eventually("a refusal", async || Ok(refund(aged).await?.then_some(()))).await?;
    stripe.refuse(Some(500));
    // So often, an outcome that is looked up and not found would wait for a person.
    for _ in 0..3 {
        let soon = "next_push_at = now() WHERE state = 'unknown' AND next_push_at > now() + interval '2 seconds'
                    AND (lease_until IS NULL OR lease_until < now())";
        eventually("an unknown outcome", async || Ok(refund(soon).await?.then_some(()))).await?;
    }
    stripe.refuse(None);
    shop.merchant.wait_for_status(&payment, "partially_refunded").await?;
    assert_eq!(shop.records(), "1000 succeeded, refund 300 succeeded");
    Ok(())
}

/// The response was lost, and 23 hours later the key may be forgotten: the payment is found by a search, never sent again.
#[tokio::test]
async fn after_23_hours_a_charge_is_looked_up_and_not_sent_again() -> Result<()> {
    let (stripe, cluster) = with_faults().await?;
    let shop = Shop::new(&stripe, &cluster).await?;
    stripe.lose_responses(1_000_000);
    let payment = id(&shop.pay(CardBehavior::Approve, 1250, json!({})).await?.body)?;
    let db = &shop.merchant.books.db;
    let aged = "UPDATE operations SET first_sent_at = first_sent_at - interval '23 hours' WHERE account_id = $1 AND state = 'unknown'
                AND first_sent_at > now() - interval '1 hour'";
    eventually("the outcome to be unknown", async || {
        let aged = sqlx::query(aged).bind(shop.merchant.books.account).execute(db).await?;
        Ok((aged.rows_affected() == 1).then_some(()))
    })
    .await?;
    stripe.forget_keys();
    stripe.lose_responses(0);
    stripe.advance(testkit::stripe::SEARCH_LAG);
    shop.merchant.wait_for_status(&payment, "pending_settlement").await?;
    assert_eq!(shop.records(), "1250 succeeded", "one charge");
    Ok(())
}

/// The request never arrived, and 23 hours later that cannot be told from a forgotten key: a person decides.
#[tokio::test]
async fn after_23_hours_a_charge_that_is_not_found_waits_for_a_person() -> Result<()> {
    let (stripe, cluster) = with_faults().await?;
    let shop = Shop::new(&stripe, &cluster).await?;
    stripe.refuse(Some(500));
    let payment = id(&shop.pay(CardBehavior::Approve, 1250, json!({})).await?.body)?;
    let db = &shop.merchant.books.db;
    // Two look-ups, two minutes apart.
    let hurried = "UPDATE operations SET first_sent_at = now() - interval '24 hours', next_push_at = now()
                   WHERE account_id = $1 AND state = 'unknown' AND next_push_at IS NOT NULL
                     AND (lease_until IS NULL OR lease_until < now())";
    eventually("manual review", async || {
        sqlx::query(hurried).bind(shop.merchant.books.account).execute(db).await?;
        let waits: bool = sqlx::query_scalar(
            "SELECT state = 'unknown' AND next_push_at IS NULL FROM operations WHERE account_id = $1",
        )
        .bind(shop.merchant.books.account)
        .fetch_one(db)
        .await?;
        Ok(waits.then_some(()))
    })
    .await?;
    stripe.refuse(None);
    let shown = shop.merchant.payment(&payment).await?;
    assert_eq!(shown["status"], "processing", "{shown}");
    assert_eq!(shop.records(), "");
    let review = cluster.ctl(&["operations", "list", "--unknown"]).await?;
    assert_eq!(review["operations"][0]["payment"], json!(payment), "{review}");
    created(&shop.pay(CardBehavior::Approve, 50, json!({})).await?);
    id(&shop.intent(50)?).context("the account goes on")?;
    Ok(())
}

/// The payer of the first invoice of a subscription.
async fn payer_of_renewals(shop: &Shop<'_>, cluster: &Cluster) -> Result<Payer> {
    let merchant = &shop.merchant;
    let body = subscription_body(&merchant.customer().await?, &plan(merchant, "month").await?);
    let subscription = merchant.api.post("/v1/subscriptions", body).await?;
    let invoice = created(&subscription)["latestInvoiceId"].as_str().context("an invoice")?.to_owned();
    let invoice = ok(&merchant.api.get(&format!("/v1/invoices/{invoice}")).await?).clone();
    Payer::for_object(&invoice, &cluster.api_url(0))
}

/// If a restore loses that the card was saved and charged, the charge is repeated: Stripe refuses another one under its key.
#[tokio::test]
async fn the_charge_of_a_card_that_is_saved_first_is_fixed_before() -> Result<()> {
    let (stripe, cluster) = with_faults().await?;
    let shop = Shop::new(&stripe, &cluster).await?;
    let (payer, books) = (payer_of_renewals(&shop, &cluster).await?, &shop.merchant.books);
    stripe.hold(true);
    let saving = async {
        stripe.holds_a_request().await;
        let awaited = "SELECT awaits_operation_id, awaits_action_token FROM payment_methods
                       WHERE account_id = $1 AND awaits_operation_id IS NOT NULL";
        let awaited: (Uuid, String) = sqlx::query_as(awaited).bind(books.account).fetch_one(&books.db).await?;
        stripe.hold(false);
        anyhow::Ok(awaited)
    };
    let form = format!("token={}&renewals=1", stripe.token(&shop.keys, CardBehavior::Approve));
    let (response, (charge, action_token)) = tokio::try_join!(payer.send(&form), saving)?;
    payer.follow(&response).await?.assert_shows(200, &["Paid on"]);
    let sent = sqlx::query_scalar("SELECT action_token FROM operations WHERE id = $1").bind(charge);
    let sent: String = sent.fetch_one(&books.db).await?;
    assert_eq!(sent, action_token);
    assert_eq!(shop.records(), "2900 succeeded");
    Ok(())
}

/// The api of the previous release fixes no token for a challenge. A worker of this one may charge the card.
#[tokio::test]
async fn a_card_that_the_previous_release_began_to_save_can_be_challenged() -> Result<()> {
    let (stripe, cluster) = with_faults().await?;
    let shop = Shop::new(&stripe, &cluster).await?;
    let (payer, books) = (payer_of_renewals(&shop, &cluster).await?, &shop.merchant.books);
    stripe.hold(true);
    let saving = async {
        stripe.holds_a_request().await;
        let none = "UPDATE payment_methods SET awaits_action_token = NULL
                    WHERE account_id = $1 AND awaits_action_token IS NOT NULL";
        let none = sqlx::query(none).bind(books.account).execute(&books.db).await?;
        stripe.hold(false);
        anyhow::Ok(none.rows_affected())
    };
    let form = format!("token={}&renewals=1", stripe.token(&shop.keys, CardBehavior::Challenge));
    let (response, changed) = tokio::try_join!(payer.send(&form), saving)?;
    assert_eq!(changed, 1);
    let location = response.header("location").context("no Location")?.to_owned();
    let action = location.strip_prefix("../").with_context(|| format!("{location} is not a challenge"))?;
    let cardholder = Cardholder::new()?;
    let challenge = format!("{}/pay/{action}", cluster.api_url(0));
    let bank = cardholder.open(&challenge).await?.location.context("no redirect to the bank")?;
    let back = cardholder.press(&bank, "answer", "pass").await?;
    let page = cardholder.open(&back).await?.location.context("no redirect to the payment page")?;
    payer.at(&page).open().await?.assert_shows(200, &["Paid on"]);
    assert_eq!(shop.records(), "2900 succeeded");
    Ok(())
}
