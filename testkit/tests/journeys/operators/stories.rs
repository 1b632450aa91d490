//! Where a payment or an invoice stands, in plain words.

use anyhow::Result;
use serde_json::{Value, json};
use tokio::join;

use super::{answers_are_lost, at_provider, listening, refused, text, waiting};
use crate::support::{accepted, cluster, created, eventually, id, merchant, ok, sale};

async fn verdict(payment: &str) -> Result<String> {
    let shown = cluster().await?.ctl(&["payments", "why", payment]).await?;
    Ok(shown["verdict"].to_string())
}

fn moments(shown: &Value) -> Vec<&str> {
    shown["story"].as_array().expect("a list").iter().filter_map(|row| row["what"].as_str()).collect()
}

#[tokio::test]
async fn the_story_of_a_payment_is_told_to_its_end() -> Result<()> {
    let (cluster, merchant) = (cluster().await?, merchant().await?);
    let (receiver, endpoint) = listening(&merchant).await?;
    answers_are_lost(&merchant, cluster, "1").await?;
    let person = async {
        let row = &waiting(cluster, &merchant, 1).await?[0];
        let (operation, payment) = (text(row, "id"), text(row, "payment"));
        let said = verdict(&payment).await?;
        assert!(said.contains("waits for a person") && said.contains(&operation), "{said}");
        let charge = at_provider(&merchant, &operation).await?;
        let resolve =
            ["operations", "resolve", &operation, "--unverified", "--outcome", "charged", "--provider-ref", &charge];
        cluster.ctl(&[&["--as", "ada"], &resolve[..]].concat()).await?;
        anyhow::Ok(())
    };
    let (answer, done) = join!(merchant.pay(1500), person);
    done?;
    let payment = id(created(&answer?))?;
    accepted(&merchant.refund(&payment, Some(500)).await?);
    merchant.becomes(&payment, "partially_refunded").await?;
    receiver.hears("/hooks", 2).await?;
    let told = eventually("the whole story", async || {
        let shown = cluster.ctl(&["payments", "show", &payment]).await?;
        let delivered = moments(&shown).iter().filter(|what| **what == "delivery").count();
        Ok((delivered == 2).then_some(shown))
    });
    let shown = told.await?;
    let story = shown["story"].as_array().expect("a list");
    let times: Vec<_> = story.iter().map(|row| text(row, "at")).collect();
    assert!(times.is_sorted(), "in order of time: {times:?}");
    let count = |what: &str| moments(&shown).iter().filter(|one| **one == what).count();
    let counts = ["operation written", "operation sent", "operation ended", "refund", "event", "operator"].map(count);
    assert_eq!(counts, [2, 2, 2, 1, 2, 1], "{shown:#}");
    let operator = story.iter().find(|row| row["what"] == "operator").expect("one");
    assert_eq!((&operator["actor"], &operator["action"]), (&"ada".into(), &"operations.resolve".into()));
    assert!(story.iter().any(|row| row["endpoint"] == json!(endpoint) && row["status"] == "succeeded"));
    assert_eq!(shown["payment"]["status"], "partially_refunded");
    let said = shown["verdict"].to_string();
    assert!(said.contains("500 of 1500 has gone back"), "{said}");
    assert!(!shown.to_string().contains(&merchant.account.secret_key), "no secret");

    // For people, it is lines.
    let lines = cluster.ctl_to_its_end(&["payments", "show", &payment]).await?;
    assert!(lines.code == 0 && lines.printed.contains("operation ended"), "{lines:?}");
    refused(cluster, &["payments", "show", "pay_00000000000000000000000000"]).await.map(drop)
}

#[tokio::test]
async fn a_verdict_says_what_happens_next() -> Result<()> {
    let (cluster, merchant) = (cluster().await?, merchant().await?);
    let (sold, held) = (merchant.sold(100).await?, merchant.hold(200).await?);
    assert!(verdict(&sold).await?.contains("has not arrived yet; the provider is asked how it stands at"));
    assert!(verdict(&held).await?.contains("The money is held"));
    merchant.void(&held).await?;
    assert!(verdict(&held).await?.contains("cancelled before it settled"));
    merchant.mock(cluster, &["--class", "B", "--latency-ms", "6000"]).await?;
    let looking = async {
        let begun = eventually("a request under way", async || {
            let listed = cluster.ctl(&["operations", "list", "--account", &merchant.account.id]).await?;
            let row = listed["operations"].as_array().and_then(|rows| rows.first()).cloned();
            Ok(row.filter(|row| row["state"] == "sending"))
        });
        let begun = begun.await?;
        let said = verdict(&text(&begun, "payment")).await?;
        assert!(said.contains("is under way since"), "{said}");
        merchant.mock(cluster, &["--latency-ms", "0"]).await
    };
    let (answer, looked) = join!(merchant.api.post("/v1/payments", sale(300)), looking);
    looked?;
    merchant.finished(&id(created(&answer?))?).await.map(drop)
}

#[tokio::test]
async fn an_invoice_that_is_not_collected_says_why() -> Result<()> {
    let (cluster, merchant) = (cluster().await?, merchant().await?);
    let why = async |invoice: &str| anyhow::Ok(cluster.ctl(&["invoices", "why", invoice]).await?["why"].to_string());
    let customer = merchant.customer().await?;
    let invoice = async || {
        let body = json!({"customerId": customer, "currency": "USD", "amount": 900});
        id(created(&merchant.api.post("/v1/invoices", body).await?))
    };
    let schedule = async |invoice: &str, at: &str| {
        let path = format!("/v1/invoices/{invoice}/schedule");
        anyhow::Ok(ok(&merchant.api.post(&path, json!({"collectAt": at})).await?).clone())
    };
    let open = invoice().await?;
    assert!(why(&open).await?.contains("not scheduled"));

    created(&merchant.save_card(&customer, "tok_lost").await?);
    let later = invoice().await?;
    schedule(&later, "2999-01-01T00:00:00Z").await?;
    let said = why(&later).await?;
    assert!(
        said.contains("next attempt is made at 2999-01-01") && said.contains("the customer's default card"),
        "{said}"
    );

    let dead = invoice().await?;
    schedule(&dead, "2020-01-01T00:00:00Z").await?;
    let dies = eventually("a dead card", async || {
        let said = why(&dead).await?;
        Ok(said.contains("waits until its customer has another default card").then_some(said))
    });
    let said = dies.await?;
    assert!(said.contains("Attempt 1 failed") && said.contains("lost_card"), "{said}");

    merchant.mock(cluster, &["--without", "payments.create"]).await?;
    assert!(why(&later).await?.contains("cannot take payments"));
    ok(&merchant.api.send(reqwest::Method::POST, &format!("/v1/invoices/{open}/void"), None).await?);
    assert!(why(&open).await?.contains("voided"));
    refused(cluster, &["invoices", "why", "inv_00000000000000000000000000"]).await.map(drop)
}
