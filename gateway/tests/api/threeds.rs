//! 3-D Secure: the challenge, the page, the way back, and what the report says meanwhile.

use serde_json::Value;

use crate::support::{CHALLENGED, Form, GOOD, Said, World, until};

const SHOP: &str = "https://shop.example/done?order=7";

fn challenge(world: &World) -> Form {
    world.charge(CHALLENGED).with("3ds_redirect_url", SHOP)
}

async fn begin(world: &World) -> Said {
    let said = world.post("sale.php", &challenge(world)).await;
    said.is("00");
    assert!(said.text("description").to_lowercase().contains("pending cardholder authentication"), "{}", said.0);
    said
}

async fn get(world: &World, url: &str) -> (u16, String, String) {
    let answer = world.http().get(url).send().await.expect("an answer");
    let location = answer.headers().get("location").map(|value| value.to_str().expect("text").to_owned());
    (answer.status().as_u16(), location.unwrap_or_default(), answer.text().await.expect("text"))
}

/// Presses a button and gives back where the browser is sent.
async fn press(world: &World, url: &str, decision: &str) -> String {
    let form = Form::empty().with("decision", decision);
    let answer = world.raw(url, &form).await;
    assert_eq!(answer.status(), 303, "{decision}");
    answer.headers()["location"].to_str().expect("text").to_owned()
}

fn query(location: &str) -> Vec<(String, String)> {
    url::Url::parse(location).expect("a URL").query_pairs().into_owned().collect()
}

fn asked(location: &str, name: &str) -> String {
    query(location).into_iter().find(|(key, _)| key == name).map(|(_, value)| value).unwrap_or_default()
}

