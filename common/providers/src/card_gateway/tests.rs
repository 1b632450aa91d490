//! The adapter passes the adapter contract against a running card gateway, through a proxy that can drop responses, and
//! has some tests of its own.

mod references;
mod statement;

use crate::credentials::Stored as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use sqlx::PgPool;
use testkit::{Cluster, GatewayAccount};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, OnceCell, watch};
use tokio::task::JoinHandle;

use super::{CardGateway, Credentials};
use crate::contract::{BookedCharge, CardOutcome, Fixture, TIMEOUT, charged, contract_suite, declined, noon, request};
use crate::{
    Action, Cause, ChargeInquiry, ChargeStatus, DeclineType, Found, Payer, Provider, ProviderError, ProviderResponse,
    RecoveryClass, Request, Source,
};
use egress::TrustedClient;
use foundation::clock::Clock;
use foundation::crypto::{EncryptionKey, KeyRing, Secret};
use foundation::db;
use foundation::id::{AccountId, ProviderAccountId};
use foundation::money::Money;

contract_suite!(class_b, GatewayFixture::new(&[]));

const APPROVES: &str = "4242424242424242";
const INSUFFICIENT: &str = "4000000000009995";
const CHALLENGED: &str = "4000002500003155";

/// All tests share one gateway; each creates its own accounts.
async fn cluster() -> &'static Cluster {
    static SHARED: OnceCell<Cluster> = OnceCell::const_new();
    SHARED
        .get_or_init(|| async {
            Cluster::builder().gateway(1).env("ENCRYPTION_KEY", &encryption_key()).start().await.expect("a gateway")
        })
        .await
}

/// An account that no test charges.
async fn other_account(cluster: &Cluster, db: &PgPool) -> ProviderAccountId {
    static SHARED: OnceCell<ProviderAccountId> = OnceCell::const_new();
    *SHARED.get_or_init(async || connected(cluster, db, &[]).await.0).await
}

/// Two accounts at the gateway, and the adapter, which connects through the proxy.
struct GatewayFixture {
    adapter: CardGateway,
    gateway_url: String,
    proxy: FaultProxy,
    db: PgPool,
    gateway_account: GatewayAccount,
    account: ProviderAccountId,
    other_account: ProviderAccountId,
}

impl GatewayFixture {
    /// Creates the accounts with these options of `gateway account create`.
    async fn new(options: &[&str]) -> Self {
        let cluster = cluster().await;
        let db = db::pool(&Secret::new(cluster.database_url().to_owned()), 4, "contract").expect("a URL");
        let key = KeyRing::new(EncryptionKey::from_hex(&encryption_key()).expect("a key"), vec![]);
        let (account, gateway_account) = connected(cluster, &db, options).await;
        let other_account = other_account(cluster, &db).await;
        let proxy = FaultProxy::new(&cluster.gateway_url(0)).await;
        let adapter = CardGateway::new(proxy.url.clone(), db.clone(), key);
        Self { adapter, gateway_url: cluster.gateway_url(0), proxy, db, gateway_account, account, other_account }
    }

    async fn token_of(&self, number: &str) -> String {
        let form = field_form(&self.gateway_account, number);
        let url = format!("{}/services/field_token", self.gateway_url).parse().expect("an address");
        let response =
            TrustedClient::new(TIMEOUT).post_form(url, egress::HeaderMap::new(), form).await.expect("a response");
        let response: serde_json::Value = serde_json::from_slice(&response.body).expect("JSON");
        response["response"]["card_token"].as_str().unwrap_or_else(|| panic!("no token: {response}")).to_owned()
    }

    async fn sale(&self, reference: &str, number: &str, minor: i64) -> Request {
        let source = Source::Token(Secret::new(self.token_of(number).await));
        let money = Money { minor, currency: "EUR".parse().expect("a currency") };
        request(self, reference, Action::Charge { source, money, capture: true })
    }
}

