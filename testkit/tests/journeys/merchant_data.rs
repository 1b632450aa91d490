//! A merchant's own data on objects: metadata, external ids, descriptions, and the versions that show each change.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::support::{
    Merchant, Payer, accepted, cluster, created, eventually, id, ids, invalid, merchant, not_found, ok, payment, sale,
    with, without,
};

/// What the tests store.
fn own() -> Value {
    json!({"order": "1042", "note": "two\nlines", "empty": ""})
}

/// A body for each resource whose objects have own data, without it.
async fn bodies(merchant: &Merchant) -> Result<Vec<(&'static str, Value)>> {
    let customer = merchant.customer().await?;
    created(&merchant.save_card(&customer, "tok_ok").await?);
    let plan = json!({"name": "Gold", "amount": 700, "currency": "USD", "interval": "month"});
    let first_plan = id(created(&merchant.api.post("/v1/plans", with(plan.clone(), "amount", 800)).await?))?;
    let item = json!([{"description": "Rent", "quantity": 1, "unitAmount": 500}]);
    Ok(vec![
        ("payments", sale(500)),
        ("customers", json!({"email": "ada@example.com"})),
        ("payment_methods", json!({"customerId": customer, "paymentToken": "tok_ok"})),
        ("plans", plan),
        ("subscriptions", json!({"customerId": customer, "planId": first_plan, "startAt": "2199-01-01"})),
        ("invoices", json!({"customerId": customer, "currency": "USD", "amount": 500})),
        (
            "recurring_invoices",
            json!({"customerId": customer, "cadence": {"unit": "monthly"}, "startDate": "2090-01-01",
                   "template": {"currency": "USD", "items": item}}),
        ),
        ("payment_links", json!({"amount": 500, "currency": "USD"})),
        ("webhook_endpoints", json!({"url": "https://hooks.example/in", "enabledEvents": ["invoice.voided"]})),
    ])
}

fn list(resource: &str, object: &Value) -> String {
    match resource {
        "payment_methods" => {
            format!("/v1/payment_methods?customerId={}", object["customerId"].as_str().unwrap_or_default())
        }
        _ => format!("/v1/{resource}"),
    }
}

/// The object as its list shows it.
async fn listed(merchant: &Merchant, resource: &str, object: &Value) -> Result<Value> {
    let page = merchant.api.get(&list(resource, object)).await?;
    let rows = ok(&page)["data"].as_array().context("a list")?;
    rows.iter().find(|row| row["id"] == object["id"]).cloned().with_context(|| format!("not in {resource}"))
}

#[tokio::test]
async fn merchant_data_is_shown_everywhere_and_can_be_changed() -> Result<()> {
    let (merchant, stranger) = (merchant().await?, merchant().await?);
    for (resource, body) in bodies(&merchant).await? {
        let has_external_id = resource != "webhook_endpoints";
        let sent = with(body, "metadata", own());
        let sent = if has_external_id { with(sent, "externalId", "é-7") } else { sent };
        let response = merchant.api.post(&format!("/v1/{resource}"), sent).await?;
        let made = without(created(&response).clone(), "secret");
        assert_eq!(made["metadata"], own(), "{resource}: {made}");
        assert_eq!(made.get("externalId").is_some(), has_external_id, "{resource}: {made}");
        assert_eq!(listed(&merchant, resource, &made).await?, made, "{resource}");
        let (path, events) = (format!("/v1/{resource}/{}", id(&made)?), merchant.books.events(&id(&made)?).await?);
        if let Some((_, last)) = events.last() {
            assert_eq!(last, &made, "{resource}");
        }

        // A pair set to null goes, the others stay.
        let change = json!({"metadata": {"note": null, "unknown": null, "more": "y"}, "externalId": null});
        let change = match resource {
            // The external id of a customer is set once.
            "customers" | "webhook_endpoints" => without(change, "externalId"),
            _ => change,
        };
        not_found(&stranger.api.post(&path, change.clone()).await?);
        let response = merchant.api.post(&path, change.clone()).await?;
        let changed = ok(&response);
        assert_eq!(changed["metadata"], json!({"empty": "", "more": "y", "order": "1042"}), "{resource}");
        assert_eq!(changed.get("externalId").is_some(), resource == "customers", "{resource}");
        let raised = made["version"].as_i64().context("a version")? + 1;
        assert_eq!(changed["version"], raised, "{resource}");
        assert_eq!(&listed(&merchant, resource, &made).await?, changed, "{resource}");
        // Nothing changes: the version stays.
        assert_eq!(ok(&merchant.api.post(&path, change).await?), changed, "{resource}");
        assert_eq!(ok(&merchant.api.post(&path, json!({"metadata": null})).await?), changed, "{resource}");
        let events = merchant.books.events(&id(&made)?).await?.len() - events.len();
        assert_eq!(events, usize::from(resource == "customers"), "{resource}");
        let gone = json!({"metadata": {"empty": null, "more": null, "order": null}});
        let emptied = merchant.api.post(&path, gone).await?;
        assert!(ok(&emptied).get("metadata").is_none(), "{resource}: {}", emptied.body);
        assert_eq!(emptied.body["version"], raised + 1, "{resource}");
    }
    Ok(())
}

