//! What a key may do: the list says what the routes answer.

use std::collections::HashMap;

use anyhow::{Context, Result};
use reqwest::Method;
use serde_json::{Value, json};
use testkit::{Answer, Client};

use super::limited;
use crate::signing::{self, Signed};
use crate::support::{Browser, Merchant, ORIGIN, cluster, created, eventually, id, merchant, ok, refused, sale, with};

/// One request for each operation of /v1, refused by nothing but a missing entitlement or a gap of the provider; what else
/// it answers (a 404, a 422) shows that it was let in. A new operation needs a line here.
const PROBES: &[(&str, Method, &str)] = &[
    ("customers.create", Method::POST, "/v1/customers"),
    ("customers.retrieve", Method::GET, "/v1/customers/cus_1"),
    ("customers.update", Method::POST, "/v1/customers/cus_1"),
    ("customers.list", Method::GET, "/v1/customers"),
    ("payment_methods.create", Method::POST, "/v1/payment_methods"),
    ("payment_methods.list", Method::GET, "/v1/payment_methods"),
    ("payment_methods.default", Method::POST, "/v1/payment_methods/pm_1/default"),
    ("checkout_sessions.create", Method::POST, "/v1/checkout_sessions"),
    ("tokens.create", Method::POST, "/v1/tokens"),
    ("payments.create", Method::POST, "/v1/payments"),
    ("payments.authorize", Method::POST, "/v1/payments"),
    ("payments.retrieve", Method::GET, "/v1/payments/pay_1"),
    ("payments.list", Method::GET, "/v1/payments"),
    ("payments.capture", Method::POST, "/v1/payments/pay_1/capture"),
    ("payments.void", Method::POST, "/v1/payments/pay_1/void"),
    ("payments.refund", Method::POST, "/v1/payments/pay_1/refund"),
    ("payments.partial_capture", Method::POST, "/v1/payments/{authorized}/capture"),
    ("payments.partial_refund", Method::POST, "/v1/payments/{captured}/refund"),
    ("webhook_endpoints.create", Method::POST, "/v1/webhook_endpoints"),
    ("webhook_endpoints.retrieve", Method::GET, "/v1/webhook_endpoints/we_1"),
    ("webhook_endpoints.update", Method::POST, "/v1/webhook_endpoints/we_1"),
    ("webhook_endpoints.list", Method::GET, "/v1/webhook_endpoints"),
    ("webhook_endpoints.delete", Method::DELETE, "/v1/webhook_endpoints/we_1"),
    ("webhook_endpoints.rotate_secret", Method::POST, "/v1/webhook_endpoints/we_1/rotate_secret"),
    ("webhook_deliveries.list", Method::GET, "/v1/webhook_deliveries"),
    ("webhook_deliveries.retrieve", Method::GET, "/v1/webhook_deliveries/whd_1"),
    ("webhook_deliveries.replay", Method::POST, "/v1/webhook_deliveries/whd_1/replay"),
    ("addresses.create", Method::POST, "/v1/addresses"),
    ("addresses.retrieve", Method::GET, "/v1/addresses/adr_1"),
    ("addresses.update", Method::POST, "/v1/addresses/adr_1"),
    ("addresses.list", Method::GET, "/v1/addresses"),
    ("addresses.default", Method::POST, "/v1/addresses/adr_1/default"),
    ("plans.create", Method::POST, "/v1/plans"),
    ("plans.retrieve", Method::GET, "/v1/plans/plan_1"),
    ("plans.list", Method::GET, "/v1/plans"),
    ("subscriptions.create", Method::POST, "/v1/subscriptions"),
    ("subscriptions.retrieve", Method::GET, "/v1/subscriptions/sub_1"),
    ("subscriptions.list", Method::GET, "/v1/subscriptions"),
    ("subscriptions.cancel", Method::POST, "/v1/subscriptions/sub_1/cancel"),
    ("invoices.create", Method::POST, "/v1/invoices"),
    ("invoices.retrieve", Method::GET, "/v1/invoices/inv_1"),
    ("invoices.list", Method::GET, "/v1/invoices"),
    ("invoices.issue", Method::POST, "/v1/invoices/inv_1/issue"),
    ("invoices.void", Method::POST, "/v1/invoices/inv_1/void"),
    ("invoices.schedule", Method::POST, "/v1/invoices/inv_1/schedule"),
    ("invoices.cancel_schedule", Method::POST, "/v1/invoices/inv_1/cancel_schedule"),
    ("invoices.attempts", Method::GET, "/v1/invoices/inv_1/attempts"),
    ("invoices.scheduler_run", Method::POST, "/v1/invoices/scheduler/run"),
    ("test_clock.retrieve", Method::GET, "/v1/test_clock"),
    ("test_clock.advance", Method::POST, "/v1/test_clock/advance"),
    ("recurring_invoices.create", Method::POST, "/v1/recurring_invoices"),
    ("recurring_invoices.retrieve", Method::GET, "/v1/recurring_invoices/rinv_1"),
    ("recurring_invoices.update", Method::POST, "/v1/recurring_invoices/rinv_1"),
    ("recurring_invoices.list", Method::GET, "/v1/recurring_invoices"),
    ("recurring_invoices.pause", Method::POST, "/v1/recurring_invoices/rinv_1/pause"),
    ("recurring_invoices.resume", Method::POST, "/v1/recurring_invoices/rinv_1/resume"),
    ("recurring_invoices.cancel", Method::POST, "/v1/recurring_invoices/rinv_1/cancel"),
    ("payment_links.create", Method::POST, "/v1/payment_links"),
    ("payment_links.retrieve", Method::GET, "/v1/payment_links/plink_1"),
    ("payment_links.list", Method::GET, "/v1/payment_links"),
    ("payment_links.cancel", Method::POST, "/v1/payment_links/plink_1/cancel"),
];

