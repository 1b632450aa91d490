//! Rotation of the key that encrypts card numbers: data encrypted under the old key stays readable and is re-encrypted.

use serde_json::Value;
use testkit::{Builder, Cluster};

use crate::support::{CHALLENGED, Form, World, by_token, card, encrypt};

const OTHER: &str = "5555555555554444";

fn key(digit: &str) -> String {
    digit.repeat(64)
}

/// A gateway with this current key and old keys.
fn with_keys(current: &str, others: &[&str]) -> Builder {
    let others: Vec<_> = others.iter().copied().map(key).collect();
    let builder = Cluster::builder().env("GATEWAY_PEPPER", &key("9")).env("GATEWAY_CARD_KEY", &key(current));
    builder.env("GATEWAY_OLD_CARD_KEYS", &others.join(","))
}

async fn world() -> World {
    World::of(with_keys("a", &[]).gateway(1), &[]).await
}

/// One of each kind of stored ciphertext.
struct Stored {
    card: String,
    field: String,
    exchanged_token: String,
    exchanged: String,
    proxy: String,
    challenge: String,
    challenged_id: String,
}

async fn store_all(world: &World) -> Stored {
    let field = async || {
        let form = card(world.browser(), OTHER).with("cvv", "917");
        world.post_public("field_token", &form).await.is("00").text("card_token").to_owned()
    };
    let stored = world.post("add_card.php", &card(world.keys(), OTHER)).await;
    let exchanged_token = field().await;
    let exchanged = world.post("add_card.php", &world.keys().with("card_token", &exchanged_token)).await;
    let proxy = world.post_public("proxynization", &world.browser().with("creditcard_number", OTHER)).await;
    let form = world.charge(CHALLENGED).with("3ds_redirect_url", "https://shop.example/");
    let pending = world.post("sale.php", &form).await;
    Stored {
        card: stored.is("00").text("card_token").to_owned(),
        field: field().await,
        exchanged_token,
        exchanged: exchanged.is("00").text("card_token").to_owned(),
        proxy: proxy.is("A01").text("proxy_number").to_owned(),
        challenge: pending.text("redirect_url").rsplit_once('/').expect("a path").1.to_owned(),
        challenged_id: pending.id().to_owned(),
    }
}

/// Uses what can be used repeatedly.
async fn is_readable(world: &World, stored: &Stored) {
    for token in [&stored.card, &stored.exchanged] {
        let sold = world.post("sale.php", &by_token(world, token)).await;
        assert_eq!(world.record(sold.id()).await["credit_card_number"], "XXXXXXXXXXXX4444");
    }
    let sold = world.post("sale.php", &world.charge(&stored.proxy)).await;
    assert_eq!(world.record(sold.id()).await["credit_card_number"], "XXXXXXXXXXXX4444");
    let repeated = world.post("add_card.php", &world.keys().with("card_token", &stored.exchanged_token)).await;
    assert_eq!(repeated.text("card_token"), stored.exchanged);
    let sealed = encrypt(&world.account.secret_key, OTHER);
    world.post("sale.php", &world.charge(&sealed).with("use_secret_key", "Y")).await.is("00");
}

/// Uses what can be used once.
async fn is_usable(world: &World, stored: &Stored) {
    world.post("authorize.php", &by_token(world, &stored.field)).await.is("00");
    let page = format!("{}/services/3ds/{}", world.base(), stored.challenge);
    world.raw(&page, &Form::empty().with("decision", "confirm")).await;
    assert_eq!(world.record(&stored.challenged_id).await["transaction_status"], "SUCCESS");
}

async fn reencrypt(world: &World) -> [Value; 3] {
    let mut output = world.cluster.run_gateway(&["reencrypt"]).await.expect("re-encrypted");
    ["reencrypted", "remaining", "unreadable"].map(|name| output[name].take())
}

fn counts(reencrypted: i64, remaining: i64, unreadable: i64) -> [Value; 3] {
    [reencrypted.into(), remaining.into(), unreadable.into()]
}