#[tokio::test]
async fn merchant_data_is_limited() -> Result<()> {
    let merchant = merchant().await?;
    let pairs = |count: usize, length: usize| {
        (0..count).map(|i| (format!("key{i:02}"), json!("x".repeat(length)))).collect::<Value>()
    };
    let bad =
        [json!([]), json!("a"), json!(1), json!({"a": 1}), json!({"a": {}}), json!({"a": true}), json!({"": "a"})];
    let bad = [&bad[..], &[pairs(51, 1), pairs(1, 501), pairs(33, 495), json!({"k".repeat(41): "a"})]].concat();
    for (resource, body) in bodies(&merchant).await? {
        let path = format!("/v1/{resource}");
        for bad in &bad {
            invalid(&merchant.api.post(&path, with(body.clone(), "metadata", bad.clone())).await?, "metadata");
        }
        if resource == "webhook_endpoints" {
            invalid(&merchant.api.post(&path, with(body, "externalId", "a")).await?, "externalId");
            continue;
        }
        for bad in [json!(""), json!("x".repeat(129)), json!(1), json!("a\u{7}")] {
            invalid(&merchant.api.post(&path, with(body.clone(), "externalId", bad)).await?, "externalId");
        }
    }
    let path = format!("/v1/payments/{}", merchant.charge(100).await?);
    let full = merchant.api.post(&path, json!({"metadata": pairs(50, 0), "externalId": "x".repeat(128)})).await?;
    assert_eq!(ok(&full)["metadata"].as_object().map(serde_json::Map::len), Some(50));
    invalid(&merchant.api.post(&path, json!({"metadata": {"more": "a"}})).await?, "metadata");
    assert_eq!(merchant.payment(&id(&full.body)?).await?, full.body, "a rejected change changes nothing");
    ok(&merchant.api.post(&path, json!({"metadata": {"key01": null, "more": "a"}})).await?);
    // Only the two fields can be changed.
    invalid(&merchant.api.post(&path, json!({"description": "a"})).await?, "description");
    Ok(())
}

