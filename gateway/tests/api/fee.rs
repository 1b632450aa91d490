//! The convenience fee: charged with a sale, returned, reported, included in limits and refunds.

use serde_json::Value;

use crate::support::{Account, Form, GOOD, World};

async fn with(options: &[&str]) -> World {
    World::of(testkit::Cluster::builder().gateway(1), options).await
}

/// `total_amount`, `amount` and `surcharge` of a record.
fn amounts(record: &Value) -> [&str; 3] {
    ["total_amount", "amount", "surcharge"].map(|name| record[name].as_str().expect(name))
}

fn of(world: &World, account: &Account, id: &str) -> Form {
    world.keys_of(account).with("transaction_id", id)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_fee_is_charged_with_a_sale_and_refunded_with_it() {
    let world = with(&["--convenience-fee-percent", "250", "--convenience-fee-fixed", "0.30"]).await;
    let shop = world.account.clone();
    let sale = world.raw(&format!("{}/apis/sale.php", world.base()), &world.charge(GOOD).with("amount", "20.20")).await;
    // 2.5 % of 20.20 is 50.5 minor units.
    let text = sale.text().await.expect("text");
    assert!(text.contains(r#""total_amount":21.01"#) && text.contains(r#""convenience_fee":0.81"#), "{text}");
    let body: Value = serde_json::from_str(&text).expect("JSON");
    let id = body["response"]["transaction_id"].as_str().expect("an id");
    assert_eq!(amounts(&world.record(id).await), ["21.01", "20.20", "0.81"]);
    // The whole charged amount is refundable, and no more.
    let refund = of(&world, &shop, id);
    world.post("refund.php", &refund.clone().with("amount", "21.02")).await.expect_error("14", "");
    let part = world.post("refund.php", &refund.clone().with("amount", "20.20")).await;
    assert_eq!(amounts(&world.record(part.id()).await), ["20.20", "20.20", "0.00"]);
    world.post("refund.php", &refund.clone().with("amount", "0.82")).await.expect_error("14", "");
    world.post("refund.php", &refund.with("amount", "0.81")).await.is("00");
    // A void includes the fee.
    let sold = world.post("sale.php", &world.charge(GOOD).with("amount", "100")).await;
    let voided = world.post("void.php", &of(&world, &shop, sold.id())).await;
    assert_eq!(amounts(&world.record(voided.id()).await), ["102.80", "100.00", "2.80"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_other_operations_only_wallet_sales_have_the_fee() {
    let world = with(&["--convenience-fee-fixed", "1.50"]).await;
    let request = world.browser().with("amount", "25.00").with("currency", "USD");
    let token = world.post_public("wallet_token", &request).await.text("signature_token").to_owned();
    let sold = world.post("wallet_sale.php", &world.charge(GOOD).with("signature_token", &token)).await;
    assert_eq!((&sold.0["total_amount"], &sold.0["convenience_fee"]), (&26.5.into(), &1.5.into()));
    assert_eq!(amounts(&world.record(sold.id()).await), ["26.50", "25.00", "1.50"]);
    let authorized = world.post("authorize.php", &world.charge(GOOD).with("amount", "10.00")).await;
    assert_eq!(authorized.0.get("convenience_fee"), None);
    let capture = of(&world, &world.account, authorized.id());
    world.post("capture.php", &capture.clone().with("amount", "10.01")).await.expect_error("15", "");
    let captured = world.post("capture.php", &capture.with("amount", "10.00")).await;
    let credited = world.post("unreference_refund.php", &world.charge(GOOD).with("amount", "10.00")).await;
    assert_eq!(credited.0["amount"], 10.0);
    for id in [authorized.id(), captured.id(), credited.id()] {
        assert_eq!(amounts(&world.record(id).await), ["10.00", "10.00", "0.00"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_include_the_fee_and_duplicates_compare_requested_amounts() {
    let limits = ["--sale-limit", "100.00", "--monthly-limit", "150.00"];
    let world = with(&[&["--convenience-fee-percent", "1000"][..], &limits].concat()).await;
    world.post("sale.php", &world.charge(GOOD).with("amount", "90.92")).await.expect_error("17", "");
    let form = world.charge(GOOD).with("amount", "90.91");
    world.post("sale.php", &form).await.is("00");
    world.post("sale.php", &world.charge(GOOD).with("amount", "45.46")).await.expect_error("18", "");
    world.post("sale.php", &world.charge(GOOD).with("amount", "45.45")).await.is("00");
    let set = ["account", "set", "--username", "shop", "--convenience-fee-percent", "0", "--monthly-limit", "9999.00"];
    let displayed = world.cluster.run_gateway(&set).await.expect("set");
    assert_eq!((&displayed["convenience_fee_percent"], &displayed["convenience_fee_fixed"]), (&0.into(), &0.0.into()));
    world.post("sale.php", &form).await.expect_error("26", "");
    let bad = ["account", "set", "--username", "shop", "--convenience-fee-percent", "10001"];
    assert!(world.cluster.run_gateway(&bad).await.is_err());
}
