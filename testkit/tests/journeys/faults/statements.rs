//! Reading a provider's statement skips no line: not when a reading is blocked, a line's operation is still running, a
//! line fails, or many lines have the same timestamp.

use anyhow::Result;
use sqlx::AssertSqlSafe;
use testkit::{Cluster, ProcessKind};

use super::cluster_of_faulty_accounts;
use crate::support::{Merchant, Shop, eventually, metric, sale};

/// The number of lines in one reading.
const LINES: i64 = 1000;

/// Books charges without an operation, starting at a time and this many milliseconds apart.
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

/// Resets the reading: the account is an hour old, its statement has never been read, and it is due now.
async fn reset_reading(merchant: &Merchant) -> Result<()> {
    set_provider_account(
        merchant,
        "created_at = now() - interval '1 hour', reconciled_until = NULL, reconcile_at = now()",
    )
    .await
}

async fn set_provider_account(merchant: &Merchant, assignments: &'static str) -> Result<()> {
    let set = format!("UPDATE provider_accounts SET {assignments} WHERE account_id = $1");
    sqlx::query(AssertSqlSafe(set)).bind(merchant.books.account).execute(&merchant.books.db).await?;
    Ok(())
}

/// Waits until this many charges are recorded as orphans.
async fn wait_for_orphans(merchant: &Merchant, count: i64) -> Result<()> {
    let mut last = 0;
    let recorded = eventually("the orphans", async || {
        last = sqlx::query_scalar("SELECT count(*) FROM orphans WHERE account_id = $1")
            .bind(merchant.books.account)
            .fetch_one(&merchant.books.db)
            .await?;
        Ok((last >= count).then_some(()))
    });
    let recorded = recorded.await;
    assert_eq!(last, count);
    recorded
}

/// Whether an SQL condition on the provider account holds; null counts as false.
async fn holds(merchant: &Merchant, condition: &str) -> Result<bool> {
    let query = format!("SELECT {condition} FROM provider_accounts WHERE account_id = $1");
    let value: Option<bool> =
        sqlx::query_scalar(AssertSqlSafe(query)).bind(merchant.books.account).fetch_one(&merchant.books.db).await?;
    Ok(value.unwrap_or(false))
}

#[tokio::test]
async fn charges_booked_during_a_blocked_reading_are_read_by_the_next() -> Result<()> {
    let mut cluster = Cluster::builder().api(1).scheduler(1).start().await?;
    let merchant = Merchant::new(&cluster).await?;
    let db = merchant.books.db.clone();
    reset_reading(&merchant).await?;
    book_orphans(&merchant, "now() - interval '100 seconds'", 1, 1).await?;

    // The worker has read the lines and is blocked when it records the orphan.
    let mut held = db.begin().await?;
    sqlx::query("LOCK TABLE orphans IN SHARE MODE").execute(&mut *held).await?;
    cluster.add(ProcessKind::Worker).await?;
    let waiting =
        "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
                       AND query LIKE 'INSERT INTO orphans%')";
    eventually("the worker to wait", async || {
        Ok(sqlx::query_scalar::<_, bool>(waiting).fetch_one(&db).await?.then_some(()))
    })
    .await?;
    set_provider_account(&merchant, "reconcile_at = 'infinity'").await?;
    let now = "SELECT (clock_timestamp() - interval '4 minutes')::text";
    let limit: String = sqlx::query_scalar(now).fetch_one(&db).await?;
    held.rollback().await?;

    wait_for_orphans(&merchant, 1).await?;
    eventually("the end of the reading", async || {
        Ok(holds(&merchant, "reconciled_until IS NOT NULL").await?.then_some(()))
    })
    .await?;
    assert!(
        holds(&merchant, &format!("reconciled_until <= '{limit}'")).await?,
        "the reading must end at the time of its query"
    );
    Ok(())
}

#[tokio::test]
async fn a_full_reading_does_not_skip_lines_of_running_operations() -> Result<()> {
    let mut cluster = Cluster::builder().api(1).scheduler(1).start().await?;
    let merchant = Merchant::new(&cluster).await?;
    let db = merchant.books.db.clone();
    let blocked_reading = async {
        let reference = eventually("the payment's operation", async || {
            let query = "SELECT reference FROM operations WHERE account_id = $1";
            let found: Option<String> =
                sqlx::query_scalar(query).bind(merchant.books.account).fetch_optional(&db).await?;
            Ok(found)
        })
        .await?;
        // The row lock makes the operation look claimed.
        let mut claimed = db.begin().await?;
        sqlx::query("SELECT FROM operations WHERE reference = $1 FOR UPDATE")
            .bind(&reference)
            .execute(&mut *claimed)
            .await?;
        reset_reading(&merchant).await?;
        book_orphans(&merchant, "now() - interval '100 seconds'", LINES + 1, 1).await?;
        // One of the charges belongs to the payment's operation.
        let assign = "UPDATE mock.transactions SET reference = $2, unique_reference = $2
                       WHERE unique_reference = 'op_nobody_3' AND account = (SELECT id FROM provider_accounts WHERE account_id = $1)";
        sqlx::query(assign).bind(merchant.books.account).bind(&reference).execute(&db).await?;
        cluster.add(ProcessKind::Worker).await?;

        wait_for_orphans(&merchant, LINES - 1).await?;
        let stopped_at_charge = format!(
            "reconciled_until = (SELECT created_at FROM mock.transactions WHERE unique_reference = '{reference}')"
        );
        eventually("the reading to stop at the payment's charge", async || {
            Ok(holds(&merchant, &stopped_at_charge).await?.then_some(()))
        })
        .await?;
        claimed.rollback().await?;
        let charged = async || {
            let query = "SELECT count(*) FROM operations WHERE account_id = $1 AND state = 'succeeded'";
            let count: i64 = sqlx::query_scalar(query).bind(merchant.books.account).fetch_one(&db).await?;
            Ok((count == 1).then_some(()))
        };
        eventually("the charge", charged).await?;
        set_provider_account(&merchant, "reconcile_at = now()").await?;
        wait_for_orphans(&merchant, LINES).await
    };
    tokio::try_join!(merchant.api.post("/v1/payments", sale(500)), blocked_reading)?;
    Ok(())
}

