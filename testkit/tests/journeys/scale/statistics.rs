use anyhow::Result;
use sqlx::{Connection, PgConnection};
use testkit::Cluster;

use crate::support::{Merchant, eventually};

#[tokio::test]
async fn the_scheduler_analyzes_tables_that_have_grown() -> Result<()> {
    let cluster = Cluster::builder().api(1).worker(1).scheduler(1).start().await?;
    let merchant = Merchant::new(&cluster).await?;
    merchant.customer().await?;
    let mut db = PgConnection::connect(cluster.database_url()).await?;
    sqlx::raw_sql("ALTER TABLE customers SET (autovacuum_enabled = false)").execute(&mut db).await?;
    // An analysis does not see the rows of a transaction in progress, so they are added in small ones.
    for (batch, at_least) in [(100_i64, 400_i64), (1_000, 4_000)] {
        for _ in 0..20 {
            let add = "INSERT INTO customers (id, account_id, email, name, created_at)
                       SELECT new_ulid(now()), account_id, 'ada@shop.example', repeat('x', 100), now()
                       FROM (SELECT account_id FROM customers LIMIT 1) c, generate_series(1, $1)";
            sqlx::query(add).bind(batch).execute(&mut db).await?;
        }
        eventually("statistics of the added rows", async || {
            let known = "SELECT reltuples::bigint FROM pg_class WHERE oid = 'customers'::regclass";
            let known: i64 = sqlx::query_scalar(known).fetch_one(&mut db).await?;
            Ok((known >= at_least).then_some(()))
        })
        .await?;
    }
    Ok(())
}
