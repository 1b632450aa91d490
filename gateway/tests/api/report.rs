//! The report: records, filters and pages.

use crate::support::{DECLINED, GOOD, World};

#[tokio::test(flavor = "multi_thread")]
async fn a_record_has_the_requests_fields_and_the_outcome() {
    let world = World::of(testkit::Cluster::builder().gateway(1), &["--time-zone", "America/New_York"]).await;
    let form = world
        .charge("4000000000000127")
        .with("amount", "12.3")
        .with("reference_id", "order-9")
        .with("company_name", "Doe Ltd")
        .with("address", "1 Main St")
        .with("city", "New York")
        .with("state", "NY")
        .with("phone_number", "+1 555")
        .with("client_ip", "192.0.2.7")
        .with("zip_code", "00000");
    world.post("sale.php", &form).await.expect_error("F", "incorrect cvv");
    let records = world.report(&[("reference_id", "order-9")]).await;
    let record = &records[0];
    for (name, value) in [
        ("parent_transaction_id", ""),
        ("transaction_type", "SALE"),
        ("transaction_source", "API"),
        ("initiated_by", "shop"),
        ("transaction_status", "FAIL"),
        ("decline_reason", "incorrect cvv"),
        ("time_zone", "America/New_York"),
        ("card_type", "VISA"),
        ("3d_secure_transaction", "NO"),
        ("credit_card_number", "XXXXXXXXXXXX0127"),
        ("card_expiry_date", "12/2034"),
        ("auth_response_code", "N7"),
        ("avs_response_code", "N"),
        ("cvv_response_code", "N"),
        ("error_response", ""),
        ("currency", "USD"),
        ("total_amount", "12.30"),
        ("amount", "12.30"),
        ("surcharge", "0.00"),
        ("tax", "0.00"),
        ("tip", "0.00"),
        ("first_name", "Jane"),
        ("last_name", "Doe"),
        ("company_name", "Doe Ltd"),
        ("address_1", "1 Main St"),
        ("address_2", ""),
        ("city", "New York"),
        ("state", "NY"),
        ("zip_code", "00000"),
        ("email", "jane@example.com"),
        ("phone_no", "+1 555"),
        ("subscription_id", ""),
        ("is_risk_hold", "NO"),
        ("IP", "192.0.2.7"),
        ("reference_id", "order-9"),
    ] {
        assert_eq!(record[name], value, "{name}");
    }
    assert!(record["avs_response"].is_string() && record["cvv_response"].is_string());
    assert_eq!(record.as_object().expect("an object").len(), 41, "{record}");
    let form_of = |name: &str| {
        let text = record[name].as_str().expect(name);
        text.replace(|c: char| c.is_ascii_digit(), "0")
    };
    assert_eq!(form_of("transaction_time"), "0000-00-00 00:00:00");
    assert_eq!(form_of("gmt_time"), "0000-00-00 00:00:00");
    assert_ne!(record["transaction_time"], record["gmt_time"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn filters_apply_and_children_have_their_parents_reference() {
    let world = World::shared().await;
    let sold = world.post("sale.php", &world.charge(GOOD).with("amount", "9.00").with("reference_id", "a")).await;
    let of = world.keys().with("transaction_id", sold.id()).with("amount", "4.00");
    let refunded = world.post("refund.php", &of).await;
    let authorized = world.post("authorize.php", &world.charge(GOOD).with("reference_id", "b")).await;
    world.post("void.php", &world.keys().with("transaction_id", authorized.id())).await.is("00");
    world.post("unreference_refund.php", &world.charge(GOOD)).await.is("00");
    world.post("sale.php", &world.charge(DECLINED).with("reference_id", "c")).await.is("F");
    let types = async |narrow: &[(&str, &str)]| -> Vec<String> {
        let records = world.report(narrow).await;
        records.iter().map(|record| record["transaction_type"].as_str().expect("a type").to_owned()).collect()
    };
    assert_eq!(types(&[]).await, ["SALE", "CREDIT", "VOID", "AUTHORIZE", "REFUND", "SALE"], "newest first");
    assert_eq!(types(&[("reference_id", "a")]).await, ["REFUND", "SALE"]);
    assert_eq!(types(&[("reference_id", "b")]).await, ["VOID", "AUTHORIZE"]);
    assert_eq!(types(&[("reference_id", "a"), ("transaction_type", "REFUND")]).await, ["REFUND"]);
    assert_eq!(types(&[("transaction_type", "SALE")]).await, ["SALE", "SALE"]);
    assert_eq!(types(&[("transaction_status", "FAIL")]).await, ["SALE"]);
    assert_eq!(types(&[("transaction_status", "SUCCESS"), ("transaction_type", "CAPTURE")]).await, [""; 0]);
    assert_eq!(types(&[("transaction_id", sold.id())]).await, ["SALE"]);
    assert_eq!(types(&[("transaction_id", refunded.id()), ("reference_id", "a")]).await, ["REFUND"]);
    assert_eq!(types(&[("transaction_id", refunded.id()), ("reference_id", "b")]).await, [""; 0]);
    for (name, right, wrong) in [
        ("transaction_type", "REFUND", "SALE"),
        ("transaction_status", "SUCCESS", "FAIL"),
        ("start_date", "2020-01-01", "2099-12-31"),
        ("end_date", "2099-12-31", "2020-01-01"),
    ] {
        assert_eq!(types(&[("transaction_id", refunded.id()), (name, right)]).await, ["REFUND"], "{name}");
        assert_eq!(types(&[("transaction_id", refunded.id()), (name, wrong)]).await, [""; 0], "{name}");
    }
    assert_eq!(types(&[("reference_id", "z")]).await, [""; 0]);
    let other = world.add_account("other", &[]).await;
    let form = world.keys_of(&other).with("start_date", "2020-01-01").with("end_date", "2099-12-31");
    for form in [form.clone(), form.clone().with("reference_id", "a"), form.with("transaction_id", sold.id())] {
        let reply = world.post("report.php", &form).await;
        assert_eq!(reply.is("00").text("no_of_transactions"), "0", "another account sees nothing");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_have_100_records() {
    let world = World::shared().await;
    let form = world.keys().with("start_date", "2020-01-01").with("end_date", "2099-12-31");
    let reply = world.post("report.php", &form).await;
    assert_eq!((reply.text("no_of_transactions"), reply.text("current_page")), ("0", "1"));
    assert_eq!(reply.0["total_pages"], 0);
    world.post("report.php", &form.clone().with("page_no", "2")).await.expect_error("P1", "");
    for _ in 0..6 {
        let forms: Vec<_> = (0..35).map(|_| world.charge(GOOD)).collect();
        let sales = futures_util::future::join_all(forms.iter().map(|form| world.post("sale.php", form))).await;
        for reply in &sales {
            reply.is("00");
        }
    }
    let mut seen = Vec::new();
    for (page, size) in [("1", 100), ("2", 100), ("3", 10)] {
        let reply = world.post("report.php", &form.clone().with("page_no", page)).await;
        assert_eq!((reply.is("00").text("no_of_transactions"), reply.text("current_page")), ("210", page));
        assert_eq!(reply.0["total_pages"], 3);
        let records = reply.0["transactions"].as_array().expect("a list");
        assert_eq!(records.len(), size);
        seen.extend(records.iter().map(|record| record["transaction_id"].as_str().expect("an id").to_owned()));
    }
    let mut distinct = seen.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), 210);
    for page in ["0", "4", "-1", "x", "1.0", "99999999999999999999"] {
        world.post("report.php", &form.clone().with("page_no", page)).await.expect_error("P1", "");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn dates_are_inclusive_days_of_the_accounts_zone() {
    let world = World::of(testkit::Cluster::builder().gateway(1), &["--time-zone", "Pacific/Auckland"]).await;
    let sold = world.post("sale.php", &world.charge(GOOD)).await;
    // Noon in Auckland, which has 12:59 UTC on the day before.
    world.execute("UPDATE gateway.transactions SET created_at = '2026-07-01T11:59:59Z'").await;
    let found = async |start: &str, end: &str| world.report(&[("start_date", start), ("end_date", end)]).await.len();
    assert_eq!(found("2026-07-01", "2026-07-01").await, 1);
    assert_eq!(found("2026-07-02", "2026-07-02").await, 0);
    world.execute("UPDATE gateway.transactions SET created_at = '2026-07-01T12:00:00Z'").await;
    assert_eq!(found("2026-07-01", "2026-07-01").await, 0);
    assert_eq!(found("2026-07-02", "2026-07-02").await, 1);
    assert_eq!(found("2026-06-30", "2026-07-02").await, 1);
    assert_eq!(world.report(&[("transaction_id", sold.id())]).await[0]["transaction_time"], "2026-07-02 00:00:00");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_code_of_the_report() {
    let world = World::shared().await;
    let form = world.keys().with("start_date", "2026-01-01").with("end_date", "2026-12-31");
    world.post("report.php", &form).await.is("00");
    for (name, value, code) in [
        ("username", "unknown", "01"),
        ("api_key", "x", "09"),
        ("transaction_id", "1", "12"),
        ("start_date", "", "23"),
        ("end_date", "", "23"),
        ("start_date", "01/01/2026", "23"),
        ("end_date", "2026-02-30", "23"),
        ("start_date", "2027-01-01", "23"),
        ("transaction_type", "sale", "24"),
        ("transaction_type", "ANI", "24"),
        ("transaction_status", "PENDING", "25"),
    ] {
        world.post("report.php", &form.clone().with(name, value)).await.expect_error(code, "");
    }
}
