//! Every code of the contract, by one invalid field in an otherwise valid form.

use crate::support::{DECLINED, Form, GOOD, World, encrypt};

/// Field, value (`None`: missing), expected code, and a text that the description contains.
struct Case(&'static str, Option<&'static str>, &'static str, &'static str);

fn broken(form: Form, case: &Case) -> Form {
    match case.1 {
        Some(value) => form.with(case.0, value),
        None => form.without(case.0),
    }
}

/// For sale, authorize and unreferenced refund.
const COMMON: [Case; 49] = [
    Case("username", None, "01", ""),
    Case("username", Some("unknown"), "01", ""),
    Case("api_key", None, "09", ""),
    Case("api_key", Some("gwk_0"), "09", ""),
    Case("creditcard_number", None, "02", ""),
    Case("creditcard_number", Some("4242424242424241"), "02", ""),
    Case("creditcard_number", Some("9242424242424242"), "02", ""),
    Case("creditcard_number", Some("42424242"), "02", ""),
    Case("creditcard_number", Some("4242x42424242424"), "02", ""),
    Case("expire_month", None, "03", ""),
    Case("expire_month", Some("13"), "03", ""),
    Case("expire_month", Some("1"), "03", ""),
    Case("expire_year", None, "03", ""),
    Case("expire_year", Some("34"), "03", ""),
    Case("expire_year", Some("2020"), "03", ""),
    Case("expire_year", Some("2999"), "03", ""),
    Case("first_name", None, "04", ""),
    Case("last_name", None, "04", ""),
    Case("last_name", Some("  "), "04", ""),
    Case("country_code", None, "05", ""),
    Case("country_code", Some("XX"), "05", ""),
    Case("country_code", Some("USA"), "05", ""),
    Case("email", None, "06", ""),
    Case("email", Some("jane"), "06", ""),
    Case("email", Some("jane@localhost"), "06", ""),
    Case("amount", None, "07", ""),
    Case("amount", Some("0"), "07", ""),
    Case("amount", Some("0.00"), "07", ""),
    Case("amount", Some("-1.00"), "07", ""),
    Case("amount", Some("133.245"), "07", ""),
    Case("amount", Some("1e3"), "07", ""),
    Case("amount", Some("1,000.00"), "07", ""),
    Case("amount", Some("12345678901234567890"), "07", ""),
    Case("currency", None, "08", ""),
    Case("currency", Some("JPY"), "10", ""),
    Case("currency", Some("XYZ"), "10", ""),
    Case("currency", Some("SEK"), "10", ""),
    Case("creditcard_number", Some("3530111333300000"), "11", ""),
    Case("zip_code", None, "A1", "zip_code"),
    Case("company_name", Some("bull SHIT ltd"), "21", ""),
    Case("email_receipt", Some("yes"), "A1", "email_receipt"),
    Case("emailReceiptDBAEmail", Some("1"), "A1", "emailReceiptDBAEmail"),
    Case("city", Some("a\u{7}b"), "A1", "city"),
    Case("client_ip", Some("1.2.3"), "22", ""),
    Case("client_ip", Some("localhost"), "22", ""),
    Case("amount", Some("10000.01"), "17", ""),
    Case("creditcard_number", Some(DECLINED), "F", "declined"),
    Case("creditcard_number", Some("4000000000009995"), "F", "insufficient funds"),
    Case("creditcard_number", Some("4000000000009987"), "F", "lost card"),
];

async fn world() -> World {
    let world = World::shared().await;
    world.set(&["--currency", "USD", "--currency", "EUR", "--refuse-brand", "jcb"]).await;
    world
}