/// The form that a card field submits.
fn field_form(account: &GatewayAccount, number: &str) -> String {
    let credentials = Credentials::parse(&serde_json::to_string(account).expect("JSON")).expect("credentials");
    url::form_urlencoded::Serializer::new(String::new())
        .append_pair("app_key", &credentials.field_key())
        .append_pair("creditcard_number", number)
        .extend_pairs([("expire_month", "12"), ("expire_year", "2034"), ("cvv", "123"), ("name", "Ada Lovelace")])
        .extend_pairs([("zip_code", "10001"), ("country_code", "US")])
        .finish()
}

/// The encryption key of the cluster, which seals the credentials that the adapter reads.
fn encryption_key() -> String {
    "00".repeat(32)
}

/// An account that `ctl` connects to an account of its own at the gateway.
async fn connected(cluster: &Cluster, db: &PgPool, options: &[&str]) -> (ProviderAccountId, GatewayAccount) {
    let username = format!("contract-{}", foundation::crypto::random_hex(8));
    let gateway_account = cluster.gateway_account(&username, options).await.expect("created");
    let account = cluster.account_with(&["--mode", "test", "--provider", "card_gateway"]).await.expect("created");
    cluster.connect(&account, &gateway_account, &[]).await.expect("connected");
    let account: AccountId = account.id.parse().expect("an id");
    let query = "SELECT provider_account_id FROM accounts WHERE id = $1";
    let id = sqlx::query_scalar(query).bind(account.uuid()).fetch_one(db).await.expect("read");
    (ProviderAccountId::from_uuid(id), gateway_account)
}

impl Fixture for GatewayFixture {
    fn provider(&self) -> &dyn Provider {
        &self.adapter
    }

    fn class(&self) -> RecoveryClass {
        RecoveryClass::Lookup
    }

    fn account(&self) -> ProviderAccountId {
        self.account
    }

    fn other_account(&self) -> ProviderAccountId {
        self.other_account
    }

    fn token(&self, outcome: CardOutcome) -> BoxFuture<'_, Option<String>> {
        async move {
            match outcome {
                CardOutcome::Approval => Some(self.token_of(APPROVES).await),
                // The gateway does not approve partially.
                CardOutcome::Part => None,
                CardOutcome::Decline => Some(self.token_of(INSUFFICIENT).await),
            }
        }
        .boxed()
    }

    fn booked<'a>(&'a self, reference: &'a str) -> BoxFuture<'a, Vec<BookedCharge>> {
        async move {
            let rows: Vec<(i64, bool)> = sqlx::query_as(
                "SELECT t.amount, t.kind = 'sale' OR t.captured > 0 FROM gateway.transactions t
                 JOIN gateway.accounts a ON a.id = t.account_id
                 WHERE a.username = $1 AND t.reference_id = $2 AND t.parent_id IS NULL AND t.state = 'approved'",
            )
            .bind(&self.gateway_account.username)
            .bind(reference)
            .fetch_all(&self.db)
            .await
            .expect("read");
            rows.into_iter().map(|(amount, captured)| BookedCharge { amount, captured }).collect()
        }
        .boxed()
    }

    fn drop_next_response(&self) -> BoxFuture<'_, ()> {
        self.proxy.faults.drop_next.store(true, Ordering::SeqCst);
        std::future::ready(()).boxed()
    }

    fn hold_requests(&self) -> BoxFuture<'_, ()> {
        self.proxy.faults.hold.send_replace(true);
        std::future::ready(()).boxed()
    }

    fn holds_a_request(&self) -> BoxFuture<'_, ()> {
        async move {
            let held = tokio::time::timeout(TIMEOUT, self.proxy.faults.held.notified()).await;
            held.expect("the request arrives");
        }
        .boxed()
    }

    fn release_requests(&self) -> BoxFuture<'_, ()> {
        self.proxy.faults.hold.send_replace(false);
        std::future::ready(()).boxed()
    }

    /// Rejects charges only; the report remains available.
    fn reject_requests(&self) -> BoxFuture<'_, ()> {
        self.proxy.faults.reject.store(true, Ordering::SeqCst);
        std::future::ready(()).boxed()
    }

    /// The rest of the day in UTC.
    fn settles_after(&self) -> Duration {
        Duration::from_secs(16 * 3600)
    }

    fn advance(&self, time: Duration) -> BoxFuture<'_, ()> {
        // At least a day, so that the result does not depend on the real time of day.
        let seconds = (time + Duration::from_secs(24 * 3600)).as_secs_f64();
        async move {
            sqlx::query(
                "UPDATE gateway.transactions SET settles_at = settles_at - make_interval(secs => $1)
                 WHERE account_id = (SELECT id FROM gateway.accounts WHERE username = $2)",
            )
            .bind(seconds)
            .bind(&self.gateway_account.username)
            .execute(&self.db)
            .await
            .expect("passed");
        }
        .boxed()
    }
}

