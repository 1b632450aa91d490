//! Sends hundreds of mutated valid requests to every API route, the payment pages and the card gateway.
//!
//! `SEED` repeats the same requests; concurrency can still change the outcome. tests/openapi checks what the schemas
//! allow and forbid; this file adds bytes that are not JSON, and checks the effect of all requests on the money.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use proptest::prelude::*;
use proptest::strategy::BoxedStrategy;
use reqwest::Method;
use serde_json::{Value, json};
use testkit::fuzz::{Bytes, Source, json as mutated, mutated as text, mutated_bytes};
use testkit::{Client, Response};

use crate::support::{Browser, Merchant, Shop, api_id, cluster, created, eventually, id, ok, sale, with};

#[derive(Clone, Debug)]
struct FuzzRequest {
    method: Method,
    path: String,
    body: Option<Bytes>,
    key: Option<String>,
}

fn post(path: impl Into<String>, body: Value) -> BoxedStrategy<FuzzRequest> {
    let paths = path_or_mutation(path.into());
    let keys = prop_oneof![3 => Just(None), 1 => text("order-1").prop_map(Some)];
    let request = |(path, body, key)| FuzzRequest { method: Method::POST, path, body: Some(body), key };
    let valid = Just(Bytes(body.to_string().into_bytes()));
    (paths, prop_oneof![3 => mutated(body), 1 => valid], keys).prop_map(request).boxed()
}

fn get(path: impl Into<String>) -> BoxedStrategy<FuzzRequest> {
    let query =
        text("limit=10&startingAfter=pay_01KAJ4M2V8Q0S5T7W9X1Y3Z5A7&externalId=u&status=failed&customerId=cus_1");
    let request = |(path, query): (String, String)| FuzzRequest {
        method: Method::GET,
        path: format!("{path}?{}", escaped(&query)),
        body: None,
        key: None,
    };
    (path_or_mutation(path.into()), query).prop_map(request).boxed()
}

/// The path, sometimes with its last segment mutated.
fn path_or_mutation(path: String) -> BoxedStrategy<String> {
    let (folder, last) =
        path.rsplit_once('/').map(|(folder, last)| (folder.to_owned(), last.to_owned())).unwrap_or_default();
    let changed = text(last).prop_map(move |last| format!("{folder}/{}", escaped(&last)));
    prop_oneof![5 => Just(path), 1 => changed].boxed()
}

