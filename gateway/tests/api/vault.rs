//! Stored cards, card fields' tokens, and proxy numbers.

use sqlx::Connection;

use crate::hold::Hold;
use crate::support::{DECLINED, Form, GOOD, World, by_token, card, wait_until};

#[tokio::test(flavor = "multi_thread")]
async fn a_stored_card_is_charged_by_its_token() {
    let world = World::shared().await;
    let stored = world.post("add_card.php", &card(world.keys(), "5555555555554444")).await;
    stored.is("00");
    assert_eq!(stored.text("card_type"), "MASTERCARD");
    assert_eq!(stored.text("credit_card_number"), "XXXXXXXXXXXX4444");
    assert_eq!(stored.text("card_expiry_date"), "12/2034");
    let token = stored.text("card_token");
    // Repeatedly, and without a security code.
    for script in ["sale.php", "authorize.php", "sale.php"] {
        let reply = world.post(script, &by_token(&world, token)).await;
        let record = world.record(reply.id()).await;
        assert_eq!(record["credit_card_number"], "XXXXXXXXXXXX4444");
        assert_eq!(record["transaction_source"], "CARD TOKEN");
        assert_eq!(record["cvv_response_code"], "");
    }
    let other = world.add_account("other", &[]).await;
    let theirs = by_token(&world, token).with("username", &other.username).with("api_key", &other.api_key);
    world.post("sale.php", &theirs).await.expect_error("02", "card_token");
    world
        .post("sale.php", &by_token(&world, "card_00000000000000000000000000000000"))
        .await
        .expect_error("02", "card_token");
    // Not part of an unreferenced refund.
    world.post("unreference_refund.php", &by_token(&world, token)).await.expect_error("02", "");
    for (name, value, code) in [
        ("username", "unknown", "01"),
        ("api_key", "x", "09"),
        ("creditcard_number", "1", "02"),
        ("expire_month", "0", "03"),
        ("country_code", "XX", "05"),
    ] {
        world.post("add_card.php", &card(world.keys(), GOOD).with(name, value)).await.expect_error(code, "");
    }
    // The stored card behaves like the original.
    let stored = world.post("add_card.php", &card(world.keys(), DECLINED)).await;
    world.post("sale.php", &by_token(&world, stored.text("card_token"))).await.expect_error("F", "declined");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_field_token_pays_one_charge_and_provides_its_cardholder() {
    let world = World::new().await;
    let field = card(world.browser(), GOOD).with("cvv", "917").with("name", "Jane van der Doe");
    let made = world.post_public("field_token", &field.clone().with("country_code", "nl")).await;
    made.is("00");
    assert_eq!(made.text("credit_card_number"), "XXXXXXXXXXXX4242");
    let form = by_token(&world, made.text("card_token"));
    // A refused request does not use it up.
    world.post("sale.php", &form.clone().with("amount", "0")).await.expect_error("07", "");
    world.post("sale.php", &form.clone().with("amount", "10000.01")).await.expect_error("17", "");
    let bare = ["first_name", "last_name", "country_code", "zip_code"].into_iter().fold(form.clone(), Form::without);
    let reply = world.post("authorize.php", &bare).await;
    let record = world.record(reply.id()).await;
    for (name, value) in [
        ("first_name", "Jane van der"),
        ("last_name", "Doe"),
        ("zip_code", "94105"),
        ("transaction_source", "CAPTURE FIELD"),
        ("cvv_response_code", "M"),
    ] {
        assert_eq!(record[name], value, "{name}");
    }
    world.post("sale.php", &form).await.expect_error("02", "used before");
    world
        .post("add_card.php", &world.keys().with("card_token", made.text("card_token")))
        .await
        .expect_error("02", "used before");
    let erased = "SELECT count(*) FROM gateway.field_tokens WHERE number IS NOT NULL OR security_code IS NOT NULL";
    assert_eq!(world.number(erased).await, 0);
    // A declined charge uses it up.
    let declined = world.post_public("field_token", &card(world.browser(), DECLINED).with("cvv", "917")).await;
    let form = by_token(&world, declined.text("card_token"));
    world.post("sale.php", &form).await.is("F");
    world.post("sale.php", &form).await.expect_error("02", "used before");
    // For another account the token is unknown.
    let other = world.add_account("other", &[]).await;
    let made = world.post_public("field_token", &field).await;
    let theirs =
        by_token(&world, made.text("card_token")).with("username", &other.username).with("api_key", &other.api_key);
    world.post("sale.php", &theirs).await.expect_error("02", "unknown");
    for (name, value, code, mentions) in [
        ("app_key", "x", "01", "app_key"),
        ("creditcard_number", "4242424242424241", "02", ""),
        ("expire_year", "2020", "03", ""),
        ("name", "", "04", ""),
        ("country_code", "XX", "05", ""),
        ("country_code", "", "05", ""),
        ("cvv", "", "A1", "cvv"),
        ("zip_code", "", "A1", "zip_code"),
    ] {
        world.post_public("field_token", &field.clone().with(name, value)).await.expect_error(code, mentions);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_field_token_is_stored_once_and_repeats_get_the_same_card() {
    let world = World::new().await;
    let field = card(world.browser(), GOOD).with("cvv", "917");
    let made = world.post_public("field_token", &field).await;
    let form = world.keys().with("card_token", made.is("00").text("card_token"));
    let stored = world.post("add_card.php", &form).await;
    assert_eq!(world.post("add_card.php", &form).await.0, stored.0, "the same card");
    assert_eq!(world.number("SELECT count(*) FROM gateway.cards").await, 1);
    world.post("sale.php", &by_token(&world, made.text("card_token"))).await.expect_error("02", "used before");
    let charge = by_token(&world, stored.text("card_token"));
    let bare = ["first_name", "last_name", "country_code", "zip_code"].into_iter().fold(charge, Form::without);
    let reply = world.post("sale.php", &bare).await;
    assert_eq!(world.record(reply.id()).await["zip_code"], "94105", "the cardholder was stored with the card");
    assert_eq!(world.number("SELECT count(*) FROM gateway.field_tokens WHERE security_code IS NOT NULL").await, 0);
}

/// The commit gets no response, and neither does the look-up that follows it.
#[tokio::test(flavor = "multi_thread")]
async fn a_card_that_may_be_stored_is_an_unknown_outcome() {
    let world = World::new().await;
    let made = world.post_public("field_token", &card(world.browser(), GOOD).with("cvv", "917")).await;
    let form = world.keys().with("card_token", made.is("00").text("card_token"));
    let hold = Hold::commits(&world, "gateway.cards").await;
    let mut other = world.database().await;
    let fail = async {
        hold.reached(&world).await;
        // The lock is granted, and blocks the look-up, as soon as the transaction that is being committed is gone.
        let lock = "BEGIN; LOCK TABLE gateway.field_tokens IN ACCESS EXCLUSIVE MODE";
        let end = async {
            let waits = "SELECT count(*) FROM pg_locks WHERE relation = 'gateway.field_tokens'::regclass
                         AND mode = 'AccessExclusiveLock' AND NOT granted";
            wait_until("the lock", async || (world.number(waits).await > 0).then_some(())).await;
            let ended = "SELECT count(*) FILTER (WHERE pg_terminate_backend(pid)) FROM pg_locks
                         WHERE locktype = 'advisory' AND NOT granted
                         AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
            assert_eq!(world.number(ended).await, 1);
        };
        let (locked, ()) = tokio::join!(sqlx::raw_sql(lock).execute(&mut other), end);
        locked.expect("the table is locked");
    };
    let (reply, ()) = tokio::join!(world.post("add_card.php", &form), fail);
    reply.expect_error("UN", "not known");
    other.close().await.expect("unlocked");
    hold.release().await;
    world.post("add_card.php", &form).await.is("00");
    assert_eq!(world.number("SELECT count(*) FROM gateway.cards").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn expired_tokens_and_proxy_numbers_are_deleted() {
    let world = World::new().await;
    let made = world.post_public("field_token", &card(world.browser(), GOOD).with("cvv", "917")).await;
    let proxy = world.post_public("proxynization", &world.browser().with("creditcard_number", GOOD)).await;
    let half_hour = "SELECT count(*) FROM gateway.field_tokens WHERE expires_at = created_at + interval '30 minutes'";
    assert_eq!(world.number(half_hour).await, 1);
    world
        .execute("UPDATE gateway.field_tokens SET expires_at = clock_timestamp(), forget_at = clock_timestamp()")
        .await;
    world.execute("UPDATE gateway.proxy_numbers SET expires_at = clock_timestamp()").await;
    world.post("sale.php", &by_token(&world, made.text("card_token"))).await.expect_error("02", "expired");
    world.post("sale.php", &world.charge(proxy.text("proxy_number"))).await.expect_error("02", "");
    wait_until("the deletion", async || {
        let left = "SELECT (SELECT count(*) FROM gateway.field_tokens) + (SELECT count(*) FROM gateway.proxy_numbers)";
        (world.number(left).await == 0).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_number_is_usable_by_one_account() {
    let world = World::shared().await;
    let made = world.post_public("proxynization", &world.browser().with("creditcard_number", GOOD)).await;
    made.is("A01");
    let proxy = made.text("proxy_number").to_owned();
    assert!(proxy.len() == 16 && proxy.bytes().all(|byte| byte.is_ascii_digit()), "{proxy}");
    for script in ["sale.php", "authorize.php", "unreference_refund.php", "account_validation.php", "add_card.php"] {
        world.post(script, &world.charge(&proxy)).await.is("00");
    }
    let records = world.report(&[]).await;
    assert!(records.iter().all(|record| record["credit_card_number"] == "XXXXXXXXXXXX4242"), "{records:?}");
    let other = world.add_account("other", &[]).await;
    let theirs = world.charge(&proxy).with("username", &other.username).with("api_key", &other.api_key);
    world.post("sale.php", &theirs).await.expect_error("02", "");
    let wrong = world.browser().with("creditcard_number", "4242424242424241");
    world.post_public("proxynization", &wrong).await.expect_error("02", "");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_charge_of_another_account_does_not_bind_a_proxy_number() {
    let world = World::shared().await;
    let other = world.add_account("other", &["--currency", "EUR", "--three-ds", "false"]).await;
    let theirs = |form: Form| form.with("username", &other.username).with("api_key", &other.api_key);
    for number in [DECLINED, GOOD] {
        let made = world
            .post_public("proxynization", &world.browser().without("app_key").with("creditcard_number", number))
            .await;
        let proxy = made.is("A01").text("proxy_number");
        // Refused for the currency, refused for a field, and an inquiry, which charges nothing.
        world.post("sale.php", &theirs(world.charge(proxy))).await.expect_error("10", "");
        let euros = theirs(world.charge(proxy).with("currency", "EUR"));
        world.post("authorize.php", &euros.clone().without("cvv")).await.expect_error("A1", "cvv");
        world.post("account_validation.php", &euros).await.is("00");
        if number == DECLINED {
            world.post("sale.php", &euros).await.expect_error("F", "");
            world.post("sale.php", &world.charge(proxy)).await.expect_error("F", "");
        } else {
            world.post("sale.php", &world.charge(proxy)).await.is("00");
            world.post("sale.php", &euros).await.expect_error("02", "");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_number_created_for_an_account_is_bound_to_it() {
    let world = World::shared().await;
    let other = world.add_account("other", &[]).await;
    let theirs = |form: Form| form.with("username", &other.username).with("api_key", &other.api_key);
    let made = world.post_public("proxynization", &world.browser().with("creditcard_number", GOOD)).await;
    let proxy = made.is("A01").text("proxy_number");
    world.post("sale.php", &theirs(world.charge(proxy))).await.expect_error("02", "");
    world.post("sale.php", &world.charge(proxy)).await.is("00");
    let unknown = world.browser().with("app_key", "0123").with("creditcard_number", GOOD);
    world.post_public("proxynization", &unknown).await.expect_error("01", "app_key");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_field_token_is_verifiable_with_the_accounts_secret_key() {
    use base64::Engine;
    let world = World::shared().await;
    let field = card(world.browser(), "5555555555554444").with("cvv", "917");
    let (first, second) =
        (world.post_public("field_token", &field).await, world.post_public("field_token", &field).await);
    let token = first.is("00").text("card_token");
    assert!(token.len() <= 300 && second.text("card_token") != token);
    let (text, signature) = token.split_once('.').expect("a signature");
    let expected = foundation::crypto::hmac_sha256(world.account.secret_key.as_bytes(), text.as_bytes());
    assert_eq!(signature, foundation::crypto::hex(&expected));
    let payload = base64::prelude::BASE64_URL_SAFE_NO_PAD.decode(text.strip_prefix("fld_").expect("its prefix"));
    let payload: serde_json::Value = serde_json::from_slice(&payload.expect("base64")).expect("JSON");
    let mut keys: Vec<_> = payload.as_object().expect("an object").keys().map(String::as_str).collect();
    keys.sort_unstable();
    assert_eq!(keys, ["b", "e", "i", "l", "m", "n", "y"]);
    assert_eq!((&payload["b"], &payload["l"]), (&"mastercard".into(), &"4444".into()));
    assert_eq!((&payload["m"], &payload["y"]), (&12.into(), &2034.into()));
    let second_of = |name: &str| payload[name].as_i64().expect("whole seconds");
    assert_eq!(second_of("e") - second_of("i"), 30 * 60);
    // The gateway looks it up as a whole, so an altered token is unknown.
    let nonce = payload["n"].as_str().expect("a nonce");
    assert!(nonce.len() == 32 && nonce.bytes().all(|byte| byte.is_ascii_hexdigit()), "{nonce}");
    world.post("sale.php", &by_token(&world, text)).await.expect_error("02", "unknown");
    world.post("sale.php", &by_token(&world, token)).await.is("00");
}
