//! The adapter keeps the contract of every adapter, against a card gateway that runs, through a wire that can be cut; and what is
//! this adapter's own.

mod references;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use sqlx::PgPool;
use testkit::{Cluster, GatewayAccount};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::OnceCell;
use tokio::task::JoinHandle;

use super::{CardGateway, Credentials};
use crate::accounts::{self, AccountSettings, Mode};
use crate::clock::Clock;
use crate::crypto::{EncryptionKey, KeyRing, Secret};
use crate::db;
use crate::egress::Trusted;
use crate::error::Error;
use crate::id::ProviderAccountId;
use crate::money::Money;
use crate::providers::contract::{Booked, Fixture, Wanted, charged, contract_suite, declined, noon, request};
use crate::providers::{
    Action, Answer, Cause, DeclineType, Fault, Found, Inquired, Payer, Provider, ProviderKind, RecoveryClass, Request,
    Source, Standing,
};

contract_suite!(class_b, GatewayFixture::new(&[]));

const APPROVES: &str = "4242424242424242";
const INSUFFICIENT: &str = "4000000000009995";
const CHALLENGED: &str = "4000002500003155";

/// One gateway for all tests; each has accounts of its own there.
async fn cluster() -> &'static Cluster {
    static SHARED: OnceCell<Cluster> = OnceCell::const_new();
    SHARED.get_or_init(|| async { Cluster::builder().gateway(1).start().await.expect("a gateway") }).await
}

/// Two accounts at the gateway, and the adapter at the other end of the wire.
struct GatewayFixture {
    adapter: CardGateway,
    gateway_url: String,
    wire: Wire,
    db: PgPool,
    known: GatewayAccount,
    account: ProviderAccountId,
    other_account: ProviderAccountId,
}

impl GatewayFixture {
    /// With these options of `gateway account create`.
    async fn new(options: &[&str]) -> Self {
        let cluster = cluster().await;
        let db = db::pool(&Secret::new(cluster.database_url().to_owned()), 4, "contract").expect("its address");
        let key = KeyRing::new(EncryptionKey::from_hex(&"00".repeat(32)).expect("a key"), vec![]);
        let (account, known) = connected(cluster, &db, &key, options).await;
        let (other_account, _) = connected(cluster, &db, &key, options).await;
        let wire = Wire::to(&cluster.gateway_url(0)).await;
        let adapter = CardGateway::new(wire.url.clone(), db.clone(), key);
        Self { adapter, gateway_url: cluster.gateway_url(0), wire, db, known, account, other_account }
    }

    async fn token_of(&self, number: &str) -> String {
        let form = field_form(&self.known, number);
        let to = format!("{}/services/field_token", self.gateway_url).parse().expect("an address");
        let said = Trusted::new(Duration::from_secs(5)).post_form(to, form).await.expect("it answers");
        let said: serde_json::Value = serde_json::from_slice(&said.body).expect("JSON");
        said["response"]["card_token"].as_str().unwrap_or_else(|| panic!("no token: {said}")).to_owned()
    }

    async fn sale(&self, reference: &str, number: &str, minor: i64) -> Request {
        let source = Source::Token(Secret::new(self.token_of(number).await));
        let money = Money { minor, currency: "EUR".parse().expect("a currency") };
        request(self, reference, Action::Charge { source, money, capture: true })
    }
}

/// What a capture field sends.
fn field_form(known: &GatewayAccount, number: &str) -> String {
    let credentials = Credentials::parse(&serde_json::to_string(known).expect("JSON")).expect("whole");
    url::form_urlencoded::Serializer::new(String::new())
        .append_pair("app_key", &credentials.field_key())
        .append_pair("creditcard_number", number)
        .extend_pairs([("expire_month", "12"), ("expire_year", "2034"), ("cvv", "123"), ("name", "Ada Lovelace")])
        .extend_pairs([("zip_code", "10001"), ("country_code", "US")])
        .finish()
}