#[tokio::test]
async fn refunds_and_existing_plans_keep_their_merchant_data() -> Result<()> {
    let merchant = merchant().await?;
    let sold = merchant.charge(1000).await?;
    let path = format!("/v1/payments/{sold}/refund");
    let body = json!({"amount": 300, "metadata": own(), "externalId": "r-1"});
    let refund = merchant.api.post(&path, body.clone()).await?;
    assert_eq!((&accepted(&refund)["metadata"], &refund.body["version"]), (&own(), &json!(1)));
    let done = merchant.wait_for_status(&sold, "partially_refunded").await?;
    let shown = &done["refunds"][0];
    assert_eq!((&shown["metadata"], &shown["version"], &shown["externalId"]), (&own(), &json!(2), &json!("r-1")));
    // The amount decides whether a request is the same one.
    let again = merchant.api.post(&path, with(body, "metadata", json!({"other": "a"}))).await?;
    assert_eq!((accepted(&again), again.header("idempotent-replayed")), (shown, Some("true")));
    merchant.assert_consistent(&sold, "sale 1000, refund 300", &["payment.captured", "payment.refunded"]).await?;

    let plan = json!({"name": "Gold", "amount": 1, "currency": "USD", "interval": "day", "metadata": {"first": "1"}});
    let first = created(&merchant.api.post("/v1/plans", plan.clone()).await?).clone();
    let second = merchant.api.post("/v1/plans", with(plan, "metadata", json!({"second": "2"}))).await?;
    assert_eq!(ok(&second), &first);
    Ok(())
}

/// The payment of an invoice, once it is paid.
async fn payment_of(merchant: &Merchant, invoice: &str) -> Result<Value> {
    let paid = eventually("a paid invoice", async || {
        let read = merchant.api.get(&format!("/v1/invoices/{invoice}")).await?.body;
        Ok(read["paymentId"].as_str().map(str::to_owned))
    });
    merchant.payment(&paid.await?).await
}

#[tokio::test]
async fn metadata_is_copied_to_invoices_and_payments() -> Result<()> {
    let merchant = merchant().await?;
    let customer = merchant.customer().await?;
    created(&merchant.save_card(&customer, "tok_ok").await?);
    let plan = json!({"name": "Gold", "amount": 700, "currency": "USD", "interval": "month"});
    let plan = id(created(&merchant.api.post("/v1/plans", plan).await?))?;
    let body = json!({"customerId": customer, "planId": plan, "metadata": own(), "externalId": "s-1"});
    let subscription = merchant.api.post("/v1/subscriptions", body).await?;
    let invoice = created(&subscription)["latestInvoiceId"].as_str().context("an invoice")?.to_owned();
    let paid = payment_of(&merchant, &invoice).await?;
    assert_eq!((&paid["metadata"], paid.get("externalId")), (&own(), None), "{paid}");
    let invoice = merchant.api.get(&format!("/v1/invoices/{invoice}")).await?;
    assert_eq!((&ok(&invoice)["metadata"], invoice.body.get("externalId")), (&own(), None), "{}", invoice.body);
    let (_, last) = merchant.books.events(&id(&invoice.body)?).await?.pop().context("an event")?;
    assert_eq!(last, invoice.body, "the event of a paid invoice has its version");

    let items = json!([{"description": "Rent", "quantity": 1, "unitAmount": 500}]);
    let body = json!({"customerId": customer, "cadence": {"unit": "daily"}, "metadata": own(),
        "template": {"currency": "USD", "items": items}});
    let recurring = id(created(&merchant.api.post("/v1/recurring_invoices", body).await?))?;
    let produced = eventually("an invoice", async || {
        let page = merchant.api.get("/v1/invoices").await?.body;
        Ok(page["data"].as_array().into_iter().flatten().find(|row| row["recurringInvoiceId"] == recurring).cloned())
    })
    .await?;
    assert_eq!(produced["metadata"], own());

    let link = merchant.api.post("/v1/payment_links", json!({"amount": 300, "currency": "USD", "metadata": own()}));
    let link = link.await?.body;
    for page in [&produced, &link] {
        Payer::for_object(page, &cluster().await?.api_url(0))?.pay("tok_ok").await?;
    }
    let page = merchant.api.get("/v1/payments?limit=2").await?;
    assert_eq!(ids(&page).len(), 2);
    for payment in page.body["data"].as_array().into_iter().flatten() {
        assert_eq!(payment["metadata"], own(), "{payment}");
    }
    Ok(())
}

