//! Right requests with a change, by the hundred, to every route of the API, the pages of cardholders, and the card gateway.
//!
//! `SEED` repeats a run, as far as it is up to the requests. tests/openapi sends what its schemas allow and forbid; here are
//! bytes that are no JSON, and what all of it did to the money.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use proptest::prelude::*;
use proptest::strategy::BoxedStrategy;
use reqwest::Method;
use serde_json::{Value, json};
use testkit::fuzz::{Bytes, Source, json as mutated, mutated as text, mutated_bytes};
use testkit::{Answer, Client};

use crate::support::{Browser, Merchant, Shop, cluster, created, eventually, id, ok, printed, sale, with};

/// A request to be sent.
#[derive(Clone, Debug)]
struct Shot {
    method: Method,
    path: String,
    body: Option<Bytes>,
    key: Option<String>,
}

fn post(path: impl Into<String>, body: Value) -> BoxedStrategy<Shot> {
    let paths = in_path(path.into());
    let keys = prop_oneof![3 => Just(None), 1 => text("order-1").prop_map(Some)];
    let shot = |(path, body, key)| Shot { method: Method::POST, path, body: Some(body), key };
    (paths, mutated(body), keys).prop_map(shot).boxed()
}

fn get(path: impl Into<String>) -> BoxedStrategy<Shot> {
    let query =
        text("limit=10&startingAfter=pay_01KAJ4M2V8Q0S5T7W9X1Y3Z5A7&externalId=u&status=failed&customerId=cus_1");
    let shot = |(path, query): (String, String)| Shot {
        method: Method::GET,
        path: format!("{path}?{}", escaped(&query)),
        body: None,
        key: None,
    };
    (in_path(path.into()), query).prop_map(shot).boxed()
}

/// The path, or with a change in its last part.
fn in_path(path: String) -> BoxedStrategy<String> {
    let (folder, last) =
        path.rsplit_once('/').map(|(folder, last)| (folder.to_owned(), last.to_owned())).unwrap_or_default();
    let changed = text(last).prop_map(move |last| format!("{folder}/{}", escaped(&last)));
    prop_oneof![5 => Just(path), 1 => changed].boxed()
}

