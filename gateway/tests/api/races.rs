//! Thirty at once: what must happen once happens once.

use crate::support::{GOOD, World, count};

const TIMES: usize = 30;

#[tokio::test(flavor = "multi_thread")]
async fn of_thirty_sales_with_one_reference_one_is_charged() {
    let world = World::new().await;
    let form = world.charge(GOOD).with("reference_id", "order-1");
    let answers = world.at_once("sale.php", &form, TIMES).await;
    assert_eq!((count(&answers, "00"), count(&answers, "26")), (1, TIMES - 1), "{answers:?}");
    assert_eq!(world.report(&[("reference_id", "order-1")]).await.len(), 1);
    assert_eq!(world.number("SELECT count(*) FROM gateway.acquirer_books").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_thirty_identical_sales_without_a_reference_one_is_charged() {
    let world = World::new().await;
    for script in ["sale.php", "authorize.php", "unreference_refund.php"] {
        let answers = world.at_once(script, &world.charge(GOOD), TIMES).await;
        assert_eq!((count(&answers, "00"), count(&answers, "26")), (1, TIMES - 1), "{script}: {answers:?}");
    }
    assert_eq!(world.number("SELECT count(*) FROM gateway.acquirer_books").await, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_thirty_captures_one_captures() {
    let world = World::new().await;
    let authorized = world.post("authorize.php", &world.charge(GOOD).with("amount", "30.00")).await;
    let form = world.keys().with("transaction_id", authorized.id()).with("amount", "30.00");
    let answers = world.at_once("capture.php", &form, TIMES).await;
    assert_eq!((count(&answers, "00"), count(&answers, "15")), (1, TIMES - 1), "{answers:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_thirty_voids_one_voids() {
    let world = World::new().await;
    let sold = world.post("sale.php", &world.charge(GOOD)).await;
    let form = world.keys().with("transaction_id", sold.id());
    let answers = world.at_once("void.php", &form, TIMES).await;
    assert_eq!((count(&answers, "00"), count(&answers, "16")), (1, TIMES - 1), "{answers:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn thirty_refunds_never_exceed_what_was_taken() {
    let world = World::new().await;
    let sold = world.post("sale.php", &world.charge(GOOD).with("amount", "100.00")).await;
    let form = world.keys().with("transaction_id", sold.id()).with("amount", "9.99");
    let answers = world.at_once("refund.php", &form, TIMES).await;
    assert_eq!((count(&answers, "00"), count(&answers, "14")), (10, TIMES - 10), "{answers:?}");
    assert_eq!(world.number("SELECT refunded FROM gateway.transactions WHERE kind = 'sale'").await, 9_990);
    assert_eq!(world.report(&[("transaction_type", "REFUND"), ("transaction_status", "SUCCESS")]).await.len(), 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_void_and_a_refund_and_a_capture_at_once_only_what_fits_together_happens() {
    let world = World::new().await;
    for round in 0..10 {
        let form = world.charge(GOOD).with("amount", &format!("{}.00", 200 + round));
        let authorized = world.post("authorize.php", &form).await;
        let of = world.keys().with("transaction_id", authorized.id());
        let full = of.clone().with("amount", "200.00");
        let (captured, voided) = tokio::join!(world.post("capture.php", &full), world.post("void.php", &of));
        let codes = [captured.code(), voided.code()];
        // A void may also follow the capture.
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
async fn thirty_uses_of_one_token_are_one() {
    let world = World::new().await;
    let field = world.browser().with("creditcard_number", GOOD).with("expire_month", "12").with("expire_year", "2034");
    let field = field.with("cvv", "917");
    let token = world.browse("field_token", &field).await;
    let form = world.charge(GOOD).without("creditcard_number").with("card_token", token.is("00").text("card_token"));
    // Of other amounts and references, so that nothing but the token keeps them apart.
    let forms: Vec<_> = (0..TIMES).map(|n| form.clone().with("reference_id", &format!("token-{n}"))).collect();
    let sales = futures_util::future::join_all(forms.iter().map(|form| world.post("sale.php", form))).await;
    assert_eq!((count(&sales, "00"), count(&sales, "02")), (1, TIMES - 1), "{sales:?}");

    let token = world.browse("field_token", &field).await;
    let form = world.keys().with("card_token", token.text("card_token"));
    let stored = world.at_once("add_card.php", &form, TIMES).await;
    let tokens: std::collections::BTreeSet<_> = stored.iter().map(|said| said.is("00").text("card_token")).collect();
    assert_eq!(tokens.len(), 1, "the same answer for all");
    assert_eq!(world.number("SELECT count(*) FROM gateway.cards").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn thirty_at_a_limit_do_not_pass_it() {
    let world = World::new().await;
    let options = ["--daily-transactions", "10", "--monthly-limit", "100.00"];
    let set = [&["account", "set", "--username", "shop"][..], &options].concat();
    world.cluster.run_gateway(&set).await.expect("set");
    let forms: Vec<_> = (0..TIMES).map(|n| world.charge(GOOD).with("amount", &format!("15.{n:02}"))).collect();
    let sales = futures_util::future::join_all(forms.iter().map(|form| world.post("sale.php", form))).await;
    assert_eq!((count(&sales, "00"), count(&sales, "18")), (6, TIMES - 6), "{sales:?}");
    let credits =
        futures_util::future::join_all(forms.iter().map(|form| world.post("unreference_refund.php", form))).await;
    assert_eq!((count(&credits, "00"), count(&credits, "19")), (4, TIMES - 4), "{credits:?}");
}
