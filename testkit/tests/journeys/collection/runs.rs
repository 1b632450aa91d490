//! POST /v1/invoices/scheduler/run.

use anyhow::Result;
use serde_json::json;
use testkit::Cluster;

use super::{LONG_AGO, RUN, customer_with, invoice, run, schedule, shown};
use crate::signing::{Signed, live};
use crate::support::{Merchant, cluster, merchant, ok, refused, together};

/// A cluster whose invoices are collected by runs alone.
async fn without_scheduler() -> Result<Cluster> {
    Cluster::builder().api(2).worker(1).scheduler(0).start().await
}

#[tokio::test]
async fn a_run_collects_what_is_due_and_says_what_became_of_it() -> Result<()> {
    let cluster = without_scheduler().await?;
    let (merchant, stranger) = (Merchant::new(&cluster).await?, Merchant::new(&cluster).await?);
    let nothing = json!({"claimed": 0, "collected": 0, "released": 0});
    assert_eq!(ok(&run(&merchant).await?), &nothing);
    let mut made = vec![];
    for token in ["tok_ok", "tok_insufficient", "tok_lost", "tok_partial"] {
        let (customer, _) = customer_with(&merchant, token).await?;
        made.push(invoice(&merchant, &customer, 500).await?);
    }
    made.push(invoice(&merchant, &merchant.customer().await?, 500).await?);
    for invoice in &made {
        ok(&schedule(&merchant, invoice, LONG_AGO).await?);
    }
    let (customer, _) = customer_with(&merchant, "tok_ok").await?;
    let later = invoice(&merchant, &customer, 500).await?;
    ok(&schedule(&merchant, &later, super::IN_A_LONG_TIME).await?);
    assert_eq!(ok(&run(&stranger).await?), &nothing, "it is another account's");
    assert_eq!(ok(&run(&merchant).await?), &json!({"claimed": 5, "collected": 1, "released": 4}));
    assert_eq!(ok(&run(&merchant).await?), &nothing);
    for (invoice, status) in made.iter().zip(["paid", "scheduled", "scheduled", "scheduled", "scheduled"]) {
        assert_eq!(shown(&merchant, invoice).await?["status"], status);
    }
    assert_eq!(shown(&merchant, &later).await?["status"], "scheduled");
    Ok(())
}

#[tokio::test]
async fn a_run_takes_fifty_at_most_and_many_runs_share() -> Result<()> {
    let cluster = without_scheduler().await?;
    let merchant = Merchant::new(&cluster).await?;
    let (customer, _) = customer_with(&merchant, "tok_ok").await?;
    let made = together(120, async |_| {
        let made = invoice(&merchant, &customer, 500).await?;
        ok(&schedule(&merchant, &made, LONG_AGO).await?);
        Ok(made)
    })
    .await?;
    assert_eq!(ok(&run(&merchant).await?), &json!({"claimed": 50, "collected": 50, "released": 0}));
    let runs = together(8, async |_| run(&merchant).await).await?;
    let sum = |what: &str| runs.iter().map(|run| ok(run)[what].as_i64().expect("a number")).sum::<i64>();
    assert_eq!((sum("claimed"), sum("collected"), sum("released")), (70, 70, 0));
    for invoice in made {
        assert_eq!(shown(&merchant, &invoice).await?["status"], "paid");
    }
    assert_eq!(merchant.books.charges().await?, 120);
    merchant.books.audit().await
}

#[tokio::test]
async fn it_is_for_test_accounts_alone() -> Result<()> {
    let merchant = merchant().await?;
    ok(&run(&merchant).await?);
    let live = live(cluster().await?).await?;
    let asked = Signed::new(&live, reqwest::Method::POST, RUN, None)?.sign().send(&live.api).await?;
    refused(&asked, 403, "permission_denied");
    Ok(())
}
