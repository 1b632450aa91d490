//! Gauges that the scheduler counts in the tables, for alerts: independent of the process that wrote the rows.

use anyhow::Result;
use serde_json::json;
use testkit::{Cluster, ProcessKind};

use crate::faults::own_cluster;
use crate::support::{Merchant, created, eventually, id, metric};

/// Waits until a gauge of the scheduler satisfies the predicate.
async fn wait_for_metric(cluster: &Cluster, name: &str, predicate: impl Fn(f64) -> bool) -> Result<()> {
    eventually(name, async || {
        Ok(metric(cluster, ProcessKind::Scheduler, name).await.is_ok_and(&predicate).then_some(()))
    })
    .await
}

async fn execute(merchant: &Merchant, statement: &'static str) -> Result<()> {
    let result = sqlx::query(statement).execute(&merchant.books.db).await?;
    assert!(result.rows_affected() > 0, "{statement}");
    Ok(())
}

#[tokio::test]
async fn charge_anomalies_are_counted_for_an_hour() -> Result<()> {
    let cluster = own_cluster().await?;
    let merchant = Merchant::new(&cluster).await?;
    merchant.charge(700).await?;
    let (duplicates, refused_reversals) = (
        "payments_duplicate_charges_last_hour{mode=\"test\",provider=\"mock\"}",
        "payments_reversals_refused_last_hour{mode=\"test\",provider=\"mock\"}",
    );
    for name in [duplicates, refused_reversals, "payments_orphans_last_hour{mode=\"test\"}"] {
        wait_for_metric(&cluster, name, |value| value == 0.0).await?;
    }

    let second = "WITH o AS (UPDATE operations SET kind = 'reverse', provider_ref = NULL WHERE kind = 'sale' RETURNING *)
                  INSERT INTO charge_anomalies (id, account_id, payment_id, operation_id, reversal_operation_id, provider_ref,
                                                amount, currency, created_at)
                  SELECT id, account_id, payment_id, id, id, 'unwanted', 1, 'USD', now() FROM o";
    execute(&merchant, second).await?;
    wait_for_metric(&cluster, duplicates, |value| value == 1.0).await?;
    // Requested two hours ago, but refused just now.
    execute(&merchant, "UPDATE operations SET state = 'failed', created_at = created_at - interval '2 hours'").await?;
    wait_for_metric(&cluster, refused_reversals, |value| value == 1.0).await?;
    wait_for_metric(&cluster, duplicates, |value| value == 0.0).await?;
    execute(&merchant, "UPDATE operations SET finished_at = finished_at - interval '2 hours'").await?;
    wait_for_metric(&cluster, refused_reversals, |value| value == 0.0).await?;

    let orphan = "INSERT INTO orphans (provider_account_id, provider_ref, account_id, reference, occurred_at)
                  SELECT id, 'theirs', account_id, 'op_nobody', now() FROM provider_accounts";
    execute(&merchant, orphan).await?;
    wait_for_metric(&cluster, "payments_orphans_last_hour{mode=\"test\"}", |value| value == 1.0).await?;
    execute(&merchant, "UPDATE orphans SET found_at = now() - interval '2 hours'").await?;
    wait_for_metric(&cluster, "payments_orphans_last_hour{mode=\"test\"}", |value| value == 0.0).await
}

#[tokio::test]
async fn queued_collections_do_not_count_as_late_payments() -> Result<()> {
    let mut cluster = own_cluster().await?;
    let merchant = Merchant::new(&cluster).await?;
    let customer = merchant.customer().await?;
    created(&merchant.save_card(&customer, "tok_ok").await?);
    let invoice = json!({"customerId": customer, "currency": "USD", "amount": 700});
    let invoice = id(created(&merchant.api.post("/v1/invoices", invoice).await?))?;
    cluster.worker(0).kill9()?;
    let now = json!({"collectAt": "2020-01-01T00:00:00Z"});
    assert_eq!(merchant.api.post(&format!("/v1/invoices/{invoice}/schedule"), now).await?.status, 200);
    eventually("the attempt", async || {
        let age = "UPDATE operations SET created_at = created_at - interval '10 minutes' WHERE background";
        Ok((sqlx::query(age).execute(&merchant.books.db).await?.rows_affected() == 1).then_some(()))
    })
    .await?;
    wait_for_metric(
        &cluster,
        "payments_background_operations_oldest_age_seconds{mode=\"test\",state=\"ready\"}",
        |age| age >= 600.0,
    )
    .await?;
    wait_for_metric(&cluster, "payments_operations_oldest_age_seconds{mode=\"test\",state=\"ready\"}", |age| age == 0.0)
        .await
}

#[tokio::test]
async fn paused_and_failing_endpoints_do_not_count_as_late() -> Result<()> {
    let cluster = Cluster::builder().api(1).scheduler(1).start().await?;
    let merchant = Merchant::new(&cluster).await?;
    for n in 0..3 {
        let url = json!({"url": format!("http://127.0.0.1:9/{n}")});
        created(&merchant.api.post("/v1/webhook_endpoints", url).await?);
    }
    merchant.customer().await?;
    let (late, failing) = ("webhooks_endpoints_late", "webhooks_endpoints_failing");
    wait_for_metric(&cluster, late, |count| count == 0.0).await?;
    execute(&merchant, "UPDATE webhook_pending SET due_at = due_at - interval '10 minutes'").await?;
    wait_for_metric(&cluster, late, |count| count == 3.0).await?;
    execute(&merchant, "UPDATE webhook_endpoints SET paused_until = 'infinity' WHERE url LIKE '%/0'").await?;
    execute(&merchant, "UPDATE webhook_endpoints SET failing_since = now() WHERE url LIKE '%/1'").await?;
    wait_for_metric(&cluster, late, |count| count == 1.0).await?;
    wait_for_metric(&cluster, failing, |count| count == 1.0).await
}