async fn connected(
    cluster: &Cluster,
    db: &PgPool,
    key: &KeyRing,
    options: &[&str],
) -> (ProviderAccountId, GatewayAccount) {
    let now = Clock::system().now();
    let settings = AccountSettings {
        name: Some("Contract".into()),
        provider: Some(ProviderKind::CardGateway),
        ..AccountSettings::default()
    };
    let account = accounts::create(db, now, None, Mode::Test, &settings).await.expect("made");
    let username = format!("contract-{}", crate::crypto::random_hex(8));
    let known = cluster.gateway_account(&username, options).await.expect("made");
    let credentials = Credentials::parse(&serde_json::to_string(&known).expect("JSON")).expect("whole");
    (accounts::connect(db, key, now, account, credentials, None).await.expect("connected"), known)
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

    fn token(&self, wanted: Wanted) -> BoxFuture<'_, Option<String>> {
        async move {
            match wanted {
                Wanted::Approval => Some(self.token_of(APPROVES).await),
                // It approves all or nothing.
                Wanted::Part => None,
                Wanted::Decline => Some(self.token_of(INSUFFICIENT).await),
            }
        }
        .boxed()
    }

    fn booked<'a>(&'a self, reference: &'a str) -> BoxFuture<'a, Vec<Booked>> {
        async move {
            let rows: Vec<(i64, bool)> = sqlx::query_as(
                "SELECT t.amount, t.kind = 'sale' OR t.captured > 0 FROM gateway.transactions t
                 JOIN gateway.accounts a ON a.id = t.account_id
                 WHERE a.username = $1 AND t.reference_id = $2 AND t.parent_id IS NULL AND t.state = 'approved'",
            )
            .bind(&self.known.username)
            .bind(reference)
            .fetch_all(&self.db)
            .await
            .expect("read");
            rows.into_iter().map(|(amount, captured)| Booked { amount, captured }).collect()
        }
        .boxed()
    }

    fn lose_an_answer(&self) -> BoxFuture<'_, ()> {
        self.wire.cut.store(true, Ordering::SeqCst);
        std::future::ready(()).boxed()
    }

    fn take(&self, latency: Duration) -> BoxFuture<'_, ()> {
        let ms = u64::try_from(latency.as_millis()).expect("short");
        self.wire.latency_ms.store(ms, Ordering::SeqCst);
        std::future::ready(()).boxed()
    }

    /// Charges are; the report stays there.
    fn refuse(&self) -> BoxFuture<'_, ()> {
        self.wire.turns_away.store(true, Ordering::SeqCst);
        std::future::ready(()).boxed()
    }

    /// The rest of that day in UTC.
    fn settles_after(&self) -> Duration {
        Duration::from_secs(16 * 3600)
    }

    fn pass(&self, time: Duration) -> BoxFuture<'_, ()> {
        // A day at least, whatever time of the day it is really.
        let seconds = (time + Duration::from_secs(24 * 3600)).as_secs_f64();
        async move {
            sqlx::query(
                "UPDATE gateway.transactions SET settles_at = settles_at - make_interval(secs => $1)
                 WHERE account_id = (SELECT id FROM gateway.accounts WHERE username = $2)",
            )
            .bind(seconds)
            .bind(&self.known.username)
            .execute(&self.db)
            .await
            .expect("passed");
        }
        .boxed()
    }
}

/// A wire that carries one request a connection, to the end whether anybody waits or not, and can be cut.
struct Wire {
    url: String,
    /// The next answer is lost.
    cut: Arc<AtomicBool>,
    /// How long a request takes, half before it arrives and half after.
    latency_ms: Arc<AtomicU64>,
    /// Whether what takes money is turned away.
    turns_away: Arc<AtomicBool>,
    carrier: JoinHandle<()>,
}

