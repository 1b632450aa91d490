//! 3-D Secure: the challenge, its page, the redirect back, and the report in between.

use serde_json::Value;

use crate::support::{CHALLENGED, Form, GOOD, Reply, World, wait_until};

const RETURN_URL: &str = "https://shop.example/done?order=7";

fn challenge(world: &World) -> Form {
    world.charge(CHALLENGED).with("3ds_redirect_url", RETURN_URL)
}

async fn begin(world: &World) -> Reply {
    let reply = world.post("sale.php", &challenge(world)).await;
    reply.is("00");
    assert!(reply.text("description").to_lowercase().contains("pending cardholder authentication"), "{}", reply.0);
    reply
}

async fn get(world: &World, url: &str) -> (u16, String, String) {
    let response = world.http().get(url).send().await.expect("a response");
    let location = response.headers().get("location").map(|value| value.to_str().expect("text").to_owned());
    (response.status().as_u16(), location.unwrap_or_default(), response.text().await.expect("text"))
}

/// Presses a button and returns where the browser is redirected.
async fn press(world: &World, url: &str, decision: &str) -> String {
    let form = Form::empty().with("decision", decision);
    let response = world.raw(url, &form).await;
    assert_eq!(response.status(), 303, "{decision}");
    response.headers()["location"].to_str().expect("text").to_owned()
}

fn query(location: &str) -> Vec<(String, String)> {
    url::Url::parse(location).expect("a URL").query_pairs().into_owned().collect()
}

fn parameter(location: &str, name: &str) -> String {
    query(location).into_iter().find(|(key, _)| key == name).map(|(_, value)| value).unwrap_or_default()
}

