//! What browsers load and call.

use reqwest::header::HeaderValue;
use serde_json::{Value, json};

use crate::support::{GOOD, World};

const HTML: HeaderValue = HeaderValue::from_static("text/html; charset=utf-8");

#[tokio::test(flavor = "multi_thread")]
async fn the_contracts_scripts_are_served() {
    let world = World::new().await;
    for (path, kind, mentions) in [
        ("proxynization_api.js", "text/javascript", "GatewayProxynizationAPI"),
        ("walletPaySandbox.js", "text/javascript", "gatewayWalletPay"),
        ("walletPay.js", "text/javascript", "gatewayWalletPay"),
        ("field.js", "text/javascript", "upstreamToken"),
        ("gateway.css", "text/css", "input"),
        ("bank.css", "text/css", "button"),
        ("bank.js", "text/javascript", "seconds"),
    ] {
        let answer = world.http().get(format!("{}/services/{path}", world.base())).send().await.expect("an answer");
        assert_eq!(answer.status(), 200, "{path}");
        assert!(answer.headers()["content-type"].to_str().expect("text").starts_with(kind), "{path}");
        assert!(answer.text().await.expect("text").contains(mentions), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn any_page_may_call_what_is_public_and_none_the_api() {
    let world = World::new().await;
    for (path, allowed) in [
        ("services/proxynization", true),
        ("services/field_token", true),
        ("services/wallet_token", true),
        ("apis/sale.php", false),
    ] {
        let url = format!("{}/{path}", world.base());
        let preflight = world.http().request(reqwest::Method::OPTIONS, &url).header("origin", "https://shop.example");
        let preflight = preflight.header("access-control-request-method", "POST").send().await.expect("an answer");
        assert_eq!(preflight.headers().contains_key("access-control-allow-origin"), allowed, "{path}");
        let form = world.browser().with("creditcard_number", GOOD);
        let posted = world.http().post(&url).header("origin", "https://shop.example");
        let posted = world.send(posted, &form).await.expect("an answer");
        assert_eq!(posted.headers().contains_key("access-control-allow-origin"), allowed, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_field_is_framed_by_the_origin_it_is_for() {
    let registered = ["--origin", "https://shop.example", "--origin", "https://pay.shop.example:8443"];
    let world = World::of(testkit::Cluster::builder().gateway(1), &registered).await;
    let get = async |app_key: &str, origin: &str| {
        let mut url = url::Url::parse(&format!("{}/services/field", world.base())).expect("a URL");
        url.query_pairs_mut().append_pair("app_key", app_key).append_pair("origin", origin);
        world.http().get(url).send().await.expect("an answer")
    };
    let app_key = &world.account.app_key;
    let answer = get(app_key, "https://shop.example").await;
    assert_eq!(answer.status(), 200);
    let policy = answer.headers()["content-security-policy"].to_str().expect("text").to_owned();
    assert!(
        policy.contains("frame-ancestors https://shop.example") && policy.contains("default-src 'none'"),
        "{policy}"
    );
    let html = answer.text().await.expect("text");
    assert!(html.contains("data-origin=\"https://shop.example\"") && html.contains(app_key), "{html}");
    // Whatever it needs is beside it, under whatever path; and a browser without scripts has nothing to submit.
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
    // Registered by nobody, or by another account, or with another scheme or port.
    let other = world.add_account("other", &["--origin", "https://evil.example"]).await;
    for (app_key, origin) in [
        (app_key.as_str(), "https://evil.example"),
        (app_key, "http://shop.example"),
        (app_key, "https://shop.example:8443"),
        (app_key, "https://pay.shop.example"),
        (&other.app_key, "https://shop.example"),
        ("0123456789abcdef0123456789abcdef", "https://shop.example"),
    ] {
        let answer = get(app_key, origin).await;
        assert_eq!(answer.status(), 403, "{origin}");
        let policy = answer.headers()["content-security-policy"].to_str().expect("text").to_owned();
        assert!(policy.contains("frame-ancestors 'none'"), "{policy}");
    }
    for query in ["", "?origin=https://shop.example", "?app_key=1&app_key=2&origin=https://shop.example"] {
        let url = format!("{}/services/field{query}", world.base());
        let answer = world.http().get(url).send().await.expect("an answer");
        assert_eq!((answer.status().as_u16(), &answer.headers()["content-type"]), (400, &HTML), "{query}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_asks_too_often_without_an_account_has_to_wait() {
    let builder = testkit::Cluster::builder().gateway(1).env("GATEWAY_PUBLIC_RATE", "1");
    let world = World::of(builder, &[]).await;
    let form = world.browser().with("creditcard_number", GOOD);
    let post = reqwest::Method::POST;
    for (method, path) in [(&post, "proxynization"), (&post, "3ds/0"), (&reqwest::Method::GET, "3ds/0")] {
        let mut refused = 0;
        for _ in 0..30 {
            let request = world.http().request(method.clone(), format!("{}/services/{path}", world.base()));
            refused += usize::from(world.send(request, &form).await.expect("an answer").status() == 429);
        }
        assert!(refused >= 10, "{method} {path}: {refused}");
    }
    // A merchant is not counted among them.
    world.post("sale.php", &world.charge(GOOD)).await.is("00");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_contracts_scripts_do_what_they_promise() {
    let world = World::new().await;
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/api/scripts.mjs");
    let command = tokio::process::Command::new("node").args([script, &world.base(), &world.account.app_key]).output();
    let output = match command.await {
        Ok(output) => output,
        Err(error) => {
            eprintln!("skipped, for node is not here: {error}");
            return;
        }
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let told: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    for way in ["field", "number", "module"] {
        assert_eq!(told[way][0], "A01", "{told}");
        let proxy = told[way][2].as_str().expect("a proxy number");
        world.post("sale.php", &world.charge(proxy)).await.is("00");
    }
    assert_eq!((&told["wrong"][0], &told["wrong"][2]), (&"02".into(), &"".into()), "{told}");
    assert_ne!(told["missing"][0], "A01", "{told}");
    assert_eq!(told["broken"][0], "E01", "{told}");
    assert_eq!(told["nobody"], json!([false, 0, 1]), "{told}");
    for paid in ["wallet", "agreed", "bundled"] {
        assert_eq!(told[paid][0], "S", "{told}");
    }
    let cards = ["creditcard_number", "expire_month", "expire_year", "cvv", "amount", "currency"];
    let form = cards.into_iter().fold(world.charge(GOOD), crate::support::Form::without);
    let token = told["wallet"][1].as_str().expect("a token");
    world.post("wallet_sale.php", &form.with("signature_token", token)).await.is("00");
    for refused in ["cancelled", "stranger", "silent", "production"] {
        assert_eq!(told[refused][0], "F", "{told}");
    }
    the_field_tells_what_is_wrong(&world, &told["frame"]).await;
}

/// To who fills it in and to the page that frames it, and may be submitted again.
async fn the_field_tells_what_is_wrong(world: &World, told: &Value) {
    for wrong in ["creditcard_number", "expire_month", "cvv", "country_code"] {
        let said = &told[wrong];
        assert_eq!((&said["wrong"], &said["focused"]), (&json!([wrong]), &json!(true)), "{told}");
        assert_eq!(
            (&said["message"]["type"], &said["message"]["message"]),
            (&json!("error"), &said["shown"]),
            "{told}"
        );
        assert!(said["shown"].as_str().is_some_and(|shown| !shown.is_empty()), "{told}");
    }
    assert_eq!((&told["broken"]["message"]["type"], &told["broken"]["wrong"]), (&json!("error"), &json!([])), "{told}");
    let right = &told["right"];
    assert_eq!((&right["shown"], &right["wrong"]), (&json!(""), &json!([])), "{told}");
    assert_eq!(right["message"]["origin"], "https://shop.example", "{told}");
    let token = right["message"]["upstreamToken"].as_str().expect("a token");
    let cards = ["creditcard_number", "expire_month", "expire_year", "cvv"];
    let form = cards.into_iter().fold(world.charge(GOOD), crate::support::Form::without);
    world.post("sale.php", &form.with("card_token", token)).await.is("00");
}