/// As it may stand in an address: what reqwest would change is encoded.
fn escaped(text: &str) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.~=&+%[]".contains(byte);
    text.bytes().map(|byte| if plain(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

fn form(path: &str, fields: &[(&str, &str)]) -> BoxedStrategy<Shot> {
    let (paths, bytes) = (in_path(path.to_owned()), mutated_bytes(testkit::form(fields)));
    // One field with another value, encoded as it should be.
    let owned: Vec<(String, String)> = fields.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
    let field = (0..owned.len()).prop_flat_map(move |i| {
        let owned = owned.clone();
        text(owned[i].1.clone()).prop_map(move |value| {
            let fields = owned.iter().enumerate().map(|(j, (name, old))| (name, if i == j { &value } else { old }));
            Bytes(testkit::form(fields).into_bytes())
        })
    });
    let shot = |(path, body)| Shot { method: Method::POST, path, body: Some(body), key: None };
    (paths, prop_oneof![2 => field, 1 => bytes]).prop_map(shot).boxed()
}

/// The answer is one that the contract has for wrong input, or a success.
#[track_caller]
fn is_in_order(shot: &Shot, answer: &Answer) -> bool {
    let said = String::from_utf8_lossy(&answer.bytes);
    assert!(answer.status < 500, "{} {shot:?}: {said}", answer.status);
    assert!(answer.header("request-id").is_some(), "{shot:?}");
    if answer.status < 400 {
        return true;
    }
    let error = &answer.body["error"];
    let text = |field: &str| error[field].as_str().is_some_and(|text| !text.is_empty());
    assert!(text("code") && text("message"), "{} {shot:?}: {said}", answer.status);
    assert!(answer.bytes.len() < 2_000, "it repeats what was sent: {shot:?}: {said}");
    // A field is at fault wherever there are fields.
    let sent = shot.body.as_deref().unwrap_or(b"{}");
    let is_object = serde_json::from_slice::<Value>(sent).is_ok_and(|sent| sent.is_object());
    if answer.status == 422 && error["code"] == "invalid_request" && is_object {
        assert!(text("param"), "{shot:?}: {said}");
    }
    false
}

async fn send(client: &Client, shot: &Shot) -> Result<Answer> {
    let client = match &shot.key {
        Some(key) => client.header("idempotency-key", key).unwrap_or_else(|_| client.clone()),
        None => client.clone(),
    };
    let answer = client.send(shot.method.clone(), &shot.path, shot.body.clone().map(|body| body.0)).await;
    answer.with_context(|| format!("the connection was dropped: {shot:?}"))
}

/// Objects that the requests may be about.
struct Stage {
    customer: String,
    card: String,
    plan: String,
    held: String,
    sold: String,
}

impl Stage {
    async fn set(merchant: &Merchant) -> Result<Self> {
        let customer = merchant.customer().await?;
        let card = id(created(&merchant.save_card(&customer, "tok_ok").await?))?;
        let plan = json!({"name": "Gold", "amount": 2900, "currency": "USD", "interval": "month"});
        let plan = id(created(&merchant.api.post("/v1/plans", plan).await?))?;
        let (held, sold) = (merchant.hold(500).await?, merchant.sold(500).await?);
        Ok(Self { customer, card, plan, held, sold })
    }

    fn invoice(&self) -> Value {
        json!({
            "customerId": self.customer, "currency": "USD", "description": "November", "amountTax": 825,
            "items": [{"description": "Hours", "quantity": 4, "unitAmount": 2500}], "paymentTerms": "net_30",
        })
    }

    /// Right requests of every kind, with a change each. Bodies of payments come most often.
    async fn requests(&self, merchant: &Merchant) -> Result<impl Strategy<Value = Shot>> {
        let made = async |path: &str, body: Value| id(created(&merchant.api.post(path, body).await?));
        let invoice = made("/v1/invoices", self.invoice()).await?;
        let address = json!({
            "customerId": self.customer, "firstName": "Ada", "lastName": "Lovelace", "line1": "12 St James's Square",
            "city": "London", "postalCode": "SW1Y 4LB", "country": "GB",
        });
        let subscription = json!({"customerId": self.customer, "planId": self.plan, "paymentMethodId": self.card,
            "startAt": "2099-01-31", "timezone": "America/New_York"});
        let recurring = json!({
            "customerId": self.customer, "name": "Rent", "cadence": {"unit": "monthly", "interval": 1, "dayOfMonth": 31},
            "startDate": "2099-01-01", "endDate": "2099-12-31", "mode": "draft_for_review",
            "template": {"currency": "USD", "items": [{"description": "Rent", "quantity": 1, "unitAmount": 95000}]},
        });
        let link =
            json!({"amount": 4200, "currency": "USD", "description": "A ticket", "expiresAt": "2099-12-21T09:30:00Z"});
        let endpoint =
            json!({"url": "http://127.0.0.1:9/hooks", "enabledEvents": ["payment.settled", "payment.refunded"]});
        let customer = json!({"email": "ada@example.com", "name": "Ada", "phone": "1", "externalId": "u-1815",
            "customFields": [{"name": "Size", "type": "text", "value": "M"}, {"name": "N", "type": "number", "value": "1.5"}]});
        let (pay, of_card) = (sale(1250), json!({"amount": 900, "currency": "USD", "paymentMethodId": self.card}));
        let pays = prop_oneof![
            4 => post("/v1/payments", with(pay.clone(), "returnUrl", "https://shop.example/thanks")),
            2 => post("/v1/payments", of_card),
            1 => post("/v1/payments", with(pay, "capture", false)),
        ];
        let kinds = [
            ("customers", customer),
            ("addresses", address),
            ("subscriptions", subscription),
            ("payment_links", link),
            ("recurring_invoices", recurring),
            ("invoices", self.invoice()),
            (
                "plans",
                json!({"name": "Gold", "amount": 3900, "currency": "USD", "interval": "month", "intervalCount": 1}),
            ),
            ("payment_methods", json!({"customerId": self.customer, "paymentToken": "tok_ok"})),
        ];
        let mut others = vec![
            post(format!("/v1/payments/{}/capture", self.held), json!({"amount": 7})),
            post(format!("/v1/payments/{}/refund", self.sold), json!({"amount": 7})),
            post("/v1/payments/pay_01KAJ4M2V8Q0S5T7W9X1Y3Z5A7/void", json!({})),
            post(format!("/v1/customers/{}", self.customer), kinds[0].1.clone()),
            post(format!("/v1/payment_methods/{}/default", self.card), json!({})),
            post(
                format!("/v1/invoices/{invoice}/schedule"),
                json!({"collectAt": "2099-12-21T09:30:00Z", "paymentMethodId": self.card}),
            ),
            post(format!("/v1/invoices/{invoice}/issue"), json!({})),
            post(format!("/v1/invoices/{invoice}/cancel_schedule"), json!({})),
            post("/v1/invoices/scheduler/run", json!({})),
            post("/v1/test_clock/advance", json!({"to": "0001-12-21T09:30:00Z"})),
            post("/v1/webhook_endpoints", endpoint.clone()),
            get("/v1/capabilities"),
            get("/v1/webhook_deliveries"),
            get("/v1/webhook_endpoints"),
            get("/v1/test_clock"),
            get("/v1/payments"),
            get(format!("/v1/payments/{}", self.sold)),
            get(format!("/v1/invoices/{invoice}/attempts")),
            get("/openapi.json"),
        ];
        for (name, body) in kinds {
            let one = made(&format!("/v1/{name}"), body.clone()).await;
            others.extend([post(format!("/v1/{name}"), body.clone()), post(format!("/v1/{name}"), body.clone())]);
            others.push(get(format!("/v1/{name}")));
            if let Ok(one) = one {
                let steps = ["", "/cancel", "/pause", "/resume", "/void"].map(|step| format!("/v1/{name}/{one}{step}"));
                others.extend([post(steps[0].clone(), body), get(steps[0].clone())]);
                others.extend(steps[1..].iter().map(|step| post(step.clone(), json!({}))));
            }
        }
        Ok(prop_oneof![2 => pays, 3 => proptest::strategy::Union::new(others)])
    }
}

/// What came of many requests.
#[derive(Default)]
struct Fired {
    statuses: BTreeMap<u16, usize>,
    /// Every success.
    done: Vec<Value>,
}

impl Fired {
    /// The server was not merely refusing, nor merely letting everything through.
    #[track_caller]
    fn is_mixed(&self, least: usize) {
        println!("{:?}", self.statuses);
        let good = self.done.len();
        let all: usize = self.statuses.values().sum();
        assert!(good >= least && all - good >= least, "{:?}", self.statuses);
    }
}

/// Sends so many, eight at a time. `judge` says whether it is a success.
async fn fire(
    client: &Client,
    source: &mut Source,
    shots: &impl Strategy<Value = Shot>,
    count: usize,
    judge: impl Fn(&Shot, &Answer) -> bool,
) -> Result<Fired> {
    let mut fired = Fired::default();
    for _ in 0..count.div_ceil(8) {
        let shots: Vec<Shot> = (0..8).map(|_| source.draw(shots)).collect();
        let answers = futures_util::future::try_join_all(shots.iter().map(|shot| send(client, shot))).await?;
        for (shot, answer) in shots.iter().zip(answers) {
            *fired.statuses.entry(answer.status).or_default() += 1;
            if judge(shot, &answer) {
                fired.done.push(answer.body);
            }
        }
    }
    Ok(fired)
}

#[tokio::test]
async fn no_body_or_query_shocks_the_api_or_moves_money_unacknowledged() -> Result<()> {
    let mut source = Source::from_env();
    let (cluster, merchant) = (cluster().await?, Merchant::new(cluster().await?).await?);
    let stage = Stage::set(&merchant).await?;
    let shots = stage.requests(&merchant).await?;
    let fired = fire(&merchant.api, &mut source, &shots, 900, is_in_order).await?;
    // Most changes make a request one that is refused.
    fired.is_mixed(50);

    // Whoever has no key, and pages with theirs.
    let strangers = (text(format!("Bearer {}", merchant.account.secret_key)), shots);
    for _ in 0..40 {
        let (authorization, shot) = source.draw(&strangers);
        if authorization.contains(&merchant.account.secret_key) {
            continue;
        }
        let Ok(stranger) = Client::new(&cluster.api_url(0))?.header("authorization", &authorization) else { continue };
        let let_in = is_in_order(&shot, &send(&stranger, &shot).await?);
        assert!(!let_in || !shot.path.starts_with("/v1"), "{authorization} is let in");
    }
    let browser = Browser::of(cluster, &merchant.account)?;
    let session = browser.session().await?;
    let pages = prop_oneof![
        post("/v1/checkout_sessions", json!({"intent": "store"})),
        post("/v1/tokens", json!({"sessionId": session, "upstreamToken": "tok_ok"})),
    ];
    fire(&browser.api, &mut source, &pages, 80, is_in_order).await?;

    // Every charge is one of a payment that is there, and every payment that nobody's schedule has made was acknowledged.
    eventually("every outcome", async || Ok((merchant.books.unfinished().await? == 0).then_some(()))).await?;
    let unknown: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM mock.transactions t JOIN provider_accounts a ON a.id = t.account
         WHERE a.account_id = $1 AND t.approved AND t.kind IN ('sale', 'authorize') AND NOT EXISTS (
             SELECT FROM payments p WHERE p.provider_account_id = t.account AND p.provider_ref = t.id AND p.amount = t.amount)",
    )
    .bind(merchant.books.account)
    .fetch_one(&merchant.books.db)
    .await?;
    assert_eq!(unknown, 0, "charges that no payment knows of");
    let asked: Vec<uuid::Uuid> =
        sqlx::query_scalar("SELECT id FROM payments WHERE account_id = $1 AND invoice_id IS NULL")
            .bind(merchant.books.account)
            .fetch_all(&merchant.books.db)
            .await?;
    let told: BTreeSet<&str> =
        fired.done.iter().filter(|body| body["object"] == "payment").filter_map(|b| b["id"].as_str()).collect();
    let told = |id: &str| told.contains(id) || [&stage.held, &stage.sold].contains(&&id.to_owned());
    assert!(asked.len() > 20, "{} payments", asked.len());
    for id in asked {
        let id = printed("pay_", id);
        assert!(told(&id), "{id} was made, and nobody was told");
    }
    ok(&merchant.api.get("/v1/capabilities").await?);
    Ok(())
}

/// An answer to a browser: a page or the way to one.
#[track_caller]
fn is_page(shot: &Shot, answer: &Answer) -> bool {
    let said = String::from_utf8_lossy(&answer.bytes);
    assert!(answer.status < 500, "{} {shot:?}: {said}", answer.status);
    let is_html = answer.header("content-type").is_some_and(|kind| kind.starts_with("text/html"));
    // A path that is none is no page's.
    let is_nowhere = answer.status == 404 && answer.body["error"]["code"] == "not_found";
    assert!(is_html || is_nowhere || answer.status == 303, "{shot:?}: {said}");
    answer.status == 303
}

#[tokio::test]
async fn no_form_shocks_a_page_or_pays_it_twice() -> Result<()> {
    let mut source = Source::from_env();
    let (cluster, merchant) = (cluster().await?, Merchant::new(cluster().await?).await?);
    let form_type = ("content-type", "application/x-www-form-urlencoded");
    let browser = Client::new(&cluster.api_url(0))?.header(form_type.0, form_type.1)?;
    let mut paid = 0;
    for amount in [4_200, 4_300, 4_400, 4_500] {
        let link = json!({"amount": amount, "currency": "USD", "description": "A ticket"});
        let link = created(&merchant.api.post("/v1/payment_links", link).await?).clone();
        let path =
            link["url"].as_str().and_then(|url| url.find("/pay/").map(|at| url[at..].to_owned())).context("a page")?;
        let total = amount.to_string();
        let shots = prop_oneof![
            6 => form(&path, &[("token", "tok_ok"), ("amount", &total), ("tip", "1")]),
            1 => get(path.clone()),
            1 => get("/pay/a/4f1d0c9b8a7e6d5c4b3a29180716253443526170/return"),
            1 => get("/elements/field/cs_4f1d0c9b8a7e6d5c4b3a29180716253443526170"),
        ];
        fire(&browser, &mut source, &shots, 80, is_page).await?;
        let made = merchant.books.payments_of(amount).await?;
        let link = ok(&merchant.api.get(&format!("/v1/payment_links/{}", id(&link)?)).await?).clone();
        assert!(made <= 1 && (link["status"] == "paid") == (made == 1), "{made} payments: {link}");
        paid += made;
    }
    assert!(paid > 0, "nothing was right enough to pay");
    merchant.books.audit().await
}

/// An answer of the gateway; whether it is a success. No card's number is in it.
#[track_caller]
fn is_envelope(shot: &Shot, answer: &Answer) -> bool {
    let said = String::from_utf8_lossy(&answer.bytes);
    assert!(answer.status < 500 && !said.contains(APPROVES), "{} {shot:?}: {said}", answer.status);
    let response = &answer.body["response"];
    let code = response["code"].as_str().unwrap_or_else(|| panic!("{shot:?}: {said}"));
    assert!(response["description"].as_str().is_some_and(|text| (1..500).contains(&text.len())), "{shot:?}: {said}");
    // It cannot be taken now: the database has refused what the parsers let pass.
    assert!(code != "UN" || answer.status != 200, "{shot:?}: {said}");
    assert!(!said.contains("the gateway cannot take it now"), "{shot:?}: {said}");
    ["00", "A01"].contains(&code)
}

const APPROVES: &str = "4242424242424242";

#[tokio::test]
async fn no_form_shocks_the_gateway_or_charges_unacknowledged() -> Result<()> {
    let mut source = Source::from_env();
    let cluster = cluster().await?;
    let shop = Shop::new(cluster, &["--hourly-per-address", "100000", "--sale-limit", "999999999.99"]).await?;
    let gateway = Client::new(&cluster.gateway_url(0))?.header("content-type", "application/x-www-form-urlencoded")?;
    let (username, api_key, app_key) = (shop.known.username.clone(), shop.known.api_key.clone(), shop.app_key().await?);
    let card = [("creditcard_number", APPROVES), ("expire_month", "12"), ("expire_year", "2034"), ("cvv", "123")];
    let payer = [
        ("first_name", "Ada"),
        ("last_name", "Lovelace"),
        ("country_code", "GB"),
        ("email", "ada@example.com"),
        ("zip_code", "SW1Y 4LB"),
        ("ship_address_as_bill_address", "Y"),
        ("memo", "a note"),
        ("client_ip", "192.0.2.7"),
        ("custom_field_1", "x"),
        ("3ds_redirect_url", "https://shop.example/back"),
        ("email_receipt", "N"),
    ];
    let money = [("amount", "12.00"), ("currency", "USD"), ("use_secret_key", "N")];
    let script = |name: &str, fields: &[&[(&str, &str)]]| {
        let known = [("username", username.as_str()), ("api_key", api_key.as_str())];
        form(&format!("/apis/{name}.php"), &[&known[..], &fields.concat()].concat())
    };
    // Two alike would be taken for a repetition.
    let charge = |name: &str, fields: &[&[(&str, &str)]]| {
        let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        let known = [("username", username.as_str()), ("api_key", api_key.as_str())];
        let fields: Vec<_> = [&known[..], &fields.concat()].concat().into_iter().map(owned).collect();
        let path = format!("/apis/{name}.php");
        let of_amount = move |cents: u32| {
            let amount = format!("{}.{:02}", cents / 100, cents % 100);
            let fields = fields.iter().map(|(name, value)| (name.as_str(), value.as_str()));
            form(&path, &fields.chain([("amount", amount.as_str())]).collect::<Vec<_>>())
        };
        (1..9_999_999u32).prop_flat_map(of_amount).boxed()
    };
    let wallet = [("app_key", app_key.as_str()), ("amount", "12.00"), ("currency", "USD")];
    let signed = testkit::form(wallet).into_bytes();
    let signed = gateway.send(Method::POST, "/services/wallet_token", Some(signed)).await?;
    let signed = signed.body["response"]["signature_token"].as_str().context("a wallet's token")?.to_owned();
    let sold = shop.at_gateway("sale", &[&card[..], &payer, &money].concat()).await?;
    let sold = sold["response"]["transaction_id"].as_str().with_context(|| sold.to_string())?.to_owned();
    let of = [("transaction_id", sold.as_str()), ("amount", "1.00"), ("valid_until", "99999999999999")];
    let report = [
        ("start_date", "2000-01-01"),
        ("end_date", "9999-12-31"),
        ("page_no", "1"),
        ("transaction_type", "SALE"),
        ("transaction_status", "SUCCESS"),
        ("reference_id", "r-1"),
        ("transaction_id", sold.as_str()),
    ];
    let shots = prop_oneof![
        6 => charge("sale", &[&card, &payer, &money[1..]]),
        2 => charge("authorize", &[&card, &payer, &money[1..]]),
        1 => charge("unreference_refund", &[&card, &payer, &money[1..]]),
        1 => script("wallet_sale", &[&payer, &[("signature_token", signed.as_str())]]),
        1 => script("account_validation", &[&card, &payer, &money]),
        1 => script("add_card", &[&card, &payer]),
        1 => script("sale", &[&payer, &money, &[("card_token", "card_0a1b2c3d4e5f60718293a4b5c6d7e8f9")]]),
        1 => script("capture", &[&of]),
        1 => script("refund", &[&of]),
        1 => script("void", &[&of]),
        1 => script("report", &[&report]),
        1 => form("/services/proxynization", &card[..1]),
        1 => form("/services/field_token", &[&card[..], &payer, &wallet[..1]].concat()),
        1 => form("/services/wallet_token", &wallet),
    ];
    let fired = fire(&gateway, &mut source, &shots, 400, is_envelope).await?;
    fired.is_mixed(40);

    // Whatever moved money was acknowledged to whoever asked for it.
    let names = fired.done.iter().filter_map(|body| body["response"]["transaction_id"].as_str());
    let told: BTreeSet<&str> = names.chain([sold.as_str()]).collect();
    let moved: Vec<uuid::Uuid> = sqlx::query_scalar(
        "SELECT t.id FROM gateway.transactions t JOIN gateway.accounts a ON a.id = t.account_id
         WHERE a.username = $1 AND t.state = 'approved'",
    )
    .bind(&shop.known.username)
    .fetch_all(&shop.merchant.books.db)
    .await?;
    assert!(moved.len() > 10, "{} transactions", moved.len());
    for id in moved {
        let id = printed("", id);
        assert!(told.contains(id.as_str()), "{id} was approved, and nobody was told");
    }
    Ok(())
}