async fn standing(world: &World, id: &str) -> (String, String) {
    let record = world.record(id).await;
    let text = |name: &str| record[name].as_str().expect(name).to_owned();
    assert_eq!(text("3d_secure_transaction"), "YES");
    (text("transaction_status"), text("decline_reason"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_confirmed_challenge_is_charged() {
    let world = World::new().await;
    let said = begin(&world).await;
    let page = said.text("redirect_url").to_owned();
    assert!(page.starts_with(&world.base()), "{page}");
    assert_eq!(standing(&world, said.id()).await, ("FAIL".into(), "pending cardholder authentication".into()));
    let (status, _, html) = get(&world, &page).await;
    assert_eq!(status, 200);
    for shown in ["Confirm", "Refuse", "XXXXXXXXXXXX3155", "USD", "shop"] {
        assert!(html.contains(shown), "no {shown} in {html}");
    }
    assert!(!html.contains("=\"/"), "it may stand under any path: {html}");
    let location = press(&world, &page, "confirm").await;
    assert!(location.starts_with("https://shop.example/done?order=7&"), "{location}");
    assert_eq!(asked(&location, "transaction_id"), said.id());
    assert_eq!(asked(&location, "code"), "00");
    assert!(!asked(&location, "description").is_empty());
    assert_eq!(standing(&world, said.id()).await, ("SUCCESS".into(), String::new()));
    // The cvv was there when the sale came, and is remembered as what the issuer says to it alone.
    assert_eq!(world.record(said.id()).await["cvv_response_code"], "M");
    // Pressed again, or refused afterwards, nothing changes.
    for decision in ["confirm", "refuse"] {
        assert_eq!(asked(&press(&world, &page, decision).await, "code"), "00");
    }
    assert_eq!(get(&world, &page).await.0, 303, "the page leads back");
    assert_eq!(world.number("SELECT count(*) FROM gateway.acquirer_books").await, 1);
    let refund = world.keys().with("transaction_id", said.id()).with("amount", "0.01");
    world.post("refund.php", &refund).await.is("00");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_way_back_may_lead_through_any_number_of_origins() {
    let world = World::new().await;
    let page = begin(&world).await.text("redirect_url").to_owned();
    let answer = world.http().get(&page).send().await.expect("an answer");
    let policy = answer.headers()["content-security-policy"].to_str().expect("text");
    // The merchant's address may send the browser on, and browsers ask this of each step.
    let targets = policy.split("; ").find_map(|directive| directive.strip_prefix("form-action "));
    assert_eq!(targets, Some("'self' https: http:"), "{policy}");
    assert!(!policy.contains("shop.example"), "{policy}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_challenge_fails_and_frees_what_it_held() {
    let world = World::new().await;
    let form = challenge(&world);
    let said = world.post("sale.php", &form).await;
    world.post("sale.php", &form).await.refuses("26", "");
    let location = press(&world, said.text("redirect_url"), "refuse").await;
    assert_eq!(asked(&location, "code"), "F");
    assert_eq!(standing(&world, said.id()).await, ("FAIL".into(), "cardholder authentication refused".into()));
    assert_eq!(asked(&press(&world, said.text("redirect_url"), "confirm").await, "code"), "F");
    assert_eq!(world.number("SELECT count(*) FROM gateway.acquirer_books").await, 0);
    world.post("sale.php", &form).await.is("00");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_challenge_that_nobody_answers_fails_by_itself() {
    let world = World::new().await;
    let said = begin(&world).await;
    let window = "SELECT count(*) FROM gateway.transactions WHERE challenge_ends_at - created_at
                  BETWEEN interval '29 seconds' AND interval '31 seconds'";
    assert_eq!(world.number(window).await, 1);
    world.execute("UPDATE gateway.transactions SET challenge_ends_at = clock_timestamp()").await;
    // Before the sweep comes by: too late is too late.
    assert_eq!(asked(&press(&world, said.text("redirect_url"), "confirm").await, "code"), "F");
    assert_eq!(get(&world, said.text("redirect_url")).await.0, 303);
    world.execute("UPDATE gateway.transactions SET recover_at = clock_timestamp() WHERE recover_at IS NOT NULL").await;
    until("the end of the challenge", async || {
        (standing(&world, said.id()).await.1 == "cardholder authentication expired").then_some(())
    })
    .await;
    assert_eq!(world.number("SELECT count(*) FROM gateway.transactions WHERE number IS NOT NULL").await, 0);
    assert_eq!(asked(&press(&world, said.text("redirect_url"), "confirm").await, "code"), "F");
}

#[tokio::test(flavor = "multi_thread")]
async fn thirty_confirmations_at_once_charge_once() {
    let slow = testkit::Cluster::builder().gateway(1).env("GATEWAY_ACQUIRER_DELAY_MS", "600");
    let world = World::of(slow, &[]).await;
    let said = begin(&world).await;
    let page = said.text("redirect_url");
    let all = futures_util::future::join_all((0..30).map(|_| press(&world, page, "confirm"))).await;
    // Those that come while it is under way wait for its end.
    assert!(all.iter().all(|location| asked(location, "code") == "00"), "{all:?}");
    assert_eq!(world.number("SELECT count(*) FROM gateway.acquirer_books").await, 1);
    assert_eq!(standing(&world, said.id()).await.0, "SUCCESS");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_asked_and_who_is_not() {
    let world = World::new().await;
    let set = async |name: &str, value: &str| {
        world.cluster.run_gateway(&["account", "set", "--username", "shop", name, value]).await.expect("set");
    };
    // A sale needs a way back; an authorization without one is declined by the issuer.
    world.post("sale.php", &challenge(&world).without("3ds_redirect_url")).await.refuses("A1", "3ds_redirect_url");
    world.post("sale.php", &challenge(&world).with("3ds_redirect_url", "shop")).await.refuses("A1", "3ds_redirect_url");
    world
        .post("sale.php", &challenge(&world).with("3ds_redirect_url", "javascript:1"))
        .await
        .refuses("A1", "3ds_redirect_url");
    world.post("authorize.php", &world.charge(CHALLENGED)).await.refuses("F", "authentication required");
    let authorized = world.post("authorize.php", &challenge(&world)).await;
    assert_eq!(asked(&press(&world, authorized.text("redirect_url"), "confirm").await, "code"), "00");
    let capture = world.keys().with("transaction_id", authorized.id()).with("amount", "1.00");
    world.post("capture.php", &capture).await.is("00");
    // Other cards are not asked, nor are credits.
    let plain = world.post("sale.php", &world.charge(GOOD).with("3ds_redirect_url", SHOP)).await;
    assert_eq!(plain.is("00").0["redirect_url"], Value::Null);
    world.post("unreference_refund.php", &world.charge(CHALLENGED)).await.is("00");
    set("--deny-unauthenticated", "true").await;
    world.post("sale.php", &world.charge(GOOD)).await.refuses("F", "card not authenticated");
    set("--deny-unauthenticated", "false").await;
    set("--three-ds", "false").await;
    let said = world.post("sale.php", &world.charge(CHALLENGED)).await;
    assert_eq!(said.is("00").0["redirect_url"], Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_nobody_was_sent_to_is_none() {
    let world = World::new().await;
    let nowhere = format!("{}/services/3ds/{}", world.base(), "0".repeat(64));
    assert_eq!(get(&world, &nowhere).await.0, 404);
    let said = begin(&world).await;
    let odd = Form::empty().with("decision", "perhaps");
    assert_eq!(world.raw(said.text("redirect_url"), &odd).await.status(), 400);
    let answer = world.http().get(said.text("redirect_url")).send().await.expect("an answer");
    let policy = answer.headers()["content-security-policy"].to_str().expect("text").to_owned();
    assert!(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"), "{policy}");
    assert_eq!(answer.headers()["cache-control"], "no-store");
}
