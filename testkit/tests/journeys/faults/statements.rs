//! Reading a provider's statement passes no line over: not while a reading is held up, nor where a line is still at work, fails, or
//! is one of many of the same instant.

use anyhow::Result;
use sqlx::AssertSqlSafe;
use testkit::{Cluster, Kind};

use super::own_cluster;
use crate::support::{Merchant, eventually, figure, sale};

/// Lines of one reading.
const LINES: i64 = 1000;

/// Books so many charges of nobody's, after an instant by so many milliseconds each.
async fn book_orphans(merchant: &Merchant, from: &str, count: i64, apart_ms: i64) -> Result<()> {
    let book = format!(
        "INSERT INTO mock.transactions (id, account, kind, reference, approved, amount, currency, nature, occurred_at, unique_reference, created_at)
         SELECT 'mock_' || p.id || '_' || n, p.id, 'sale', 'op_nobody_' || n, true, 500, 'USD', 'tok_ok', now(), 'op_nobody_' || n,
                {from} + n * interval '{apart_ms} milliseconds'
         FROM provider_accounts p, generate_series(1, $2::bigint) n WHERE p.account_id = $1"
    );
    sqlx::query(AssertSqlSafe(book)).bind(merchant.books.account).bind(count).execute(&merchant.books.db).await?;
    Ok(())
}

/// Its statement was never read, since an hour, and is due from now on.
async fn unread(merchant: &Merchant) -> Result<()> {
    merchant_set(merchant, "created_at = now() - interval '1 hour', reconciled_until = NULL, reconcile_at = now()")
        .await
}

async fn merchant_set(merchant: &Merchant, assignments: &'static str) -> Result<()> {
    let set = format!("UPDATE provider_accounts SET {assignments} WHERE account_id = $1");
    sqlx::query(AssertSqlSafe(set)).bind(merchant.books.account).execute(&merchant.books.db).await?;
    Ok(())
}

/// Waits until so many charges are known to be nobody's.
async fn noted(merchant: &Merchant, count: i64) -> Result<()> {
    let mut last = 0;
    let found = eventually("the orphans", async || {
        last = sqlx::query_scalar("SELECT count(*) FROM orphans WHERE account_id = $1")
            .bind(merchant.books.account)
            .fetch_one(&merchant.books.db)
            .await?;
        Ok((last >= count).then_some(()))
    });
    let found = found.await;
    assert_eq!(last, count);
    found
}

/// Whether this holds of how far the statement was read.
async fn read_until(merchant: &Merchant, condition: &str) -> Result<bool> {
    let query = format!("SELECT {condition} FROM provider_accounts WHERE account_id = $1");
    let holds: Option<bool> =
        sqlx::query_scalar(AssertSqlSafe(query)).bind(merchant.books.account).fetch_one(&merchant.books.db).await?;
    Ok(holds.unwrap_or(false))
}

#[tokio::test]
async fn what_is_booked_while_a_reading_is_held_up_is_read_by_the_next() -> Result<()> {
    let mut cluster = Cluster::builder().api(1).scheduler(1).start().await?;
    let merchant = Merchant::new(&cluster).await?;
    let db = merchant.books.db.clone();
    unread(&merchant).await?;
    book_orphans(&merchant, "now() - interval '100 seconds'", 1, 1).await?;

    // It has its lines, and cannot write what it found.
    let mut held = db.begin().await?;
    sqlx::query("LOCK TABLE orphans IN SHARE MODE").execute(&mut *held).await?;
    cluster.add(Kind::Worker).await?;
    let waiting =
        "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
                       AND query LIKE 'INSERT INTO orphans%')";
    eventually("the worker to wait", async || {
        Ok(sqlx::query_scalar::<_, bool>(waiting).fetch_one(&db).await?.then_some(()))
    })
    .await?;
    merchant_set(&merchant, "reconcile_at = 'infinity'").await?;
    let now = "SELECT (clock_timestamp() - interval '4 minutes')::text";
    let told: String = sqlx::query_scalar(now).fetch_one(&db).await?;
    held.rollback().await?;

    noted(&merchant, 1).await?;
    eventually("the end of the reading", async || {
        Ok(read_until(&merchant, "reconciled_until IS NOT NULL").await?.then_some(()))
    })
    .await?;
    assert!(read_until(&merchant, &format!("reconciled_until <= '{told}'")).await?, "it was asked for before that");
    Ok(())
}