/// Percent-encodes every character that reqwest would rewrite in a URL.
fn escaped(text: &str) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.~=&+%[]".contains(byte);
    text.bytes().map(|byte| if plain(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

fn form(path: &str, fields: &[(&str, &str)]) -> BoxedStrategy<FuzzRequest> {
    let (paths, bytes) = (path_or_mutation(path.to_owned()), mutated_bytes(testkit::form(fields)));
    // One field has another value, correctly encoded.
    let owned: Vec<(String, String)> = fields.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
    let field = (0..owned.len()).prop_flat_map(move |i| {
        let owned = owned.clone();
        text(owned[i].1.clone()).prop_map(move |value| {
            let fields = owned.iter().enumerate().map(|(j, (name, old))| (name, if i == j { &value } else { old }));
            Bytes(testkit::form(fields).into_bytes())
        })
    });
    let request = |(path, body)| FuzzRequest { method: Method::POST, path, body: Some(body), key: None };
    (paths, prop_oneof![2 => field, 1 => bytes]).prop_map(request).boxed()
}

/// Asserts that the response is a success or a documented client error. Returns whether it is a success.
#[track_caller]
fn is_success(request: &FuzzRequest, response: &Response) -> bool {
    let raw = String::from_utf8_lossy(&response.bytes);
    assert!(response.status < 500, "{} {request:?}: {raw}", response.status);
    assert!(response.header("request-id").is_some(), "{request:?}");
    if response.status < 400 {
        return true;
    }
    let error = &response.body["error"];
    let text = |field: &str| error[field].as_str().is_some_and(|text| !text.is_empty());
    assert!(text("code") && text("message"), "{} {request:?}: {raw}", response.status);
    assert!(response.bytes.len() < 2_000, "the error repeats the input: {request:?}: {raw}");
    // If the body is an object, the error names a field.
    let sent = request.body.as_deref().unwrap_or(b"{}");
    let is_object = serde_json::from_slice::<Value>(sent).is_ok_and(|sent| sent.is_object());
    if response.status == 422 && error["code"] == "invalid_request" && is_object {
        assert!(text("param"), "{request:?}: {raw}");
    }
    false
}

async fn send(client: &Client, request: &FuzzRequest) -> Result<Response> {
    let client = match &request.key {
        Some(key) => client.header("idempotency-key", key).unwrap_or_else(|_| client.clone()),
        None => client.clone(),
    };
    let response = client.send(request.method.clone(), &request.path, request.body.clone().map(|body| body.0)).await;
    response.with_context(|| format!("the connection was dropped: {request:?}"))
}

/// Objects that the requests refer to.
struct Fixtures {
    customer: String,
    card: String,
    plan: String,
    authorized: String,
    captured: String,
}

impl Fixtures {
    async fn create(merchant: &Merchant) -> Result<Self> {
        let customer = merchant.customer().await?;
        let card = id(created(&merchant.save_card(&customer, "tok_ok").await?))?;
        let plan = json!({"name": "Gold", "amount": 2900, "currency": "USD", "interval": "month"});
        let plan = id(created(&merchant.api.post("/v1/plans", plan).await?))?;
        let (authorized, captured) = (merchant.hold(500).await?, merchant.charge(500).await?);
        Ok(Self { customer, card, plan, authorized, captured })
    }

    fn invoice(&self) -> Value {
        json!({
            "customerId": self.customer, "currency": "USD", "description": "November", "amountTax": 825,
            "items": [{"description": "Hours", "quantity": 4, "unitAmount": 2500}], "paymentTerms": "net_30",
        })
    }

    /// Valid requests of every kind, each with one mutation. Payment requests are the most frequent.
    async fn requests(&self, merchant: &Merchant) -> Result<impl Strategy<Value = FuzzRequest>> {
        let create = async |path: &str, body: Value| id(created(&merchant.api.post(path, body).await?));
        let invoice = create("/v1/invoices", self.invoice()).await?;
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
        let (pay, saved_card) = (sale(1250), json!({"amount": 900, "currency": "USD", "paymentMethodId": self.card}));
        let pays = prop_oneof![
            4 => post("/v1/payments", with(pay.clone(), "returnUrl", "https://shop.example/thanks")),
            2 => post("/v1/payments", saved_card),
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
            post(format!("/v1/payments/{}/capture", self.authorized), json!({"amount": 7})),
            post(format!("/v1/payments/{}/refund", self.captured), json!({"amount": 7})),
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
            get(format!("/v1/payments/{}", self.captured)),
            get(format!("/v1/invoices/{invoice}/attempts")),
            get("/openapi.json"),
        ];
        for (name, body) in kinds {
            let created_id = create(&format!("/v1/{name}"), body.clone()).await;
            others.extend([post(format!("/v1/{name}"), body.clone()), post(format!("/v1/{name}"), body.clone())]);
            others.push(get(format!("/v1/{name}")));
            if let Ok(object_id) = created_id {
                let steps =
                    ["", "/cancel", "/pause", "/resume", "/void"].map(|step| format!("/v1/{name}/{object_id}{step}"));
                others.extend([post(steps[0].clone(), body), get(steps[0].clone())]);
                others.extend(steps[1..].iter().map(|step| post(step.clone(), json!({}))));
            }
        }
        Ok(prop_oneof![2 => pays, 3 => proptest::strategy::Union::new(others)])
    }
}

/// The responses of one fuzz run.
#[derive(Default)]
struct FuzzResult {
    statuses: BTreeMap<u16, usize>,
    /// Bodies of the successful responses.
    successes: Vec<Value>,
}

impl FuzzResult {
    /// The run contains at least `least` successes and `least` errors, so it tested both.
    #[track_caller]
    fn assert_mixed(&self, least: usize) {
        println!("{:?}", self.statuses);
        let succeeded = self.successes.len();
        let total: usize = self.statuses.values().sum();
        assert!(succeeded >= least && total - succeeded >= least, "{:?}", self.statuses);
    }
}

/// Sends `count` requests, eight at a time. `check` asserts on a response and returns whether it is a success.
async fn send_all(
    client: &Client,
    source: &mut Source,
    requests: &impl Strategy<Value = FuzzRequest>,
    count: usize,
    check: impl Fn(&FuzzRequest, &Response) -> bool,
) -> Result<FuzzResult> {
    let mut result = FuzzResult::default();
    for _ in 0..count.div_ceil(8) {
        let requests: Vec<FuzzRequest> = (0..8).map(|_| source.draw(requests)).collect();
        let responses =
            futures_util::future::try_join_all(requests.iter().map(|request| send(client, request))).await?;
        for (request, response) in requests.iter().zip(responses) {
            *result.statuses.entry(response.status).or_default() += 1;
            if check(request, &response) {
                result.successes.push(response.body);
            }
        }
    }
    Ok(result)
}

#[tokio::test]
async fn mutated_api_requests_cause_no_5xx_and_no_unacknowledged_payment() -> Result<()> {
    let mut source = Source::from_env();
    let (cluster, merchant) = (cluster().await?, Merchant::new(cluster().await?).await?);
    let fixtures = Fixtures::create(&merchant).await?;
    let requests = fixtures.requests(&merchant).await?;
    let result = send_all(&merchant.api, &mut source, &requests, 900, is_success).await?;
    // Most mutations make a request invalid.
    result.assert_mixed(50);

    // Requests with invalid credentials, then requests with a publishable key.
    let invalid_credentials = (text(format!("Bearer {}", merchant.account.secret_key)), requests);
    for _ in 0..40 {
        let (authorization, request) = source.draw(&invalid_credentials);
        if authorization.contains(&merchant.account.secret_key) {
            continue;
        }
        let Ok(unauthenticated) = Client::new(&cluster.api_url(0))?.header("authorization", &authorization) else {
            continue;
        };
        let succeeded = is_success(&request, &send(&unauthenticated, &request).await?);
        assert!(!succeeded || !request.path.starts_with("/v1"), "{authorization} was accepted");
    }
    let browser = Browser::for_account(cluster, &merchant.account)?;
    let session = browser.session().await?;
    let pages = prop_oneof![
        post("/v1/checkout_sessions", json!({"intent": "store"})),
        post("/v1/tokens", json!({"sessionId": session, "upstreamToken": "tok_ok"})),
    ];
    send_all(&browser.api, &mut source, &pages, 80, is_success).await?;

    // Every charge has a payment, and every payment that no schedule created was acknowledged to the client.
    eventually("every outcome", async || Ok((merchant.books.unfinished().await? == 0).then_some(()))).await?;
    let charges_without_payment: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM mock.transactions t JOIN provider_accounts a ON a.id = t.account
         WHERE a.account_id = $1 AND t.approved AND t.kind IN ('sale', 'authorize') AND NOT EXISTS (
             SELECT FROM payments p WHERE p.provider_account_id = t.account AND p.provider_ref = t.id AND p.amount = t.amount)",
    )
    .bind(merchant.books.account)
    .fetch_one(&merchant.books.db)
    .await?;
    assert_eq!(charges_without_payment, 0, "approved charges without a payment");
    let payments: Vec<(uuid::Uuid, Value)> =
        sqlx::query_as("SELECT id, to_jsonb(payments) FROM payments WHERE account_id = $1 AND invoice_id IS NULL")
            .bind(merchant.books.account)
            .fetch_all(&merchant.books.db)
            .await?;
    let acknowledged: BTreeSet<&str> =
        result.successes.iter().filter(|body| body["object"] == "payment").filter_map(|b| b["id"].as_str()).collect();
    let acknowledged =
        |id: &str| acknowledged.contains(id) || [&fixtures.authorized, &fixtures.captured].contains(&&id.to_owned());
    assert!(payments.len() > 20, "{} payments", payments.len());
    for (id, row) in payments {
        let id = api_id("pay_", id);
        assert!(acknowledged(&id), "{id} was created but not acknowledged: {row}");
    }
    ok(&merchant.api.get("/v1/capabilities").await?);
    Ok(())
}

/// Asserts that the response is one for a browser: a page or a redirect. Returns whether it is a redirect.
#[track_caller]
fn is_redirect(request: &FuzzRequest, response: &Response) -> bool {
    let raw = String::from_utf8_lossy(&response.bytes);
    assert!(response.status < 500, "{} {request:?}: {raw}", response.status);
    let is_html = response.header("content-type").is_some_and(|kind| kind.starts_with("text/html"));
    // A mutated path may match no route.
    let is_unknown_path = response.status == 404 && response.body["error"]["code"] == "not_found";
    assert!(is_html || is_unknown_path || response.status == 303, "{request:?}: {raw}");
    response.status == 303
}

#[tokio::test]
async fn mutated_forms_cause_no_5xx_on_pages_and_no_double_payment() -> Result<()> {
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
        let requests = prop_oneof![
            6 => form(&path, &[("token", "tok_ok"), ("amount", &total), ("tip", "1")]),
            1 => get(path.clone()),
            1 => get("/pay/a/4f1d0c9b8a7e6d5c4b3a29180716253443526170/return"),
            1 => get("/elements/field/cs_4f1d0c9b8a7e6d5c4b3a29180716253443526170"),
        ];
        send_all(&browser, &mut source, &requests, 80, is_redirect).await?;
        let count = merchant.books.payments_with_amount(amount).await?;
        let link = ok(&merchant.api.get(&format!("/v1/payment_links/{}", id(&link)?)).await?).clone();
        assert!(count <= 1 && (link["status"] == "paid") == (count == 1), "{count} payments: {link}");
        paid += count;
    }
    assert!(paid > 0, "no mutated form paid a link");
    merchant.books.audit().await
}