impl Wire {
    #[expect(clippy::disallowed_methods, reason = "it is the other end of a connection")]
    async fn to(gateway: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("it has one"));
        let (cut, latency_ms, turns_away) = <(Arc<AtomicBool>, Arc<AtomicU64>, Arc<AtomicBool>)>::default();
        let to = gateway.trim_start_matches("http://").to_owned();
        let settings = (Arc::clone(&cut), Arc::clone(&latency_ms), Arc::clone(&turns_away));
        let carrier = tokio::spawn(async move {
            loop {
                let Ok((caller, _)) = listener.accept().await else { return };
                let (to, (cut, latency_ms, turns_away)) = (to.clone(), settings.clone());
                tokio::spawn(async move { carry(caller, &to, &cut, &latency_ms, &turns_away).await });
            }
        });
        Self { url, cut, latency_ms, turns_away, carrier }
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.carrier.abort();
    }
}

async fn carry(mut caller: TcpStream, to: &str, cut: &AtomicBool, latency_ms: &AtomicU64, turns_away: &AtomicBool) {
    let mut request = Vec::new();
    while !is_whole(&request) {
        if caller.read_buf(&mut request).await.unwrap_or(0) == 0 {
            return;
        }
    }
    let is_sale = request.starts_with(b"POST /apis/sale.php");
    if is_sale && turns_away.load(Ordering::SeqCst) {
        let _ = caller.write_all(b"HTTP/1.1 429 Busy\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").await;
        return;
    }
    let half = Duration::from_millis(latency_ms.load(Ordering::SeqCst)) / 2;
    tokio::time::sleep(half).await;
    let mut gateway = TcpStream::connect(to).await.expect("the gateway is there");
    let head = String::from_utf8_lossy(&request).replacen("\r\n", "\r\nConnection: close\r\n", 1);
    gateway.write_all(head.as_bytes()).await.expect("sent");
    let mut answer = Vec::new();
    gateway.read_to_end(&mut answer).await.expect("answered");
    tokio::time::sleep(half).await;
    if !cut.swap(false, Ordering::SeqCst) {
        let _ = caller.write_all(&answer).await;
    }
}

/// Whether the head has ended and the body is as long as it says.
fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
    body.len() >= length.unwrap_or(0)
}

// --- the adapter's own --------------------------------------------------------------------------------------------------

async fn execute(fixture: &GatewayFixture, request: &Request) -> Answer {
    fixture.adapter.execute(request.clone()).await.expect("an answer")
}

