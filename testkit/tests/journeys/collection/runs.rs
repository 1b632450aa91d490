//! POST /v1/invoices/scheduler/run.

use anyhow::Result;
use serde_json::json;

use super::{LONG_AGO, RUN, customer_with, get_invoice, invoice, run, schedule};
use crate::signing::{Signed, live};
use crate::support::{Merchant, cluster, cluster_without_scheduler, concurrently, merchant, ok, refused};

#[tokio::test]
async fn a_run_collects_due_invoices_and_reports_counts() -> Result<()> {
    let cluster = cluster_without_scheduler().await?;
    let (merchant, other_merchant) = (Merchant::new(cluster).await?, Merchant::new(cluster).await?);
    let nothing = json!({"claimed": 0, "collected": 0, "released": 0});
    assert_eq!(ok(&run(&merchant).await?), &nothing);
    let mut invoices = vec![];
    for token in ["tok_ok", "tok_insufficient", "tok_lost", "tok_partial"] {
        let (customer, _) = customer_with(&merchant, token).await?;
        invoices.push(invoice(&merchant, &customer, 500).await?);
    }
    invoices.push(invoice(&merchant, &merchant.customer().await?, 500).await?);
    for invoice in &invoices {
        ok(&schedule(&merchant, invoice, LONG_AGO).await?);
    }
    let (customer, _) = customer_with(&merchant, "tok_ok").await?;
    let later = invoice(&merchant, &customer, 500).await?;
    ok(&schedule(&merchant, &later, super::FAR_FUTURE).await?);
    assert_eq!(ok(&run(&other_merchant).await?), &nothing, "a run only collects its own account's invoices");
    assert_eq!(ok(&run(&merchant).await?), &json!({"claimed": 5, "collected": 1, "released": 4}));
    assert_eq!(ok(&run(&merchant).await?), &nothing);
    for (invoice, status) in invoices.iter().zip(["paid", "scheduled", "scheduled", "scheduled", "scheduled"]) {
        assert_eq!(get_invoice(&merchant, invoice).await?["status"], status);
    }
    assert_eq!(get_invoice(&merchant, &later).await?["status"], "scheduled");
    Ok(())
}

#[tokio::test]
async fn a_run_claims_at_most_fifty_and_concurrent_runs_share() -> Result<()> {
    let cluster = cluster_without_scheduler().await?;
    let merchant = Merchant::new(cluster).await?;
    let (customer, _) = customer_with(&merchant, "tok_ok").await?;
    let invoices = concurrently(120, async |_| {
        let id = invoice(&merchant, &customer, 500).await?;
        ok(&schedule(&merchant, &id, LONG_AGO).await?);
        Ok(id)
    })
    .await?;
    assert_eq!(ok(&run(&merchant).await?), &json!({"claimed": 50, "collected": 50, "released": 0}));
    let runs = concurrently(8, async |_| run(&merchant).await).await?;
    let sum = |what: &str| runs.iter().map(|run| ok(run)[what].as_i64().expect("a number")).sum::<i64>();
    assert_eq!((sum("claimed"), sum("collected"), sum("released")), (70, 70, 0));
    for invoice in invoices {
        assert_eq!(get_invoice(&merchant, &invoice).await?["status"], "paid");
    }
    assert_eq!(merchant.books.charges().await?, 120);
    merchant.books.audit().await
}

#[tokio::test]
async fn runs_require_a_test_account() -> Result<()> {
    let merchant = merchant().await?;
    ok(&run(&merchant).await?);
    let live = live(cluster().await?).await?;
    let response = Signed::new(&live, reqwest::Method::POST, RUN, None)?.sign().send(&live.api).await?;
    refused(&response, 403, "permission_denied");
    Ok(())
}
