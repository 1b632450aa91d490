//! What the schema refuses, whoever asks for it.

use anyhow::Result;
use sqlx::AssertSqlSafe;

use super::{cancel, payer, plan, subscribed, wanted};
use crate::support::{created, id, merchant, ok, uuid, with};

#[tokio::test]
async fn the_schema_refuses_what_no_subscription_is() -> Result<()> {
    let (merchant, stranger) = (merchant().await?, merchant().await?);
    let (customer, other) = (payer(&merchant).await?, merchant.customer().await?);
    let plan_id = plan(&merchant, "month").await?;
    let sent = wanted(&customer, &plan_id);
    let active = id(&subscribed(&merchant, sent.clone()).await?)?;
    let scheduled = id(&subscribed(&merchant, with(sent.clone(), "startAt", "2099-01-01")).await?)?;
    let cancelled = id(&subscribed(&merchant, sent).await?)?;
    ok(&cancel(&merchant, &cancelled).await?);
    let foreign_card = uuid(&id(created(&merchant.save_card(&other, "tok_ok").await?))?)?;
    let foreign_plan = uuid(&plan(&stranger, "month").await?)?;
    let foreign_customer = uuid(&stranger.customer().await?)?;
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
        let refused = sqlx::query(statement).bind(uuid(subscription)?).execute(&merchant.books.db).await;
        let refused = refused.expect_err(&columns);
        let named = refused.as_database_error().and_then(|error| error.constraint());
        assert_eq!(named, Some(constraint), "{columns}: {refused}");
    }
    // Nor may an invoice be for a cycle of what is no subscription of its customer.
    let invoice =
        merchant.api.post("/v1/invoices", serde_json::json!({"customerId": other, "currency": "USD", "amount": 1}));
    let invoice = uuid(&id(created(&invoice.await?))?)?;
    let statement = "UPDATE invoices SET subscription_id = $2, billing_period = '2026-01-01/2026-01-31' WHERE id = $1";
    for no_subscription in [&active, super::UNKNOWN] {
        let written = sqlx::query(statement).bind(invoice).bind(uuid(no_subscription)?);
        let refused = written.execute(&merchant.books.db).await.expect_err("no such subscription");
        assert!(refused.to_string().contains("invoices_subscription"), "{refused}");
    }
    Ok(())
}
