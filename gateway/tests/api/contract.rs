//! The contract in detail: every code is reached, report records have exactly the contract's fields, and all errors in
//! a ciphertext get the same response.

use std::collections::{BTreeMap, BTreeSet};

use sqlx::Connection;
use testkit::Cluster;

use crate::support::{DECLINED, Form, GOOD, Reply, World, encrypt, encrypt_blocks, wait_until};

const CODES: [&str; 32] = [
    "00", "01", "02", "03", "04", "05", "06", "07", "08", "09", "10", "11", "12", "13", "14", "15", "16", "17", "18",
    "19", "20", "21", "22", "23", "24", "25", "26", "A1", "A2", "P1", "UN", "F",
];

/// The fields of a report record.
const FIELDS: [&str; 41] = [
    "transaction_id",
    "parent_transaction_id",
    "transaction_type",
    "transaction_source",
    "initiated_by",
    "transaction_status",
    "decline_reason",
    "transaction_time",
    "time_zone",
    "gmt_time",
    "card_type",
    "3d_secure_transaction",
    "credit_card_number",
    "card_expiry_date",
    "auth_response_code",
    "avs_response_code",
    "avs_response",
    "cvv_response_code",
    "cvv_response",
    "error_response",
    "currency",
    "total_amount",
    "amount",
    "surcharge",
    "tax",
    "tip",
    "first_name",
    "last_name",
    "company_name",
    "address_1",
    "address_2",
    "city",
    "state",
    "zip_code",
    "email",
    "phone_no",
    "subscription_id",
    "is_risk_hold",
    "IP",
    "reference_id",
    "child_reference_id",
];

/// The codes received, with their descriptions.
#[derive(Default)]
struct Reached(BTreeMap<String, BTreeSet<String>>);

impl Reached {
    #[track_caller]
    fn record(&mut self, reply: &Reply, code: &str) {
        reply.is(code);
        if code != "00" {
            reply.expect_error(code, "");
        }
        self.0.entry(code.to_owned()).or_default().insert(reply.text("description").to_owned());
    }

