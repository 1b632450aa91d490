//! Thirty concurrent requests: what must happen once happens once.

use crate::support::{GOOD, World, count};

const TIMES: usize = 30;

#[tokio::test(flavor = "multi_thread")]
async fn thirty_concurrent_sales_with_one_reference_charge_one() {
    let world = World::new().await;
    let form = world.charge(GOOD).with("reference_id", "order-1");
    let replies = world.concurrently("sale.php", &form, TIMES).await;
    assert_eq!((count(&replies, "00"), count(&replies, "26")), (1, TIMES - 1), "{replies:?}");
    assert_eq!(world.report(&[("reference_id", "order-1")]).await.len(), 1);
    assert_eq!(world.number("SELECT count(*) FROM gateway.acquirer_books").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn thirty_identical_sales_without_a_reference_charge_one() {
    let world = World::new().await;
    for script in ["sale.php", "authorize.php", "unreference_refund.php"] {
        let replies = world.concurrently(script, &world.charge(GOOD), TIMES).await;
        assert_eq!((count(&replies, "00"), count(&replies, "26")), (1, TIMES - 1), "{script}: {replies:?}");
    }
    assert_eq!(world.number("SELECT count(*) FROM gateway.acquirer_books").await, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn thirty_concurrent_captures_capture_once() {
    let world = World::shared().await;
    let authorized = world.post("authorize.php", &world.charge(GOOD).with("amount", "30.00")).await;
    let form = world.keys().with("transaction_id", authorized.id()).with("amount", "30.00");
    let replies = world.concurrently("capture.php", &form, TIMES).await;
    assert_eq!((count(&replies, "00"), count(&replies, "15")), (1, TIMES - 1), "{replies:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn thirty_concurrent_voids_void_once() {
    let world = World::shared().await;
    let sold = world.post("sale.php", &world.charge(GOOD)).await;
    let form = world.keys().with("transaction_id", sold.id());
    let replies = world.concurrently("void.php", &form, TIMES).await;
    assert_eq!((count(&replies, "00"), count(&replies, "16")), (1, TIMES - 1), "{replies:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn thirty_concurrent_refunds_never_exceed_the_captured_amount() {
    let world = World::new().await;
    let sold = world.post("sale.php", &world.charge(GOOD).with("amount", "100.00")).await;
    let form = world.keys().with("transaction_id", sold.id()).with("amount", "9.99");
    let replies = world.concurrently("refund.php", &form, TIMES).await;
    assert_eq!((count(&replies, "00"), count(&replies, "14")), (10, TIMES - 10), "{replies:?}");
    assert_eq!(world.number("SELECT refunded FROM gateway.transactions WHERE kind = 'sale'").await, 9_990);
    assert_eq!(world.report(&[("transaction_type", "REFUND"), ("transaction_status", "SUCCESS")]).await.len(), 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_voids_refunds_and_captures_stay_compatible() {
    let world = World::shared().await;
    for round in 0..10 {
        let form = world.charge(GOOD).with("amount", &format!("{}.00", 200 + round));
        let authorized = world.post("authorize.php", &form).await;
        let of = world.keys().with("transaction_id", authorized.id());
        let full = of.clone().with("amount", "200.00");
        let (captured, voided) = tokio::join!(world.post("capture.php", &full), world.post("void.php", &of));
        let codes = [captured.code(), voided.code()];
        // A void may follow the capture.
        assert!([["00", "16"], ["15", "00"], ["00", "00"]].contains(&codes), "{codes:?}");

        let sold = world.post("sale.php", &form).await;
        let of = world.keys().with("transaction_id", sold.id());
        let full = of.clone().with("amount", "200.00");
        let (refunded, voided) = tokio::join!(world.post("refund.php", &full), world.post("void.php", &of));
        let codes = [refunded.code(), voided.code()];
        assert!([["00", "16"], ["13", "00"]].contains(&codes), "{codes:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn thirty_concurrent_uses_of_one_field_token_succeed_once() {
    let world = World::new().await;
    let field = world.browser().with("creditcard_number", GOOD).with("expire_month", "12").with("expire_year", "2034");
    let field = field.with("cvv", "917");
    let token = world.post_public("field_token", &field).await;
    let form = world.charge(GOOD).without("creditcard_number").with("card_token", token.is("00").text("card_token"));
    // With different references, so that only the token prevents more than one charge.
    let forms: Vec<_> = (0..TIMES).map(|n| form.clone().with("reference_id", &format!("token-{n}"))).collect();
    let sales = futures_util::future::join_all(forms.iter().map(|form| world.post("sale.php", form))).await;
    assert_eq!((count(&sales, "00"), count(&sales, "02")), (1, TIMES - 1), "{sales:?}");

    let token = world.post_public("field_token", &field).await;
    let form = world.keys().with("card_token", token.text("card_token"));
    let stored = world.concurrently("add_card.php", &form, TIMES).await;
    let tokens: std::collections::BTreeSet<_> = stored.iter().map(|reply| reply.is("00").text("card_token")).collect();
    assert_eq!(tokens.len(), 1, "the same response for all");
    assert_eq!(world.number("SELECT count(*) FROM gateway.cards").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn thirty_concurrent_charges_do_not_exceed_a_limit() {
    let world = World::shared().await;
    world.set(&["--daily-transactions", "10", "--monthly-limit", "100.00"]).await;
    let forms: Vec<_> = (0..TIMES).map(|n| world.charge(GOOD).with("amount", &format!("15.{n:02}"))).collect();
    let sales = futures_util::future::join_all(forms.iter().map(|form| world.post("sale.php", form))).await;
    assert_eq!((count(&sales, "00"), count(&sales, "18")), (6, TIMES - 6), "{sales:?}");
    let credits =
        futures_util::future::join_all(forms.iter().map(|form| world.post("unreference_refund.php", form))).await;
    assert_eq!((count(&credits, "00"), count(&credits, "19")), (4, TIMES - 4), "{credits:?}");
}
