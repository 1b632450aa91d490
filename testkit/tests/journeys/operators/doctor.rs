//! `ctl doctor` reports nothing for a healthy system, and names each problem.

use anyhow::Result;
use serde_json::Value;
use testkit::{Cluster, CommandOutput};

use super::{lose_responses, manual_review, resolve_as_failed, text, webhook_receiver};
use crate::faults::own_cluster;
use crate::support::{Merchant, created, eventually, sale};

async fn run_doctor(cluster: &Cluster) -> Result<CommandOutput> {
    cluster.ctl_output(&["doctor", "--json"]).await
}

/// Name and grade of each check that is not ok.
fn findings(output: &CommandOutput) -> Vec<(String, String)> {
    let report = output.json();
    let checks = report["checks"].as_array().unwrap_or_else(|| panic!("{output:?}"));
    let failing = checks.iter().filter(|check| check["grade"] != "ok");
    failing.map(|check| (text(check, "check"), text(check, "grade"))).collect()
}

/// Waits until this check has this grade, and returns the report.
async fn wait_for_finding(cluster: &Cluster, check: &str, grade: &str) -> Result<Value> {
    let code = if grade == "bad" { 2 } else { 1 };
    eventually(check, async || {
        let output = run_doctor(cluster).await?;
        let is_present = findings(&output).contains(&(check.to_owned(), grade.to_owned()));
        if is_present {
            assert!(output.code >= code, "{output:?}");
            let has_advice = output.json()["checks"]
                .as_array()
                .into_iter()
                .flatten()
                .all(|row| row["grade"] == "ok" || row["advice"].as_str().is_some_and(|advice| !advice.is_empty()));
            assert!(has_advice, "every finding has advice: {output:?}");
        }
        Ok(is_present.then(|| output.json()))
    })
    .await
}

async fn wait_until_healthy(cluster: &Cluster) -> Result<()> {
    eventually("a healthy system", async || {
        let output = run_doctor(cluster).await?;
        anyhow::ensure!(findings(&output).is_empty() && output.code == 0, "{:?}", findings(&output));
        Ok(Some(()))
    })
    .await
}

#[tokio::test]
async fn doctor_finds_each_problem_in_the_data() -> Result<()> {
    let cluster = own_cluster().await?;
    wait_until_healthy(&cluster).await?;
    let merchant = Merchant::new(&cluster).await?;
    assert_eq!(created(&merchant.pay(100).await?)["status"], "pending_settlement");
    let (_receiver, endpoint) = webhook_receiver(&merchant).await?;
    wait_until_healthy(&cluster).await?;
    let lines = cluster.ctl_output(&["doctor"]).await?;
    assert!(lines.stdout.lines().all(|line| line.starts_with("ok ")), "{}", lines.stdout);

    // An operation that needs manual review.
    lose_responses(&merchant, &cluster, "1").await?;
    let review = async {
        let operation = manual_review(&cluster, &merchant).await?;
        let report = wait_for_finding(&cluster, "manual review", "bad").await?;
        assert!(report.to_string().contains(&operation), "{report}");
        let query = sqlx::query(
            "UPDATE operations SET last_sent_at = last_sent_at - interval '1 minute' WHERE state = 'unknown'",
        );
        query.execute(&merchant.books.db).await?;
        let resolve = resolve_as_failed(&operation, "not in their books");
        cluster.ctl(&resolve).await.map(drop)
    };
    let (response, done) = tokio::join!(merchant.pay_with_key("k", sale(700)), review);
    done?;
    created(&response?);
    wait_until_healthy(&cluster).await?;

    // Endpoints that fail or were disabled; a secret that is about to expire.
    let problems = [
        ("failing_since = now()", "webhook endpoints"),
        ("status = 'disabled', disabled_reason = 'failing'", "webhook endpoints"),
        ("previous_secret = secret, previous_secret_until = now() + interval '1 hour'", "former secrets"),
    ];
    for (assignment, check) in problems {
        let update = format!("UPDATE webhook_endpoints SET {assignment}");
        sqlx::query(sqlx::AssertSqlSafe(update)).execute(&merchant.books.db).await?;
        let report = wait_for_finding(&cluster, check, "warn").await?;
        assert!(report.to_string().contains(&endpoint), "{report}");
        let repair = "UPDATE webhook_endpoints SET failing_since = NULL, status = 'enabled', disabled_reason = NULL,
                        previous_secret = NULL, previous_secret_until = NULL";
        sqlx::query(repair).execute(&merchant.books.db).await?;
    }
    // Disabled long ago, an endpoint is no longer reported.
    let disabled = "UPDATE webhook_endpoints SET status = 'disabled', disabled_reason = 'failing',
                        last_failed_at = now() - interval '8 days'";
    sqlx::query(disabled).execute(&merchant.books.db).await?;
    wait_until_healthy(&cluster).await?;

    // A reversal that the provider refused.
    let refused = "WITH o AS (UPDATE operations SET kind = 'reverse', state = 'failed', provider_ref = NULL
                              WHERE kind = 'sale' AND state = 'succeeded' RETURNING *)
                   INSERT INTO charge_anomalies (id, account_id, payment_id, operation_id, reversal_operation_id, provider_ref,
                                                 amount, currency, created_at)
                   SELECT id, account_id, payment_id, id, id, 'unwanted', 1, 'USD', now() FROM o";
    sqlx::query(refused).execute(&merchant.books.db).await?;
    wait_for_finding(&cluster, "second charges", "bad").await?;
    sqlx::query("UPDATE charge_anomalies SET returned_at = now()").execute(&merchant.books.db).await?;
    wait_until_healthy(&cluster).await?;

    // A row in the default partition, and a month without a partition.
    sqlx::query(
        "INSERT INTO events (id, account_id, type, payload, created_at)
                 SELECT ulid_floor('2400-01-01Z'), id, 'customer.created', '{}', now() FROM accounts LIMIT 1",
    )
    .execute(&merchant.books.db)
    .await?;
    wait_for_finding(&cluster, "default partitions", "warn").await?;
    sqlx::query("DELETE FROM events_default").execute(&merchant.books.db).await?;
    let next =
        "SELECT to_char(date_trunc('month', now() AT TIME ZONE 'UTC') + interval '2 months', '\"events_\"YYYY_MM')";
    let next: String = sqlx::query_scalar(next).fetch_one(&merchant.books.db).await?;
    sqlx::query(sqlx::AssertSqlSafe(format!("DROP TABLE {next}"))).execute(&merchant.books.db).await?;
    let report = wait_for_finding(&cluster, "partitions", "bad").await?;
    assert!(report.to_string().contains(&next), "{report}");
    Ok(())
}

