//! Captures, voids and refunds, and the transactions that they may name.

use crate::support::{CHALLENGED, DECLINED, Form, GOOD, Reply, World};

struct Shop(World);

impl Shop {
    /// At a gateway that other tests use.
    async fn open() -> Self {
        Self(World::shared().await)
    }

    /// At a gateway of its own.
    async fn alone() -> Self {
        Self(World::new().await)
    }

    async fn sell(&self, amount: &str) -> Reply {
        let reply = self.0.post("sale.php", &self.0.charge(GOOD).with("amount", amount)).await;
        reply.is("00");
        reply
    }

    async fn authorize(&self, amount: &str) -> Reply {
        let reply = self.0.post("authorize.php", &self.0.charge(GOOD).with("amount", amount)).await;
        reply.is("00");
        reply
    }

    fn of(&self, id: &str) -> Form {
        self.0.keys().with("transaction_id", id)
    }

    async fn capture(&self, id: &str, amount: &str) -> Reply {
        self.0.post("capture.php", &self.of(id).with("amount", amount)).await
    }

    async fn refund(&self, id: &str, amount: &str) -> Reply {
        self.0.post("refund.php", &self.of(id).with("amount", amount)).await
    }

    async fn void(&self, id: &str) -> Reply {
        self.0.post("void.php", &self.of(id)).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_authorization_is_captured_once_up_to_its_amount() {
    let shop = Shop::open().await;
    let authorized = shop.authorize("50.00").await;
    shop.refund(authorized.id(), "1.00").await.expect_error("14", "");
    shop.capture(authorized.id(), "50.01").await.expect_error("15", "");
    let captured = shop.capture(authorized.id(), "30.00").await;
    assert_ne!(captured.id(), authorized.id(), "a transaction of its own");
    shop.capture(authorized.id(), "20.00").await.expect_error("15", "");
    let record = shop.0.record(captured.id()).await;
    assert_eq!(record["parent_transaction_id"], authorized.id());
    assert_eq!((record["transaction_type"].as_str(), record["amount"].as_str()), (Some("CAPTURE"), Some("30.00")));
    // Refunds are limited by the captured amount, whether they name the capture or the authorization.
    shop.refund(captured.id(), "10.00").await.is("00");
    shop.refund(authorized.id(), "20.01").await.expect_error("14", "");
    shop.refund(authorized.id(), "20.00").await.is("00");
    shop.refund(captured.id(), "0.01").await.expect_error("14", "");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_charge_is_voided_once_and_allows_nothing_afterwards() {
    let shop = Shop::open().await;
    let sold = shop.sell("60.00").await;
    shop.void(sold.id()).await.is("00");
    shop.void(sold.id()).await.expect_error("16", "");
    shop.refund(sold.id(), "1.00").await.expect_error("13", "");
    let authorized = shop.authorize("61.00").await;
    shop.void(authorized.id()).await.is("00");
    shop.capture(authorized.id(), "1.00").await.expect_error("15", "");
    // Naming the capture voids its charge too.
    let authorized = shop.authorize("62.00").await;
    let captured = shop.capture(authorized.id(), "62.00").await;
    shop.void(captured.id()).await.is("00");
    shop.void(authorized.id()).await.expect_error("16", "");
    shop.refund(captured.id(), "1.00").await.expect_error("13", "");
    // After a refund a void is not possible.
    let sold = shop.sell("63.00").await;
    shop.refund(sold.id(), "0.01").await.is("00");
    shop.void(sold.id()).await.expect_error("16", "");
    let credited = shop.0.post("unreference_refund.php", &shop.0.charge(GOOD)).await;
    shop.void(credited.id()).await.is("00");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_capture_stands_for_no_charge() {
    let shop = Shop::alone().await;
    let authorized = shop.authorize("64.00").await;
    // The state after a capture that never reached the acquirer.
    let failed = "INSERT INTO gateway.transactions (id, account_id, parent_id, kind, state, source, amount, currency, brand,
                      masked, expiry, details, created_at, ended_at, reason)
                  SELECT gen_random_uuid(), account_id, id, 'capture', 'failed', source, amount, currency, brand, masked,
                      expiry, details, created_at, clock_timestamp(), 'not processed'
                  FROM gateway.transactions WHERE kind = 'authorize'";
    assert_eq!(shop.0.execute(failed).await, 1);
    let failed = shop.0.report(&[("transaction_type", "CAPTURE")]).await[0]["transaction_id"].clone();
    let failed = failed.as_str().expect("an id");
    shop.void(failed).await.expect_error("16", "");
    shop.refund(failed, "1.00").await.expect_error("12", "");
    let captured = shop.capture(authorized.id(), "64.00").await;
    shop.void(failed).await.expect_error("16", "");
    shop.refund(failed, "1.00").await.expect_error("12", "");
    shop.void(captured.id()).await.is("00");
}

#[tokio::test(flavor = "multi_thread")]
async fn settled_charges_are_refunded_and_not_voided() {
    let shop = Shop::alone().await;
    let sold = shop.sell("70.00").await;
    let authorized = shop.authorize("71.00").await;
    let day = "SELECT count(*) FROM gateway.transactions WHERE kind = 'sale' AND settles_at > clock_timestamp()
               AND settles_at <= clock_timestamp() + interval '24 hours'
               AND settles_at = date_trunc('day', settles_at AT TIME ZONE 'UTC') AT TIME ZONE 'UTC'";
    assert_eq!(shop.0.number(day).await, 1, "at the end of the day");
    shop.0
        .execute(
            "UPDATE gateway.transactions SET settles_at = settles_at - interval '1 day', lapses_at = clock_timestamp()",
        )
        .await;
    shop.void(sold.id()).await.expect_error("16", "");
    shop.refund(sold.id(), "70.00").await.is("00");
    // An authorization expires instead.
    shop.void(authorized.id()).await.expect_error("16", "");
    shop.capture(authorized.id(), "1.00").await.expect_error("15", "");
}

#[tokio::test(flavor = "multi_thread")]
async fn impossible_operations_are_12_or_their_own_code() {
    let shop = Shop::open().await;
    let world = &shop.0;
    let other = world.add_account("other", &[]).await;
    let (sold, authorized) = (shop.sell("80.00").await, shop.authorize("81.00").await);
    let refunded = shop.refund(sold.id(), "1.00").await;
    let captured = shop.capture(authorized.id(), "81.00").await;
    let undone = shop.sell("82.00").await;
    let voided = shop.void(undone.id()).await;
    let credited = world.post("unreference_refund.php", &world.charge(GOOD)).await;
    for script in ["capture.php", "void.php", "refund.php"] {
        let named = |id: &str| shop.of(id).with("amount", "1.00");
        let lower = sold.id().to_lowercase();
        for id in ["", "1", "00000000000000000000000000", &lower, refunded.id(), voided.id()] {
            world.post(script, &named(id)).await.expect_error("12", "");
        }
        world.post(script, &shop.0.keys().with("amount", "1.00")).await.expect_error("12", "");
        let foreign = world.keys_of(&other).with("transaction_id", sold.id()).with("amount", "1.00");
        world.post(script, &foreign).await.expect_error("12", "");
        world.post(script, &named(sold.id()).without("username")).await.expect_error("01", "");
        world.post(script, &named(sold.id()).with("api_key", "x")).await.expect_error("09", "");
    }
    shop.capture(captured.id(), "1.00").await.expect_error("12", "");
    shop.capture(sold.id(), "1.00").await.expect_error("15", "");
    shop.refund(credited.id(), "1.00").await.expect_error("12", "");
    for script in ["capture.php", "refund.php"] {
        for amount in ["", "0", "-1", "1.234"] {
            world.post(script, &shop.of(sold.id()).with("amount", amount)).await.expect_error("07", "");
        }
    }
    // A declined charge and a challenged one.
    world.post("sale.php", &world.charge(DECLINED).with("reference_id", "no")).await.is("F");
    let declined = &world.report(&[("reference_id", "no")]).await[0];
    let pending = world.charge(CHALLENGED).with("3ds_redirect_url", "https://shop.example/");
    let pending = world.post("sale.php", &pending).await;
    for id in [declined["transaction_id"].as_str().expect("an id"), pending.id()] {
        shop.refund(id, "1.00").await.expect_error("14", "");
        shop.void(id).await.expect_error("16", "");
        shop.capture(id, "1.00").await.expect_error("15", "");
    }
}
