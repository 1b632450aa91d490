//! `ctl why`: whatever an operator has in hand leads to what it is, and whose.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::{at_provider, refused, text};
use crate::support::{accepted, cluster, created, eventually, id, merchant, sale, with};

#[tokio::test]
async fn whatever_is_known_of_a_payment_leads_to_it() -> Result<()> {
    let (cluster, merchant) = (cluster().await?, merchant().await?);
    let email = format!("Ada.{}@Example.com", merchant.account.id.to_lowercase());
    let customer = id(created(&merchant.api.post("/v1/customers", json!({"email": email, "name": "Ada"})).await?))?;
    let card = id(created(&merchant.save_card(&customer, "tok_ok").await?))?;
    let answer = merchant.api.post("/v1/payments", sale(700)).await?;
    let request = answer.header("request-id").context("a request id")?.to_owned();
    let payment = id(created(&answer))?;
    let refund = id(accepted(&merchant.refund(&payment, Some(200)).await?))?;
    merchant.becomes(&payment, "partially_refunded").await?;
    let why = async |known: &str| cluster.ctl(&["why", known, "--account", &merchant.account.id]).await;
    let story = why(&payment).await?;
    assert_eq!(story["found"][0]["what"], "payment");
    assert!(story["verdict"].is_array() && story["story"].is_array(), "one payment is told whole: {story}");
    let operations: Vec<_> =
        story["story"].as_array().context("a story")?.iter().filter(|row| row["what"] == "operation written").collect();
    let (sale, back) = (text(operations[0], "id"), text(operations[1], "id"));
    // The provider's names: of the charge, and of what followed it.
    let (charge, refunded) = (at_provider(&merchant, &sale).await?, at_provider(&merchant, &back).await?);
    for known in [&sale, &back, &refund, &request, &charge, &refunded] {
        let found = why(known).await?;
        assert_eq!(
            (&found["found"][0]["payment"], &found["payment"]["id"]),
            (&json!(payment), &json!(payment)),
            "{known}"
        );
        assert_eq!(found["found"][0]["account"], json!(merchant.account.id));
        assert!(text(&found["found"][0], "requested_by").starts_with("key_"), "{found}");
    }
    let by_email = why(&email.to_lowercase()).await?;
    assert_eq!((&by_email["found"][0]["what"], &by_email["found"][0]["id"]), (&json!("customer"), &json!(customer)));
    let last4 = story["payment"]["card"]["last4"].as_str().context("a card")?;
    let by_card = why(last4).await?;
    assert!(by_card["found"].as_array().context("a list")?.iter().any(|row| row["id"] == json!(payment)), "{by_card}");
    for (known, what) in [(&customer, "customer"), (&card, "payment method"), (&merchant.account.id, "account")] {
        assert_eq!(why(known).await?["found"][0]["what"], what);
    }
    let shown = cluster.ctl_to_its_end(&["why", &payment]).await?;
    assert!(shown.code == 0 && shown.printed.starts_with("WHAT"), "people see a table: {}", shown.printed);
    Ok(())
}

#[tokio::test]
async fn what_is_known_by_nothing_says_so() -> Result<()> {
    let cluster = cluster().await?;
    for nothing in [
        "pay_00000000000000000000000000",
        "req_00000000000000000000000000",
        "nobody@nowhere.example",
        "no such name",
        "",
    ] {
        let said = refused(cluster, &["why", nothing]).await?;
        assert!(said.contains("nothing is known by that") || said.contains("give an id"), "{nothing}: {said}");
    }
    Ok(())
}

