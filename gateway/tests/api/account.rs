//! `account.php`: the calling account's settings.

use serde_json::json;

use crate::support::World;

#[tokio::test(flavor = "multi_thread")]
async fn an_account_sees_its_settings_and_no_keys() {
    let options = ["--time-zone", "America/New_York", "--currency", "USD", "--currency", "EUR"];
    let fee = ["--convenience-fee-percent", "250", "--convenience-fee-fixed", "0.30", "--three-ds", "false"];
    let world = World::of(testkit::Cluster::builder().gateway(1), &[&options[..], &fee].concat()).await;
    let displayed = world.post("account.php", &world.keys()).await;
    let expected = json!({
        "code": "00", "description": "Success", "username": "shop", "time_zone": "America/New_York",
        "currencies": ["USD", "EUR"], "convenience_fee_percent": 250, "convenience_fee_fixed": 0.3, "three_ds": false,
    });
    assert_eq!(displayed.0, expected);
    let other = world.add_account("other", &[]).await;
    let displayed = world.post("account.php", &world.keys_of(&other)).await;
    assert_eq!((displayed.text("username"), &displayed.0["convenience_fee_percent"]), ("other", &0.into()));
    world.post("account.php", &world.keys().with("username", "unknown")).await.expect_error("01", "");
    world
        .post("account.php", &world.keys_of(&other).with("api_key", &world.account.api_key))
        .await
        .expect_error("09", "");
    assert_eq!(world.number("SELECT count(*) FROM gateway.transactions").await, 0);
}