/// A proxy that forwards one request per connection, even if the client disconnects, and can hold requests and drop
/// responses.
struct FaultProxy {
    url: String,
    faults: Arc<ProxyFaults>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct ProxyFaults {
    /// Whether to drop the next response.
    drop_next: AtomicBool,
    /// Whether to reject charges.
    reject: AtomicBool,
    /// Whether to hold requests before they are forwarded.
    hold: watch::Sender<bool>,
    /// Notified by each request that is held.
    held: Notify,
}

impl FaultProxy {
    #[expect(clippy::disallowed_methods, reason = "it is the other end of a connection")]
    async fn new(gateway: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("it has one"));
        let faults = Arc::<ProxyFaults>::default();
        let (to, settings) = (gateway.trim_start_matches("http://").to_owned(), Arc::clone(&faults));
        let task = tokio::spawn(async move {
            loop {
                let Ok((caller, _)) = listener.accept().await else { return };
                let (to, faults) = (to.clone(), Arc::clone(&settings));
                tokio::spawn(async move { forward(caller, &to, &faults).await });
            }
        });
        Self { url, faults, task }
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn forward(mut caller: TcpStream, to: &str, faults: &ProxyFaults) {
    let mut request = Vec::new();
    while !is_complete(&request) {
        if caller.read_buf(&mut request).await.unwrap_or(0) == 0 {
            return;
        }
    }
    let is_sale = request.starts_with(b"POST /apis/sale.php");
    if is_sale && faults.reject.load(Ordering::SeqCst) {
        let _ = caller.write_all(b"HTTP/1.1 429 Busy\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").await;
        return;
    }
    let mut hold = faults.hold.subscribe();
    if *hold.borrow_and_update() {
        faults.held.notify_one();
        hold.wait_for(|hold| !hold).await.expect("the sender exists");
    }
    let mut gateway = TcpStream::connect(to).await.expect("the gateway is there");
    let head = String::from_utf8_lossy(&request).replacen("\r\n", "\r\nConnection: close\r\n", 1);
    gateway.write_all(head.as_bytes()).await.expect("sent");
    let mut response = Vec::new();
    gateway.read_to_end(&mut response).await.expect("a response");
    if !faults.drop_next.swap(false, Ordering::SeqCst) {
        let _ = caller.write_all(&response).await;
    }
}

/// Whether the headers are complete and the body has the announced length.
fn is_complete(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
    body.len() >= length.unwrap_or(0)
}

// --- tests of this adapter -------------------------------------------------------------------------------------------

async fn execute(fixture: &GatewayFixture, request: &Request) -> ProviderResponse {
    fixture.adapter.execute(request.clone()).await.expect("a response")
}

#[tokio::test(flavor = "multi_thread")]
async fn every_decline_has_our_code_and_type() {
    let fixture = GatewayFixture::new(&[]).await;
    for (number, code, kind) in [
        ("4000000000000002", "declined", DeclineType::Soft),
        (INSUFFICIENT, "insufficient_funds", DeclineType::Soft),
        ("4000000000009987", "lost_card", DeclineType::Hard),
        ("4000000000009979", "stolen_card", DeclineType::Hard),
        ("4000000000000069", "expired_card", DeclineType::Hard),
        ("4000000000000127", "incorrect_cvc", DeclineType::Hard),
    ] {
        let response = execute(&fixture, &fixture.sale(code, number, 500).await).await;
        let ProviderResponse::Declined { decline, card } = response else { panic!("{number}: {response:?}") };
        assert_eq!((decline.code.as_str(), decline.kind), (code, kind));
        assert_eq!(card.expect("a card in the report").last4, number[12..]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_are_soft_declines_without_a_transaction() {
    let limits = ["--sale-limit", "100.00", "--monthly-limit", "150.00", "--daily-transactions", "2"];
    let fixture = GatewayFixture::new(&limits).await;
    let soft = async |reference: &str, minor| {
        let decline = declined(execute(&fixture, &fixture.sale(reference, APPROVES, minor).await).await);
        assert_eq!(decline.kind, DeclineType::Soft);
        assert_eq!(fixture.booked(reference).await, []);
        decline.code
    };
    assert_eq!(soft("op_1", 10_001).await, "sale_limit_exceeded");
    charged(execute(&fixture, &fixture.sale("op_2", APPROVES, 9_000).await).await);
    assert_eq!(soft("op_3", 9_000).await, "monthly_limit_exceeded");
    charged(execute(&fixture, &fixture.sale("op_4", APPROVES, 100).await).await);
    assert_eq!(soft("op_5", 100).await, "transaction_limit_exceeded");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unsupported_currency_is_a_setup_failure() {
    let fixture = GatewayFixture::new(&["--currency", "USD"]).await;
    let response = fixture.adapter.execute(fixture.sale("op_1", APPROVES, 500).await).await;
    assert!(matches!(response, Err(ProviderError::NotProcessed { cause: Cause::Setup, .. })), "{response:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_challenge_without_a_cardholder_is_a_hard_decline() {
    let fixture = GatewayFixture::new(&[]).await;
    for capture in [true, false] {
        let mut sale = fixture.sale(&format!("op_{capture}"), CHALLENGED, 500).await;
        if let Action::Charge { capture: captured, .. } = &mut sale.action {
            *captured = capture;
        }
        let decline = declined(execute(&fixture, &sale).await);
        assert_eq!((decline.code.as_str(), decline.kind), ("authentication_required", DeclineType::Hard));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_challenge_is_pending_until_the_report_has_an_outcome() {
    let fixture = GatewayFixture::new(&[]).await;
    let return_url = "https://shop.example/back?a=b".to_owned();
    let sale = Request { return_url: Some(return_url), ..fixture.sale("op_1", CHALLENGED, 500).await };
    let ProviderResponse::Challenged { url } = execute(&fixture, &sale).await else { panic!("expected a challenge") };
    assert!(url.starts_with("http"), "{url}");
    assert_eq!(fixture.adapter.look_up(sale.clone()).await.expect("a result"), Found::Pending);
    assert!(
        matches!(fixture.adapter.execute(sale.clone()).await, Err(ProviderError::Unknown(_))),
        "a retry is refused"
    );
    let page = url.parse().expect("an address");
    let response = TrustedClient::new(TIMEOUT)
        .post_form(page, egress::HeaderMap::new(), "decision=refuse".to_owned())
        .await
        .expect("a response");
    assert_eq!(response.status, 303, "the browser is redirected back");
    let Found::Response(response) = fixture.adapter.look_up(sale).await.expect("a result") else {
        panic!("expected an outcome")
    };
    assert_eq!(declined(response).code, "authentication_failed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_refund_is_distinguished_from_an_equal_one() {
    let fixture = GatewayFixture::new(&[]).await;
    let (charge, ..) = charged(execute(&fixture, &fixture.sale("op_1", APPROVES, 500).await).await);
    let money = Money { minor: 100, currency: "EUR".parse().expect("a currency") };
    let refund = request(&fixture, "op_2", Action::Refund { charge, money });
    let ProviderResponse::Done { provider_ref: first } = execute(&fixture, &refund).await else { panic!("refunded") };
    let next = Request { reference: "op_3".to_owned(), ..refund };
    assert_eq!(fixture.adapter.look_up(next.clone()).await.expect("a result"), Found::Nothing);
    fixture.proxy.faults.drop_next.store(true, Ordering::SeqCst);
    assert!(matches!(fixture.adapter.execute(next.clone()).await, Err(ProviderError::Unknown(_))));
    let Found::Response(ProviderResponse::Done { provider_ref: second }) =
        fixture.adapter.look_up(next).await.expect("a result")
    else {
        panic!("expected the second refund")
    };
    assert_ne!(first, second);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_capture_or_void_is_found() {
    let fixture = GatewayFixture::new(&[]).await;
    let mut held = fixture.sale("op_1", APPROVES, 500).await;
    let Action::Charge { capture, money, .. } = &mut held.action else { panic!("a charge") };
    *capture = false;
    let money = *money;
    let (charge, ..) = charged(execute(&fixture, &held).await);
    for (reference, action) in
        [("op_2", Action::Capture { charge: charge.clone(), money }), ("op_3", Action::Void { charge: charge.clone() })]
    {
        let request = request(&fixture, reference, action);
        assert_eq!(fixture.adapter.look_up(request.clone()).await.expect("a result"), Found::Nothing);
        fixture.proxy.faults.drop_next.store(true, Ordering::SeqCst);
        assert!(matches!(fixture.adapter.execute(request.clone()).await, Err(ProviderError::Unknown(_))));
        let found = fixture.adapter.look_up(request).await.expect("a result");
        assert!(matches!(found, Found::Response(ProviderResponse::Done { .. })), "{found:?}");
    }
    let request = ChargeInquiry {
        account: fixture.account,
        charge,
        reference: "op_1".to_owned(),
        created_at: noon(),
        captured_at: Some(noon()),
        now: noon(),
    };
    assert_eq!(fixture.adapter.inquire(request).await.expect("a result").status, ChargeStatus::Voided);
}

/// A request that a paused worker sends after its deadline has no effect.
#[tokio::test(flavor = "multi_thread")]
async fn requests_after_their_deadline_are_not_processed() {
    let fixture = GatewayFixture::new(&[]).await;
    let long_ago = Clock::system().now().plus(Duration::ZERO);
    tokio::time::sleep(Duration::from_millis(5)).await;
    let late = Request { valid_until: long_ago, ..fixture.sale("op_1", APPROVES, 500).await };
    let not_processed = async |request: &Request, code: &str| match fixture.adapter.execute(request.clone()).await {
        Err(ProviderError::NotProcessed { reason, .. }) => assert!(reason.starts_with(code), "{reason}"),
        other => panic!("expected a rejection: {other:?}"),
    };
    not_processed(&late, "A1").await;
    let (charge, ..) = charged(execute(&fixture, &fixture.sale("op_2", APPROVES, 500).await).await);
    let money = Money { minor: 500, currency: "EUR".parse().expect("a currency") };
    let refund = request(&fixture, "op_3", Action::Refund { charge, money });
    not_processed(&Request { valid_until: long_ago, ..refund.clone() }, "A2").await;
    assert_eq!(fixture.adapter.look_up(refund.clone()).await.expect("a result"), Found::Nothing);
    assert!(matches!(execute(&fixture, &refund).await, ProviderResponse::Done { .. }), "in time");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_email_address_that_the_gateway_rejects_does_not_block_a_payment() {
    let fixture = GatewayFixture::new(&[]).await;
    for (n, email) in ["ada@localhost", "a@b@c.de", "a@b..co"].into_iter().enumerate() {
        let payer = Payer { email: email.to_owned(), name: "Ada".to_owned() };
        let sale = Request { payer: Some(payer), ..fixture.sale(&format!("op_{n}"), APPROVES, 500).await };
        charged(execute(&fixture, &sale).await);
    }
}
