//! Whose statement is read: of nobody who is not connected, nor whose reading an operator has ended.

use anyhow::Result;
use sqlx::AssertSqlSafe;
use testkit::{Cluster, Kind};

use super::text;
use crate::support::{Merchant, eventually, figure};

/// All statements are due now; waits until those of this account have been read since.
async fn read_all(merchant: &Merchant) -> Result<()> {
    let due = "UPDATE provider_accounts SET reconcile_at = now(), reconciled_until = NULL, created_at = now() - interval '1 hour'
               WHERE reconcile_at < 'infinity'";
    sqlx::query(due).execute(&merchant.books.db).await?;
    let read = "reconciled_until IS NOT NULL AND reconcile_at > now()";
    eventually("the statement", async || Ok(holds(merchant, "mock", read).await?.then_some(()))).await
}

/// Whether this holds of the account at a provider.
async fn holds(merchant: &Merchant, provider: &str, condition: &str) -> Result<bool> {
    let query = format!(
        "SELECT EXISTS (SELECT FROM provider_accounts WHERE account_id = $1 AND provider = '{provider}' AND ({condition}))"
    );
    Ok(sqlx::query_scalar(AssertSqlSafe(query)).bind(merchant.books.account).fetch_one(&merchant.books.db).await?)
}

/// Nobody is missed.
async fn is_well(cluster: &Cluster) -> Result<()> {
    eventually("a healthy system", async || Ok((cluster.ctl_to_its_end(&["doctor"]).await?.code == 0).then_some(())))
        .await
}

#[tokio::test]
async fn an_account_that_is_not_connected_is_not_missed() -> Result<()> {
    let cluster = Cluster::builder().api(1).worker(1).scheduler(1).gateway(1).start().await?;
    let (reads, unconnected) = (Merchant::new(&cluster).await?, Merchant::new(&cluster).await?);
    cluster.ctl(&["accounts", "set", &unconnected.account.id, "--provider", "card_gateway"]).await?;
    // What the first reading handed out was taken before the second one was.
    for _ in 0..2 {
        read_all(&reads).await?;
        let turn = async || Ok(holds(&unconnected, "card_gateway", "reconcile_at > now()").await?.then_some(()));
        eventually("the turn of the other", turn).await?;
    }
    let failed = "payments_statements_total{provider=\"card_gateway\",outcome=\"failed\"}";
    assert_eq!(figure(&cluster, Kind::Worker, failed).await?, 0.0);
    is_well(&cluster).await
}

#[tokio::test]
async fn an_operator_ends_the_reading_of_a_statement_and_begins_it_again() -> Result<()> {
    let cluster = Cluster::builder().api(1).worker(1).scheduler(1).start().await?;
    let (stays, leaves) = (Merchant::new(&cluster).await?, Merchant::new(&cluster).await?);
    read_all(&leaves).await?;
    let read = async |switch: &str| {
        cluster.ctl(&["accounts", "statements", &leaves.account.id, "--provider", "mock", "--read", switch]).await
    };
    assert_eq!(read("off").await?["statements_read"], false);
    // As one would stand whose provider has not told for hours.
    let behind = "UPDATE provider_accounts SET reconciled_until = now() - interval '3 hours' WHERE account_id = $1";
    sqlx::query(behind).bind(leaves.books.account).execute(&leaves.books.db).await?;
    is_well(&cluster).await?;
    read_all(&stays).await?;
    assert!(
        holds(&leaves, "mock", "reconcile_at = 'infinity' AND reconciled_until < now() - interval '2 hours'").await?
    );

    assert_eq!(read("on").await?["statements_read"], true);
    let caught_up = "reconciled_until > now() - interval '10 minutes'";
    eventually("the rest", async || Ok(holds(&leaves, "mock", caught_up).await?.then_some(()))).await?;
    // Whoever settles there again is read again, too.
    read("off").await?;
    cluster.ctl(&["accounts", "set", &leaves.account.id, "--provider", "mock"]).await?;
    assert!(holds(&leaves, "mock", "reconcile_at < 'infinity'").await?);

    let records = cluster.ctl(&["audit", "list", "--account", &leaves.account.id]).await?;
    let records = records["audit"].as_array().expect("a list").iter().rev();
    let told: Vec<_> = records.filter(|record| text(record, "action") == "accounts.statements").collect();
    let switched: Vec<_> = told.iter().map(|record| record["detail"]["read"].as_bool()).collect();
    assert_eq!(switched, [Some(false), Some(true), Some(false)]);
    Ok(())
}
