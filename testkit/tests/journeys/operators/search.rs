//! `ctl why` identifies an object and its account by any identifier, and the lists of the runbooks.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::{ctl_error, provider_ref, text};
use crate::support::{accepted, cluster, created, eventually, id, merchant, sale, with};

#[tokio::test]
async fn any_identifier_of_a_payment_finds_it() -> Result<()> {
    let (cluster, merchant) = (cluster().await?, merchant().await?);
    let email = format!("Ada.{}@Example.com", merchant.account.id.to_lowercase());
    let customer = id(created(&merchant.api.post("/v1/customers", json!({"email": email, "name": "Ada"})).await?))?;
    let card = id(created(&merchant.save_card(&customer, "tok_ok").await?))?;
    let response = merchant.api.post("/v1/payments", sale(700)).await?;
    let request = response.header("request-id").context("a request id")?.to_owned();
    let payment = id(created(&response))?;
    let refund = id(accepted(&merchant.refund(&payment, Some(200)).await?))?;
    merchant.wait_for_status(&payment, "partially_refunded").await?;
    let why = async |identifier: &str| cluster.ctl(&["why", identifier, "--account", &merchant.account.id]).await;
    let output = why(&payment).await?;
    assert_eq!(output["found"][0]["what"], "payment");
    assert!(
        output["verdict"].is_array() && output["story"].is_array(),
        "a single payment is shown with its history: {output}"
    );
    let operations: Vec<_> = output["story"]
        .as_array()
        .context("a timeline")?
        .iter()
        .filter(|row| row["what"] == "operation written")
        .collect();
    let (sale_operation, refund_operation) = (text(operations[0], "id"), text(operations[1], "id"));
    // The provider's references of the charge and of the refund.
    let (charge, refunded) =
        (provider_ref(&merchant, &sale_operation).await?, provider_ref(&merchant, &refund_operation).await?);
    for identifier in [&sale_operation, &refund_operation, &refund, &request, &charge, &refunded] {
        let found = why(identifier).await?;
        assert_eq!(
            (&found["found"][0]["payment"], &found["payment"]["id"]),
            (&json!(payment), &json!(payment)),
            "{identifier}"
        );
        assert_eq!(found["found"][0]["account"], json!(merchant.account.id));
        assert!(text(&found["found"][0], "requested_by").starts_with("key_"), "{found}");
    }
    let by_email = why(&email.to_lowercase()).await?;
    assert_eq!((&by_email["found"][0]["what"], &by_email["found"][0]["id"]), (&json!("customer"), &json!(customer)));
    let last4 = output["payment"]["card"]["last4"].as_str().context("a card")?;
    let by_card = why(last4).await?;
    assert!(by_card["found"].as_array().context("a list")?.iter().any(|row| row["id"] == json!(payment)), "{by_card}");
    for (identifier, what) in [(&customer, "customer"), (&card, "payment method"), (&merchant.account.id, "account")] {
        assert_eq!(why(identifier).await?["found"][0]["what"], what);
    }
    let shown = cluster.ctl_output(&["why", &payment]).await?;
    assert!(shown.code == 0 && shown.stdout.starts_with("WHAT"), "the default output is a table: {}", shown.stdout);
    Ok(())
}

#[tokio::test]
async fn unknown_identifiers_are_reported() -> Result<()> {
    let cluster = cluster().await?;
    for unknown in [
        "pay_00000000000000000000000000",
        "req_00000000000000000000000000",
        "nobody@nowhere.example",
        "no such name",
        "",
    ] {
        let message = ctl_error(cluster, &["why", unknown]).await?;
        assert!(message.contains("nothing matches") || message.contains("give an id"), "{unknown}: {message}");
    }
    Ok(())
}

/// The lists of orphans, failures and overdue work.
#[tokio::test]
async fn lists_used_by_the_runbooks_work() -> Result<()> {
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
async fn operations_can_be_held_and_withheld() -> Result<()> {
    let (cluster, merchant) = (cluster().await?, merchant().await?);
    let payment = merchant.charge(900).await?;
    merchant.mock(cluster, &["--refuse"]).await?;
    accepted(&merchant.refund(&payment, Some(300)).await?);
    let first_refund = async || {
        let listed =
            cluster.ctl(&["operations", "list", "--account", &merchant.account.id, "--kind", "refund"]).await?;
        anyhow::Ok(listed["operations"].as_array().context("a list")?.first().cloned())
    };
    let refund = eventually("a refund that waits for the provider", async || {
        Ok(first_refund().await?.filter(|row| row["state"] == "ready" && row["fence"].as_i64() > Some(0)))
    });
    let operation = text(&refund.await?, "id");
    let held = cluster.ctl(&["operations", "hold", &operation, "--for", "2h", "--reason", "it ends workers"]).await?;
    assert_eq!(held["held_for_seconds"], 7200);
    merchant.mock(cluster, &["--latency-ms", "0"]).await?;
    let withheld = cluster.ctl(&["operations", "withhold", &operation, "--reason", "after a restore"]).await?;
    assert_eq!(withheld["waits_for"], "an operator");
    let waiting = cluster.ctl(&["operations", "list", "--unknown", "--account", &merchant.account.id]).await?;
    assert_eq!(waiting["operations"][0]["waits_for"], "an operator", "{waiting}");
    ctl_error(cluster, &["operations", "hold", &operation, "--reason", "again"]).await?;
    let audit = cluster.ctl(&["audit", "list", "--account", &merchant.account.id]).await?;
    let actions: Vec<_> = audit["audit"].as_array().context("a list")?.iter().map(|row| text(row, "action")).collect();
    assert!(
        ["operations.hold", "operations.withhold"].iter().all(|name| actions.iter().any(|action| action == name)),
        "{actions:?}"
    );
    Ok(())
}
