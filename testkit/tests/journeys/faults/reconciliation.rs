//! Charges at the provider that our books lack or assign to another payment.

use anyhow::Result;
use testkit::ProcessKind;

use crate::support::{Merchant, cluster, created, eventually, id, merchant, metric, sale, uuid};

/// Inserts an approved sale directly into the mock's ledger.
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

/// Makes the next reading of the statement due now.
pub(super) async fn compare_now(merchant: &Merchant) -> Result<()> {
    sqlx::query("UPDATE provider_accounts SET reconcile_at = now() WHERE account_id = $1")
        .bind(merchant.books.account)
        .execute(&merchant.books.db)
        .await?;
    Ok(())
}

#[tokio::test]
async fn a_charge_without_an_operation_is_recorded_once() -> Result<()> {
    let merchant = merchant().await?;
    merchant.pay(100).await?;
    book(&merchant, &format!("mock_orphan_{}", merchant.account.id), "op_nobody", 500).await?;
    for _ in 0..2 {
        compare_now(&merchant).await?;
        let recorded = async || {
            let count: i64 = sqlx::query_scalar(
                "SELECT count(*) FROM orphans o JOIN provider_accounts p ON p.id = o.provider_account_id
                 WHERE o.account_id = $1 AND o.reference = 'op_nobody' AND p.reconcile_at > now() + interval '30 seconds'",
            )
            .bind(merchant.books.account)
            .fetch_one(&merchant.books.db)
            .await?;
            assert!(count <= 1, "the orphan must be recorded once");
            Ok((count == 1).then_some(()))
        };
        eventually("the orphan", recorded).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_charge_of_a_failed_payment_is_reversed() -> Result<()> {
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
    assert_eq!(after.body["status"], "failed", "the status reported to the merchant must not change");
    Ok(())
}

#[tokio::test]
async fn a_charge_that_pays_another_payment_is_not_reversed() -> Result<()> {
    let cluster = super::cluster_of_faulty_accounts().await?;
    let merchant = Merchant::new(&cluster).await?;
    let paid = merchant.pay(700).await?;
    merchant.mock(&cluster, &["--refuse"]).await?;
    let failed = id(&merchant.api.post("/v1/payments", sale(700)).await?.body)?;
    merchant.mock(&cluster, &[]).await?;

    // The provider assigns the charge of one payment to the other.
    let confuse = "UPDATE mock.transactions SET reference = o.reference, unique_reference = o.reference
                   FROM operations o WHERE o.payment_id = $1 AND mock.transactions.id = $2";
    let charge: String = sqlx::query_scalar("SELECT provider_ref FROM payments WHERE id = $1")
        .bind(uuid(&id(&paid.body)?)?)
        .fetch_one(&merchant.books.db)
        .await?;
    sqlx::query(confuse).bind(uuid(&failed)?).bind(&charge).execute(&merchant.books.db).await?;
    let late_changes = async || {
        // The metric exists only after it was first counted.
        let name = "payments_late_changes_total{mode=\"test\",provider=\"mock\"}";
        metric(&cluster, ProcessKind::Worker, name).await.unwrap_or_default()
    };
    let before = late_changes().await;
    compare_now(&merchant).await?;

    eventually("the metric of late changes", async || Ok((late_changes().await > before).then_some(()))).await?;
    let reversals = "SELECT count(*) FROM operations WHERE account_id = $1 AND kind IN ('reverse', 'void')";
    let reversals = merchant.books.count(reversals).await?;
    assert_eq!(reversals, 0, "a charge that pays a payment must not be reversed");
    Ok(())
}
