//! Forms that are not valid UTF-8 are refused whole. Decoded leniently, two different values would become the same one.

use serde_json::Value;

use crate::support::{GOOD, Reply, World, wait_until};

const SCRIPTS: [&str; 11] = [
    "sale.php",
    "authorize.php",
    "capture.php",
    "void.php",
    "refund.php",
    "unreference_refund.php",
    "wallet_sale.php",
    "account_validation.php",
    "add_card.php",
    "report.php",
    "account.php",
];

/// Posts a form as it is.
async fn post(world: &World, path: &str, form: Vec<u8>) -> Reply {
    let url = format!("{}{path}", world.base());
    wait_until("a gateway that is not suspended", async || {
        let request = world.http().post(&url).header("content-type", "application/x-www-form-urlencoded");
        let response = request.body(form.clone()).send().await.expect("a response");
        assert_eq!(response.status(), 200, "{url}");
        let body: Value = response.json().await.expect("JSON");
        (!body.to_string().contains(crate::support::SUSPENDED)).then(|| Reply(body["response"].clone()))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_that_is_not_utf_8_is_a1_naming_the_field() {
    let world = World::new().await;
    let paths = SCRIPTS.map(|script| format!("/apis/{script}"));
    let browsers = ["proxynization", "field_token", "wallet_token"].map(|name| format!("/services/{name}"));
    let form = world.charge(GOOD).with("app_key", &world.account.app_key).without("first_name").encoded();
    for path in paths.iter().chain(&browsers) {
        for sent in ["first_name=Zo%EB", "first_name=%C3", "first_name=%ED%A0%80", "unknown=%ff"] {
            let name = sent.split('=').next().expect("a name");
            post(&world, path, format!("{form}&{sent}").into_bytes()).await.expect_error("A1", name);
        }
        let raw = [form.as_bytes(), b"&first_name=Zo\xeb"].concat();
        post(&world, path, raw).await.expect_error("A1", "first_name");
        post(&world, path, format!("{form}&na%EBme=x").into_bytes()).await.expect_error("A1", "name of a field");
    }
    assert_eq!(world.number("SELECT count(*) FROM gateway.transactions").await, 0);
    // The replacement character itself is valid.
    let valid = format!("{form}&first_name=Zo%EF%BF%BD");
    post(&world, "/apis/sale.php", valid.into_bytes()).await.is("00");
}