#[tokio::test]
async fn a_full_reading_does_not_pass_over_what_is_at_work() -> Result<()> {
    let mut cluster = Cluster::builder().api(1).scheduler(1).start().await?;
    let merchant = Merchant::new(&cluster).await?;
    let db = merchant.books.db.clone();
    let looked = async {
        let reference = eventually("the payment's operation", async || {
            let query = "SELECT reference FROM operations WHERE account_id = $1";
            let found: Option<String> =
                sqlx::query_scalar(query).bind(merchant.books.account).fetch_optional(&db).await?;
            Ok(found)
        })
        .await?;
        // Nobody takes it, for it is somebody's.
        let mut taken = db.begin().await?;
        sqlx::query("SELECT FROM operations WHERE reference = $1 FOR UPDATE")
            .bind(&reference)
            .execute(&mut *taken)
            .await?;
        unread(&merchant).await?;
        book_orphans(&merchant, "now() - interval '100 seconds'", LINES + 1, 1).await?;
        // One of them is its charge.
        let its_own = "UPDATE mock.transactions SET reference = $2, unique_reference = $2
                       WHERE unique_reference = 'op_nobody_3' AND account = (SELECT id FROM provider_accounts WHERE account_id = $1)";
        sqlx::query(its_own).bind(merchant.books.account).bind(&reference).execute(&db).await?;
        cluster.add(Kind::Worker).await?;

        noted(&merchant, LINES - 1).await?;
        let at = format!(
            "reconciled_until = (SELECT created_at FROM mock.transactions WHERE unique_reference = '{reference}')"
        );
        eventually("the reading to stop where that is", async || Ok(read_until(&merchant, &at).await?.then_some(())))
            .await?;
        taken.rollback().await?;
        let charged = async || {
            let query = "SELECT count(*) FROM operations WHERE account_id = $1 AND state = 'succeeded'";
            let count: i64 = sqlx::query_scalar(query).bind(merchant.books.account).fetch_one(&db).await?;
            Ok((count == 1).then_some(()))
        };
        eventually("the charge", charged).await?;
        merchant_set(&merchant, "reconcile_at = now()").await?;
        noted(&merchant, LINES).await
    };
    tokio::try_join!(merchant.api.post("/v1/payments", sale(500)), looked)?;
    Ok(())
}

#[tokio::test]
async fn more_charges_of_one_instant_than_one_reading_takes_are_all_read() -> Result<()> {
    let cluster = own_cluster().await?;
    let merchant = Merchant::new(&cluster).await?;
    unread(&merchant).await?;
    book_orphans(&merchant, "now() - interval '100 seconds'", LINES + 200, 0).await?;
    noted(&merchant, LINES + 200).await
}

#[tokio::test]
async fn a_line_that_fails_keeps_no_other_from_being_read_and_is_read_again() -> Result<()> {
    let cluster = own_cluster().await?;
    let merchant = Merchant::new(&cluster).await?;
    let db = &merchant.books.db;
    for statement in [
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no'; END $$",
        "CREATE TRIGGER refuse BEFORE INSERT ON orphans FOR EACH ROW WHEN (NEW.reference = 'op_nobody_2') EXECUTE FUNCTION refuse()",
    ] {
        sqlx::query(statement).execute(db).await?;
    }
    unread(&merchant).await?;
    book_orphans(&merchant, "now() - interval '600 seconds'", 3, 1000).await?;
    noted(&merchant, 2).await?;
    let failing =
        "reconciled_until = (SELECT created_at FROM mock.transactions WHERE unique_reference = 'op_nobody_2')";
    eventually("the reading to stop at the line", async || Ok(read_until(&merchant, failing).await?.then_some(())))
        .await?;
    let told = async || {
        // It is there once it was counted.
        let failed = "payments_statements_total{provider=\"mock\",outcome=\"failed\"}";
        let told = figure(&cluster, Kind::Worker, failed).await;
        Ok(told.is_ok_and(|count| count != 0.0).then_some(()))
    };
    eventually("the figure", told).await?;

    sqlx::query("DROP TRIGGER refuse ON orphans").execute(db).await?;
    merchant_set(&merchant, "reconcile_at = now()").await?;
    noted(&merchant, 3).await?;
    eventually("the reading to go on", async || {
        Ok(read_until(&merchant, "reconciled_until > now() - interval '5 minutes'").await?.then_some(()))
    })
    .await
}
