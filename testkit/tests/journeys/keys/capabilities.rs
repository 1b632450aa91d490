//! The capabilities of a key: the list matches the responses of the routes.

use std::collections::HashMap;

use anyhow::{Context, Result};
use reqwest::Method;
use serde_json::{Value, json};
use testkit::{Client, Response};

use super::limited;
use crate::signing::{self, Signed};
use crate::support::{Browser, Merchant, ORIGIN, cluster, created, eventually, id, merchant, ok, refused, sale, with};

/// One request for each operation of /v1. Only a missing entitlement or provider capability rejects it with 403 or 501;
/// any other error (404, 422) shows that the key was authorized. A new operation needs a line here.
const PROBES: &[(&str, Method, &str)] = &[
    ("customers.create", Method::POST, "/v1/customers"),
    ("customers.retrieve", Method::GET, "/v1/customers/cus_1"),
    ("customers.update", Method::POST, "/v1/customers/cus_1"),
    ("customers.delete", Method::DELETE, "/v1/customers/cus_1"),
    ("customers.list", Method::GET, "/v1/customers"),
    ("payment_methods.create", Method::POST, "/v1/payment_methods"),
    ("payment_methods.update", Method::POST, "/v1/payment_methods/pm_1"),
    ("payment_methods.list", Method::GET, "/v1/payment_methods"),
    ("payment_methods.retrieve", Method::GET, "/v1/payment_methods/pm_1"),
    ("payment_methods.delete", Method::DELETE, "/v1/payment_methods/pm_1"),
    ("payment_methods.default", Method::POST, "/v1/payment_methods/pm_1/default"),
    ("checkout_sessions.create", Method::POST, "/v1/checkout_sessions"),
    ("tokens.create", Method::POST, "/v1/tokens"),
    ("payments.create", Method::POST, "/v1/payments"),
    ("payments.authorize", Method::POST, "/v1/payments"),
    ("payments.retrieve", Method::GET, "/v1/payments/pay_1"),
    ("payments.update", Method::POST, "/v1/payments/pay_1"),
    ("payments.list", Method::GET, "/v1/payments"),
    ("payments.capture", Method::POST, "/v1/payments/pay_1/capture"),
    ("payments.void", Method::POST, "/v1/payments/pay_1/void"),
    ("payments.refund", Method::POST, "/v1/payments/pay_1/refund"),
    ("refunds.retrieve", Method::GET, "/v1/refunds/ref_1"),
    ("refunds.list", Method::GET, "/v1/refunds"),
    ("disputes.retrieve", Method::GET, "/v1/disputes/dp_1"),
    ("disputes.list", Method::GET, "/v1/disputes"),
    ("settlements.retrieve", Method::GET, "/v1/settlements"),
    ("events.retrieve", Method::GET, "/v1/events/evt_1"),
    ("events.list", Method::GET, "/v1/events"),
    ("payments.partial_capture", Method::POST, "/v1/payments/{authorized}/capture"),
    ("payments.partial_refund", Method::POST, "/v1/payments/{captured}/refund"),
    ("webhook_endpoints.create", Method::POST, "/v1/webhook_endpoints"),
    ("webhook_endpoints.retrieve", Method::GET, "/v1/webhook_endpoints/we_1"),
    ("webhook_endpoints.update", Method::POST, "/v1/webhook_endpoints/we_1"),
    ("webhook_endpoints.list", Method::GET, "/v1/webhook_endpoints"),
    ("webhook_endpoints.delete", Method::DELETE, "/v1/webhook_endpoints/we_1"),
    ("webhook_endpoints.rotate_secret", Method::POST, "/v1/webhook_endpoints/we_1/rotate_secret"),
    ("webhook_endpoints.test", Method::POST, "/v1/webhook_endpoints/we_1/test"),
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
    ("plans.update", Method::POST, "/v1/plans/plan_1"),
    ("plans.list", Method::GET, "/v1/plans"),
    ("subscriptions.create", Method::POST, "/v1/subscriptions"),
    ("subscriptions.retrieve", Method::GET, "/v1/subscriptions/sub_1"),
    ("subscriptions.update", Method::POST, "/v1/subscriptions/sub_1"),
    ("subscriptions.list", Method::GET, "/v1/subscriptions"),
    ("subscriptions.cancel", Method::POST, "/v1/subscriptions/sub_1/cancel"),
    ("invoices.create", Method::POST, "/v1/invoices"),
    ("invoices.retrieve", Method::GET, "/v1/invoices/inv_1"),
    ("invoices.update", Method::POST, "/v1/invoices/inv_1"),
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
    ("payment_links.update", Method::POST, "/v1/payment_links/plink_1"),
    ("payment_links.list", Method::GET, "/v1/payment_links"),
    ("payment_links.cancel", Method::POST, "/v1/payment_links/plink_1/cancel"),
];

