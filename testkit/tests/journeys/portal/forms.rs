//! Every form that an owner sees: who may send it, and that it never reaches another merchant.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use testkit::receiver::Reply;

use super::Visitor;
use crate::invoices::draft;
use crate::support::{Merchant, Receiver, created, eventually, id, merchant, ok, payment};

/// Pages with forms that belong to no object.
const PAGES: [&str; 12] = [
    "customers/new",
    "invoices/new",
    "recurring-invoices/new",
    "subscriptions/new",
    "payment-links/new",
    "plans/new",
    "webhooks/new",
    "clock",
    "keys",
    "settings",
    "team",
    "security",
];

/// The lists of /v1 with the pages of their objects.
const LISTS: [(&str, &str); 10] = [
    ("payments", "payments"),
    ("customers", "customers"),
    ("invoices", "invoices"),
    ("recurring_invoices", "recurring-invoices"),
    ("subscriptions", "subscriptions"),
    ("payment_links", "payment-links"),
    ("plans", "plans"),
    ("webhook_endpoints", "webhooks"),
    ("webhook_deliveries", "deliveries"),
    ("refunds", "refunds"),
];

/// What an owner enters, wherever there is such a field.
const ENTERED: [(&str, &str); 24] = [
    ("confirm", "yes"),
    ("amount", "1.00"),
    ("currency", "USD"),
    ("description", "Rent"),
    ("email", "eve@shop.example"),
    ("name", "Eve"),
    ("externalId", "eve-1"),
    ("customerId", "cus_01KAJ4M2V8Q0S5T7W9X1Y3Z5A7"),
    ("planId", "plan_01KAJ4M2V8Q0S5T7W9X1Y3Z5A7"),
    ("interval", "month"),
    ("collectAt", "2031-01-01T10:00"),
    ("url", "https://eve.example/hook"),
    ("status", "disabled"),
    ("role", "viewer"),
    ("kind", "secret"),
    ("to", "2031-01-01T10:00"),
    ("timezone", "UTC"),
    ("current", "not the password"),
    ("password", "another long password"),
    ("code", "123456"),
    ("secret", "JBSWY3DPEHPK3PXP"),
    ("cadence.unit", "monthly"),
    ("template.currency", "USD"),
    ("template.paymentTerms", "net_7"),
];

/// A merchant with an object for each form.
async fn busy(receiver: &Receiver) -> Result<Merchant> {
    let merchant = merchant().await?;
    created(&merchant.api.post("/v1/payments", payment(5_000, "tok_ok")).await?);
    merchant.hold(3_000).await?;
    let customer = merchant.customer().await?;
    created(&merchant.save_card(&customer, "tok_ok").await?);
    let plan = json!({"name": "Gold", "amount": 800, "currency": "USD", "interval": "month"});
    let plan = id(created(&merchant.api.post("/v1/plans", plan).await?))?;
    let template = json!({"currency": "USD", "paymentTerms": "net_7",
        "items": [{"description": "Rent", "quantity": 1, "unitAmount": 500}]});
    let invoice = json!({"customerId": customer, "currency": "USD", "amount": 500});
    let scheduled = created(&merchant.api.post("/v1/invoices", invoice.clone()).await?)["id"].clone();
    for (path, body) in [
        ("/v1/invoices", invoice),
        ("/v1/payment_links", json!({"amount": 900, "currency": "USD"})),
        ("/v1/subscriptions", json!({"customerId": customer, "planId": plan})),
        (
            "/v1/recurring_invoices",
            json!({"customerId": customer, "cadence": {"unit": "monthly"}, "template": template}),
        ),
        (
            "/v1/recurring_invoices",
            json!({"customerId": customer, "cadence": {"unit": "weekly"}, "template": template}),
        ),
        ("/v1/webhook_endpoints", json!({"url": receiver.url("/hook")})),
    ] {
        created(&merchant.api.post(path, body).await?);
    }
    draft(&merchant, &customer, "net_7").await?;
    let scheduled = format!("/v1/invoices/{}/schedule", scheduled.as_str().context("an id")?);
    ok(&merchant.api.post(&scheduled, json!({"collectAt": "2031-01-01T10:00:00Z"})).await?);
    for (list, action) in [("recurring_invoices", "pause"), ("webhook_endpoints", "test")] {
        let first = ok(&merchant.api.get(&format!("/v1/{list}")).await?)["data"][0]["id"].clone();
        let path = format!("/v1/{list}/{}/{action}", first.as_str().context("an id")?);
        assert!(merchant.api.post(&path, json!({})).await?.status < 300, "{path}");
    }
    let is_delivered = async || {
        let found = merchant.api.get("/v1/webhook_deliveries?status=succeeded").await?;
        Ok((ok(&found)["data"].as_array().is_some_and(|rows| !rows.is_empty())).then_some(()))
    };
    eventually("a delivery succeeded", is_delivered).await?;
    Ok(merchant)
}