#[tokio::test(flavor = "multi_thread")]
async fn each_code_of_sale_authorize_and_unreferenced_refund() {
    let world = world().await;
    for script in ["sale.php", "authorize.php", "unreference_refund.php"] {
        for case in &COMMON {
            let reply = world.post(script, &broken(world.charge(GOOD), case)).await;
            assert_eq!(reply.code(), case.2, "{script} with {} {:?}: {}", case.0, case.1, reply.0);
            reply.expect_error(case.2, case.3);
        }
        world.post(script, &world.charge(GOOD)).await.is("00");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn shipping_memo_and_custom_fields_follow_the_field_matrix() {
    let world = world().await;
    let shipped = |form: Form| {
        form.without("ship_address_as_bill_address")
            .with("ship_first_name", "Jo")
            .with("ship_last_name", "Roe")
            .with("ship_zip_code", "94105")
            .with("ship_country_code", "US")
    };
    for script in ["sale.php", "authorize.php"] {
        world.post(script, &shipped(world.charge(GOOD))).await.is("00");
        for field in ["ship_first_name", "ship_last_name", "ship_zip_code", "ship_country_code"] {
            world.post(script, &shipped(world.charge(GOOD)).without(field)).await.expect_error("A1", field);
        }
        let wrong = shipped(world.charge(GOOD)).with("ship_country_code", "XX");
        world.post(script, &wrong).await.expect_error("A1", "ship_country_code");
        let maybe = world.charge(GOOD).with("ship_address_as_bill_address", "maybe");
        world.post(script, &maybe).await.expect_error("A1", "ship_address_as_bill_address");
        world.post(script, &world.charge(GOOD).with("memo", "what the fuck")).await.expect_error("21", "");
    }
    // These fields are not part of an unreferenced refund, so they are ignored.
    let credit = world.charge(GOOD).without("ship_address_as_bill_address").with("memo", "what the fuck");
    world.post("unreference_refund.php", &credit).await.is("00");
    // Not part of authorize.
    for field in ["custom_field_1", "custom_filed_2"] {
        let form = |world: &World| world.charge(GOOD).with(field, "shit");
        world.post("sale.php", &form(&world)).await.expect_error("21", "");
        world.post("unreference_refund.php", &form(&world)).await.expect_error("21", "");
        world.post("authorize.php", &form(&world)).await.is("00");
    }
    // Names of persons and towns are not checked.
    let town = world.charge(GOOD).with("last_name", "Bastard").with("memo", "to Scunthorpe");
    world.post("sale.php", &town).await.is("00");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_security_code_is_required_where_configured() {
    let world = world().await;
    world.post("authorize.php", &world.charge(GOOD).without("cvv")).await.expect_error("A1", "cvv");
    world.post("sale.php", &world.charge(GOOD).without("cvv")).await.is("00");
    world.post("unreference_refund.php", &world.charge(GOOD).with("cvv", "12")).await.is("00");
    for wrong in ["12", "12345", "12a"] {
        world.post("sale.php", &world.charge(GOOD).with("cvv", wrong)).await.expect_error("A1", "cvv");
        world.post("authorize.php", &world.charge(GOOD).with("cvv", wrong)).await.expect_error("A1", "cvv");
    }
    world.set(&["--cvv-required", "true"]).await;
    world.post("sale.php", &world.charge(GOOD).without("cvv")).await.expect_error("A1", "cvv");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_error_in_code_order_is_reported() {
    let world = world().await;
    world.post("sale.php", &world.keys().without("username").without("api_key")).await.expect_error("01", "");
    world.post("sale.php", &world.keys().without("api_key")).await.expect_error("09", "");
    let mut form = world.keys();
    for (code, name, value) in [
        ("02", "creditcard_number", GOOD),
        ("03", "expire_month", "12"),
        ("03", "expire_year", "2034"),
        ("04", "first_name", "Jane"),
        ("04", "last_name", "Doe"),
        ("05", "country_code", "US"),
        ("06", "email", "jane@example.com"),
        ("07", "amount", "5.00"),
        ("08", "currency", "USD"),
        ("A1", "zip_code", "10001"),
        ("A1", "ship_address_as_bill_address", "Y"),
    ] {
        world.post("sale.php", &form).await.is(code);
        form = form.with(name, value);
    }
    world.post("sale.php", &form).await.is("00");
}

#[tokio::test(flavor = "multi_thread")]
async fn a1_is_reported_after_errors_with_their_own_code() {
    let world = world().await;
    let long = "x".repeat(256);
    // Alone each of them is A1; next to another error that one is reported.
    let late = [("use_secret_key", "y"), ("reference_id", long.as_str()), ("first_name", &long), ("last_name", &long)];
    let first = [
        ("02", "creditcard_number", "4242424242424241"),
        ("03", "expire_year", "2020"),
        ("05", "country_code", "XX"),
        ("06", "email", "jane"),
        ("07", "amount", "x"),
        ("10", "currency", "SEK"),
        ("11", "creditcard_number", "3530111333300000"),
    ];
    for (name, value) in late {
        let form = || world.charge(GOOD).with(name, value);
        world.post("sale.php", &form()).await.expect_error("A1", name);
        for (code, other, wrong) in first {
            world.post("sale.php", &form().with(other, wrong)).await.expect_error(code, "");
        }
    }
    // The number is accepted encrypted or plain.
    let sealed = encrypt(&world.account.secret_key, GOOD);
    let odd = |number: &str| world.charge(number).with("use_secret_key", "y");
    for script in ["sale.php", "unreference_refund.php", "account_validation.php", "add_card.php"] {
        world.post(script, &odd(&sealed)).await.expect_error("A1", "use_secret_key");
        world.post(script, &odd(GOOD)).await.expect_error("A1", "use_secret_key");
        world.post(script, &odd("4242")).await.expect_error("02", "");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn names_with_a_nul_are_unknown() {
    let world = world().await;
    for name in ["shop\0", "\0", "a\0b"] {
        world.post("sale.php", &world.charge(GOOD).with("username", name)).await.expect_error("01", "");
        world.post("report.php", &world.keys().with("username", name)).await.expect_error("01", "");
        for path in ["field_token", "wallet_token"] {
            world.post_public(path, &world.browser().with("app_key", name)).await.expect_error("01", "app_key");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn card_numbers_may_be_encrypted_under_the_secret_key() {
    let world = world().await;
    let sealed = encrypt(&world.account.secret_key, GOOD);
    let form = |world: &World| world.charge(&sealed).with("use_secret_key", "Y");
    for script in ["sale.php", "unreference_refund.php"] {
        world.post(script, &form(&world)).await.is("00");
        world.post(script, &form(&world).with("use_secret_key", "N")).await.expect_error("02", "");
        world.post(script, &form(&world).with("use_secret_key", "y")).await.expect_error("A1", "use_secret_key");
        let plain = world.charge(GOOD).with("use_secret_key", "Y");
        world.post(script, &plain).await.expect_error("02", "");
    }
    // Not part of authorize, so the ciphertext is read as a card number.
    world.post("authorize.php", &form(&world)).await.expect_error("02", "");
    world.post("authorize.php", &world.charge(GOOD).with("use_secret_key", "Y")).await.is("00");
}

#[tokio::test(flavor = "multi_thread")]
async fn name_inquiries_are_for_visa_only() {
    let world = world().await;
    let ask = |first: &str, middle: Option<&str>, last: &str| {
        let form = world.charge(GOOD).with("amount", "0.00").with("first_name", first).with("last_name", last);
        match middle {
            Some(middle) => form.with("middle_name", middle),
            None => form,
        }
    };
    for (form, all, first, middle, last) in [
        (ask("Jane", None, "Doe"), "MATCH", "MATCH", "MATCH", "MATCH"),
        (ask("Jane", Some("partial"), "Doe"), "PARTIAL_MATCH", "MATCH", "PARTIAL_MATCH", "MATCH"),
        (ask("nomatch", None, "Doe"), "PARTIAL_MATCH", "NO_MATCH", "MATCH", "MATCH"),
        (ask("nomatch", None, "nomatch"), "NO_MATCH", "NO_MATCH", "MATCH", "NO_MATCH"),
    ] {
        let reply = world.post("account_validation.php", &form).await;
        assert_eq!(reply.is("00").text("nameMatchDecision"), all);
        assert_eq!(reply.text("firstNameMatchDecision"), first);
        assert_eq!(reply.text("middleNameMatchDecision"), middle);
        assert_eq!(reply.text("lastNameMatchDecision"), last);
    }
    let sealed = encrypt(&world.account.secret_key, GOOD);
    let encrypted = ask("Jane", None, "Doe").with("creditcard_number", &sealed).with("use_secret_key", "Y");
    world.post("account_validation.php", &encrypted).await.is("00");
    for (name, value, code) in [
        ("username", "unknown", "01"),
        ("creditcard_number", "5555555555554444", "02"),
        ("expire_year", "2020", "03"),
        ("first_name", "", "04"),
        ("amount", "x", "07"),
        ("api_key", "x", "09"),
        ("currency", "", "08"),
        ("currency", "SEK", "10"),
        ("cvv", "1", "A1"),
    ] {
        world.post("account_validation.php", &ask("Jane", None, "Doe").with(name, value)).await.expect_error(code, "");
    }
    // The brand is checked before the expiration date; brand rules and profanity apply as everywhere.
    let master = ask("Jane", None, "Doe").with("creditcard_number", "5555555555554444").with("expire_year", "2020");
    world.post("account_validation.php", &master).await.expect_error("02", "VISA");
    let profane = ask("Jane", None, "Doe").with("company_name", "Bull Shit Ltd");
    world.post("account_validation.php", &profane).await.expect_error("21", "");
    world.set(&["--refuse-brand", "visa"]).await;
    world.post("account_validation.php", &profane).await.expect_error("11", "");
    assert!(world.report(&[]).await.is_empty(), "an inquiry is not a transaction");
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_scripts_and_methods_respond_in_the_envelope() {
    let world = world().await;
    let base = world.base();
    let bare = world.keys();
    for (request, status, allow) in [
        (world.http().get(format!("{base}/apis/sale.php")), 405, Some("POST")),
        (world.http().put(format!("{base}/apis/report.php")), 405, Some("POST")),
        (world.http().post(format!("{base}/apis/sales.php")), 404, None),
        (world.http().get(format!("{base}/apis/sales.php")), 404, None),
        (world.http().get(format!("{base}/")), 404, None),
        (world.http().post(format!("{base}/apis/sale.php/x")), 404, None),
        (world.http().post(format!("{base}/apis/%ff")), 404, None),
        (world.http().get(format!("{base}/apis/%ff")), 404, None),
        (world.http().post(format!("{base}/services/field")), 405, Some("GET,HEAD")),
    ] {
        let response = world.send(request, &bare).await.expect("a response");
        assert_eq!(response.status(), status);
        assert_eq!(response.headers().get("allow").map(|allow| allow.to_str().expect("text")), allow);
        let body: serde_json::Value = response.json().await.expect("JSON");
        assert_eq!(body["response"]["code"], "UN", "{body}");
    }
    let long = world.charge(GOOD).with("memo", &"x".repeat(70_000));
    let response = world.raw(&format!("{base}/apis/sale.php"), &long).await;
    assert_eq!(response.status(), 413);
    // A body that is not a form has no user name.
    let nonsense = world.http().post(format!("{base}/apis/sale.php")).body(vec![0x00, b'{']).send().await;
    let body: serde_json::Value = nonsense.expect("a response").json().await.expect("JSON");
    assert_eq!(body["response"]["code"], "01");
}

#[tokio::test(flavor = "multi_thread")]
async fn amounts_in_responses_have_two_decimal_places() {
    let world = world().await;
    let response =
        world.raw(&format!("{}/apis/sale.php", world.base()), &world.charge(GOOD).with("amount", "133.2")).await;
    let text = response.text().await.expect("text");
    assert!(text.contains(r#""total_amount":133.20"#) && text.contains(r#""convenience_fee":0.00"#), "{text}");
    let credit = world.charge(GOOD).with("amount", "9999.9");
    let response = world.raw(&format!("{}/apis/unreference_refund.php", world.base()), &credit).await;
    let text = response.text().await.expect("text");
    assert!(text.contains(r#""amount":9999.90"#), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn health_and_metrics_are_served_on_the_internal_port() {
    let world = World::new().await;
    world.post("sale.php", &world.charge(GOOD)).await.is("00");
    world.post("sale.php", &world.charge(DECLINED)).await.is("F");
    let get = async |path: &str| {
        let url = format!("{}{path}", world.cluster.metrics_url(testkit::ProcessKind::Gateway, 0));
        let response = world.http().get(url).send().await.expect("a response");
        (response.status().as_u16(), response.text().await.expect("text"))
    };
    assert_eq!(get("/healthz").await.0, 200);
    assert_eq!(get("/readyz").await.0, 200);
    let metrics = get("/metrics").await.1;
    for line in [
        r#"gateway_requests_total{script="sale.php",code="00"} 1"#,
        r#"gateway_requests_total{script="sale.php",code="F"} 1"#,
        r#"gateway_transactions_total{type="SALE",state="declined"} 1"#,
    ] {
        assert!(metrics.contains(line), "no {line} in {metrics}");
    }
    let public = world.http().get(format!("{}/metrics", world.base())).send().await.expect("a response");
    assert_eq!(public.status(), 404);
}