/// Operations of test accounts only: a live key is not permitted.
const TEST_ONLY: [&str; 3] = ["invoices.scheduler_run", "test_clock.retrieve", "test_clock.advance"];

/// Operations that need an account connected to its provider.
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

/// The clients of an account, and payments that can be partially captured and refunded.
struct Prober<'a> {
    merchant: &'a Merchant,
    browser: Client,
    authorized: String,
    captured: String,
}

impl<'a> Prober<'a> {
    /// Creates the payments; call it before the account loses any capability.
    async fn prepare(merchant: &'a Merchant) -> Result<Self> {
        let held = merchant.api.post("/v1/payments", with(sale(100), "capture", false)).await?;
        let (authorized, captured) = (id(created(&held))?, id(created(&merchant.pay(100).await?))?);
        Ok(Self { authorized, captured, ..Self::without_payments(merchant).await? })
    }

    /// For an account that cannot create payments.
    async fn without_payments(merchant: &'a Merchant) -> Result<Self> {
        let browser = Browser::for_account(cluster().await?, &merchant.account)?.api;
        Ok(Self { merchant, browser, authorized: "pay_1".to_owned(), captured: "pay_1".to_owned() })
    }

    /// Sends a request with the secret key, signed if the account is live.
    async fn send(&self, method: Method, path: &str, body: Option<&str>) -> Result<Response> {
        if self.merchant.account.signing_secret.is_some() {
            Signed::new(self.merchant, method, path, body)?.sign().send(&self.merchant.api).await
        } else {
            self.merchant.api.send(method, path, body.map(|body| body.as_bytes().to_vec())).await
        }
    }
}

async fn probe(operation: &str, prober: &Prober<'_>) -> Result<Response> {
    let probe = PROBES.iter().find(|(name, ..)| *name == operation);
    let (_, method, path) = probe.with_context(|| format!("no probe of {operation}"))?;
    let path = path.replace("{authorized}", &prober.authorized).replace("{captured}", &prober.captured);
    let body = match operation {
        "payments.authorize" => Some(with(sale(100), "capture", false)),
        "payments.partial_capture" | "payments.partial_refund" => Some(json!({"amount": 1})),
        _ => None,
    };
    let body = body.map(|body| body.to_string());
    if ["/v1/checkout_sessions", "/v1/tokens"].contains(&path.as_str()) {
        return prober.browser.send(method.clone(), &path, body.map(String::into_bytes)).await;
    }
    prober.send(method.clone(), &path, body.as_deref()).await
}

async fn states(prober: &Prober<'_>) -> Result<HashMap<String, String>> {
    let response = prober.send(Method::GET, "/v1/capabilities", None).await?;
    assert_eq!(ok(&response)["object"], "capabilities");
    let rows = response.body["data"].as_array().context("no data")?;
    let text = |row: &Value, field: &str| row[field].as_str().unwrap_or_default().to_owned();
    let states: HashMap<_, _> = rows.iter().map(|row| (text(row, "operation"), text(row, "state"))).collect();
    assert_eq!(states.len(), rows.len(), "every operation once");
    Ok(states)
}