async fn status_of(world: &World, id: &str) -> (String, String) {
    let record = world.record(id).await;
    let text = |name: &str| record[name].as_str().expect(name).to_owned();
    assert_eq!(text("3d_secure_transaction"), "YES");
    (text("transaction_status"), text("decline_reason"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_confirmed_challenge_is_charged() {
    let world = World::new().await;
    let reply = begin(&world).await;
    let page = reply.text("redirect_url").to_owned();
    assert!(page.starts_with(&world.base()), "{page}");
    assert_eq!(status_of(&world, reply.id()).await, ("FAIL".into(), "pending cardholder authentication".into()));
    let (status, _, html) = get(&world, &page).await;
    assert_eq!(status, 200);
    for shown in ["Confirm", "Refuse", "XXXXXXXXXXXX3155", "USD", "shop"] {
        assert!(html.contains(shown), "no {shown} in {html}");
    }
    assert!(!html.contains("=\"/"), "URLs must be relative: {html}");
    let location = press(&world, &page, "confirm").await;
    assert!(location.starts_with("https://shop.example/done?order=7&"), "{location}");
    assert_eq!(parameter(&location, "transaction_id"), reply.id());
    assert_eq!(parameter(&location, "code"), "00");
    assert!(!parameter(&location, "description").is_empty());
    assert_eq!(status_of(&world, reply.id()).await, ("SUCCESS".into(), String::new()));
    // The cvv came with the sale; only the issuer's response to it is stored.
    assert_eq!(world.record(reply.id()).await["cvv_response_code"], "M");
    // Confirming again or refusing afterwards changes nothing.
    for decision in ["confirm", "refuse"] {
        assert_eq!(parameter(&press(&world, &page, decision).await, "code"), "00");
    }
    assert_eq!(get(&world, &page).await.0, 303, "the page redirects");
    assert_eq!(world.number("SELECT count(*) FROM gateway.acquirer_books").await, 1);
    let refund = world.keys().with("transaction_id", reply.id()).with("amount", "0.01");
    world.post("refund.php", &refund).await.is("00");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_is_in_the_language_of_its_url_or_of_the_browser() {
    let world = World::shared().await;
    let url = begin(&world).await.text("redirect_url").to_owned();
    for (query, accepted, language, shown) in [
        ("", "xx", "en", ["Confirm", "Time to decide: "]),
        ("", "de-AT,en;q=0.5", "de", ["Bestätigen", "Zeit für die Entscheidung: "]),
        ("?lang=es", "de", "es", ["Rechazar", "Tiempo para decidir: "]),
        ("?lang=fr", "de", "fr", ["Confirmer", "Temps pour décider : "]),
        ("?lang=ja", "de", "ja", ["確認する", "残り時間："]),
    ] {
        let request = world.http().get(format!("{url}{query}")).header("accept-language", accepted);
        let html = request.send().await.expect("a response").text().await.expect("text");
        for text in [format!("<html lang=\"{language}\">").as_str(), shown[0], shown[1]] {
            assert!(html.contains(text), "no {text} in {html}");
        }
        assert!(!html.contains('{'), "every value is filled in: {html}");
    }
    let odd = Form::empty().with("decision", "perhaps");
    let response = world.raw(&format!("{url}?lang=de"), &odd).await;
    assert!(response.text().await.expect("text").contains("Bitte wählen Sie"));
    // The query of the return URL is that of the contract.
    let location = press(&world, &format!("{url}?lang=de"), "confirm").await;
    let names: Vec<_> = query(&location).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["order", "transaction_id", "code", "description"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_return_url_may_redirect_through_any_origins() {
    let world = World::shared().await;
    let page = begin(&world).await.text("redirect_url").to_owned();
    let response = world.http().get(&page).send().await.expect("a response");
    let policy = response.headers()["content-security-policy"].to_str().expect("text");
    // The merchant's URL may redirect further, and browsers apply this directive to each redirect.
    let targets = policy.split("; ").find_map(|directive| directive.strip_prefix("form-action "));
    assert_eq!(targets, Some("'self' https: http:"), "{policy}");
    assert!(!policy.contains("shop.example"), "{policy}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_challenge_fails_and_releases_its_reservations() {
    let world = World::new().await;
    let form = challenge(&world);
    let reply = world.post("sale.php", &form).await;
    world.post("sale.php", &form).await.expect_error("26", "");
    let location = press(&world, reply.text("redirect_url"), "refuse").await;
    assert_eq!(parameter(&location, "code"), "F");
    assert_eq!(status_of(&world, reply.id()).await, ("FAIL".into(), "cardholder authentication refused".into()));
    assert_eq!(parameter(&press(&world, reply.text("redirect_url"), "confirm").await, "code"), "F");
    assert_eq!(world.number("SELECT count(*) FROM gateway.acquirer_books").await, 0);
    world.post("sale.php", &form).await.is("00");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unanswered_challenge_expires() {
    let world = World::new().await;
    let mut database = world.database().await;
    let before: String =
        sqlx::query_scalar("SELECT clock_timestamp()::text").fetch_one(&mut database).await.expect("the time");
    let reply = begin(&world).await;
    let window = "SELECT challenge_ends_at - interval '30 seconds' BETWEEN $1::timestamptz AND clock_timestamp()
                  FROM gateway.transactions";
    assert!(sqlx::query_scalar::<_, bool>(window).bind(before).fetch_one(&mut database).await.expect("one"));
    world.execute("UPDATE gateway.transactions SET challenge_ends_at = clock_timestamp()").await;
    // It is too late even before the sweep has run.
    assert_eq!(parameter(&press(&world, reply.text("redirect_url"), "confirm").await, "code"), "F");
    assert_eq!(get(&world, reply.text("redirect_url")).await.0, 303);
    world.execute("UPDATE gateway.transactions SET recover_at = clock_timestamp() WHERE recover_at IS NOT NULL").await;
    wait_until("the end of the challenge", async || {
        (status_of(&world, reply.id()).await.1 == "cardholder authentication expired").then_some(())
    })
    .await;
    assert_eq!(world.number("SELECT count(*) FROM gateway.transactions WHERE number IS NOT NULL").await, 0);
    assert_eq!(parameter(&press(&world, reply.text("redirect_url"), "confirm").await, "code"), "F");
}

#[tokio::test(flavor = "multi_thread")]
async fn thirty_concurrent_confirmations_charge_once() {
    let slow = testkit::Cluster::builder().gateway(1).env("GATEWAY_ACQUIRER_DELAY_MS", "600");
    let world = World::of(slow, &[]).await;
    let reply = begin(&world).await;
    let page = reply.text("redirect_url");
    let all = futures_util::future::join_all((0..30).map(|_| press(&world, page, "confirm"))).await;
    // Concurrent confirmations wait for the outcome of the first.
    assert!(all.iter().all(|location| parameter(location, "code") == "00"), "{all:?}");
    assert_eq!(world.number("SELECT count(*) FROM gateway.acquirer_books").await, 1);
    assert_eq!(status_of(&world, reply.id()).await.0, "SUCCESS");
}

#[tokio::test(flavor = "multi_thread")]
async fn challenges_depend_on_operation_card_and_settings() {
    let world = World::shared().await;
    // A sale requires a return URL; an authorization without one is declined.
    world.post("sale.php", &challenge(&world).without("3ds_redirect_url")).await.expect_error("A1", "3ds_redirect_url");
    world
        .post("sale.php", &challenge(&world).with("3ds_redirect_url", "shop"))
        .await
        .expect_error("A1", "3ds_redirect_url");
    world
        .post("sale.php", &challenge(&world).with("3ds_redirect_url", "javascript:1"))
        .await
        .expect_error("A1", "3ds_redirect_url");
    world.post("authorize.php", &world.charge(CHALLENGED)).await.expect_error("F", "authentication required");
    let authorized = world.post("authorize.php", &challenge(&world)).await;
    assert_eq!(parameter(&press(&world, authorized.text("redirect_url"), "confirm").await, "code"), "00");
    let capture = world.keys().with("transaction_id", authorized.id()).with("amount", "1.00");
    world.post("capture.php", &capture).await.is("00");
    // Other cards and credits are not challenged.
    let plain = world.post("sale.php", &world.charge(GOOD).with("3ds_redirect_url", RETURN_URL)).await;
    assert_eq!(plain.is("00").0["redirect_url"], Value::Null);
    world.post("unreference_refund.php", &world.charge(CHALLENGED)).await.is("00");
    world.set(&["--deny-unauthenticated", "true"]).await;
    world.post("sale.php", &world.charge(GOOD)).await.expect_error("F", "card not authenticated");
    world.set(&["--deny-unauthenticated", "false"]).await;
    world.set(&["--three-ds", "false"]).await;
    let reply = world.post("sale.php", &world.charge(CHALLENGED)).await;
    assert_eq!(reply.is("00").0["redirect_url"], Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_challenge_url_is_404() {
    let world = World::shared().await;
    let nowhere = format!("{}/services/3ds/{}", world.base(), "0".repeat(64));
    assert_eq!(get(&world, &nowhere).await.0, 404);
    let reply = begin(&world).await;
    let odd = Form::empty().with("decision", "perhaps");
    assert_eq!(world.raw(reply.text("redirect_url"), &odd).await.status(), 400);
    let response = world.http().get(reply.text("redirect_url")).send().await.expect("a response");
    let policy = response.headers()["content-security-policy"].to_str().expect("text").to_owned();
    assert!(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"), "{policy}");
    assert_eq!(response.headers()["cache-control"], "no-store");
}