#[tokio::test]
async fn a_charge_that_is_long_in_progress_at_the_gateway_is_read_when_it_ends() -> Result<()> {
    let mut cluster = Cluster::builder().api(1).scheduler(1).gateway(1).start().await?;
    let shop = Shop::new(&cluster, &[]).await?;
    let (merchant, db) = (&shop.merchant, &shop.merchant.books.db);
    shop.sell_at_gateway("4242424242424242", "op_nobody").await?;
    let in_progress =
        "UPDATE gateway.transactions SET state = 'in_progress', ended_at = NULL, recover_at = 'infinity', captured = 0,
                           settles_at = NULL, created_at = now() - interval '10 minutes'";
    assert_eq!(sqlx::query(in_progress).execute(db).await?.rows_affected(), 1);
    reset_reading(merchant).await?;
    cluster.add(ProcessKind::Worker).await?;
    eventually("a reading", async || Ok(holds(merchant, "reconciled_until IS NOT NULL").await?.then_some(()))).await?;
    let before_it = "reconciled_until <= (SELECT created_at FROM gateway.transactions)";
    assert!(holds(merchant, before_it).await?, "the next reading must begin with the charge");
    let ended = "UPDATE gateway.transactions SET state = 'approved', ended_at = now(), recover_at = NULL";
    sqlx::query(ended).execute(db).await?;
    set_provider_account(merchant, "reconcile_at = now()").await?;
    wait_for_orphans(merchant, 1).await
}

#[tokio::test]
async fn more_charges_with_one_timestamp_than_fit_a_reading_are_all_read() -> Result<()> {
    let cluster = cluster_of_faulty_accounts().await?;
    let merchant = Merchant::new(&cluster).await?;
    reset_reading(&merchant).await?;
    book_orphans(&merchant, "now() - interval '100 seconds'", LINES + 200, 0).await?;
    wait_for_orphans(&merchant, LINES + 200).await
}

#[tokio::test]
async fn a_failing_line_blocks_no_other_and_is_read_again() -> Result<()> {
    let cluster = cluster_of_faulty_accounts().await?;
    let merchant = Merchant::new(&cluster).await?;
    let db = &merchant.books.db;
    let refuse = format!(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no'; END $$;
         CREATE TRIGGER refuse BEFORE INSERT ON orphans FOR EACH ROW
             WHEN (NEW.reference = 'op_nobody_2' AND NEW.account_id = '{}') EXECUTE FUNCTION refuse()",
        merchant.books.account
    );
    sqlx::raw_sql(AssertSqlSafe(refuse)).execute(db).await?;
    reset_reading(&merchant).await?;
    book_orphans(&merchant, "now() - interval '600 seconds'", 3, 1000).await?;
    wait_for_orphans(&merchant, 2).await?;
    let failing = "reconciled_until = (SELECT created_at FROM mock.transactions
                             WHERE unique_reference = 'op_nobody_2' AND account = provider_accounts.id)";
    eventually("the reading to stop at the line", async || Ok(holds(&merchant, failing).await?.then_some(()))).await?;
    let counted = async || {
        // The metric exists only after it was first counted.
        let failed = "payments_statements_total{provider=\"mock\",outcome=\"failed\"}";
        let failures = metric(&cluster, ProcessKind::Worker, failed).await;
        Ok(failures.is_ok_and(|count| count != 0.0).then_some(()))
    };
    eventually("the metric of failed readings", counted).await?;

    sqlx::raw_sql("DROP TRIGGER refuse ON orphans; DROP FUNCTION refuse()").execute(db).await?;
    set_provider_account(&merchant, "reconcile_at = now()").await?;
    wait_for_orphans(&merchant, 3).await?;
    eventually("the reading to go on", async || {
        Ok(holds(&merchant, "reconciled_until > now() - interval '5 minutes'").await?.then_some(()))
    })
    .await
}
