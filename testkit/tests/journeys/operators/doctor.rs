//! `ctl doctor`: a healthy system is well, and each fault is seen and named.

use anyhow::Result;
use serde_json::Value;
use testkit::{Cluster, Ended};

use super::{answers_are_lost, listening, text, the_waiting};
use crate::faults::own_cluster;
use crate::support::{Merchant, created, eventually, sale};

async fn examined(cluster: &Cluster) -> Result<Ended> {
    cluster.ctl_to_its_end(&["doctor", "--json"]).await
}

/// Each check that is not well: its name and grade.
fn faults(ended: &Ended) -> Vec<(String, String)> {
    let examined = ended.json();
    let checks = examined["checks"].as_array().unwrap_or_else(|| panic!("{ended:?}"));
    let unwell = checks.iter().filter(|check| check["grade"] != "ok");
    unwell.map(|check| (text(check, "check"), text(check, "grade"))).collect()
}

/// Once this check has this grade, all of the report.
async fn sees(cluster: &Cluster, check: &str, grade: &str) -> Result<Value> {
    let code = if grade == "bad" { 2 } else { 1 };
    eventually(check, async || {
        let ended = examined(cluster).await?;
        let found = faults(&ended).contains(&(check.to_owned(), grade.to_owned()));
        if found {
            assert!(ended.code >= code, "{ended:?}");
            let advised = ended.json()["checks"]
                .as_array()
                .into_iter()
                .flatten()
                .all(|row| row["grade"] == "ok" || row["advice"].as_str().is_some_and(|advice| !advice.is_empty()));
            assert!(advised, "whoever is woken is told what to do: {ended:?}");
        }
        Ok(found.then(|| ended.json()))
    })
    .await
}

async fn is_well(cluster: &Cluster) -> Result<()> {
    eventually("a healthy system", async || {
        let ended = examined(cluster).await?;
        anyhow::ensure!(faults(&ended).is_empty() && ended.code == 0, "{:?}", faults(&ended));
        Ok(Some(()))
    })
    .await
}

#[tokio::test]
async fn a_healthy_system_is_well_and_each_trouble_in_the_rows_is_seen() -> Result<()> {
    let cluster = own_cluster().await?;
    is_well(&cluster).await?;
    let merchant = Merchant::new(&cluster).await?;
    assert_eq!(created(&merchant.pay(100).await?)["status"], "pending_settlement");
    let (_receiver, endpoint) = listening(&merchant).await?;
    is_well(&cluster).await?;
    let lines = cluster.ctl_to_its_end(&["doctor"]).await?;
    assert!(lines.printed.lines().all(|line| line.starts_with("ok ")), "{}", lines.printed);

    // Somebody must find out at the provider.
    answers_are_lost(&merchant, &cluster, "1").await?;
    let person = async {
        let operation = the_waiting(&cluster, &merchant).await?;
        let seen = sees(&cluster, "waiting for a person", "bad").await?;
        assert!(seen.to_string().contains(&operation), "{seen}");
        let query = sqlx::query(
            "UPDATE operations SET last_sent_at = last_sent_at - interval '1 minute' WHERE state = 'unknown'",
        );
        query.execute(&merchant.books.db).await?;
        let said = [
            "operations",
            "resolve",
            &operation,
            "--unverified",
            "--outcome",
            "failed",
            "--reason",
            "not in their books",
        ];
        cluster.ctl(&said).await.map(drop)
    };
    let (answer, done) = tokio::join!(merchant.pay_once("k", sale(700)), person);
    done?;
    created(&answer?);
    is_well(&cluster).await?;

    // Endpoints that fail, or were given up; a secret that is about to end.
    let trouble = [
        ("failing_since = now()", "webhook endpoints"),
        ("status = 'disabled', disabled_reason = 'failing'", "webhook endpoints"),
        ("previous_secret = secret, previous_secret_until = now() + interval '1 hour'", "former secrets"),
    ];
    for (assignment, check) in trouble {
        let update = format!("UPDATE webhook_endpoints SET {assignment}");
        sqlx::query(sqlx::AssertSqlSafe(update)).execute(&merchant.books.db).await?;
        let seen = sees(&cluster, check, "warn").await?;
        assert!(seen.to_string().contains(&endpoint), "{seen}");
        let mend = "UPDATE webhook_endpoints SET failing_since = NULL, status = 'enabled', disabled_reason = NULL,
                        previous_secret = NULL, previous_secret_until = NULL";
        sqlx::query(mend).execute(&merchant.books.db).await?;
    }
    // Given up long ago, it is no news.
    let given_up = "UPDATE webhook_endpoints SET status = 'disabled', disabled_reason = 'failing',
                        last_failed_at = now() - interval '8 days'";
    sqlx::query(given_up).execute(&merchant.books.db).await?;
    is_well(&cluster).await?;

    // A reversal that was refused.
    let refused = "WITH o AS (UPDATE operations SET kind = 'reverse', state = 'failed', provider_ref = NULL
                              WHERE kind = 'sale' AND state = 'succeeded' RETURNING *)
                   INSERT INTO charge_anomalies (id, account_id, payment_id, operation_id, reversal_operation_id, provider_ref,
                                                 amount, currency, created_at)
                   SELECT id, account_id, payment_id, id, id, 'unwanted', 1, 'USD', now() FROM o";
    sqlx::query(refused).execute(&merchant.books.db).await?;
    sees(&cluster, "second charges", "bad").await?;
    let long_ago = "UPDATE operations SET finished_at = finished_at - interval '8 days' WHERE kind = 'reverse'";
    sqlx::query(long_ago).execute(&merchant.books.db).await?;
    sees(&cluster, "second charges", "warn").await?;
    sqlx::query("DELETE FROM charge_anomalies").execute(&merchant.books.db).await?;
    is_well(&cluster).await?;

    // A month without a partition, and a row that landed beside all months.
    sqlx::query(
        "INSERT INTO events (id, account_id, type, payload, created_at)
                 SELECT ulid_floor('2400-01-01Z'), id, 'customer.created', '{}', now() FROM accounts LIMIT 1",
    )
    .execute(&merchant.books.db)
    .await?;
    sees(&cluster, "default partitions", "warn").await?;
    sqlx::query("DELETE FROM events_default").execute(&merchant.books.db).await?;
    let next =
        "SELECT to_char(date_trunc('month', now() AT TIME ZONE 'UTC') + interval '2 months', '\"events_\"YYYY_MM')";
    let next: String = sqlx::query_scalar(next).fetch_one(&merchant.books.db).await?;
    sqlx::query(sqlx::AssertSqlSafe(format!("DROP TABLE {next}"))).execute(&merchant.books.db).await?;
    let seen = sees(&cluster, "partitions", "bad").await?;
    assert!(seen.to_string().contains(&next), "{seen}");
    Ok(())
}