/// Of test accounts alone: a live key is of the wrong kind there.
const TEST_ONLY: [&str; 3] = ["invoices.scheduler_run", "test_clock.retrieve", "test_clock.advance"];

/// What an account cannot do before it is connected to its provider.
const NEEDS_CONNECTION: [&str; 13] = [
    "payment_methods.create",
    "checkout_sessions.create",
    "tokens.create",
    "payments.create",
    "payments.authorize",
    "payments.capture",
    "payments.partial_capture",
    "payments.void",
    "payments.refund",
    "payments.partial_refund",
    "subscriptions.create",
    "invoices.schedule",
    "payment_links.create",
];

/// Whose routes are asked: a merchant's server, a page, and payments of which a part can be captured and refunded.
struct Asked<'a> {
    merchant: &'a Merchant,
    browser: Client,
    authorized: String,
    captured: String,
}

impl<'a> Asked<'a> {
    /// Prepared before anything is taken from the account.
    async fn prepare(merchant: &'a Merchant) -> Result<Self> {
        let held = merchant.api.post("/v1/payments", with(sale(100), "capture", false)).await?;
        let (authorized, captured) = (id(created(&held))?, id(created(&merchant.pay(100).await?))?);
        Ok(Self { authorized, captured, ..Self::without_payments(merchant).await? })
    }

    /// Of an account that has none, and cannot have any.
    async fn without_payments(merchant: &'a Merchant) -> Result<Self> {
        let browser = Browser::of(cluster().await?, &merchant.account)?.api;
        Ok(Self { merchant, browser, authorized: "pay_1".to_owned(), captured: "pay_1".to_owned() })
    }

    /// A request of the merchant's server, signed if its account is live.
    async fn send(&self, method: Method, path: &str, body: Option<&str>) -> Result<Answer> {
        if self.merchant.account.signing_secret.is_some() {
            Signed::new(self.merchant, method, path, body)?.sign().send(&self.merchant.api).await
        } else {
            self.merchant.api.send(method, path, body.map(|body| body.as_bytes().to_vec())).await
        }
    }
}