/// The addresses of all forms that this user sees.
async fn forms(visitor: &Visitor, merchant: &Merchant) -> Result<BTreeSet<String>> {
    let mut pages: Vec<String> = PAGES.iter().map(|page| format!("/test/{page}")).collect();
    for (list, page) in LISTS {
        for row in ok(&merchant.api.get(&format!("/v1/{list}?limit=100")).await?)["data"].as_array().context("rows")? {
            pages.push(format!("/test/{page}/{}", id(row)?));
        }
    }
    let customer = id(&merchant.api.get("/v1/customers").await?.body["data"][0])?;
    for card in merchant.api.get(&format!("/v1/payment_methods?customerId={customer}")).await?.body["data"]
        .as_array()
        .context("cards")?
    {
        pages.push(format!("/test/cards/{}", id(card)?));
    }
    let mut found = BTreeSet::new();
    for page in pages {
        let html = visitor.open(&page).await?.html;
        let actions = html.split("action=\"").skip(1).filter_map(|rest| rest.split('"').next());
        found.extend(actions.filter(|address| address.starts_with("/test/")).map(str::to_owned));
    }
    Ok(found.into_iter().filter(|address| address.rsplit('/').next() != address.split('/').nth(2)).collect())
}

/// The page and the name of a form.
fn parts(address: &str) -> (&str, &str) {
    let mut parts = address.split('/').skip(2);
    let page = parts.next().unwrap_or_default();
    (page, parts.last().unwrap_or_default())
}

/// Who may send it.
fn allowed(address: &str) -> &'static [&'static str] {
    match parts(address) {
        ("security", _) => &["viewer", "support", "developer", "owner"],
        ("customers", "erase") => &["support", "owner"],
        ("keys" | "webhooks" | "deliveries" | "clock", _) => &["developer", "owner"],
        ("settings" | "team", _) => &["owner"],
        _ => &["support", "developer", "owner"],
    }
}

/// Everything of a merchant that forms can change.
async fn state(merchant: &Merchant, owner: &Visitor) -> Result<Vec<Value>> {
    let mut state = Vec::new();
    for (list, _) in LISTS {
        state.push(merchant.api.get(&format!("/v1/{list}?limit=100")).await?.body.clone());
    }
    let customer = id(&merchant.api.get("/v1/customers").await?.body["data"][0])?;
    state.push(merchant.api.get(&format!("/v1/payment_methods?customerId={customer}")).await?.body.clone());
    for page in ["keys", "team", "settings", "security"] {
        // Without what each opening has of its own: nonces, and the secret that is offered for a second factor.
        let html = owner.open(&format!("/test/{page}")).await?.html;
        let rows = html.split("<tr>").skip(1).map(|row| row.split("name=\"nonce\"").next().unwrap_or_default());
        state.push(rows.collect::<Vec<_>>().into());
    }
    Ok(state)
}

#[tokio::test]
async fn every_form_is_for_its_roles_and_its_merchant_only() -> Result<()> {
    let receiver = Receiver::start(|_| Reply::status(200)).await?;
    let (merchant, other) = (busy(&receiver).await?, merchant().await?);
    let mut owner = Visitor::signed_in(&merchant, "owner").await?;
    let invited = [("email", "bob@shop.example"), ("role", "viewer")];
    owner.act("/test/team", "/test/team/new", &invited).await?;
    // A session that can be ended, and a colleague who can be removed.
    Visitor::signed_in(&merchant, "viewer").await?;
    let forms = forms(&owner, &merchant).await?;
    let kinds: BTreeSet<_> = forms.iter().map(|address| parts(address)).collect();
    assert!(kinds.len() >= 38, "only {} forms were found: {kinds:?}", kinds.len());

    for role in ["viewer", "support", "developer", "owner"] {
        let visitor = Visitor::signed_in(&merchant, role).await?;
        for address in &forms {
            // Without a nonce, it is refused once it is known that the role includes it.
            let page = visitor.post(address, &visitor.url, &[("confirm", "yes")]).await?;
            let expected = if allowed(address).contains(&role) { 422 } else { 403 };
            assert_eq!(page.status, expected, "{role} {address}: {}", page.html);
        }
    }

    let before = state(&merchant, &owner).await?;
    let foreign = Visitor::signed_in(&other, "owner").await?;
    let of_objects = forms.iter().filter(|address| address.split('/').count() == 5);
    for (number, address) in of_objects.enumerate() {
        let nonce = format!("{}{number:04x}", &foreign.cookie[..28]);
        let page = foreign.send(address, &nonce, &ENTERED).await?;
        assert_eq!(page.status, 404, "{address}: {}", page.html);
        assert_eq!(foreign.send(address, &nonce, &ENTERED).await?.status, 404, "{address} again");
    }
    assert_eq!(state(&merchant, &owner).await?, before);
    Ok(())
}
