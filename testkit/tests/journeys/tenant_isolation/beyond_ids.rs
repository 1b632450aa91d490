//! Isolation beyond ids in routes: pages, external ids, idempotency keys, test clocks and scheduler runs.

use anyhow::Result;
use reqwest::Method;
use serde_json::{Value, json};

use super::tenant::unknown;
use super::{Tenant, normalized};
use crate::support::{Payer, cluster_without_scheduler, created, id, ok, payment, sale};

/// External ids, idempotency keys, plans and invoice numbers are scoped to an account.
#[tokio::test]
async fn external_ids_and_keys_are_scoped_to_an_account() -> Result<()> {
    let cluster = cluster_without_scheduler().await?;
    let (own, other_tenant) = (Tenant::new(cluster).await?, Tenant::new(cluster).await?);
    let name = other_tenant.own("externalId");
    let keyed = other_tenant.merchant.pay_with_key("one-key", sale(100)).await?;
    let before = other_tenant.books().await?;

    let body = json!({"email": "eve@example.com", "externalId": name});
    let customer = id(created(&own.merchant.api.post("/v1/customers", body).await?))?;
    let found = own.merchant.api.get(&format!("/v1/customers?externalId={name}")).await?;
    assert_eq!(ok(&found)["data"][0]["id"], json!(customer));

    // The other account's key, and a new key.
    for (key, amount) in [("one-key", 100), ("other-key", 200)] {
        let response = own.merchant.pay_with_key(key, sale(amount)).await?;
        assert_ne!(created(&response)["id"], created(&keyed)["id"]);
        assert!(response.header("idempotent-replayed").is_none());
    }
    let response = own.merchant.pay_with_key("one-key", sale(100)).await?;
    assert_eq!(response.header("idempotent-replayed"), Some("true"));

    // Plans are deduplicated per account.
    let price = json!({"name": "Silver", "amount": 3100, "currency": "USD", "interval": "month"});
    created(&other_tenant.merchant.api.post("/v1/plans", price.clone()).await?);
    created(&own.merchant.api.post("/v1/plans", price.clone()).await?);
    assert_eq!(other_tenant.merchant.api.post("/v1/plans", price).await?.status, 200);

    // Invoice numbers are counted per account.
    let body = json!({"customerId": customer, "currency": "USD", "amount": 700});
    let issued = own.merchant.api.post("/v1/invoices", body).await?;
    assert_eq!(created(&issued)["number"], "INV-000004", "{}", issued.body);

    let mut now = other_tenant.books().await?;
    // Except the plan that the other account created above.
    now.insert("plans".to_owned(), before["plans"].clone());
    assert_eq!(now, before);
    Ok(())
}

/// Scheduler runs and test clocks affect only the account of the key.
#[tokio::test]
async fn scheduler_runs_and_clocks_are_scoped_to_an_account() -> Result<()> {
    let cluster = cluster_without_scheduler().await?;
    let (own, other_tenant) = (Tenant::new(cluster).await?, Tenant::new(cluster).await?);
    let before = other_tenant.books().await?;
    // Each account has one due invoice; a run collects only its own.
    let run = own.merchant.api.post("/v1/invoices/scheduler/run", json!({})).await?;
    assert_eq!(ok(&run)["claimed"], 1, "{}", run.body);
    let to = own.merchant.advance("1 year").await?;
    assert!(own.merchant.now().await? >= to);
    other_tenant.assert_unchanged(&before, "another account's run and clock").await?;
    assert!(other_tenant.merchant.now().await? < to);
    Ok(())
}

/// A page shows only its own invoice or link, and accepts only payment tokens of its account.
#[tokio::test]
async fn pages_are_scoped_to_one_object_of_one_account() -> Result<()> {
    let cluster = cluster_without_scheduler().await?;
    let (own, other_tenant) = (Tenant::new(cluster).await?, Tenant::new(cluster).await?);
    let api = cluster.api_url(0);
    let object = async |tenant: &Tenant, path: &str, kind: &str| -> Result<Value> {
        let id = tenant.owned[kind].last().expect("one").clone();
        Ok(ok(&tenant.merchant.api.get(&format!("{path}/{id}")).await?).clone())
    };
    for (path, kind, other) in [("/v1/invoices", "inv", "/pay/l/"), ("/v1/payment_links", "plink", "/pay/i/")] {
        let payer = Payer::for_object(&object(&own, path, kind).await?, &api)?;
        let before = other_tenant.books().await?;
        // Neither an id nor a token of another kind of page opens a page.
        let unknown_page = payer.at(&format!("{other}nothing")).open().await?;
        for path in [format!("{other}{}", payer.token()), payer.path().replace(payer.token(), &other_tenant.own(kind))]
        {
            let page = payer.at(&path).open().await?;
            assert_eq!(page.response.status, 404, "{path}");
            assert_eq!(normalized(&page.response, "-"), normalized(&unknown_page.response, "-"), "{path}");
        }
        // The id of a foreign payment shows the same page as an unknown id.
        let expected = payer.at(&format!("{}?payment={}", payer.path(), unknown("pay"))).open().await?;
        for foreign in &other_tenant.owned["pay"] {
            let page = payer.at(&format!("{}?payment={foreign}", payer.path())).open().await?;
            assert_eq!(normalized(&page.response, foreign), normalized(&expected.response, &unknown("pay")));
        }
        // A payment token of another account is rejected and stays unused.
        let refused = payer.submit(&other_tenant.own("token")).await?;
        assert_eq!(refused.status, 422, "{}", String::from_utf8_lossy(&refused.bytes));
        other_tenant.assert_unchanged(&before, "a page of another account").await?;
        assert!(payer.open().await?.has_pay_button());
    }
    // The token still works in its own account.
    created(&other_tenant.merchant.api.post("/v1/payments", payment(100, &other_tenant.own("token"))).await?);
    Ok(())
}

/// A session cannot be exchanged with another account's publishable key.
#[tokio::test]
async fn sessions_are_exchanged_only_by_their_account() -> Result<()> {
    let cluster = cluster_without_scheduler().await?;
    let (own, other_tenant) = (Tenant::new(cluster).await?, Tenant::new(cluster).await?);
    let session = other_tenant.own("cs");
    let body = json!({"sessionId": session, "upstreamToken": "tok_ok"}).to_string();
    let foreign = own.browser.api.send(Method::POST, "/v1/tokens", Some(body.into_bytes())).await?;
    assert_eq!(foreign.status, 404, "{}", foreign.body);
    created(&other_tenant.browser.exchange(&session, "tok_ok").await?);
    Ok(())
}
