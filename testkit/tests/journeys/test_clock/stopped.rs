//! An operator ends an advance.

use anyhow::{Context, Result};
use serde_json::json;

use super::faults::Halfway;
use crate::faults::own_cluster;
use crate::recurring_invoices::{cadence, day, recurring};
use crate::support::{Merchant, created, eventually, ok, with};

/// It ends where the clock stands, for whoever waits and for the worker at it, though that one sleeps and another advance begins
/// before it looks again.
#[tokio::test]
async fn an_operator_ends_an_advance_where_the_clock_stands() -> Result<()> {
    let mut cluster = own_cluster().await?;
    let merchant = Merchant::new(&cluster).await?;
    let account = merchant.account.id.clone();
    let stop = ["--as", "ada", "clocks", "stop", &account, "--reason", "a leaked key"];
    let none = cluster.ctl_to_its_end(&stop).await?;
    assert!(none.code == 1 && none.complaint.contains("not being advanced"), "{none:?}");

    let customer = merchant.customer().await?;
    let daily = with(recurring(&customer, cadence("daily", 1)), "startDate", day(&merchant, 2).await?);
    created(&merchant.api.post("/v1/recurring_invoices", daily).await?);
    let mut halfway = Halfway::prepare(&cluster, &merchant).await?;
    let to = merchant.later(&merchant.now().await?, "3 days").await?;
    let (asked, stopped) = tokio::join!(merchant.ask_to_advance(&to), async {
        halfway.reached(&merchant).await?;
        cluster.worker(0).pause()?;
        cluster.ctl(&stop).await
    });
    let (asked, stopped) = (asked?, stopped?);
    assert!(ok(&asked).get("pending").is_none(), "{}", asked.body);
    let at = stopped["stopped_at"].as_str().context("an instant")?.to_owned();
    assert_eq!(stopped["target"], json!(to));
    let told = asked.body["now"].as_str().context("an instant")?;
    assert!(at.as_str() <= told && told < merchant.later(&at, "1 hour").await?.as_str(), "{told} after {at}");
    let ticks = merchant.now().await?;
    assert!(told < ticks.as_str() && ticks < merchant.later(&at, "1 hour").await?, "it ticks on: {ticks}");
    assert_eq!(cluster.ctl_to_its_end(&stop).await?.code, 1, "it is refused a second time");
    let records = cluster.ctl(&["audit", "list", "--account", &account]).await?;
    let record = &records["audit"][0];
    assert_eq!((&record["action"], &record["actor"]), (&json!("clocks.stop"), &json!("ada")));
    assert_eq!(record["detail"], json!({"at": at, "target": to, "reason": "a leaked key"}));

    // The worker finds another advance under way, which nobody can take for a moment. It is not its own.
    let farther = merchant.later(&to, "1 day").await?;
    let (asked, resumed) = tokio::join!(merchant.ask_to_advance(&farther), async {
        eventually("an advance", async || Ok(merchant.clock().await?.get("pending").map(drop))).await?;
        let later = "UPDATE test_clocks SET lease_until = clock_timestamp() + interval '3 seconds'";
        sqlx::query(later).execute(&merchant.books.db).await?;
        halfway.goes_on().await?;
        cluster.worker(0).resume()
    });
    resumed?;
    ok(&asked?);
    assert!(merchant.ticks().await? >= farther);
    for payment in &halfway.payments {
        assert_eq!(merchant.payment(payment).await?["settled"], true);
        assert_eq!(merchant.history(payment).await?.len(), 2, "it settled once");
    }
    let invoices = merchant.api.get("/v1/invoices?limit=100").await?;
    let mut issued: Vec<_> =
        ok(&invoices)["data"].as_array().context("a list")?.iter().map(|i| &i["issuedAt"]).collect();
    issued.reverse();
    let mut expected = Vec::new();
    for days in 2..=4 {
        expected.push(json!(format!("{}T00:00:00.000Z", day(&merchant, days).await?)));
    }
    assert_eq!(issued, expected.iter().collect::<Vec<_>>(), "each at its own instant, as an advance does it");
    Ok(())
}

#[tokio::test]
async fn no_clock_but_that_of_an_account_can_be_stopped() -> Result<()> {
    let cluster = crate::support::cluster().await?;
    let live = crate::signing::live(cluster).await?;
    for (account, complaint) in
        [("acct_00000000000000000000000000", "no such account"), (live.account.id.as_str(), "not being advanced")]
    {
        let refused = cluster.ctl_to_its_end(&["clocks", "stop", account]).await?;
        assert!(refused.code == 1 && refused.complaint.contains(complaint), "{refused:?}");
    }
    let numbered = ["clocks", "stop", live.account.id.as_str(), "--reason", "4242424242424242"];
    let refused = cluster.ctl_to_its_end(&numbered).await?;
    assert!(refused.code == 1 && refused.complaint.contains("card number"), "{refused:?}");
    Ok(())
}
