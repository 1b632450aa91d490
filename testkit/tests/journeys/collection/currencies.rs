//! Invoices in a currency that the account cannot be paid in: nothing is sent.

use anyhow::Result;
use serde_json::{Value, json};

use super::{
    INVOICES, LONG_AGO, attempts, becomes, customer_with, ended, invoice, is_due, ledger, schedule, shown, told,
};
use crate::support::{Merchant, Shop, cluster, created, id, invalid, merchant, ok, uuid};

/// An operator keeps the account to these.
async fn kept_to(merchant: &Merchant, currencies: &[&str]) -> Result<()> {
    sqlx::query("UPDATE provider_accounts SET currencies = nullif($2, '{}'::text[]) WHERE account_id = $1")
        .bind(merchant.books.account)
        .bind(currencies)
        .execute(&merchant.books.db)
        .await?;
    Ok(())
}

/// The only attempt so far, which sent nothing.
async fn sent_nothing(merchant: &Merchant, made: &str) -> Result<Value> {
    let attempt = ended(merchant, made, 1).await?.remove(0);
    assert_eq!(
        (&attempt["status"], &attempt["declineCode"], &attempt["declineType"]),
        (&json!("failed"), &json!("currency_not_supported"), &json!("soft"))
    );
    assert!(attempt.get("paymentId").is_none(), "{attempt}");
    let shown = shown(merchant, made).await?;
    assert_eq!((&shown["status"], &shown["nextAttemptAt"]), (&json!("scheduled"), &attempt["nextAttemptAt"]));
    assert!(attempt["nextAttemptAt"].is_string(), "it is tried again on its days");
    assert_eq!(told(merchant, made).await?.last().map(String::as_str), Some("invoice.payment_failed"));
    Ok(attempt)
}

#[tokio::test]
async fn what_an_account_is_kept_from_is_not_collected_until_it_is_allowed() -> Result<()> {
    let merchant = merchant().await?;
    let (customer, card) = customer_with(&merchant, "tok_ok").await?;
    let [made, allowed] = [invoice(&merchant, &customer, 500).await?, invoice(&merchant, &customer, 600).await?];
    let named = json!({"collectAt": "2999-01-01T00:00:00Z", "paymentMethodId": card});
    ok(&merchant.api.post(&format!("{INVOICES}/{made}/schedule"), named).await?);
    kept_to(&merchant, &["EUR"]).await?;
    is_due(&merchant, &made).await?;
    sent_nothing(&merchant, &made).await?;
    let payments: i64 = sqlx::query_scalar("SELECT count(*) FROM payments WHERE account_id = $1")
        .bind(merchant.books.account)
        .fetch_one(&merchant.books.db)
        .await?;
    assert_eq!(payments, 0);

    kept_to(&merchant, &["EUR", "USD"]).await?;
    ok(&schedule(&merchant, &allowed, LONG_AGO).await?);
    is_due(&merchant, &made).await?;
    for invoice in [&made, &allowed] {
        becomes(&merchant, invoice, "paid").await?;
    }
    let attempts = attempts(&merchant, &made).await?;
    let paid = merchant.payment(attempts[1]["paymentId"].as_str().unwrap_or_default()).await?;
    assert_eq!(paid["paymentMethodId"], json!(card), "the card was not to blame, and is the named one still");
    assert_eq!(ledger(&merchant, &made).await?, ["sale 500"]);
    merchant.books.audit().await
}

#[tokio::test]
async fn what_the_provider_itself_does_not_take_is_not_sent_there() -> Result<()> {
    let shop = Shop::new(cluster().await?, &[]).await?;
    let merchant = &shop.merchant;
    let (customer, _) = shop.saved("4242424242424242").await?;
    let body = json!({"customerId": customer, "currency": "JPY", "amount": 500});
    let made = id(created(&merchant.api.post(INVOICES, body).await?))?;
    invalid(&schedule(merchant, &made, LONG_AGO).await?, "currency");
    // As it was scheduled while the account was paid elsewhere.
    sqlx::query("UPDATE invoices SET status = 'scheduled', collect_at = now(), next_attempt_at = now() WHERE id = $1")
        .bind(uuid(&made)?)
        .execute(&merchant.books.db)
        .await?;
    sent_nothing(merchant, &made).await?;
    let dollars = invoice(merchant, &customer, 500).await?;
    ok(&schedule(merchant, &dollars, LONG_AGO).await?);
    becomes(merchant, &dollars, "paid").await.map(drop)
}

#[tokio::test]
async fn neither_a_schedule_nor_a_subscription_begins_in_such_a_currency() -> Result<()> {
    let merchant = merchant().await?;
    let (customer, card) = customer_with(&merchant, "tok_ok").await?;
    let made = invoice(&merchant, &customer, 500).await?;
    let plan = json!({"name": "Gold", "amount": 2900, "currency": "USD", "interval": "month"});
    let plan = id(created(&merchant.api.post("/v1/plans", plan).await?))?;
    let wanted = json!({"customerId": customer, "planId": plan});
    let named = json!({"customerId": customer, "planId": plan, "paymentMethodId": card});
    kept_to(&merchant, &["EUR"]).await?;
    invalid(&schedule(&merchant, &made, LONG_AGO).await?, "currency");
    assert_eq!(shown(&merchant, &made).await?["status"], "open");
    for body in [&wanted, &named] {
        invalid(&merchant.api.post("/v1/subscriptions", body.clone()).await?, "currency");
    }
    assert_eq!(ok(&merchant.api.get("/v1/subscriptions").await?)["data"], json!([]));
    kept_to(&merchant, &[]).await?;
    created(&merchant.api.post("/v1/subscriptions", named).await?);
    ok(&schedule(&merchant, &made, LONG_AGO).await?);
    becomes(&merchant, &made, "paid").await.map(drop)
}
