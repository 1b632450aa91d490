//! Hundreds of invoices fall due at once, with four schedulers and eight concurrent runs, while workers are killed.

use anyhow::Result;
use serde_json::json;
use testkit::Cluster;

use super::{LONG_AGO, RUN, attempts, customer_with, invoice, schedule};
use crate::support::{Merchant, concurrently, eventually, ok};

const INVOICES: usize = 300;

/// The number of unpaid invoices of this account.
async fn unpaid(merchant: &Merchant) -> Result<i64> {
    let query = "SELECT count(*) FROM invoices WHERE account_id = $1 AND status <> 'paid'";
    Ok(sqlx::query_scalar(query).bind(merchant.books.account).fetch_one(&merchant.books.db).await?)
}

#[tokio::test]
async fn hundreds_of_invoices_are_charged_once_each_despite_crashes() -> Result<()> {
    let mut cluster = Cluster::builder().api(2).worker(2).scheduler(4).env("DATABASE_POOL", "16").start().await?;
    let merchant = Merchant::new(&cluster).await?;
    merchant.mock(&cluster, &["--latency-ms", "20"]).await?;
    let (customer, _) = customer_with(&merchant, "tok_ok").await?;
    let mut invoices = vec![];
    for _ in 0..INVOICES / 50 {
        invoices.extend(concurrently(50, async |_| invoice(&merchant, &customer, 500).await).await?);
    }
    // All due at the same time, as on the first of a month. A request for each would spread them.
    sqlx::query(
        "UPDATE invoices SET status = 'scheduled', collect_at = now(), next_attempt_at = now() WHERE account_id = $1",
    )
    .bind(merchant.books.account)
    .execute(&merchant.books.db)
    .await?;
    let seed = testkit::random::seed();
    let runs = async {
        concurrently(8, async |_| {
            for _ in 0..20 {
                // A response may be late or missing when workers die; only the charges are checked.
                let _ = merchant.api.send(reqwest::Method::POST, RUN, None).await;
            }
            Ok(())
        })
        .await
    };
    let kills = async {
        for kill in 0..8_u64 {
            tokio::time::sleep(std::time::Duration::from_millis(100 + (seed + kill * 7919) % 400)).await;
            let worker = cluster.worker(usize::try_from(kill % 2)?);
            worker.kill9()?;
            worker.restart().await?;
        }
        Ok(())
    };
    tokio::try_join!(runs, kills)?;
    eventually("all invoices to be paid", async || Ok((unpaid(&merchant).await? == 0).then_some(()))).await?;
    assert_eq!(usize::try_from(merchant.books.charges().await?)?, INVOICES, "each was charged once, SEED={seed}");
    for invoice in &invoices {
        let attempts = attempts(&merchant, invoice).await?;
        assert_eq!((attempts.len(), &attempts[0]["number"]), (1, &json!(1)), "SEED={seed}");
    }
    merchant.books.audit().await?;
    ok(&schedule(&merchant, &invoice(&merchant, &customer, 1).await?, LONG_AGO).await?);
    Ok(())
}