/// Asserts that each listed state matches the response of its route. Returns the states.
async fn states_match_responses(prober: &Prober<'_>) -> Result<HashMap<String, String>> {
    let states = states(prober).await?;
    let live = prober.merchant.account.signing_secret.is_some();
    for (operation, state) in &states {
        let response = probe(operation, prober).await?;
        let error = &response.body["error"];
        let (status, code) = (response.status, error["code"].as_str().unwrap_or_default());
        match state.as_str() {
            "active" => {
                assert!(![401, 403, 501].contains(&status), "{operation} is active but returns {}", response.body)
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
            assert!(error["capability"].is_string(), "{operation}: {}", response.body);
        }
    }
    Ok(states)
}

#[tokio::test]
async fn missing_entitlements_are_named() -> Result<()> {
    let merchant = merchant().await?;
    let api = limited(&merchant, "secret", &["payments.create", "payments.list"]).await?;
    ok(&api.get("/v1/payments").await?);
    created(&api.post("/v1/payments", sale(100)).await?);
    for (response, capability) in [
        (api.get("/v1/payments/pay_1").await?, "payments.retrieve"),
        (api.get("/v1/customers").await?, "customers.list"),
        (api.delete("/v1/webhook_endpoints/we_1").await?, "webhook_endpoints.delete"),
        // The entitlement is checked before the body is read.
        (api.send(Method::POST, "/v1/customers", Some(b"{".to_vec())).await?, "customers.create"),
        (api.post("/v1/payments", with(sale(100), "capture", false)).await?, "payments.authorize"),
    ] {
        assert_eq!(refused(&response, 403, "capability_not_enabled")["capability"], capability);
    }
    let page = limited(&merchant, "publishable", &["tokens.create"]).await?.header("origin", ORIGIN)?;
    let response = page.post("/v1/checkout_sessions", json!({})).await?;
    assert_eq!(refused(&response, 403, "capability_not_enabled")["capability"], "checkout_sessions.create");
    Ok(())
}

/// The two providers offer the same capabilities.
#[tokio::test]
async fn the_card_gateway_has_the_same_capabilities_as_the_mock() -> Result<()> {
    let (cluster, merchant) = (cluster().await?, merchant().await?);
    // The payments are made at the mock and stay there.
    let prober = Prober::prepare(&merchant).await?;
    let at_mock = states(&prober).await?;
    let gateway_account = cluster.gateway_account(&format!("able-{}", merchant.books.account), &[]).await?;
    cluster.connect(&merchant.account, &gateway_account, &[]).await?;
    cluster.ctl(&["accounts", "set", &merchant.account.id, "--provider", "card_gateway"]).await?;
    assert_eq!(states_match_responses(&prober).await?, at_mock);
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
async fn live_accounts_list_the_capabilities_that_their_routes_have() -> Result<()> {
    let merchant = signing::live(cluster().await?).await?;
    let states = states_match_responses(&Prober::without_payments(&merchant).await?).await?;
    assert_eq!(unavailable(&states), sorted(TEST_ONLY));
    Ok(())
}

/// A card gateway account that no operator has connected cannot charge, and its capabilities show that.
#[tokio::test]
async fn unconnected_accounts_cannot_charge() -> Result<()> {
    let cluster = cluster().await?;
    for mode in ["test", "live"] {
        let options = ["--mode", mode, "--provider", "card_gateway", "--origin", ORIGIN];
        let merchant = Merchant::with(cluster, &options).await?;
        let prober = Prober::without_payments(&merchant).await?;
        let before = states_match_responses(&prober).await?;
        let mut expected = sorted(NEEDS_CONNECTION);
        if mode == "live" {
            expected.extend(TEST_ONLY);
            expected.sort_unstable();
        }
        assert_eq!(unavailable(&before), expected, "{mode}");
        for operation in ["payments.create", "checkout_sessions.create", "tokens.create", "payment_methods.create"] {
            let response = probe(operation, &prober).await?;
            let error = refused(&response, 403, "capability_not_enabled");
            let message = error["message"].as_str().unwrap_or_default();
            assert!(
                message.contains("connect the account to its provider") && message.contains("operator"),
                "{message}"
            );
            assert_eq!(error["capability"], operation);
        }
        let listed = cluster.ctl(&["accounts", "list"]).await?;
        let mut accounts = listed["accounts"].as_array().context("accounts")?.iter();
        let own = accounts.find(|account| account["id"] == merchant.account.id).context("the account")?;
        assert_eq!(own["connected"], false);

        let gateway_account = cluster.gateway_account(&format!("later-{}", merchant.books.account), &[]).await?;
        cluster.connect(&merchant.account, &gateway_account, &[]).await?;
        // The API caches a key for a second.
        let after = eventually("the connection", async || {
            let listed = states(&prober).await?;
            Ok((listed["payments.create"] == "active").then_some(listed))
        })
        .await?;
        assert_eq!(states_match_responses(&prober).await?, after);
        assert_eq!(unavailable(&after), if mode == "live" { sorted(TEST_ONLY) } else { vec![] }, "{mode}");
    }
    Ok(())
}

/// Payments made before the switch can still be captured, voided and refunded at the old provider.
#[tokio::test]
async fn accounts_keep_managing_payments_after_a_provider_switch() -> Result<()> {
    let (cluster, merchant) = (cluster().await?, merchant().await?);
    let prober = Prober::prepare(&merchant).await?;
    cluster.ctl(&["accounts", "set", &merchant.account.id, "--provider", "card_gateway"]).await?;
    eventually("the provider switch", async || {
        Ok((states(&prober).await?["payments.create"] == "unavailable").then_some(()))
    })
    .await?;
    let states = states_match_responses(&prober).await?;
    for operation in ["payments.create", "checkout_sessions.create", "payment_links.create"] {
        assert_eq!(states[operation], "unavailable", "{operation}");
    }
    for operation in ["payments.capture", "payments.void", "payments.refund", "subscriptions.create"] {
        assert_eq!(states[operation], "active", "{operation}");
    }
    Ok(())
}