async fn probe(operation: &str, asked: &Asked<'_>) -> Result<Answer> {
    let found = PROBES.iter().find(|(name, ..)| *name == operation);
    let (_, method, path) = found.with_context(|| format!("no probe of {operation}"))?;
    let path = path.replace("{authorized}", &asked.authorized).replace("{captured}", &asked.captured);
    let body = match operation {
        "payments.authorize" => Some(with(sale(100), "capture", false)),
        "payments.partial_capture" | "payments.partial_refund" => Some(json!({"amount": 1})),
        _ => None,
    };
    let body = body.map(|body| body.to_string());
    if ["/v1/checkout_sessions", "/v1/tokens"].contains(&path.as_str()) {
        return asked.browser.send(method.clone(), &path, body.map(String::into_bytes)).await;
    }
    asked.send(method.clone(), &path, body.as_deref()).await
}

async fn states(asked: &Asked<'_>) -> Result<HashMap<String, String>> {
    let answer = asked.send(Method::GET, "/v1/capabilities", None).await?;
    assert_eq!(ok(&answer)["object"], "capabilities");
    let rows = answer.body["data"].as_array().context("no data")?;
    let text = |row: &Value, field: &str| row[field].as_str().unwrap_or_default().to_owned();
    let states: HashMap<_, _> = rows.iter().map(|row| (text(row, "operation"), text(row, "state"))).collect();
    assert_eq!(states.len(), rows.len(), "every operation once");
    Ok(states)
}

/// Every listed state is what the route really answers.
async fn told_and_done_agree(asked: &Asked<'_>) -> Result<HashMap<String, String>> {
    let states = states(asked).await?;
    let live = asked.merchant.account.signing_secret.is_some();
    for (operation, state) in &states {
        let answer = probe(operation, asked).await?;
        let error = &answer.body["error"];
        let (status, code) = (answer.status, error["code"].as_str().unwrap_or_default());
        match state.as_str() {
            "active" => {
                assert!(![401, 403, 501].contains(&status), "{operation} is active, and answers {}", answer.body)
            }
            "unavailable" if live && TEST_ONLY.contains(&operation.as_str()) => {
                assert_eq!((status, code), (403, "permission_denied"), "{operation}");
                continue;
            }
            "unavailable" => assert_eq!((status, code), (403, "capability_not_enabled"), "{operation}"),
            "not_supported" => assert_eq!((status, code), (501, "capability_not_supported"), "{operation}"),
            other => panic!("{operation} is {other}"),
        }
        if state != "active" {
            assert!(error["capability"].is_string(), "{operation}: {}", answer.body);
        }
    }
    Ok(states)
}

#[tokio::test]
async fn a_missing_entitlement_is_named() -> Result<()> {
    let merchant = merchant().await?;
    let api = limited(&merchant, "secret", &["payments.create", "payments.list"]).await?;
    ok(&api.get("/v1/payments").await?);
    created(&api.post("/v1/payments", sale(100)).await?);
    for (answer, capability) in [
        (api.get("/v1/payments/pay_1").await?, "payments.retrieve"),
        (api.get("/v1/customers").await?, "customers.list"),
        (api.delete("/v1/webhook_endpoints/we_1").await?, "webhook_endpoints.delete"),
        // Before the body is read.
        (api.send(Method::POST, "/v1/customers", Some(b"{".to_vec())).await?, "customers.create"),
        (api.post("/v1/payments", with(sale(100), "capture", false)).await?, "payments.authorize"),
    ] {
        assert_eq!(refused(&answer, 403, "capability_not_enabled")["capability"], capability);
    }
    let page = limited(&merchant, "publishable", &["tokens.create"]).await?.header("origin", ORIGIN)?;
    let answer = page.post("/v1/checkout_sessions", json!({})).await?;
    assert_eq!(refused(&answer, 403, "capability_not_enabled")["capability"], "checkout_sessions.create");
    Ok(())
}

