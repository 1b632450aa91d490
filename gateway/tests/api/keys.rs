//! Key rotation of an account: the former keys stay valid for a grace period or expire at once.

use serde_json::Value;

use crate::support::{Account, Form, GOOD, World, encrypt};

async fn rotate(world: &World, options: &[&str]) -> (Account, Value) {
    let arguments = [&["account", "rotate-keys", "--username", "shop"], options].concat();
    let keys = world.cluster.run_gateway(&arguments).await.expect("keys");
    let text = |name: &str| keys[name].as_str().expect(name).to_owned();
    let account = Account {
        username: text("username"),
        api_key: text("api_key"),
        secret_key: text("secret_key"),
        app_key: text("app_key"),
    };
    (account, keys["former_keys_until"].clone())
}

/// As listed by `account list`.
async fn former_keys_until(world: &World) -> Value {
    let listed = world.cluster.run_gateway(&["account", "list"]).await.expect("a list");
    listed["accounts"][0]["former_keys_until"].clone()
}

fn of(form: Form, account: &Account) -> Form {
    form.with("api_key", &account.api_key)
}

fn field(account: &Account) -> Form {
    let form = Form::empty().with("app_key", &account.app_key).with("creditcard_number", GOOD).with("cvv", "917");
    let form = form.with("expire_month", "12").with("expire_year", "2034");
    form.with("name", "Jane Doe").with("zip_code", "94105").with("country_code", "US")
}

/// Uses the keys in every possible way.
async fn are_valid(world: &World, account: &Account) {
    world.post("sale.php", &of(world.charge(GOOD), account)).await.is("00");
    let sealed = of(world.charge(&encrypt(&account.secret_key, GOOD)), account).with("use_secret_key", "Y");
    world.post("sale.php", &sealed).await.is("00");
    let token = world.post_public("field_token", &field(account)).await.is("00").text("card_token").to_owned();
    let (text, signature) = token.rsplit_once('.').expect("a signature");
    let expected = foundation::crypto::hmac_sha256(account.secret_key.as_bytes(), text.as_bytes());
    assert_eq!(signature, foundation::crypto::hex(&expected), "the token is verifiable with the keys of its app key");
    let form = of(world.charge(GOOD), account).with("card_token", &token);
    let by_token = ["creditcard_number", "expire_month", "expire_year", "cvv"].into_iter().fold(form, Form::without);
    world.post("sale.php", &by_token).await.is("00");
}

async fn have_expired(world: &World, account: &Account) {
    world.post("sale.php", &of(world.charge(GOOD), account)).await.expect_error("09", "");
    world.post_public("field_token", &field(account)).await.expect_error("01", "app_key");
    let sealed = world.charge(&encrypt(&account.secret_key, GOOD)).with("use_secret_key", "Y");
    // Under other valid keys a number encrypted under these cannot be decrypted.
    world.post("sale.php", &sealed).await.expect_error("02", "");
}