#[tokio::test]
async fn what_is_down_or_of_another_version_is_seen() -> Result<()> {
    let mut cluster = own_cluster().await?;
    let merchant = Merchant::new(&cluster).await?;
    is_well(&cluster).await?;

    // Nobody hands out what is due.
    cluster.scheduler(0).kill9()?;
    let stand_still = "UPDATE provider_accounts SET reconcile_at = now() - interval '10 minutes'";
    sqlx::query(stand_still).execute(&merchant.books.db).await?;
    sees(&cluster, "schedulers", "bad").await?;
    cluster.scheduler(0).restart().await?;
    is_well(&cluster).await?;

    // Somebody hands out, and nobody takes: nothing is due for long, and all grows old.
    cluster.worker(0).kill9()?;
    assert_eq!(created(&merchant.pay(200).await?)["status"], "processing");
    let sooner = "UPDATE operations SET created_at = created_at - interval '6 minutes' WHERE finished_at IS NULL";
    sqlx::query(sooner).execute(&merchant.books.db).await?;
    sees(&cluster, "due operations", "bad").await?;
    for (behind, grade) in [("20 minutes", "warn"), ("2 hours", "bad")] {
        let unread = format!("UPDATE provider_accounts SET reconciled_until = now() - interval '{behind}'");
        sqlx::query(sqlx::AssertSqlSafe(unread)).execute(&merchant.books.db).await?;
        sees(&cluster, "statements", grade).await?;
    }
    cluster.worker(0).restart().await?;
    is_well(&cluster).await?;

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
        sees(&cluster, "migrations", "bad").await?;
        sqlx::query(back).execute(&merchant.books.db).await?;
    }
    is_well(&cluster).await?;

    cluster.redis.kill9()?;
    sees(&cluster, "redis", "bad").await?;
    cluster.set_env("DATABASE_URL", "postgres://nobody:canary-password@127.0.0.1:9/nowhere");
    let ended = examined(&cluster).await?;
    assert_eq!(ended.code, 2);
    assert!(faults(&ended).contains(&("postgres".to_owned(), "bad".to_owned())), "{ended:?}");
    assert!(!format!("{ended:?}").contains("canary-password"), "no secret is printed");
    Ok(())
}