#[tokio::test]
async fn payments_have_a_description_and_by_token_a_customer() -> Result<()> {
    let merchant = merchant().await?;
    let customer = merchant.customer().await?;
    let description = "é".repeat(500);
    let body = with(with(sale(500), "customerId", customer.clone()), "description", description.clone());
    let response = merchant.pay_with_key("k", body.clone()).await?;
    let paid = created(&response);
    assert_eq!((&paid["customerId"], &paid["description"]), (&json!(customer), &json!(description)));
    assert!(paid.get("paymentMethodId").is_none(), "{paid}");
    assert!(ids(&merchant.api.get(&format!("/v1/payment_methods?customerId={customer}")).await?).is_empty());
    merchant.assert_consistent(&id(paid)?, "sale 500", &["payment.captured"]).await?;
    assert_eq!(merchant.pay_with_key("k", body.clone()).await?.bytes, response.bytes);

    for bad in [json!("é".repeat(501)), json!(""), json!(1), json!("a\u{7}")] {
        invalid(&merchant.api.post("/v1/payments", with(sale(1), "description", bad)).await?, "description");
    }
    let stranger = crate::support::merchant().await?.customer().await?;
    for unknown in [stranger.as_str(), "cus_01ARZ3NDEKTSV4RRFFQ69G5FAV", "nonsense"] {
        not_found(&merchant.api.post("/v1/payments", with(payment(1, "tok_ok"), "customerId", unknown)).await?);
        // An unknown object comes before an unknown token.
        not_found(&merchant.api.post("/v1/payments", with(payment(1, "nonsense"), "customerId", unknown)).await?);
    }
    let card = id(created(&merchant.save_card(&customer, "tok_ok").await?))?;
    let by_card = json!({"amount": 1, "currency": "USD", "paymentMethodId": card, "customerId": customer});
    invalid(&merchant.api.post("/v1/payments", by_card).await?, "customerId");
    Ok(())
}

#[tokio::test]
async fn versions_rise_with_each_change() -> Result<()> {
    let merchant = merchant().await?;
    let held = merchant.hold(500).await?;
    assert_eq!(merchant.payment(&held).await?["version"], 2, "processing, then authorized");
    let captured = merchant.capture(&held, None).await?;
    assert!(ok(&captured)["version"].as_i64() > Some(2), "{}", captured.body);
    let versions: Vec<_> =
        merchant.books.events(&held).await?.iter().map(|(_, object)| object["version"].as_i64()).collect();
    assert!(versions.is_sorted() && versions.last() == Some(&captured.body["version"].as_i64()), "{versions:?}");

    // The default card and address are shown by the objects that they concern.
    let customer = merchant.customer().await?;
    let first = id(created(&merchant.save_card(&customer, "tok_ok").await?))?;
    let second = created(&merchant.save_card(&customer, "tok_ok").await?).clone();
    let cards = format!("/v1/payment_methods?customerId={customer}");
    let before = merchant.api.get(&cards).await?.body;
    let path = format!("/v1/payment_methods/{}/default", id(&second)?);
    assert!(ok(&merchant.api.post(&path, json!({})).await?)["version"].as_i64() > second["version"].as_i64());
    let after = merchant.api.get(&cards).await?.body;
    let version = |page: &Value, id: &str| {
        page["data"]
            .as_array()
            .into_iter()
            .flatten()
            .find(|card| card["id"] == id)
            .and_then(|card| card["version"].as_i64())
    };
    assert!(version(&after, &first) > version(&before, &first), "{after}");

    let address = json!({"customerId": customer, "line1": "1 Main St", "country": "US"});
    let address = created(&merchant.api.post("/v1/addresses", address).await?).clone();
    let path = format!("/v1/addresses/{}", id(&address)?);
    assert_eq!(ok(&merchant.api.post(&path, json!({"line2": "a"})).await?)["version"], 2);
    assert_eq!(ok(&merchant.api.post(&path, json!({"line2": "a"})).await?)["version"], 2);
    for (kind, version) in [("billing", 3), ("billing", 3), ("shipping", 4)] {
        let default = merchant.api.post(&format!("{path}/default"), json!({"type": kind})).await?;
        assert_eq!(ok(&default)["version"], version);
    }
    Ok(())
}
