//! Invoices in a currency that the account does not support: nothing is sent to the provider.

use anyhow::Result;
use serde_json::{Value, json};

use super::{
    INVOICES, LONG_AGO, attempts, customer_with, ended_attempts, event_types, get_invoice, invoice, ledger, make_due,
    post_action, schedule, wait_for_status,
};
use crate::support::{Merchant, Shop, cluster, created, id, invalid, merchant, ok, uuid};

/// Limits the account to these currencies; none removes the limit.
async fn limit_currencies(merchant: &Merchant, currencies: &[&str]) -> Result<()> {
    sqlx::query("UPDATE provider_accounts SET currencies = nullif($2, '{}'::text[]) WHERE account_id = $1")
        .bind(merchant.books.account)
        .bind(currencies)
        .execute(&merchant.books.db)
        .await?;
    Ok(())
}

/// Asserts that the only attempt so far failed without a request to the provider.
async fn assert_nothing_sent(merchant: &Merchant, invoice_id: &str) -> Result<Value> {
    let attempt = ended_attempts(merchant, invoice_id, 1).await?.remove(0);
    assert_eq!(
        (&attempt["status"], &attempt["declineCode"], &attempt["declineType"]),
        (&json!("failed"), &json!("currency_not_supported"), &json!("hard"))
    );
    assert!(attempt.get("paymentId").is_none(), "{attempt}");
    let current = get_invoice(merchant, invoice_id).await?;
    assert_eq!(current["status"], "scheduled");
    assert_eq!((attempt.get("nextAttemptAt"), current.get("nextAttemptAt")), (None, None), "it is not retried");
    let events = event_types(merchant, invoice_id).await?;
    assert_eq!(events.iter().filter(|event| *event == "invoice.payment_failed").count(), 1, "{events:?}");
    Ok(attempt)
}

#[tokio::test]
async fn a_currency_that_is_not_allowed_ends_the_collection_until_it_is_scheduled_again() -> Result<()> {
    let merchant = merchant().await?;
    let (customer, card) = customer_with(&merchant, "tok_ok").await?;
    let [invoice_id, allowed] = [invoice(&merchant, &customer, 500).await?, invoice(&merchant, &customer, 600).await?];
    let named = json!({"collectAt": "2999-01-01T00:00:00Z", "paymentMethodId": card});
    ok(&merchant.api.post(&format!("{INVOICES}/{invoice_id}/schedule"), named).await?);
    limit_currencies(&merchant, &["EUR"]).await?;
    make_due(&merchant, &invoice_id).await?;
    assert_nothing_sent(&merchant, &invoice_id).await?;
    let payments: i64 = sqlx::query_scalar("SELECT count(*) FROM payments WHERE account_id = $1")
        .bind(merchant.books.account)
        .fetch_one(&merchant.books.db)
        .await?;
    assert_eq!(payments, 0);

    limit_currencies(&merchant, &["EUR", "USD"]).await?;
    ok(&post_action(&merchant, &invoice_id, "cancel_schedule").await?);
    for invoice in [&invoice_id, &allowed] {
        ok(&schedule(&merchant, invoice, LONG_AGO).await?);
        wait_for_status(&merchant, invoice, "paid").await?;
    }
    assert_eq!(attempts(&merchant, &invoice_id).await?.len(), 2);
    assert_eq!(ledger(&merchant, &invoice_id).await?, ["sale 500"]);
    merchant.books.audit().await
}

#[tokio::test]
async fn currencies_unknown_to_the_provider_are_not_sent() -> Result<()> {
    let shop = Shop::new(cluster().await?, &[]).await?;
    let merchant = &shop.merchant;
    let (customer, _) = shop.saved_card("4242424242424242").await?;
    let body = json!({"customerId": customer, "currency": "JPY", "amount": 500});
    let invoice_id = id(created(&merchant.api.post(INVOICES, body).await?))?;
    invalid(&schedule(merchant, &invoice_id, LONG_AGO).await?, "currency");
    // As if it had been scheduled while the account was at another provider.
    sqlx::query("UPDATE invoices SET status = 'scheduled', collect_at = now(), next_attempt_at = now() WHERE id = $1")
        .bind(uuid(&invoice_id)?)
        .execute(&merchant.books.db)
        .await?;
    assert_nothing_sent(merchant, &invoice_id).await?;
    let dollars = invoice(merchant, &customer, 500).await?;
    ok(&schedule(merchant, &dollars, LONG_AGO).await?);
    wait_for_status(merchant, &dollars, "paid").await.map(drop)
}

#[tokio::test]
async fn schedules_and_subscriptions_require_a_supported_currency() -> Result<()> {
    let merchant = merchant().await?;
    let (customer, card) = customer_with(&merchant, "tok_ok").await?;
    let invoice_id = invoice(&merchant, &customer, 500).await?;
    let plan = json!({"name": "Gold", "amount": 2900, "currency": "USD", "interval": "month"});
    let plan = id(created(&merchant.api.post("/v1/plans", plan).await?))?;
    let unnamed = json!({"customerId": customer, "planId": plan});
    let named = json!({"customerId": customer, "planId": plan, "paymentMethodId": card});
    limit_currencies(&merchant, &["EUR"]).await?;
    invalid(&schedule(&merchant, &invoice_id, LONG_AGO).await?, "currency");
    assert_eq!(get_invoice(&merchant, &invoice_id).await?["status"], "open");
    for body in [&unnamed, &named] {
        invalid(&merchant.api.post("/v1/subscriptions", body.clone()).await?, "currency");
    }
    assert_eq!(ok(&merchant.api.get("/v1/subscriptions").await?)["data"], json!([]));
    limit_currencies(&merchant, &[]).await?;
    created(&merchant.api.post("/v1/subscriptions", named).await?);
    ok(&schedule(&merchant, &invoice_id, LONG_AGO).await?);
    wait_for_status(&merchant, &invoice_id, "paid").await.map(drop)
}
