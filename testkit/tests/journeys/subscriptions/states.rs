//! Database constraints on subscriptions.

use anyhow::Result;
use sqlx::AssertSqlSafe;

use super::{cancel, customer_with_card, plan, subscribe, subscription_body};
use crate::support::{created, id, merchant, ok, uuid, with};

#[tokio::test]
async fn constraints_reject_inconsistent_subscriptions() -> Result<()> {
    let (merchant, other_merchant) = (merchant().await?, merchant().await?);
    let (customer, other) = (customer_with_card(&merchant).await?, merchant.customer().await?);
    let plan_id = plan(&merchant, "month").await?;
    let sent = subscription_body(&customer, &plan_id);
    let active = id(&subscribe(&merchant, sent.clone()).await?)?;
    let scheduled = id(&subscribe(&merchant, with(sent.clone(), "startAt", "2099-01-01")).await?)?;
    let cancelled = id(&subscribe(&merchant, sent).await?)?;
    ok(&cancel(&merchant, &cancelled).await?);
    let foreign_card = uuid(&id(created(&merchant.save_card(&other, "tok_ok").await?))?)?;
    let foreign_plan = uuid(&plan(&other_merchant, "month").await?)?;
    let foreign_customer = uuid(&other_merchant.customer().await?)?;
    let next = "next_billing_at = now(), next_billing_date = anchor";
    for (subscription, columns, constraint) in [
        (&active, "status = 'scheduled'".to_owned(), "subscriptions_scheduled_until_billed"),
        (&scheduled, "status = 'active'".to_owned(), "subscriptions_scheduled_until_billed"),
        (&scheduled, "status = 'past_due'".to_owned(), "subscriptions_scheduled_until_billed"),
        (&active, "current_period_end = NULL".to_owned(), "subscriptions_period_is_whole"),
        (
            &active,
            "current_period_end = current_period_start - interval '1 s'".to_owned(),
            "subscriptions_period_is_whole",
        ),
        (&active, "next_billing_date = NULL".to_owned(), "subscriptions_next_is_whole"),
        (&active, "next_billing_date = anchor - 1".to_owned(), "subscriptions_next_is_whole"),
        (
            &active,
            "next_billing_date = NULL, next_billing_at = NULL".to_owned(),
            "subscriptions_billed_until_cancelled",
        ),
        (&cancelled, next.to_owned(), "subscriptions_billed_until_cancelled"),
        (&cancelled, format!("status = 'active', {next}"), "subscriptions_cancelled_at"),
        (&active, "cancelled_at = now()".to_owned(), "subscriptions_cancelled_at"),
        (&cancelled, "retry_at = now()".to_owned(), "subscriptions_only_due_is_retried"),
        (&active, format!("payment_method_id = '{foreign_card}'"), "subscriptions_payment_method"),
        (&active, format!("plan_id = '{foreign_plan}'"), "subscriptions_plan"),
        (&scheduled, format!("customer_id = '{foreign_customer}'"), "subscriptions_customer"),
    ] {
        let statement = AssertSqlSafe(format!("UPDATE subscriptions SET {columns} WHERE id = $1"));
        let error = sqlx::query(statement).bind(uuid(subscription)?).execute(&merchant.books.db).await;
        let error = error.expect_err(&columns);
        let violated = error.as_database_error().and_then(|error| error.constraint());
        assert_eq!(violated, Some(constraint), "{columns}: {error}");
    }
    // An invoice cannot refer to a subscription of another customer.
    let invoice =
        merchant.api.post("/v1/invoices", serde_json::json!({"customerId": other, "currency": "USD", "amount": 1}));
    let invoice = uuid(&id(created(&invoice.await?))?)?;
    let statement = "UPDATE invoices SET subscription_id = $2, billing_period = '2026-01-01/2026-01-31' WHERE id = $1";
    for subscription in [&active, super::UNKNOWN] {
        let update = sqlx::query(statement).bind(invoice).bind(uuid(subscription)?);
        let error = update.execute(&merchant.books.db).await.expect_err("no such subscription");
        assert!(error.to_string().contains("invoices_subscription"), "{error}");
    }
    Ok(())
}