/// What an account can do does not depend on who settles its money, as long as that provider can do it.
#[tokio::test]
async fn the_card_gateway_can_do_all_of_it() -> Result<()> {
    let (cluster, merchant) = (cluster().await?, merchant().await?);
    // The payments are the mock's, and stay there.
    let asked = Asked::prepare(&merchant).await?;
    let at_mock = states(&asked).await?;
    let known = cluster.gateway_account(&format!("able-{}", merchant.books.account), &[]).await?;
    cluster.connect(&merchant.account, &known, &[]).await?;
    cluster.ctl(&["accounts", "set", &merchant.account.id, "--provider", "card_gateway"]).await?;
    assert_eq!(told_and_done_agree(&asked).await?, at_mock);
    Ok(())
}

fn unavailable(states: &HashMap<String, String>) -> Vec<&str> {
    let mut names: Vec<_> =
        states.iter().filter(|(_, state)| *state != "active").map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    names
}

fn sorted<const N: usize>(mut names: [&'static str; N]) -> Vec<&'static str> {
    names.sort_unstable();
    names.to_vec()
}

#[tokio::test]
async fn the_list_of_a_live_account_says_what_its_routes_answer() -> Result<()> {
    let merchant = signing::live(cluster().await?).await?;
    let states = told_and_done_agree(&Asked::without_payments(&merchant).await?).await?;
    assert_eq!(unavailable(&states), sorted(TEST_ONLY));
    Ok(())
}

/// An account of the card gateway that no operator has connected takes no money, and does not look as if it could.
#[tokio::test]
async fn an_account_that_is_not_connected_cannot_take_money() -> Result<()> {
    let cluster = cluster().await?;
    for mode in ["test", "live"] {
        let options = ["--mode", mode, "--provider", "card_gateway", "--origin", ORIGIN];
        let merchant = Merchant::with(cluster, &options).await?;
        let asked = Asked::without_payments(&merchant).await?;
        let before = told_and_done_agree(&asked).await?;
        let mut expected = sorted(NEEDS_CONNECTION);
        if mode == "live" {
            expected.extend(TEST_ONLY);
            expected.sort_unstable();
        }
        assert_eq!(unavailable(&before), expected, "{mode}");
        for operation in ["payments.create", "checkout_sessions.create", "tokens.create", "payment_methods.create"] {
            let answer = probe(operation, &asked).await?;
            let error = refused(&answer, 403, "capability_not_enabled");
            let message = error["message"].as_str().unwrap_or_default();
            assert!(message.contains("not connected to its provider") && message.contains("operator"), "{message}");
            assert_eq!(error["capability"], operation);
        }
        let listed = cluster.ctl(&["accounts", "list"]).await?;
        let mut accounts = listed["accounts"].as_array().context("accounts")?.iter();
        let own = accounts.find(|account| account["id"] == merchant.account.id).context("the account")?;
        assert_eq!(own["connected"], false);

        let known = cluster.gateway_account(&format!("later-{}", merchant.books.account), &[]).await?;
        cluster.connect(&merchant.account, &known, &[]).await?;
        // What was read of the key before is believed for a second.
        let after = eventually("the connection", async || {
            let listed = states(&asked).await?;
            Ok((listed["payments.create"] == "active").then_some(listed))
        })
        .await?;
        assert_eq!(told_and_done_agree(&asked).await?, after);
        assert_eq!(unavailable(&after), if mode == "live" { sorted(TEST_ONLY) } else { vec![] }, "{mode}");
    }
    Ok(())
}

/// What was taken before the account moved can still be captured, voided and refunded where it is.
#[tokio::test]
async fn an_account_that_moved_keeps_what_it_has() -> Result<()> {
    let (cluster, merchant) = (cluster().await?, merchant().await?);
    let asked = Asked::prepare(&merchant).await?;
    cluster.ctl(&["accounts", "set", &merchant.account.id, "--provider", "card_gateway"]).await?;
    eventually("the move", async || Ok((states(&asked).await?["payments.create"] == "unavailable").then_some(())))
        .await?;
    let states = told_and_done_agree(&asked).await?;
    for operation in ["payments.create", "checkout_sessions.create", "payment_links.create"] {
        assert_eq!(states[operation], "unavailable", "{operation}");
    }
    for operation in ["payments.capture", "payments.void", "payments.refund", "subscriptions.create"] {
        assert_eq!(states[operation], "active", "{operation}");
    }
    Ok(())
}
