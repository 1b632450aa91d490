//! Wallet sales: a token is usable once, by its account, unaltered.

use serde_json::Value;

use crate::support::{DECLINED, Form, GOOD, World, count};

fn token_request(world: &World) -> Form {
    world.browser().with("amount", "25.00").with("currency", "USD")
}

async fn sign(world: &World, form: &Form) -> String {
    let reply = world.post_public("wallet_token", form).await;
    reply.is("00").text("signature_token").to_owned()
}

/// A wallet sale, which has no card or amount of its own.
fn sale(world: &World, token: &str) -> Form {
    let form = world.charge(GOOD).with("signature_token", token);
    let cards = ["creditcard_number", "expire_month", "expire_year", "cvv", "amount", "currency"];
    cards.into_iter().fold(form, Form::without).without("ship_address_as_bill_address")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wallet_token_pays_the_confirmed_amount_once() {
    let world = World::shared().await;
    let token = sign(&world, &token_request(&world)).await;
    let parsed: Value = serde_json::from_str(&token).expect("a JSON object");
    let mut keys: Vec<_> = parsed.as_object().expect("an object").keys().map(String::as_str).collect();
    keys.sort_unstable();
    let contract = [
        "data",
        "displayName",
        "ephemeralPublicKey",
        "identifyKey",
        "network",
        "publicKeyHash",
        "signature",
        "transactionId",
        "type",
        "version",
    ];
    assert_eq!(keys, contract);
    assert!(!token.contains("4111111111111111"));

    let form = sale(&world, &token).with("amount", "0.01").with("reference_id", "w");
    world.post("wallet_sale.php", &form.clone().with("email", "x")).await.expect_error("06", "");
    let reply = world.post("wallet_sale.php", &form).await;
    let record = world.record(reply.id()).await;
    assert_eq!(reply.0["total_amount"], 25.0);
    assert_eq!((record["amount"].as_str(), record["transaction_type"].as_str()), (Some("25.00"), Some("SALE")));
    assert_eq!((record["transaction_source"].as_str(), record["reference_id"].as_str()), (Some("WALLET"), Some("w")));
    world.post("wallet_sale.php", &form).await.expect_error("26", "");
    world.post("wallet_sale.php", &form.without("reference_id")).await.expect_error("F", "used before");
    world
        .post("wallet_sale.php", &sale(&world, "x").without("signature_token"))
        .await
        .expect_error("A1", "signature_token");
}

#[tokio::test(flavor = "multi_thread")]
async fn thirty_concurrent_sales_with_one_token_charge_one() {
    let world = World::shared().await;
    let form = sale(&world, &sign(&world, &token_request(&world)).await);
    let forms: Vec<_> = (0..30).map(|n| form.clone().with("reference_id", &format!("w{n}"))).collect();
    let reply = futures_util::future::join_all(forms.iter().map(|form| world.post("wallet_sale.php", form))).await;
    assert_eq!((count(&reply, "00"), count(&reply, "F")), (1, 29), "{reply:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn altered_wallet_tokens_are_refused() {
    let world = World::shared().await;
    let token = sign(&world, &token_request(&world)).await;
    let parsed: Value = serde_json::from_str(&token).expect("a JSON object");
    for (name, value) in parsed.as_object().expect("an object") {
        let mut tampered = parsed.clone();
        let text = value.as_str().expect("a text");
        let first = if text.starts_with('A') { "B" } else { "A" };
        tampered[name] = Value::String(format!("{first}{}", &text[1..]));
        world.post("wallet_sale.php", &sale(&world, &tampered.to_string())).await.expect_error("F", "not valid");
        tampered.as_object_mut().expect("an object").remove(name);
        world.post("wallet_sale.php", &sale(&world, &tampered.to_string())).await.expect_error("F", "not valid");
    }
    for nonsense in ["{}", "[]", "null", "x", "\"\""] {
        world.post("wallet_sale.php", &sale(&world, nonsense)).await.expect_error("F", "not valid");
    }
    let other = world.add_account("other", &[]).await;
    let theirs = sale(&world, &token).with("username", &other.username).with("api_key", &other.api_key);
    world.post("wallet_sale.php", &theirs).await.expect_error("F", "not valid");
    assert!(world.report(&[]).await.is_empty());
    world.post("wallet_sale.php", &sale(&world, &token)).await.is("00");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sandbox_wallet_accepts_only_test_cards() {
    let world = World::shared().await;
    let declined = sign(&world, &token_request(&world).with("creditcard_number", DECLINED)).await;
    world.post("wallet_sale.php", &sale(&world, &declined)).await.expect_error("F", "declined");
    for (name, value, code) in [
        ("app_key", "x", "01"),
        ("creditcard_number", "4000056655665556", "02"),
        ("amount", "0", "07"),
        ("currency", "", "08"),
        ("currency", "JPY", "10"),
    ] {
        world.post_public("wallet_token", &token_request(&world).with(name, value)).await.expect_error(code, "");
    }
    let token = sign(&world, &token_request(&world)).await;
    world.set(&["--currency", "EUR"]).await;
    world.post("wallet_sale.php", &sale(&world, &token)).await.expect_error("10", "");
}