#[tokio::test]
async fn doctor_finds_stopped_services_and_wrong_migrations() -> Result<()> {
    let mut cluster = own_cluster().await?;
    let merchant = Merchant::new(&cluster).await?;
    wait_until_healthy(&cluster).await?;

    // No scheduler enqueues what is due.
    cluster.scheduler(0).kill9()?;
    let overdue = "UPDATE provider_accounts SET reconcile_at = now() - interval '10 minutes'";
    sqlx::query(overdue).execute(&merchant.books.db).await?;
    wait_for_finding(&cluster, "schedulers", "bad").await?;
    cluster.scheduler(0).restart().await?;
    wait_until_healthy(&cluster).await?;

    // The scheduler enqueues but no worker runs: nothing stays due, but the operations grow old.
    cluster.worker(0).kill9()?;
    assert_eq!(created(&merchant.pay(200).await?)["status"], "processing");
    let older = "UPDATE operations SET created_at = created_at - interval '6 minutes' WHERE finished_at IS NULL";
    sqlx::query(older).execute(&merchant.books.db).await?;
    wait_for_finding(&cluster, "due operations", "bad").await?;
    for (behind, grade) in [("20 minutes", "warn"), ("2 hours", "bad")] {
        let unread = format!("UPDATE provider_accounts SET reconciled_until = now() - interval '{behind}'");
        sqlx::query(sqlx::AssertSqlSafe(unread)).execute(&merchant.books.db).await?;
        wait_for_finding(&cluster, "statements", grade).await?;
    }
    cluster.worker(0).restart().await?;
    wait_until_healthy(&cluster).await?;

    for (change, back) in [
        (
            "UPDATE _sqlx_migrations SET success = false WHERE version = 20",
            "UPDATE _sqlx_migrations SET success = true",
        ),
        (
            "UPDATE _sqlx_migrations SET version = 9999 WHERE version = 20",
            "UPDATE _sqlx_migrations SET version = 20 WHERE version = 9999",
        ),
        (
            "UPDATE _sqlx_migrations SET checksum = checksum || '\\x00' WHERE version = 20",
            "UPDATE _sqlx_migrations SET checksum = substring(checksum FROM 1 FOR octet_length(checksum) - 1) WHERE version = 20",
        ),
    ] {
        sqlx::query(change).execute(&merchant.books.db).await?;
        wait_for_finding(&cluster, "migrations", "bad").await?;
        sqlx::query(back).execute(&merchant.books.db).await?;
    }
    wait_until_healthy(&cluster).await?;

    cluster.redis.kill9()?;
    wait_for_finding(&cluster, "redis", "bad").await?;
    cluster.set_env("DATABASE_URL", "postgres://nobody:canary-password@127.0.0.1:9/nowhere");
    let output = run_doctor(&cluster).await?;
    assert_eq!(output.code, 2);
    assert!(findings(&output).contains(&("postgres".to_owned(), "bad".to_owned())), "{output:?}");
    assert!(!format!("{output:?}").contains("canary-password"), "no secret is printed");
    Ok(())
}