#[tokio::test(flavor = "multi_thread")]
async fn every_decline_has_our_word_and_type() {
    let fixture = GatewayFixture::new(&[]).await;
    for (number, code, kind) in [
        ("4000000000000002", "declined", DeclineType::Soft),
        (INSUFFICIENT, "insufficient_funds", DeclineType::Soft),
        ("4000000000009987", "lost_card", DeclineType::Hard),
        ("4000000000009979", "stolen_card", DeclineType::Hard),
        ("4000000000000069", "expired_card", DeclineType::Hard),
        ("4000000000000127", "incorrect_cvc", DeclineType::Hard),
    ] {
        let answer = execute(&fixture, &fixture.sale(code, number, 500).await).await;
        let Answer::Declined { decline, card } = answer else { panic!("{number}: {answer:?}") };
        assert_eq!((decline.code.as_str(), decline.kind), (code, kind));
        assert_eq!(card.expect("the report shows it").last4, number[12..]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_are_soft_declines_and_enter_nothing() {
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
async fn a_currency_that_the_account_lacks_is_no_fault_of_the_card() {
    let fixture = GatewayFixture::new(&["--currency", "USD"]).await;
    let said = fixture.adapter.execute(fixture.sale("op_1", APPROVES, 500).await).await;
    assert!(matches!(said, Err(Fault::NotProcessed { cause: Cause::Setup, .. })), "{said:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_cardholder_a_challenge_is_a_hard_decline() {
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
async fn a_challenge_is_pending_until_the_report_says_otherwise() {
    let fixture = GatewayFixture::new(&[]).await;
    let back = "https://shop.example/back?a=b".to_owned();
    let sale = Request { return_url: Some(back), ..fixture.sale("op_1", CHALLENGED, 500).await };
    let Answer::Challenged { url } = execute(&fixture, &sale).await else { panic!("the card asks its cardholder") };
    assert!(url.starts_with("http"), "{url}");
    assert_eq!(fixture.adapter.look_up(sale.clone()).await.expect("known"), Found::Pending);
    assert!(matches!(fixture.adapter.execute(sale.clone()).await, Err(Fault::Unknown(_))), "asked once");
    let page = url.parse().expect("an address");
    let said = Trusted::new(Duration::from_secs(5)).post_form(page, "decision=refuse".to_owned()).await.expect("asked");
    assert_eq!(said.status, 303, "the browser is sent back");
    let Found::Answer(answer) = fixture.adapter.look_up(sale).await.expect("known") else { panic!("it has ended") };
    assert_eq!(declined(answer).code, "authentication_failed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_refund_is_told_from_those_that_are_known() {
    let fixture = GatewayFixture::new(&[]).await;
    let (charge, ..) = charged(execute(&fixture, &fixture.sale("op_1", APPROVES, 500).await).await);
    let money = Money { minor: 100, currency: "EUR".parse().expect("a currency") };
    let refund = request(&fixture, "op_2", Action::Refund { charge, money });
    let Answer::Done { provider_ref: first } = execute(&fixture, &refund).await else { panic!("refunded") };
    let next = Request { reference: "op_3".to_owned(), ..refund };
    let known = Request { recorded: vec![first.clone()], ..next.clone() };
    assert_eq!(fixture.adapter.look_up(known.clone()).await.expect("known"), Found::Nothing);
    fixture.wire.cut.store(true, Ordering::SeqCst);
    assert!(matches!(fixture.adapter.execute(next).await, Err(Fault::Unknown(_))));
    let Found::Answer(Answer::Done { provider_ref: second }) = fixture.adapter.look_up(known).await.expect("known")
    else {
        panic!("the second is found")
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
        let asked = request(&fixture, reference, action);
        assert_eq!(fixture.adapter.look_up(asked.clone()).await.expect("known"), Found::Nothing);
        fixture.wire.cut.store(true, Ordering::SeqCst);
        assert!(matches!(fixture.adapter.execute(asked.clone()).await, Err(Fault::Unknown(_))));
        let found = fixture.adapter.look_up(asked).await.expect("known");
        assert!(matches!(found, Found::Answer(Answer::Done { .. })), "{found:?}");
    }
    let asked = Inquired {
        account: fixture.account,
        charge,
        reference: "op_1".to_owned(),
        created_at: noon(),
        captured_at: Some(noon()),
        now: noon(),
    };
    assert_eq!(fixture.adapter.inquire(asked).await.expect("known").standing, Standing::Voided);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_statement_is_of_every_page_oldest_first() {
    let fixture = GatewayFixture::new(&["--hourly-per-address", "1000000"]).await;
    let since = Clock::system().now();
    let stored = execute(
        &fixture,
        &request(&fixture, "card", Action::StoreCard { token: Secret::new(fixture.token_of(APPROVES).await) }),
    )
    .await;
    let Answer::Stored { provider_ref, .. } = stored else { panic!("stored") };
    let money = Money { minor: 100, currency: "USD".parse().expect("a currency") };
    let references: Vec<_> = (0..230).map(|n| format!("op_{n:03}")).collect();
    for reference in &references {
        let source = Source::Card(provider_ref.clone());
        let action = Action::Charge { source, money, capture: true };
        charged(execute(&fixture, &request(&fixture, reference, action)).await);
    }
    let read = fixture.adapter.statement(fixture.account, since, 1000).await.expect("read");
    let told: Vec<_> = read.iter().map(|line| line.reference.clone()).collect();
    assert_eq!(told, references);
    let first = fixture.adapter.statement(fixture.account, since, 120).await.expect("read");
    assert_eq!(first.len(), 120);
    assert_eq!(first[119].reference, "op_119");
    // Times are told in seconds: from there on a second may be read again, and nothing is left out.
    let rest = fixture.adapter.statement(fixture.account, first[119].occurred_at, 1000).await.expect("read");
    assert!(rest.iter().any(|line| line.reference == "op_120"));
    assert_eq!(rest.last().map(|line| line.reference.as_str()), Some("op_229"));
}

/// Whoever was stopped before it sent, and sends when others have given up on it, does nothing.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_sent_too_late_is_not_entered() {
    let fixture = GatewayFixture::new(&[]).await;
    let long_ago = Clock::system().now().plus(Duration::ZERO);
    tokio::time::sleep(Duration::from_millis(5)).await;
    let late = Request { valid_until: long_ago, ..fixture.sale("op_1", APPROVES, 500).await };
    let not_processed = async |request: &Request, code: &str| match fixture.adapter.execute(request.clone()).await {
        Err(Fault::NotProcessed { reason, .. }) => assert!(reason.starts_with(code), "{reason}"),
        other => panic!("it is too late: {other:?}"),
    };
    not_processed(&late, "A1").await;
    let (charge, ..) = charged(execute(&fixture, &fixture.sale("op_2", APPROVES, 500).await).await);
    let money = Money { minor: 500, currency: "EUR".parse().expect("a currency") };
    let refund = request(&fixture, "op_3", Action::Refund { charge, money });
    not_processed(&Request { valid_until: long_ago, ..refund.clone() }, "A2").await;
    assert_eq!(fixture.adapter.look_up(refund.clone()).await.expect("known"), Found::Nothing);
    assert!(matches!(execute(&fixture, &refund).await, Answer::Done { .. }), "in time");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_the_gateway_takes_for_none_stops_no_payment() {
    let fixture = GatewayFixture::new(&[]).await;
    for (n, email) in ["ada@localhost", "a@b@c.de", "a@b..co"].into_iter().enumerate() {
        let payer = Payer { email: email.to_owned(), name: "Ada".to_owned() };
        let sale = Request { payer: Some(payer), ..fixture.sale(&format!("op_{n}"), APPROVES, 500).await };
        charged(execute(&fixture, &sale).await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_account_stays_the_one_that_it_is_at_the_gateway() {
    let fixture = GatewayFixture::new(&[]).await;
    let (cluster, now) = (cluster().await, Clock::system().now());
    let key = KeyRing::new(EncryptionKey::from_hex(&"00".repeat(32)).expect("a key"), vec![]);
    let query = "SELECT account_id FROM provider_accounts WHERE id = $1";
    let account = sqlx::query_scalar(query).bind(fixture.account.uuid()).fetch_one(&fixture.db).await.expect("read");
    let account = crate::id::AccountId::from_uuid(account);
    let username = format!("contract-{}", crate::crypto::random_hex(8));
    let (_, third) = connected(cluster, &fixture.db, &key, &[]).await;
    let other = cluster.gateway_account(&username, &[]).await.expect("made");
    for known in [&third, &other] {
        let credentials = Credentials::parse(&serde_json::to_string(known).expect("JSON")).expect("whole");
        let refused = accounts::connect(&fixture.db, &key, now, account, credentials, None).await;
        assert!(matches!(refused, Err(Error::Conflict(_))), "{refused:?}");
    }
    let rotated = cluster.gateway_account(&fixture.known.username, &[]).await.expect("rotated");
    let credentials = Credentials::parse(&serde_json::to_string(&rotated).expect("JSON")).expect("whole");
    accounts::connect(&fixture.db, &key, now, account, credentials, None).await.expect("its keys may change");
}
