//! Money moved at the provider, and our books do not say so.

use anyhow::Result;

use crate::support::{Merchant, cluster, created, eventually, id, merchant, sale, uuid};

/// Writes an approved sale into the mock's books behind everyone's back.
async fn book(merchant: &Merchant, charge: &str, reference: &str, amount: i64) -> Result<()> {
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
async fn compare_now(merchant: &Merchant) -> Result<()> {
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
