//! Operators can stop an advance.

use anyhow::{Context, Result};
use serde_json::json;

use super::faults::BlockedAdvance;
use crate::faults::own_cluster;
use crate::recurring_invoices::{cadence, day, recurring};
use crate::support::{Merchant, created, eventually, ok, with};

/// The advance stops at the current time for the waiting request and for the worker, even if that worker is paused and
/// the next advance starts before it resumes.
#[tokio::test]
async fn operators_can_stop_an_advance() -> Result<()> {
    let mut cluster = own_cluster().await?;
    let merchant = Merchant::new(&cluster).await?;
    let account = merchant.account.id.clone();
    let stop = ["--as", "ada", "clocks", "stop", &account, "--reason", "a leaked key"];
    let not_advancing = cluster.ctl_output(&stop).await?;
    assert!(not_advancing.code == 1 && not_advancing.stderr.contains("not being advanced"), "{not_advancing:?}");

    let customer = merchant.customer().await?;
    let daily = with(recurring(&customer, cadence("daily", 1)), "startDate", day(&merchant, 2).await?);
    created(&merchant.api.post("/v1/recurring_invoices", daily).await?);
    let mut blocked = BlockedAdvance::prepare(&cluster, &merchant).await?;
    let to = merchant.later(&merchant.now().await?, "3 days").await?;
    let (response, stopped) = tokio::join!(merchant.request_advance(&to), async {
        blocked.wait_until_blocked(&merchant).await?;
        cluster.worker(0).pause()?;
        cluster.ctl(&stop).await
    });
    let (response, stopped) = (response?, stopped?);
    assert!(ok(&response).get("pending").is_none(), "{}", response.body);
    let at = stopped["stopped_at"].as_str().context("a timestamp")?.to_owned();
    assert_eq!(stopped["target"], json!(to));
    let returned = response.body["now"].as_str().context("a timestamp")?;
    assert!(
        at.as_str() <= returned && returned < merchant.later(&at, "1 hour").await?.as_str(),
        "{returned} after {at}"
    );
    let now = merchant.now().await?;
    assert!(returned < now.as_str() && now < merchant.later(&at, "1 hour").await?, "the clock keeps ticking: {now}");
    assert_eq!(cluster.ctl_output(&stop).await?.code, 1, "a second stop fails");
    let records = cluster.ctl(&["audit", "list", "--account", &account]).await?;
    let record = &records["audit"][0];
    assert_eq!((&record["action"], &record["actor"]), (&json!("clocks.stop"), &json!("ada")));
    assert_eq!(record["detail"], json!({"at": at, "target": to, "reason": "a leaked key"}));

    // The worker resumes during another advance, which is leased for three seconds and not its own.
    let next = merchant.later(&to, "1 day").await?;
    let (response, resumed) = tokio::join!(merchant.request_advance(&next), async {
        eventually("a pending advance", async || Ok(merchant.clock().await?.get("pending").map(drop))).await?;
        let lease = "UPDATE test_clocks SET lease_until = clock_timestamp() + interval '3 seconds'";
        sqlx::query(lease).execute(&merchant.books.db).await?;
        blocked.unblock().await?;
        cluster.worker(0).resume()
    });
    resumed?;
    ok(&response?);
    assert!(merchant.wait_for_clock().await? >= next);
    for payment in &blocked.payments {
        assert_eq!(merchant.payment(payment).await?["settled"], true);
        assert_eq!(merchant.event_history(payment).await?.len(), 2, "it settled exactly once");
    }
    let invoices = merchant.api.get("/v1/invoices?limit=100").await?;
    let mut issued: Vec<_> =
        ok(&invoices)["data"].as_array().context("a list")?.iter().map(|i| &i["issuedAt"]).collect();
    issued.reverse();
    let mut expected = Vec::new();
    for days in 2..=4 {
        expected.push(json!(format!("{}T00:00:00.000Z", day(&merchant, days).await?)));
    }
    assert_eq!(issued, expected.iter().collect::<Vec<_>>(), "each invoice is dated at its due time");
    Ok(())
}

#[tokio::test]
async fn only_advancing_clocks_can_be_stopped() -> Result<()> {
    let cluster = crate::support::cluster().await?;
    let live = crate::signing::live(cluster).await?;
    for (account, expected) in
        [("acct_00000000000000000000000000", "no such account"), (live.account.id.as_str(), "not being advanced")]
    {
        let output = cluster.ctl_output(&["clocks", "stop", account]).await?;
        assert!(output.code == 1 && output.stderr.contains(expected), "{output:?}");
    }
    let with_card_number = ["clocks", "stop", live.account.id.as_str(), "--reason", "4242424242424242"];
    let output = cluster.ctl_output(&with_card_number).await?;
    assert!(output.code == 1 && output.stderr.contains("card number"), "{output:?}");
    Ok(())
}