async fn signed(world: &World, account: &Account) -> String {
    let request = Form::empty().with("app_key", &account.app_key).with("amount", "2.00").with("currency", "USD");
    world.post_public("wallet_token", &request).await.is("00").text("signature_token").to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn former_keys_are_valid_for_the_grace_period_only() {
    let mut world = World::new().await;
    let former = world.account.clone();
    assert!(former_keys_until(&world).await.is_null());
    let wallet = signed(&world, &former).await;
    let (current, expires) = rotate(&world, &[]).await;
    assert!(expires.is_string() && former_keys_until(&world).await == expires, "{expires}");
    let hour = "SELECT count(*) FROM gateway.former_keys
                WHERE until BETWEEN clock_timestamp() + interval '50 minutes' AND clock_timestamp() + interval '1 hour'";
    assert_eq!(world.number(hour).await, 1);
    are_valid(&world, &former).await;
    are_valid(&world, &current).await;
    let paid = of(world.charge(GOOD), &current).with("signature_token", &wallet);
    world.post("wallet_sale.php", &paid).await.is("00");

    world.execute("UPDATE gateway.former_keys SET until = clock_timestamp()").await;
    world.account = current.clone();
    have_expired(&world, &former).await;
    are_valid(&world, &current).await;
    assert!(former_keys_until(&world).await.is_null());
    crate::support::wait_until("the deletion of former keys", async || {
        (world.number("SELECT count(*) FROM gateway.former_keys").await == 0).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn leaked_keys_expire_at_once_and_a_rotation_expires_former_keys() {
    let mut world = World::new().await;
    let first = world.account.clone();
    let (second, _) = rotate(&world, &["--grace-minutes", "5"]).await;
    let (third, _) = rotate(&world, &["--grace-minutes", "10080"]).await;
    world.account = third.clone();
    have_expired(&world, &first).await;
    are_valid(&world, &second).await;
    are_valid(&world, &third).await;
    for (nth, options) in [&["--at-once"][..], &["--grace-minutes", "0"]].into_iter().enumerate() {
        let former = world.account.clone();
        let (current, expires) = rotate(&world, options).await;
        world.account = current.clone();
        assert!(expires.is_null() && former_keys_until(&world).await.is_null(), "{nth}");
        have_expired(&world, &second).await;
        have_expired(&world, &former).await;
        are_valid(&world, &current).await;
    }
    for bad in [&["--grace-minutes", "10081"][..], &["--grace-minutes", "5", "--at-once"]] {
        let arguments = [&["account", "rotate-keys", "--username", "shop"], bad].concat();
        world.cluster.run_gateway(&arguments).await.expect_err("refused");
    }
    assert!(world.cluster.run_gateway(&["account", "create", "--username", "shop"]).await.is_err(), "taken");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_hash_is_of_use_in_its_account_only() {
    let world = World::new().await;
    let other = world.add_account("other", &[]).await;
    let hash_of = async |username: &str| -> Vec<u8> {
        let query = sqlx::query_scalar("SELECT api_key_hash FROM gateway.accounts WHERE username = $1");
        query.bind(username).fetch_one(&mut world.database().await).await.expect("a hash")
    };
    let set_hash = async |username: &str, hash: &[u8]| {
        let update = sqlx::query("UPDATE gateway.accounts SET api_key_hash = $2 WHERE username = $1");
        update.bind(username).bind(hash).execute(&mut world.database().await).await.expect("written");
    };
    let as_other = |key: &str| world.charge(GOOD).with("username", &other.username).with("api_key", key);
    let others_hash = hash_of("other").await;
    set_hash("other", &hash_of("shop").await).await;
    world.post("sale.php", &as_other(&world.account.api_key)).await.expect_error("09", "");
    // The signature of a wallet token is public, and made with the same pepper.
    let token: Value = serde_json::from_str(&signed(&world, &world.account).await).expect("JSON");
    let text = |name: &str| token[name].as_str().expect(name).to_owned();
    let fields =
        ["identifyKey", "data", "ephemeralPublicKey", "publicKeyHash", "transactionId", "version", "displayName"];
    let fields = fields.into_iter().chain(["network", "type"]).map(text);
    let signed_text = fields.fold("wallet".to_owned(), |all, field| format!("{all}:{}:{field}", field.len()));
    let signature: Vec<u8> = text("signature")
        .as_bytes()
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).expect("text"), 16).expect("hexadecimal"))
        .collect();
    set_hash("other", &signature).await;
    world.post("sale.php", &as_other(&signed_text)).await.expect_error("09", "");
    set_hash("other", &others_hash).await;
    world.post("sale.php", &as_other(&other.api_key)).await.is("00");
}

/// An account of the former version, whose hash is not bound to it.
#[tokio::test(flavor = "multi_thread")]
async fn a_former_key_hash_is_bound_when_the_key_is_used() {
    let world = World::new().await;
    let bind = async |bound: bool| {
        let update = sqlx::query("UPDATE gateway.key_hashes SET bound = $1")
            .bind(bound)
            .execute(&mut world.database().await)
            .await;
        update.expect("written");
    };
    let hash = async || -> Vec<u8> {
        let query = sqlx::query_scalar("SELECT api_key_hash FROM gateway.accounts WHERE username = 'shop'");
        query.fetch_one(&mut world.database().await).await.expect("a hash")
    };
    // Only the tool, not the gateway, starts now.
    bind(false).await;
    let (account, _) = rotate(&world, &[]).await;
    let former = hash().await;
    are_valid(&world, &account).await;
    are_valid(&world, &world.account).await;
    let bound = hash().await;
    assert_ne!(former, bound);
    are_valid(&world, &account).await;
    assert_eq!(hash().await, bound);
    world.cluster.run_gateway(&["reencrypt"]).await.expect("a summary");
    let bound = world.number("SELECT count(*) FROM gateway.key_hashes WHERE bound").await;
    assert_eq!(bound, 1, "hashes of new keys are bound from now on");
}