/// Asserts that the response is a gateway envelope without a card number. Returns whether it is a success.
#[track_caller]
fn is_gateway_success(request: &FuzzRequest, response: &Response) -> bool {
    let raw = String::from_utf8_lossy(&response.bytes);
    assert!(response.status < 500 && !raw.contains(APPROVED_CARD), "{} {request:?}: {raw}", response.status);
    let envelope = &response.body["response"];
    let code = envelope["code"].as_str().unwrap_or_else(|| panic!("{request:?}: {raw}"));
    assert!(envelope["description"].as_str().is_some_and(|text| (1..500).contains(&text.len())), "{request:?}: {raw}");
    // These texts mean that the database rejected a value that the parsers accepted.
    assert!(code != "UN" || response.status != 200, "{request:?}: {raw}");
    assert!(!raw.contains("the gateway cannot process the request now"), "{request:?}: {raw}");
    ["00", "A01"].contains(&code)
}

const APPROVED_CARD: &str = "4242424242424242";

#[tokio::test]
async fn mutated_forms_cause_no_5xx_at_the_gateway_and_no_unacknowledged_charge() -> Result<()> {
    let mut source = Source::from_env();
    let cluster = cluster().await?;
    let shop = Shop::new(cluster, &["--hourly-per-address", "100000", "--sale-limit", "999999999.99"]).await?;
    let gateway = Client::new(&cluster.gateway_url(0))?.header("content-type", "application/x-www-form-urlencoded")?;
    let (username, api_key, app_key) =
        (shop.gateway_account.username.clone(), shop.gateway_account.api_key.clone(), shop.app_key().await?);
    let card = [("creditcard_number", APPROVED_CARD), ("expire_month", "12"), ("expire_year", "2034"), ("cvv", "123")];
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
        let credentials = [("username", username.as_str()), ("api_key", api_key.as_str())];
        form(&format!("/apis/{name}.php"), &[&credentials[..], &fields.concat()].concat())
    };
    // Each charge has its own amount: the gateway treats two equal charges as a duplicate.
    let charge = |name: &str, fields: &[&[(&str, &str)]]| {
        let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        let credentials = [("username", username.as_str()), ("api_key", api_key.as_str())];
        let fields: Vec<_> = [&credentials[..], &fields.concat()].concat().into_iter().map(owned).collect();
        let path = format!("/apis/{name}.php");
        let with_amount = move |cents: u32| {
            let amount = format!("{}.{:02}", cents / 100, cents % 100);
            let fields = fields.iter().map(|(name, value)| (name.as_str(), value.as_str()));
            form(&path, &fields.chain([("amount", amount.as_str())]).collect::<Vec<_>>())
        };
        (1..9_999_999u32).prop_flat_map(with_amount).boxed()
    };
    let wallet = [("app_key", app_key.as_str()), ("amount", "12.00"), ("currency", "USD")];
    let signed = testkit::form(wallet).into_bytes();
    let signed = gateway.send(Method::POST, "/services/wallet_token", Some(signed)).await?;
    let signed = signed.body["response"]["signature_token"].as_str().context("a wallet's token")?.to_owned();
    let captured = shop.gateway_request("sale", &[&card[..], &payer, &money].concat()).await?;
    let captured = captured["response"]["transaction_id"].as_str().with_context(|| captured.to_string())?.to_owned();
    let of = [("transaction_id", captured.as_str()), ("amount", "1.00"), ("valid_until", "99999999999999")];
    let report = [
        ("start_date", "2000-01-01"),
        ("end_date", "9999-12-31"),
        ("page_no", "1"),
        ("transaction_type", "SALE"),
        ("transaction_status", "SUCCESS"),
        ("reference_id", "r-1"),
        ("transaction_id", captured.as_str()),
    ];
    let requests = prop_oneof![
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
    let result = send_all(&gateway, &mut source, &requests, 400, is_gateway_success).await?;
    result.assert_mixed(40);

    // Every approved transaction was acknowledged to the client.
    let ids = result.successes.iter().filter_map(|body| body["response"]["transaction_id"].as_str());
    let acknowledged: BTreeSet<&str> = ids.chain([captured.as_str()]).collect();
    let approved: Vec<uuid::Uuid> = sqlx::query_scalar(
        "SELECT t.id FROM gateway.transactions t JOIN gateway.accounts a ON a.id = t.account_id
         WHERE a.username = $1 AND t.state = 'approved'",
    )
    .bind(&shop.gateway_account.username)
    .fetch_all(&shop.merchant.books.db)
    .await?;
    assert!(approved.len() > 10, "{} transactions", approved.len());
    for id in approved {
        let id = api_id("", id);
        assert!(acknowledged.contains(id.as_str()), "{id} was approved but not acknowledged");
    }
    Ok(())
}
