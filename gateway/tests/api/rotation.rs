//! The key of card numbers is changed: what the former has encrypted stays readable, and comes under the new one.

use serde_json::Value;
use testkit::{Builder, Cluster};

use crate::support::{CHALLENGED, Form, GOOD, World, encrypt};

const OTHER: &str = "5555555555554444";

fn key(digit: &str) -> String {
    digit.repeat(64)
}

/// A gateway's environment: the current key, and the others.
fn with_keys(current: &str, others: &[&str]) -> Builder {
    let others: Vec<_> = others.iter().copied().map(key).collect();
    let builder = Cluster::builder().env("GATEWAY_PEPPER", &key("9")).env("GATEWAY_CARD_KEY", &key(current));
    builder.env("GATEWAY_OLD_CARD_KEYS", &others.join(","))
}

async fn world() -> World {
    World::of(with_keys("a", &[]).gateway(1), &[]).await
}

fn card(form: Form, number: &str) -> Form {
    form.with("creditcard_number", number).with("expire_month", "12").with("expire_year", "2034")
}

fn by_token(world: &World, token: &str) -> Form {
    let form = world.charge(GOOD).with("card_token", token);
    ["creditcard_number", "expire_month", "expire_year", "cvv"].into_iter().fold(form, Form::without)
}

/// Something of everything that is kept encrypted.
struct Kept {
    card: String,
    field: String,
    changed: String,
    became: String,
    proxy: String,
    challenge: String,
    asked: String,
}

async fn keep(world: &World) -> Kept {
    let field = async || {
        let form = card(world.browser(), OTHER).with("cvv", "917");
        world.browse("field_token", &form).await.is("00").text("card_token").to_owned()
    };
    let stored = world.post("add_card.php", &card(world.keys(), OTHER)).await;
    let changed = field().await;
    let became = world.post("add_card.php", &world.keys().with("card_token", &changed)).await;
    let proxy = world.browse("proxynization", &world.browser().with("creditcard_number", OTHER)).await;
    let form = world.charge(CHALLENGED).with("3ds_redirect_url", "https://shop.example/");
    let pending = world.post("sale.php", &form).await;
    Kept {
        card: stored.is("00").text("card_token").to_owned(),
        field: field().await,
        changed,
        became: became.is("00").text("card_token").to_owned(),
        proxy: proxy.is("A01").text("proxy_number").to_owned(),
        challenge: pending.text("redirect_url").rsplit_once('/').expect("a path").1.to_owned(),
        asked: pending.id().to_owned(),
    }
}

/// What can be asked again and again.
async fn is_readable(world: &World, kept: &Kept) {
    for token in [&kept.card, &kept.became] {
        let sold = world.post("sale.php", &by_token(world, token)).await;
        assert_eq!(world.record(sold.id()).await["credit_card_number"], "XXXXXXXXXXXX4444");
    }
    let sold = world.post("sale.php", &world.charge(&kept.proxy)).await;
    assert_eq!(world.record(sold.id()).await["credit_card_number"], "XXXXXXXXXXXX4444");
    let again = world.post("add_card.php", &world.keys().with("card_token", &kept.changed)).await;
    assert_eq!(again.text("card_token"), kept.became);
    let sealed = encrypt(&world.account.secret_key, OTHER);
    world.post("sale.php", &world.charge(&sealed).with("use_secret_key", "Y")).await.is("00");
}

/// What is used up by it.
async fn is_usable(world: &World, kept: &Kept) {
    world.post("authorize.php", &by_token(world, &kept.field)).await.is("00");
    let page = format!("{}/services/3ds/{}", world.base(), kept.challenge);
    world.raw(&page, &Form::empty().with("decision", "confirm")).await;
    assert_eq!(world.record(&kept.asked).await["transaction_status"], "SUCCESS");
}

async fn reencrypt(world: &World) -> [Value; 3] {
    let mut said = world.cluster.run_gateway(&["reencrypt"]).await.expect("re-encrypted");
    ["reencrypted", "remaining", "unreadable"].map(|name| said[name].take())
}

