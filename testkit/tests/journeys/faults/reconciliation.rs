//! Money moved at the provider, and our books do not say so.

use anyhow::{Result, bail};
use testkit::{Cluster, Kind};

use crate::support::{Merchant, cluster, created, eventually, figure, id, merchant, sale, uuid};

/// Writes an approved sale into the mock's books behind everyone's back.
pub(super) async fn book(merchant: &Merchant, charge: &str, reference: &str, amount: i64) -> Result<()> {
    sqlx::query(
        "INSERT INTO mock.transactions (id, account, kind, reference, approved, amount, currency, nature, occurred_at, unique_reference)
         SELECT $1, id, 'sale', $2, true, $3, 'USD', 'tok_ok', now(), $2 FROM provider_accounts WHERE account_id = $4",
    )
    .bind(charge)
    .bind(reference)
    .bind(amount)
    .bind(merchant.books.account)
    .execute(&merchant.books.db)
    .await?;
    Ok(())
}

/// The statement is due now, and not in a minute.
pub(super) async fn compare_now(merchant: &Merchant) -> Result<()> {
    sqlx::query("UPDATE provider_accounts SET reconcile_at = now() WHERE account_id = $1")
        .bind(merchant.books.account)
        .execute(&merchant.books.db)
        .await?;
    Ok(())
}

#[tokio::test]
async fn a_charge_under_no_operation_of_ours_is_noted_once() -> Result<()> {
    let merchant = merchant().await?;
    merchant.pay(100).await?;
    book(&merchant, &format!("mock_orphan_{}", merchant.account.id), "op_nobody", 500).await?;
    for _ in 0..2 {
        compare_now(&merchant).await?;
        let noted = async || {
            let count: i64 = sqlx::query_scalar(
                "SELECT count(*) FROM orphans o JOIN provider_accounts p ON p.id = o.provider_account_id
                 WHERE o.account_id = $1 AND o.reference = 'op_nobody' AND p.reconcile_at > now() + interval '30 seconds'",
            )
            .bind(merchant.books.account)
            .fetch_one(&merchant.books.db)
            .await?;
            assert!(count <= 1, "noted once");
            Ok((count == 1).then_some(()))
        };
        eventually("the orphan", noted).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_charge_of_a_payment_that_failed_is_reversed() -> Result<()> {
    let merchant = merchant().await?;
    merchant.mock(cluster().await?, &["--refuse"]).await?;
    let failed = merchant.api.post("/v1/payments", sale(900)).await?;
    assert_eq!(created(&failed)["status"], "failed");
    merchant.mock(cluster().await?, &[]).await?;

    let payment = id(&failed.body)?;
    let reference: String = sqlx::query_scalar("SELECT reference FROM operations WHERE payment_id = $1")
        .bind(uuid(&payment)?)
        .fetch_one(&merchant.books.db)
        .await?;
    let charge = format!("mock_late_{}", merchant.account.id);
    book(&merchant, &charge, &reference, 900).await?;
    compare_now(&merchant).await?;

    let reversed = async || {
        let voided: bool = sqlx::query_scalar("SELECT voided_at IS NOT NULL FROM mock.transactions WHERE id = $1")
            .bind(&charge)
            .fetch_one(&merchant.books.db)
            .await?;
        Ok(voided.then_some(()))
    };
    eventually("the reversal", reversed).await?;
    let anomalies: i64 = sqlx::query_scalar("SELECT count(*) FROM charge_anomalies WHERE provider_ref = $1")
        .bind(&charge)
        .fetch_one(&merchant.books.db)
        .await?;
    assert_eq!(anomalies, 1);
    let after = merchant.api.get(&format!("/v1/payments/{payment}")).await?;
    assert_eq!(after.body["status"], "failed", "the merchant was told so, and it stays true");
    Ok(())
}

#[tokio::test]
async fn a_charge_that_pays_another_payment_is_not_reversed() -> Result<()> {
    let cluster = Cluster::builder().api(1).worker(1).scheduler(1).start().await?;
    let merchant = Merchant::new(&cluster).await?;
    let paid = merchant.pay(700).await?;
    merchant.mock(&cluster, &["--refuse"]).await?;
    let failed = id(&merchant.api.post("/v1/payments", sale(700)).await?.body)?;
    merchant.mock(&cluster, &[]).await?;

    // The provider confuses the two.
    let confuse = "UPDATE mock.transactions SET reference = o.reference, unique_reference = o.reference
                   FROM operations o WHERE o.payment_id = $1 AND mock.transactions.id = $2";
    let charge: String = sqlx::query_scalar("SELECT provider_ref FROM payments WHERE id = $1")
        .bind(uuid(&id(&paid.body)?)?)
        .fetch_one(&merchant.books.db)
        .await?;
    sqlx::query(confuse).bind(uuid(&failed)?).bind(&charge).execute(&merchant.books.db).await?;
    compare_now(&merchant).await?;

    let told = async || {
        // It is there once it was counted.
        let told = figure(&cluster, Kind::Worker, "payments_late_changes_total{provider=\"mock\"}").await;
        Ok(told.is_ok_and(|count| count == 1.0).then_some(()))
    };
    eventually("the alarm", told).await?;
    let reversals: i64 = sqlx::query_scalar("SELECT count(*) FROM operations WHERE kind IN ('reverse', 'void')")
        .fetch_one(&merchant.books.db)
        .await?;
    assert_eq!(reversals, 0, "what the cardholder has paid for stays paid");
    Ok(())
}

#[tokio::test]
async fn payments_are_taken_while_redis_is_away() -> Result<()> {
    let mut cluster = super::own_cluster().await?;
    let merchant = Merchant::new(&cluster).await?;
    merchant.pay(1).await?;
    cluster.redis.kill9()?;
    let answers = crate::support::together(10, |n| merchant.pay(100 + n as i64)).await?;
    for answer in &answers {
        assert_eq!(created(answer)["status"], "pending_settlement");
    }
    merchant.books.audit().await
}

#[tokio::test]
async fn while_redis_is_away_nobody_puts_off_what_cannot_be_handed_out() -> Result<()> {
    let mut cluster = Cluster::builder().api(1).scheduler(1).start().await?;
    let merchant = Merchant::new(&cluster).await?;
    cluster.redis.kill9()?;
    let looked = async {
        let due = async || {
            let query = "SELECT now() FROM operations WHERE account_id = $1 AND next_push_at <= clock_timestamp()";
            Ok(sqlx::query(query).bind(merchant.books.account).fetch_optional(&merchant.books.db).await?.map(drop))
        };
        eventually("an operation that is due", due).await?;
        let before = sweeps(&cluster).await?;
        let swept = async || Ok((sweeps(&cluster).await? >= before + 3.0).then_some(()));
        eventually("three sweeps", swept).await?;
        let query = "SELECT pushes FROM operations WHERE account_id = $1";
        let pushes: i32 = sqlx::query_scalar(query).bind(merchant.books.account).fetch_one(&merchant.books.db).await?;
        assert_eq!(pushes, 0, "the next worker to look would not see it");
        Ok(())
    };
    // No worker takes it, so the client still waits.
    tokio::select! {
        answer = merchant.pay(100) => bail!("answered: {answer:?}"),
        looked = looked => looked,
    }
}

/// How often the scheduler has looked for operations.
async fn sweeps(cluster: &Cluster) -> Result<f64> {
    figure(cluster, Kind::Scheduler, "scheduler_ticks_total{tick=\"operations\",outcome=\"ok\"}").await
}