/// Money that no payment wants, and what is late, each as a list.
#[tokio::test]
async fn what_the_runbooks_look_at_is_listed() -> Result<()> {
    let (cluster, merchant) = (cluster().await?, merchant().await?);
    let account = merchant.account.id.clone();
    let orphan = "INSERT INTO orphans (provider_account_id, provider_ref, account_id, reference, occurred_at)
                  SELECT id, $2, account_id, 'theirs', clock_timestamp() FROM provider_accounts WHERE account_id = $1";
    let stray = format!("mock_stray_{account}");
    sqlx::query(orphan).bind(merchant.books.account).bind(&stray).execute(&merchant.books.db).await?;
    let listed = cluster.ctl(&["orphans", "list", "--account", &account]).await?;
    assert_eq!(
        (&listed["orphans"][0]["provider_ref"], &listed["orphans"][1]),
        (&json!(stray), &Value::Null),
        "{listed}"
    );
    assert_eq!(cluster.ctl(&["why", &stray]).await?["found"][0]["what"], "orphan");

    merchant.mock(cluster, &["--class", "c", "--refuse"]).await?;
    let failed = merchant.api.post("/v1/payments", with(sale(100), "capture", true)).await?;
    assert_eq!(created(&failed)["status"], "failed");
    let why = cluster.ctl(&["operations", "failures", "--account", &account]).await?;
    assert_eq!(
        (&why["failures"][0]["code"], &why["failures"][0]["count"]),
        (&json!("provider_unavailable"), &json!(1)),
        "{why}"
    );
    let volume = cluster.ctl(&["accounts", "volume", &account, "--last", "1h"]).await?;
    assert_eq!((&volume["volume"][0]["payments"], &volume["volume"][0]["failed"]), (&json!(1), &json!(1)), "{volume}");
    for list in [
        &["anomalies", "list", "--refused"][..],
        &["breakers", "list"],
        &["statements", "list"],
        &["due", "billing"],
        &["due", "operations"],
        &["due", "collections"],
        &["due", "cycles"],
        &["webhooks", "backlog"],
        &["webhooks", "list", "--status", "DISABLED", "--failing"],
        &["accounts", "list", "--mode", "Live", "--name", "x"],
        &["operations", "list", "--kind", "refund", "--state", "unknown"],
        &["operations", "list", "--most-handed-out"],
        &["keys", "list", "--in-use", "--kind", "publishable"],
        &["gateway", "transactions"],
        &["gateway", "limits"],
        &["gateway", "receipts"],
    ] {
        cluster.ctl(list).await.with_context(|| list.join(" "))?;
    }
    Ok(())
}

#[tokio::test]
async fn an_operation_is_held_for_a_while_and_withheld_for_good() -> Result<()> {
    let (cluster, merchant) = (cluster().await?, merchant().await?);
    let payment = merchant.sold(900).await?;
    merchant.mock(cluster, &["--refuse"]).await?;
    accepted(&merchant.refund(&payment, Some(300)).await?);
    let waits = async || {
        let listed =
            cluster.ctl(&["operations", "list", "--account", &merchant.account.id, "--kind", "refund"]).await?;
        anyhow::Ok(listed["operations"].as_array().context("a list")?.first().cloned())
    };
    let refund = eventually("a refund that waits for the provider", async || {
        Ok(waits().await?.filter(|row| row["state"] == "ready" && row["fence"].as_i64() > Some(0)))
    });
    let operation = text(&refund.await?, "id");
    let held = cluster.ctl(&["operations", "hold", &operation, "--for", "2h", "--reason", "it ends workers"]).await?;
    assert_eq!(held["held_for_seconds"], 7200);
    merchant.mock(cluster, &["--latency-ms", "0"]).await?;
    let withheld = cluster.ctl(&["operations", "withhold", &operation, "--reason", "after a restore"]).await?;
    assert_eq!(withheld["waits_for"], "a person");
    let waiting = cluster.ctl(&["operations", "list", "--unknown", "--account", &merchant.account.id]).await?;
    assert_eq!(waiting["operations"][0]["waits_for"], "a person", "{waiting}");
    refused(cluster, &["operations", "hold", &operation, "--reason", "again"]).await?;
    let audit = cluster.ctl(&["audit", "list", "--account", &merchant.account.id]).await?;
    let actions: Vec<_> = audit["audit"].as_array().context("a list")?.iter().map(|row| text(row, "action")).collect();
    assert!(
        ["operations.hold", "operations.withhold"].iter().all(|one| actions.iter().any(|done| done == one)),
        "{actions:?}"
    );
    Ok(())
}