fn figures(reencrypted: i64, remaining: i64, unreadable: i64) -> [Value; 3] {
    [reencrypted.into(), remaining.into(), unreadable.into()]
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_is_read_under_an_old_key_and_then_under_the_new_one_alone() {
    let first = world().await;
    let kept = keep(&first).await;
    // From here on all comes by the former keys of the account, which hold for an hour.
    first.cluster.run_gateway(&["account", "rotate-keys", "--username", "shop"]).await.expect("keys");
    let both = first.beside(with_keys("b", &["c", "a"])).await;
    is_readable(&both, &kept).await;
    // Two secrets, two cards, a field's number and code, a field's answer, a proxy number, a challenge.
    assert_eq!(reencrypt(&both).await, figures(9, 0, 0));
    assert_eq!(reencrypt(&both).await, figures(0, 0, 0));
    is_readable(&both, &kept).await;
    // Known by a hash that has nothing to do with the key.
    let form = first.charge(OTHER);
    first.post("sale.php", &form).await.is("00");
    let second = first.beside(with_keys("b", &[])).await;
    second.post("sale.php", &form).await.refuses("26", "");
    is_readable(&second, &kept).await;
    is_usable(&second, &kept).await;
    first.post("sale.php", &by_token(&first, &kept.card)).await.refuses("A1", "another key");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_no_keys_id_is_read_and_gets_one() {
    let first = world().await;
    let kept = keep(&first).await;
    // As they were before there were ids.
    for statement in [
        "UPDATE gateway.accounts SET secret_key_sealed = substring(secret_key_sealed FROM 6)",
        "UPDATE gateway.cards SET number = substring(number FROM 6)",
        "UPDATE gateway.field_tokens SET number = substring(number FROM 6), security_code = substring(security_code FROM 6),
             stored_as = substring(stored_as FROM 6)",
        "UPDATE gateway.proxy_numbers SET number = substring(number FROM 6)",
        "UPDATE gateway.transactions SET number = substring(number FROM 6)",
    ] {
        first.execute(statement).await;
    }
    is_readable(&first, &kept).await;
    let same_key = first.beside(with_keys("a", &[])).await;
    assert_eq!(reencrypt(&same_key).await, figures(8, 0, 0));
    is_readable(&first, &kept).await;
    is_usable(&first, &kept).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_no_key_opens_is_counted_and_left_alone() {
    let first = world().await;
    let kept = keep(&first).await;
    // It would not start if its keys were tried.
    let stranger = first.beside(with_keys("c", &[]).env("KEYS_UNCHECKED", "true")).await;
    let new = first.add_account("other", &[]).await;
    assert_eq!(reencrypt(&stranger).await, figures(0, 9, 9));
    is_readable(&first, &kept).await;
    let form = first.charge(&encrypt(&new.secret_key, OTHER)).with("use_secret_key", "Y");
    let theirs = form.with("username", &new.username).with("api_key", &new.api_key);
    first.post("sale.php", &theirs).await.is("00");
    stranger.post("sale.php", &by_token(&stranger, &kept.card)).await.refuses("A1", "another key");
    let bad = with_keys("b", &[]).env("GATEWAY_OLD_CARD_KEYS", "abc").gateway(1);
    assert!(bad.start().await.is_err(), "it does not start with half a key");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_that_reencrypt_beside_merchants_disturb_nobody() {
    const CARDS: usize = 450;
    let first = world().await;
    let mut tokens = Vec::new();
    for _ in 0..CARDS / 50 {
        let form = card(first.keys(), OTHER);
        for said in first.at_once("add_card.php", &form, 50).await {
            tokens.push(said.is("00").text("card_token").to_owned());
        }
    }
    let both = first.beside(with_keys("b", &["a"])).await;
    let selling = async {
        for (n, token) in tokens.iter().enumerate().step_by(10) {
            let form = by_token(&both, token).with("reference_id", &format!("r{n}"));
            both.post("sale.php", &form).await.is("00");
        }
    };
    let (one, other, ()) = tokio::join!(reencrypt(&both), reencrypt(&both), selling);
    let done: i64 = [&one[0], &other[0]].into_iter().filter_map(Value::as_i64).sum();
    assert_eq!(done, CARDS as i64 + 1, "each row once: {one:?} {other:?}");
    assert_eq!(reencrypt(&both).await, figures(0, 0, 0));
    let new_alone = first.beside(with_keys("b", &[])).await;
    for (n, token) in tokens.iter().enumerate().step_by(45) {
        let form = by_token(&new_alone, token).with("reference_id", &format!("s{n}"));
        new_alone.post("sale.php", &form).await.is("00");
    }
}
