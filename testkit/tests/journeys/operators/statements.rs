//! Statement reading skips unconnected accounts and accounts for which an operator stopped it.

use anyhow::Result;
use sqlx::AssertSqlSafe;
use testkit::{Cluster, ProcessKind};

use super::text;
use crate::support::{Merchant, eventually, metric};

/// Makes all statements due now, and waits until this account's has been read.
async fn read_all(merchant: &Merchant) -> Result<()> {
    let due = "UPDATE provider_accounts SET reconcile_at = now(), reconciled_until = NULL, created_at = now() - interval '1 hour'
               WHERE reconcile_at < 'infinity'";
    sqlx::query(due).execute(&merchant.books.db).await?;
    let read = "reconciled_until IS NOT NULL AND reconcile_at > now()";
    eventually("the statement", async || Ok(holds(merchant, "mock", read).await?.then_some(()))).await
}

/// Whether the condition holds for the account's row at a provider.
async fn holds(merchant: &Merchant, provider: &str, condition: &str) -> Result<bool> {
    let query = format!(
        "SELECT EXISTS (SELECT FROM provider_accounts WHERE account_id = $1 AND provider = '{provider}' AND ({condition}))"
    );
    Ok(sqlx::query_scalar(AssertSqlSafe(query)).bind(merchant.books.account).fetch_one(&merchant.books.db).await?)
}

/// Waits until `ctl doctor` has no findings.
async fn wait_until_healthy(cluster: &Cluster) -> Result<()> {
    eventually("a healthy system", async || Ok((cluster.ctl_output(&["doctor"]).await?.code == 0).then_some(()))).await
}

#[tokio::test]
async fn unconnected_accounts_are_skipped() -> Result<()> {
    let cluster = Cluster::builder().api(1).worker(1).scheduler(1).gateway(1).start().await?;
    let (connected, unconnected) = (Merchant::new(&cluster).await?, Merchant::new(&cluster).await?);
    cluster.ctl(&["accounts", "set", &unconnected.account.id, "--provider", "card_gateway"]).await?;
    // The first round may still run work enqueued before it, so wait for two rounds.
    for _ in 0..2 {
        read_all(&connected).await?;
        let turn = async || Ok(holds(&unconnected, "card_gateway", "reconcile_at > now()").await?.then_some(()));
        eventually("the unconnected account to be rescheduled", turn).await?;
    }
    let failed = "payments_statements_total{provider=\"card_gateway\",outcome=\"failed\"}";
    assert_eq!(metric(&cluster, ProcessKind::Worker, failed).await?, 0.0);
    wait_until_healthy(&cluster).await
}

#[tokio::test]
async fn operators_can_stop_and_resume_statement_reading() -> Result<()> {
    let cluster = Cluster::builder().api(1).worker(1).scheduler(1).start().await?;
    let (unaffected, stopped) = (Merchant::new(&cluster).await?, Merchant::new(&cluster).await?);
    read_all(&stopped).await?;
    let read = async |switch: &str| {
        cluster.ctl(&["accounts", "statements", &stopped.account.id, "--provider", "mock", "--read", switch]).await
    };
    assert_eq!(read("off").await?["statements_read"], false);
    // As if the provider had returned no statement for hours.
    let behind = "UPDATE provider_accounts SET reconciled_until = now() - interval '3 hours' WHERE account_id = $1";
    sqlx::query(behind).bind(stopped.books.account).execute(&stopped.books.db).await?;
    wait_until_healthy(&cluster).await?;
    read_all(&unaffected).await?;
    assert!(
        holds(&stopped, "mock", "reconcile_at = 'infinity' AND reconciled_until < now() - interval '2 hours'").await?
    );

    assert_eq!(read("on").await?["statements_read"], true);
    let caught_up = "reconciled_until > now() - interval '10 minutes'";
    eventually("the statement to catch up", async || Ok(holds(&stopped, "mock", caught_up).await?.then_some(())))
        .await?;
    // Setting the provider again also resumes reading.
    read("off").await?;
    cluster.ctl(&["accounts", "set", &stopped.account.id, "--provider", "mock"]).await?;
    assert!(holds(&stopped, "mock", "reconcile_at < 'infinity'").await?);

    let records = cluster.ctl(&["audit", "list", "--account", &stopped.account.id]).await?;
    let records = records["audit"].as_array().expect("a list").iter().rev();
    let statement_records: Vec<_> = records.filter(|record| text(record, "action") == "accounts.statements").collect();
    let switched: Vec<_> = statement_records.iter().map(|record| record["detail"]["read"].as_bool()).collect();
    assert_eq!(switched, [Some(false), Some(true), Some(false)]);
    Ok(())
}