    /// Valid forms with one invalid field.
    async fn by_a_field(&mut self, world: &World, script: &str, right: &Form, wrong: &[(&str, &str, &str)]) {
        for (code, name, value) in wrong {
            self.record(&world.post(script, &right.clone().with(name, value)).await, code);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_code_of_the_contract_is_reached() {
    let options = ["--currency", "USD", "--currency", "EUR", "--refuse-brand", "jcb", "--monthly-limit", "20000.00"];
    let world = World::of(Cluster::builder().gateway(1), &options).await;
    let mut reached = Reached::default();
    let fields = [
        ("01", "username", "unknown"),
        ("02", "creditcard_number", "4242424242424241"),
        ("03", "expire_month", "13"),
        ("04", "first_name", ""),
        ("05", "country_code", "XX"),
        ("06", "email", "jane"),
        ("07", "amount", "133.245"),
        ("08", "currency", ""),
        ("09", "api_key", "gwk_0"),
        ("10", "currency", "SEK"),
        ("11", "creditcard_number", "3530111333300000"),
        ("17", "amount", "10000.01"),
        ("21", "memo", "holy shit"),
        ("22", "client_ip", "1.2.3"),
        ("A1", "zip_code", ""),
        ("F", "creditcard_number", DECLINED),
    ];
    reached.by_a_field(&world, "sale.php", &world.charge(GOOD), &fields).await;
    let report = world.keys().with("start_date", "2026-01-01").with("end_date", "2026-12-31");
    let fields = [
        ("12", "transaction_id", "1"),
        ("23", "start_date", "01/01/2026"),
        ("24", "transaction_type", "sale"),
        ("25", "transaction_status", "DONE"),
        ("P1", "page_no", "0"),
    ];
    reached.by_a_field(&world, "report.php", &report, &fields).await;
    follow_up_codes(&world, &mut reached).await;
    limit_codes(&world, &mut reached).await;
    temporary_failures(&world, &mut reached).await;
    let codes: BTreeSet<_> = reached.0.keys().map(String::as_str).collect();
    assert_eq!(codes, BTreeSet::from(CODES), "{:?}", reached.0);
}

/// 12 to 16, and 26.
async fn follow_up_codes(world: &World, reached: &mut Reached) {
    let of = |id: &str, amount: &str| world.keys().with("transaction_id", id).with("amount", amount);
    let form = world.charge(GOOD).with("amount", "10.00");
    let sold = world.post("sale.php", &form).await;
    reached.record(&sold, "00");
    reached.record(&world.post("sale.php", &form).await, "26");
    reached.record(&world.post("refund.php", &of(sold.id(), "10.01")).await, "14");
    reached.record(&world.post("capture.php", &of(sold.id(), "1.00")).await, "15");
    reached.record(&world.post("void.php", &of(sold.id(), "1.00")).await, "00");
    reached.record(&world.post("void.php", &of(sold.id(), "1.00")).await, "16");
    reached.record(&world.post("refund.php", &of(sold.id(), "1.00")).await, "13");
    reached.record(&world.post("refund.php", &of("1", "1.00")).await, "12");
}

/// 18 to 20.
async fn limit_codes(world: &World, reached: &mut Reached) {
    let set = async |option: &str, value: &str| {
        let arguments = ["account", "set", "--username", "shop", option, value];
        world.cluster.run_gateway(&arguments).await.expect("set");
    };
    set("--monthly-limit", "11.00").await;
    reached.record(&world.post("sale.php", &world.charge(GOOD).with("amount", "5000.00")).await, "18");
    set("--monthly-limit", "20000.00").await;
    set("--hourly-per-address", "1").await;
    let from = |world: &World| world.charge(GOOD).with("client_ip", "192.0.2.1");
    reached.record(&world.post("sale.php", &from(world)).await, "00");
    reached.record(&world.post("sale.php", &from(world)).await, "20");
    set("--daily-transactions", "1").await;
    reached.record(&world.post("sale.php", &world.charge(GOOD)).await, "19");
    set("--daily-transactions", "1000").await;
}

/// A2 if a void cannot be entered, and UN if the acquirer does not respond to an entered charge.
async fn temporary_failures(world: &World, reached: &mut Reached) {
    let sold = world.post("sale.php", &world.charge(GOOD)).await;
    let void = world.keys().with("transaction_id", sold.id());
    let mut other = world.database().await;
    let mut held = other.begin().await.expect("a transaction");
    sqlx::query("SELECT 1 FROM gateway.transactions FOR UPDATE").execute(&mut *held).await.expect("the rows are held");
    reached.record(&world.post("void.php", &void).await, "A2");
    held.rollback().await.expect("rolled back");
    let mut held = other.begin().await.expect("a transaction");
    let lock = "LOCK TABLE gateway.acquirer_books IN ACCESS EXCLUSIVE MODE";
    sqlx::query(lock).execute(&mut *held).await.expect("the books are held");
    let form = world.charge(GOOD).with("reference_id", "unknown");
    reached.record(&world.post("sale.php", &form).await, "UN");
    held.rollback().await.expect("rolled back");
    // Recovery resolves it; it was not charged, because its request never arrived.
    wait_until("the outcome", async || {
        let records = world.report(&[("reference_id", "unknown")]).await;
        (records[0]["decline_reason"] == "not processed").then_some(())
    })
    .await;
    reached.record(&world.post("sale.php", &form).await, "26");
}

#[tokio::test(flavor = "multi_thread")]
async fn report_records_have_exactly_the_contracts_fields() {
    let world = World::new().await;
    let sold = world.post("sale.php", &world.charge(GOOD)).await;
    let refund = world.keys().with("transaction_id", sold.id()).with("amount", "1.00");
    world.post("refund.php", &refund).await.is("00");
    world.post("sale.php", &world.charge(DECLINED)).await.is("F");
    let records = world.report(&[]).await;
    assert_eq!(records.len(), 3);
    for record in &records {
        let fields = record.as_object().expect("an object");
        assert_eq!(fields.keys().map(String::as_str).collect::<BTreeSet<_>>(), BTreeSet::from(FIELDS));
        assert!(fields.values().all(serde_json::Value::is_string), "{record}");
    }
    let form = world.keys().with("start_date", "2026-01-01").with("end_date", "2099-12-31");
    let reply = world.post("report.php", &form).await;
    let fields: Vec<_> = reply.0.as_object().expect("an object").keys().map(String::as_str).collect();
    let expected = ["code", "current_page", "description", "no_of_transactions", "total_pages", "transactions"];
    assert_eq!(fields, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn all_ciphertext_errors_get_the_same_response() {
    let world = World::new().await;
    let (right, other) = (&world.account.secret_key, "0123456789abcdef");
    let good = encrypt(right, GOOD);
    let with_last_byte = |byte: u8| {
        let mut bytes = b"4242424242424242".to_vec();
        bytes.extend([16; 15]);
        bytes.push(byte);
        encrypt_blocks(right, bytes)
    };
    let bad = [
        ("bad base64", "!!!!".to_owned()),
        ("base64 without its padding", good.trim_end_matches('=').to_owned()),
        ("half a block", good[..good.len() - 8].to_owned()),
        ("too long", encrypt(right, &"4242424242424242".repeat(5))),
        ("another key", encrypt(other, GOOD)),
        ("padding of 0", with_last_byte(0)),
        ("padding of 17", with_last_byte(17)),
        ("padding of 255", with_last_byte(255)),
        ("padding that differs", with_last_byte(2)),
        ("padding of 1, and so a number with odd bytes", with_last_byte(1)),
        ("nothing but padding", encrypt(right, "")),
        ("no digits", encrypt(right, "not a card number")),
        ("no text", encrypt_blocks(right, [vec![0xff; 15], vec![1]].concat())),
        ("a wrong check digit", encrypt(right, "4242424242424241")),
        ("a plain number", GOOD.to_owned()),
    ];
    for script in ["sale.php", "unreference_refund.php", "account_validation.php", "add_card.php"] {
        let url = format!("{}/apis/{script}", world.base());
        let mut responses = BTreeSet::new();
        for (what, text) in &bad {
            let response = world.raw(&url, &world.charge(text).with("use_secret_key", "Y")).await;
            assert_eq!(response.status(), 200, "{what}");
            responses.insert(response.bytes().await.expect("a body"));
        }
        let expected = r#"{"response":{"code":"02","description":"Credit card missing or invalid"}}"#;
        assert_eq!(responses.into_iter().collect::<Vec<_>>(), [expected], "{script}");
        world.post(script, &world.charge(&good).with("use_secret_key", "Y")).await.is("00");
    }
}
