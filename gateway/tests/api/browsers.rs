//! What browsers load and call.

use reqwest::header::HeaderValue;
use serde_json::{Value, json};

use crate::support::{GOOD, World};

const HTML: HeaderValue = HeaderValue::from_static("text/html; charset=utf-8");

#[tokio::test(flavor = "multi_thread")]
async fn the_contracts_scripts_are_served() {
    let world = World::shared().await;
    for (path, kind, mentions) in [
        ("proxynization_api.js", "text/javascript", "GatewayProxynizationAPI"),
        ("walletPaySandbox.js", "text/javascript", "gatewayWalletPay"),
        ("walletPay.js", "text/javascript", "gatewayWalletPay"),
        ("field.js", "text/javascript", "upstreamToken"),
        ("gateway.css", "text/css", "input"),
        ("bank.css", "text/css", "button"),
        ("bank.js", "text/javascript", "seconds"),
    ] {
        let response = world.http().get(format!("{}/services/{path}", world.base())).send().await.expect("a response");
        assert_eq!(response.status(), 200, "{path}");
        assert!(response.headers()["content-type"].to_str().expect("text").starts_with(kind), "{path}");
        assert!(response.text().await.expect("text").contains(mentions), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cors_allows_public_endpoints_and_not_the_api() {
    let world = World::shared().await;
    for (path, allowed) in [
        ("services/proxynization", true),
        ("services/field_token", true),
        ("services/wallet_token", true),
        ("apis/sale.php", false),
    ] {
        let url = format!("{}/{path}", world.base());
        let preflight = world.http().request(reqwest::Method::OPTIONS, &url).header("origin", "https://shop.example");
        let preflight = preflight.header("access-control-request-method", "POST").send().await.expect("a response");
        assert_eq!(preflight.headers().contains_key("access-control-allow-origin"), allowed, "{path}");
        let form = world.browser().with("creditcard_number", GOOD);
        let posted = world.http().post(&url).header("origin", "https://shop.example");
        let posted = world.send(posted, &form).await.expect("a response");
        assert_eq!(posted.headers().contains_key("access-control-allow-origin"), allowed, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_card_field_is_framed_only_by_its_registered_origin() {
    let registered = ["--origin", "https://shop.example", "--origin", "https://pay.shop.example:8443"];
    let world = World::of(testkit::Cluster::builder().gateway(1), &registered).await;
    let get = async |app_key: &str, origin: &str| {
        let mut url = url::Url::parse(&format!("{}/services/field", world.base())).expect("a URL");
        url.query_pairs_mut().append_pair("app_key", app_key).append_pair("origin", origin);
        world.http().get(url).send().await.expect("a response")
    };
    let app_key = &world.account.app_key;
    let response = get(app_key, "https://shop.example").await;
    assert_eq!(response.status(), 200);
    let policy = response.headers()["content-security-policy"].to_str().expect("text").to_owned();
    assert!(
        policy.contains("frame-ancestors https://shop.example") && policy.contains("default-src 'none'"),
        "{policy}"
    );
    let html = response.text().await.expect("text");
    assert!(html.contains("data-origin=\"https://shop.example\"") && html.contains(app_key), "{html}");
    // All URLs are relative, so any path prefix works; and without scripts the form submits nothing.
    assert!(!html.contains("=\"/") && !html.contains(" name=\"c") && html.contains("<noscript>"), "{html}");
    for origin in [
        "",
        "*",
        "shop.example",
        "https://shop.example/",
        "https://a.example https://b.example",
        "https://*.example",
        "https://a\"b.example",
        "https://a;b.example",
        "javascript:1",
        "null",
    ] {
        assert_eq!(get(app_key, origin).await.status(), 400, "{origin}");
    }
    assert_eq!(get("\"><script>", "https://shop.example").await.status(), 400);
    assert_eq!(get(app_key, "https://pay.shop.example:8443").await.status(), 200);
    // Registered by no account or by another one, or with another scheme or port.
    let other = world.add_account("other", &["--origin", "https://evil.example"]).await;
    for (app_key, origin) in [
        (app_key.as_str(), "https://evil.example"),
        (app_key, "http://shop.example"),
        (app_key, "https://shop.example:8443"),
        (app_key, "https://pay.shop.example"),
        (&other.app_key, "https://shop.example"),
        ("0123456789abcdef0123456789abcdef", "https://shop.example"),
    ] {
        let response = get(app_key, origin).await;
        assert_eq!(response.status(), 403, "{origin}");
        let policy = response.headers()["content-security-policy"].to_str().expect("text").to_owned();
        assert!(policy.contains("frame-ancestors 'none'"), "{policy}");
    }
    for query in ["", "?origin=https://shop.example", "?app_key=1&app_key=2&origin=https://shop.example"] {
        let url = format!("{}/services/field{query}", world.base());
        let response = world.http().get(url).send().await.expect("a response");
        assert_eq!((response.status().as_u16(), &response.headers()["content-type"]), (400, &HTML), "{query}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unauthenticated_clients_are_rate_limited() {
    let builder = testkit::Cluster::builder().gateway(1).env("GATEWAY_PUBLIC_RATE", "1");
    let world = World::of(builder, &[]).await;
    let form = world.browser().with("creditcard_number", GOOD);
    let post = reqwest::Method::POST;
    for (method, path) in [(&post, "proxynization"), (&post, "3ds/0"), (&reqwest::Method::GET, "3ds/0")] {
        let mut refused = 0;
        for _ in 0..30 {
            let request = world.http().request(method.clone(), format!("{}/services/{path}", world.base()));
            refused += usize::from(world.send(request, &form).await.expect("a response").status() == 429);
        }
        assert!(refused >= 10, "{method} {path}: {refused}");
    }
    // Merchants' requests are not counted.
    world.post("sale.php", &world.charge(GOOD)).await.is("00");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_contracts_scripts_work_in_a_page() {
    let world = World::shared().await;
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/api/scripts.mjs");
    let command = tokio::process::Command::new("node").args([script, &world.base(), &world.account.app_key]).output();
    let output = match command.await {
        Ok(output) => output,
        Err(error) => {
            eprintln!("skipped, because node is not installed: {error}");
            return;
        }
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let results: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    for input in ["field", "number", "module"] {
        assert_eq!(results[input][0], "A01", "{results}");
        let proxy = results[input][2].as_str().expect("a proxy number");
        world.post("sale.php", &world.charge(proxy)).await.is("00");
    }
    assert_eq!((&results["invalid"][0], &results["invalid"][2]), (&"02".into(), &"".into()), "{results}");
    assert_ne!(results["missing"][0], "A01", "{results}");
    assert_eq!(results["broken"][0], "E01", "{results}");
    assert_eq!(results["noCallback"], json!([false, 0, 1]), "{results}");
    for paid in ["wallet", "confirmed", "bundled"] {
        assert_eq!(results[paid][0], "S", "{results}");
    }
    let cards = ["creditcard_number", "expire_month", "expire_year", "cvv", "amount", "currency"];
    let form = cards.into_iter().fold(world.charge(GOOD), crate::support::Form::without);
    let token = results["wallet"][1].as_str().expect("a token");
    world.post("wallet_sale.php", &form.with("signature_token", token)).await.is("00");
    for refused in ["cancelled", "otherCard", "noResponse", "production"] {
        assert_eq!(results[refused][0], "F", "{results}");
    }
    the_field_reports_errors(&world, &results["frame"]).await;
}

/// Errors are reported to the user and to the framing page, and the form can be submitted again.
async fn the_field_reports_errors(world: &World, results: &Value) {
    for field in ["creditcard_number", "expire_month", "cvv", "country_code"] {
        let result = &results[field];
        assert_eq!((&result["invalid"], &result["focused"]), (&json!([field]), &json!(true)), "{results}");
        assert_eq!(
            (&result["message"]["type"], &result["message"]["message"]),
            (&json!("error"), &result["displayed"]),
            "{results}"
        );
        assert!(result["displayed"].as_str().is_some_and(|text| !text.is_empty()), "{results}");
    }
    assert_eq!(
        (&results["broken"]["message"]["type"], &results["broken"]["invalid"]),
        (&json!("error"), &json!([])),
        "{results}"
    );
    let valid = &results["valid"];
    assert_eq!((&valid["displayed"], &valid["invalid"]), (&json!(""), &json!([])), "{results}");
    assert_eq!(valid["message"]["origin"], "https://shop.example", "{results}");
    let token = valid["message"]["upstreamToken"].as_str().expect("a token");
    let cards = ["creditcard_number", "expire_month", "expire_year", "cvv"];
    let form = cards.into_iter().fold(world.charge(GOOD), crate::support::Form::without);
    world.post("sale.php", &form.with("card_token", token)).await.is("00");
}
