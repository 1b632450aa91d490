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
async fn customers_are_shown_with_their_latest_payments_and_invoices() -> Result<()> {
    let (cluster, merchant) = (cluster().await?, merchant().await?);
    let email = format!("grace.{}@example.com", merchant.account.id.to_lowercase());
    let mut customers = Vec::new();
    for (payments, invoices) in [(7, 1), (5, 6), (0, 0)] {
        let customer =
            id(created(&merchant.api.post("/v1/customers", json!({"email": email, "name": "Grace"})).await?))?;
        let card = id(created(&merchant.save_card(&customer, "tok_ok").await?))?;
        let (mut paid, mut billed) = (Vec::new(), Vec::new());
        for n in 1..=payments {
            let body = json!({"amount": 100 + n, "currency": "USD", "paymentMethodId": card});
            paid.insert(0, id(created(&merchant.api.post("/v1/payments", body).await?))?);
        }
        for n in 1..=invoices {
            let body = json!({"customerId": customer, "currency": "USD", "amount": 200 + n});
            billed.insert(0, id(created(&merchant.api.post("/v1/invoices", body).await?))?);
        }
        customers.push((customer, paid, billed));
    }
    let of = |output: &Value, list: &str, customer: &str| {
        let rows = output[list].as_array().into_iter().flatten();
        rows.filter(|row| row["customer"] == customer).map(|row| text(row, "id")).collect::<Vec<_>>()
    };
    let by_email = cluster.ctl(&["why", &email.to_uppercase(), "--account", &merchant.account.id]).await?;
    for (customer, paid, billed) in &customers {
        for output in [&by_email, &cluster.ctl(&["why", customer]).await?] {
            assert_eq!(of(output, "payments", customer), paid[..paid.len().min(5)], "{output}");
            assert_eq!(of(output, "invoices", customer), billed[..billed.len().min(5)], "{output}");
        }
    }
    assert_eq!(by_email["more_payments_of"], json!(customers[0].0), "{by_email}");
    assert_eq!(by_email["more_invoices_of"], json!(customers[1].0), "{by_email}");
    let newest = &cluster.ctl(&["why", &customers[0].0]).await?["payments"][0];
    assert_eq!(
        (&newest["status"], &newest["amount"], &newest["currency"]),
        (&json!("pending_settlement"), &json!(107), &json!("USD"))
    );
    assert_eq!(newest["created_at"], merchant.payment(&customers[0].1[0]).await?["createdAt"]);
    let shown = cluster.ctl_output(&["why", &customers[0].0]).await?;
    assert!(shown.stdout.contains(&customers[0].1[0]) && shown.stdout.contains("more_payments_of"), "{}", shown.stdout);
    Ok(())
}

#[tokio::test]
async fn all_payments_with_a_card_are_found_page_by_page() -> Result<()> {
    let (cluster, merchant) = (cluster().await?, merchant().await?);
    let payment = merchant.charge(700).await?;
    merchant.copy_payment(&payment, 150).await?;
    let last4 = merchant.payment(&payment).await?["card"]["last4"].as_str().context("a card")?.to_owned();
    let ids = |output: &Value| {
        output["found"].as_array().into_iter().flatten().map(|row| text(row, "id")).collect::<Vec<_>>()
    };
    let of_account = ["why", &last4, "--account", &merchant.account.id];
    let first = cluster.ctl(&of_account).await?;
    let before = text(&first, "searched_back_to");
    let rest = cluster.ctl(&[&of_account[..], &["--before", &before]].concat()).await?;
    let mut found = [ids(&first), ids(&rest)].concat();
    assert_eq!((ids(&first).len(), found.len(), &found[0]), (100, 151, &payment));
    assert!(found.is_sorted_by(|a, b| a > b), "newest first, none twice");
    assert_eq!(rest["searched_back_to"], Value::Null);
    let anywhere = cluster.ctl(&["why", &last4]).await?;
    found = ids(&anywhere);
    assert!(found.len() == 100 && found.is_sorted_by(|a, b| a > b), "{anywhere}");
    Ok(())
}

#[tokio::test]
async fn references_of_disputes_and_of_refunds_that_return_a_charge_are_found() -> Result<()> {
    let (cluster, merchant) = (cluster().await?, merchant().await?);
    let payment = merchant.charge(700).await?;
    accepted(&merchant.refund(&payment, Some(200)).await?);
    merchant.wait_for_status(&payment, "partially_refunded").await?;
    let returned = "UPDATE operations SET kind = 'reverse_by_refund', refund_id = NULL
                    WHERE account_id = $1 AND kind = 'refund' RETURNING provider_ref";
    let returned: String =
        sqlx::query_scalar(returned).bind(merchant.books.account).fetch_one(&merchant.books.db).await?;
    let dispute = merchant.dispute(&payment).await?;
    let disputed: String = sqlx::query_scalar("SELECT provider_ref FROM disputes WHERE account_id = $1")
        .bind(merchant.books.account)
        .fetch_one(&merchant.books.db)
        .await?;
    assert_eq!(cluster.ctl(&["why", &returned]).await?["found"][0]["payment"], json!(payment));
    let found = cluster.ctl(&["why", &disputed]).await?;
    assert_eq!((&found["found"][0]["id"], &found["found"][0]["payment"]), (&json!(dispute), &json!(payment)));
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