#[tokio::test(flavor = "multi_thread")]
async fn stored_data_is_readable_under_old_keys_and_after_reencryption() {
    let first = world().await;
    let stored = store_all(&first).await;
    // From here on requests use the account's former keys, which stay valid for an hour.
    first.cluster.run_gateway(&["account", "rotate-keys", "--username", "shop"]).await.expect("keys");
    let both = first.second_gateway(with_keys("b", &["c", "a"])).await;
    is_readable(&both, &stored).await;
    // Two secret keys, two cards, a field token's number and code, an exchanged token, a proxy number, a challenge.
    assert_eq!(reencrypt(&both).await, counts(9, 0, 0));
    assert_eq!(reencrypt(&both).await, counts(0, 0, 0));
    is_readable(&both, &stored).await;
    // Duplicates are detected by a hash that does not depend on the key.
    let form = first.charge(OTHER);
    first.post("sale.php", &form).await.is("00");
    let second = first.second_gateway(with_keys("b", &[])).await;
    second.post("sale.php", &form).await.expect_error("26", "");
    is_readable(&second, &stored).await;
    is_usable(&second, &stored).await;
    first.post("sale.php", &by_token(&first, &stored.card)).await.expect_error("A1", "another key");
}

#[tokio::test(flavor = "multi_thread")]
async fn ciphertexts_without_a_key_id_are_readable_and_get_one() {
    let first = world().await;
    let stored = store_all(&first).await;
    // As they were before key ids were introduced.
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
    is_readable(&first, &stored).await;
    let same_key = first.second_gateway(with_keys("a", &[])).await;
    assert_eq!(reencrypt(&same_key).await, counts(8, 0, 0));
    is_readable(&first, &stored).await;
    is_usable(&first, &stored).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unreadable_ciphertexts_are_counted_and_left_unchanged() {
    let first = world().await;
    let stored = store_all(&first).await;
    // With the check of keys it would not start.
    let other_keys = first.second_gateway(with_keys("c", &[]).env("KEYS_UNCHECKED", "true")).await;
    let new = first.add_account("other", &[]).await;
    assert_eq!(reencrypt(&other_keys).await, counts(0, 9, 9));
    is_readable(&first, &stored).await;
    let form = first.charge(&encrypt(&new.secret_key, OTHER)).with("use_secret_key", "Y");
    let theirs = form.with("username", &new.username).with("api_key", &new.api_key);
    first.post("sale.php", &theirs).await.is("00");
    other_keys.post("sale.php", &by_token(&other_keys, &stored.card)).await.expect_error("A1", "another key");
    let bad = with_keys("b", &[]).env("GATEWAY_OLD_CARD_KEYS", "abc").gateway(1);
    assert!(bad.start().await.is_err(), "it does not start with an incomplete key");
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_reencryptions_do_not_disturb_merchants() {
    const CARDS: usize = 450;
    let first = world().await;
    let mut tokens = Vec::new();
    for _ in 0..CARDS / 50 {
        let form = card(first.keys(), OTHER);
        for reply in first.concurrently("add_card.php", &form, 50).await {
            tokens.push(reply.is("00").text("card_token").to_owned());
        }
    }
    let both = first.second_gateway(with_keys("b", &["a"])).await;
    let selling = async {
        for (n, token) in tokens.iter().enumerate().step_by(10) {
            let form = by_token(&both, token).with("reference_id", &format!("r{n}"));
            both.post("sale.php", &form).await.is("00");
        }
    };
    let (one, other, ()) = tokio::join!(reencrypt(&both), reencrypt(&both), selling);
    let done: i64 = [&one[0], &other[0]].into_iter().filter_map(Value::as_i64).sum();
    assert_eq!(done, CARDS as i64 + 1, "each row once: {one:?} {other:?}");
    assert_eq!(reencrypt(&both).await, counts(0, 0, 0));
    let new_alone = first.second_gateway(with_keys("b", &[])).await;
    for (n, token) in tokens.iter().enumerate().step_by(45) {
        let form = by_token(&new_alone, token).with("reference_id", &format!("s{n}"));
        new_alone.post("sale.php", &form).await.is("00");
    }
}
