//! `bench reads`: the cost of a merchant's reads with few and with very many rows, and the cost of a small merchant's
//! lists in tables dominated by a large one. The comparison uses CPU time, because elapsed time also depends on other
//! users of the machine.

use std::{pin::pin, time::Duration};

use anyhow::{Context, Result, ensure};
use reqwest::Method;
use serde_json::json;
use sqlx::{Connection, PgConnection};
use tokio::time::timeout;
use ulid::Ulid;
use uuid::Uuid;

use super::{
    baseline,
    load::{self, Exchange},
    payments::measured_processes,
    report::{Goal, Report, Row},
    usage,
};
use crate::{Account, Client, Cluster, PortalUser, TempDir, form};

const FEW: i64 = 10_000;
const MANY: i64 = 1_000_000;
/// Payments of the small merchant, in the same tables as the large one's.
const SMALL_MERCHANT_PAYMENTS: i64 = 100;
const CLIENTS: usize = 8;
const WARM_UP: Duration = Duration::from_millis(300);
/// The pages of the portal, what each is called here, and what it shows.
const PAGES: [(&str, &str, &str); 2] = [
    ("Home of the portal", "/test", "<h1>Home</h1>"),
    ("Payments of the portal", "/test/payments", "<h1>Payments</h1>"),
];
/// Between two pages of the portal.
const PAUSE: Duration = Duration::from_millis(20);
/// How often memory is read.
const SAMPLING: Duration = Duration::from_millis(200);
/// The highest allowed ratio of a read's cost with many rows to its cost with few.
const MAX_COST_RATIO: f64 = 1.5;

/// The cost of one read.
#[derive(Clone, Copy)]
struct Cost {
    per_second: f64,
    cpu_ms: f64,
    p50_ms: f64,
}

/// Runs the loads, prints a table and returns the report.
pub(super) async fn run(seconds: u64) -> Result<Report> {
    let directory = TempDir::new()?;
    let cluster =
        Cluster::builder().api(1).portal(1).own_postgres().env("RUST_LOG", "warn").env("KEY_CACHE_MS", "1000");
    let mut cluster = cluster.start().await?;
    let large = Merchant::create(&cluster).await?;
    let small = Merchant::create(&cluster).await?;
    let mut db = PgConnection::connect(cluster.database_url()).await?;
    // Skips the triggers that check foreign keys, for speed; the inserted rows satisfy them.
    sqlx::query("SET session_replication_role = replica").execute(&mut db).await?;

    large.write(&mut db, 0, FEW).await?;
    small.write(&mut db, MANY, SMALL_MERCHANT_PAYMENTS).await?;
    let few = large.measure(&mut cluster, &mut db, seconds).await?;
    large.write(&mut db, FEW, MANY - FEW).await?;
    let many = large.measure(&mut cluster, &mut db, seconds).await?;
    let of_small = small.measure(&mut cluster, &mut db, seconds).await?;
    let memory = large.memory_of_csv(&mut cluster).await?;
    let baseline = baseline::reads_per_second(cluster.database_url(), directory.path(), CLIENTS, seconds).await?;

    println!("{:<40}{:>10}{:>10}{:>11}{:>11}{:>11}", "CPU ms per read", FEW, MANY, "small", "reads/s", "p50 ms");
    let (mut rows, mut reads) = (Vec::new(), Vec::new());
    let mut row = |what: String, ours, baseline, goal| {
        rows.push(Row { bench: "reads", what, ours, baseline: Some(baseline), goal })
    };
    for (((what, few), (_, many)), (_, of_small)) in few.iter().zip(&many).zip(&of_small) {
        let (of_few, of_many, small) = (few.cpu_ms, many.cpu_ms, of_small.cpu_ms);
        println!("{what:<40}{of_few:>10.3}{of_many:>10.3}{small:>11.3}{:>11.0}{:>11.2}", many.per_second, many.p50_ms);
        row(format!("CPU ms: {what}, {MANY} vs. {FEW} rows"), of_many, of_few, Goal::AtMost(MAX_COST_RATIO));
        row("  of a small account in the same tables".to_owned(), small, of_few, Goal::AtMost(MAX_COST_RATIO));
        // Whoever opens a page waits for it alone.
        if PAGES.iter().any(|(page, ..)| page == what) {
            row(
                format!("p50 ms: {what}, {MANY} vs. {FEW} rows"),
                many.p50_ms,
                few.p50_ms,
                Goal::AtMost(MAX_COST_RATIO),
            );
        }
        reads.push(json!({
            "read": what, "cpu_ms_of_10_thousand": of_few, "cpu_ms_of_1_million": of_many, "cpu_ms_of_a_small_account": small,
            "per_second": many.per_second, "p50_ms": many.p50_ms, "p50_ms_of_10_thousand": few.p50_ms,
        }));
    }
    println!("memory of api in MiB: {:.0}; at most {:.0} while it sent all payments as CSV", memory.0, memory.1);
    row("MiB of api while it sends all payments as CSV, vs. before".to_owned(), memory.1, memory.0, Goal::None);
    let retrieved = many.first().context("no reads were measured")?.1.per_second;
    row(format!("GET a payment/s with {CLIENTS} clients, vs. pgbench"), retrieved, baseline, Goal::None);
    let details = json!({ "bench": "reads", "seconds": seconds, "reads": reads, "baseline_per_second": baseline });
    Ok(Report { rows, details, ..Report::default() })
}

/// An account with a webhook endpoint and a user.
struct Merchant {
    account: Account,
    id: Uuid,
    endpoint: (Uuid, String),
    user: PortalUser,
}

impl Merchant {
    async fn create(cluster: &Cluster) -> Result<Self> {
        let account = cluster.account_with(&super::NO_LIMIT).await?;
        let response =
            cluster.client(&account)?.post("/v1/webhook_endpoints", json!({"url": "http://127.0.0.1:9/"})).await?;
        ensure!(response.status == 201, "cannot create an endpoint: {}", response.body);
        let name = response.body["id"].as_str().context("no id")?.to_owned();
        let user = cluster.portal_user(&account, "viewer").await?;
        Ok(Self { id: uuid(&account.id)?, endpoint: (uuid(&name)?, name), account, user })
    }

    /// Inserts payments, a tenth of them with a refund and a hundredth of one customer or by one card, each with its event, and as
    /// many deliveries, a tenth of them failed.
    async fn write(&self, db: &mut PgConnection, first: i64, count: i64) -> Result<()> {
        let payments = "WITH p AS (
                 INSERT INTO payments (id, account_id, provider_account_id, status, settled, capture, currency, amount_requested,
                     amount, amount_captured, amount_refunded, has_refunds, card_brand, card_last4, card_exp_month,
                     card_exp_year, provider_ref, created_at, captured_at, settled_at, external_id, customer_id)
                 SELECT new_ulid(at), a.id, a.provider_account_id,
                     CASE WHEN refunded THEN 'partially_refunded' ELSE 'settled' END::payment_status, true, true, 'USD', amount,
                     amount, amount, CASE WHEN refunded THEN 100 ELSE 0 END, refunded, 'visa',
                     CASE WHEN n % 100 = 0 THEN '0005' ELSE '4242' END, 12, 2034, 'bench-' || n, at, at, at, 'order-' || n,
                     CASE WHEN n % 100 = 1 THEN a.id END
                 FROM accounts a, LATERAL (SELECT n, now() - n * interval '1 millisecond' AS at, n % 10 = 0 AS refunded,
                         1250 + n % 1000 AS amount
                     FROM generate_series($2::bigint, $2 + $3 - 1) n) made
                 WHERE a.id = $1
                 RETURNING id, account_id, created_at, has_refunds)
             INSERT INTO refunds (id, account_id, payment_id, amount, status, created_at, finished_at)
             SELECT new_ulid(created_at), account_id, id, 100, 'succeeded', created_at, created_at FROM p WHERE has_refunds";
        // As if they were captured in this transaction: the figures of Home are added up in the order of transactions.
        let deliveries = "WITH e AS (
                 INSERT INTO events (id, account_id, type, payload, created_at, xact)
                 SELECT new_ulid(at), $1, 'payment.captured', json_build_object('timestamp', at, 'data', json_build_object(
                     'object', json_build_object('capture', true, 'currency', 'USD', 'amount', amount, 'amountCaptured', amount,
                         'description', repeat('x', 400))))::text, at, pg_current_xact_id()::text::bigint
                 FROM (SELECT now() - n * interval '1 millisecond' AS at, 1250 + n % 1000 AS amount
                     FROM generate_series($2::bigint, $2 + $3 - 1) n) made
                 RETURNING id, account_id, created_at),
             delivered AS (SELECT * FROM (SELECT *, row_number() OVER () AS n FROM e) numbered WHERE n % 10 = 0)
             INSERT INTO webhook_deliveries (id, account_id, endpoint_id, event_id, attempt, status, failure, response_status,
                 response_body, duration_ms, attempted_at, created_at)
             SELECT new_ulid(created_at + attempt * interval '1 millisecond'), account_id, $4, id, attempt,
                 CASE attempt WHEN 1 THEN 'failed' ELSE 'succeeded' END::webhook_delivery_status,
                 CASE attempt WHEN 1 THEN 'status' END, CASE attempt WHEN 1 THEN 500 ELSE 200 END, 'ok', 12, created_at, created_at
             FROM delivered, generate_series(1, 10) attempt";
        sqlx::query(payments).bind(self.id).bind(first).bind(count).execute(&mut *db).await.context("payments")?;
        let query = sqlx::query(deliveries).bind(self.id).bind(first).bind(count).bind(self.endpoint.0);
        query.execute(&mut *db).await.context("deliveries")?;
        sqlx::query("VACUUM ANALYZE payments, refunds, events, webhook_deliveries").execute(db).await?;
        Ok(())
    }

    /// The cost of each read, by its label.
    async fn measure(
        &self,
        cluster: &mut Cluster,
        db: &mut PgConnection,
        seconds: u64,
    ) -> Result<Vec<(&'static str, Cost)>> {
        let middle_payment = sqlx::query_scalar(
            "SELECT id FROM payments WHERE account_id = $1 ORDER BY account_id, id
             OFFSET (SELECT count(*) / 2 FROM payments WHERE account_id = $1) LIMIT 1",
        );
        let payment: Uuid = middle_payment.bind(self.id).fetch_one(&mut *db).await?;
        let payment = format!("pay_{}", Ulid::from(payment.as_u128()));
        let (endpoint, customer) = (&self.endpoint.1, format!("cus_{}", Ulid::from(self.id.as_u128())));
        let filters = [
            ("20 payments of a status", "status=partially_refunded".to_owned()),
            ("20 payments by a card", "last4=0005".to_owned()),
            ("20 payments by amount", "amountFrom=2000&amountTo=2010".to_owned()),
            ("20 payments of a customer", format!("customerId={customer}")),
            ("20 payments of a time", "createdTo=2100-01-01T00:00:00Z&currency=USD".to_owned()),
            ("20 payments by all of these", format!("status=settled&last4=4242&amountFrom=1251&customerId={customer}")),
        ];
        let filtered =
            filters.map(|(what, filter)| (what, format!("/v1/payments?limit=20&{filter}"), "\"object\":\"list\""));
        let reads = [
            ("GET a payment", format!("/v1/payments/{payment}"), "\"object\":\"payment\""),
            ("20 payments", "/v1/payments?limit=20".to_owned(), "\"hasMore\":true"),
            ("100 payments", "/v1/payments?limit=100".to_owned(), "\"object\":\"list\""),
            (
                "20 payments from the middle",
                format!("/v1/payments?limit=20&startingAfter={payment}"),
                "\"hasMore\":true",
            ),
            ("20 deliveries", "/v1/webhook_deliveries?limit=20".to_owned(), "\"hasMore\":true"),
            (
                "20 deliveries to an endpoint",
                format!("/v1/webhook_deliveries?limit=20&endpointId={endpoint}"),
                "\"hasMore\":true",
            ),
            ("5 failed deliveries", "/v1/webhook_deliveries?limit=5&status=failed".to_owned(), "\"hasMore\":true"),
        ];
        let own_id =
            ("a payment by your own id", "/v1/payments?externalId=order-500".to_owned(), "\"object\":\"list\"");
        let mut costs = Vec::new();
        for (what, path, expected) in reads.into_iter().chain(filtered).chain([own_id]) {
            let read = Exchange::get(&cluster.api_url(0), &path, &self.account.secret_key, expected);
            costs.push((what, cost(cluster, &read, seconds, CLIENTS, Duration::ZERO).await.with_context(|| path)?));
        }
        let (url, cookie) = (cluster.portal_url(0), self.sign_in(&cluster.portal_url(0)).await?);
        self.add_up(&url, &cookie, db).await?;
        for (what, path, expected) in PAGES {
            let page = Exchange::page(&url, path, &cookie, expected);
            // A user opens a limited number of pages per second.
            costs.push((what, cost(cluster, &page, seconds, 1, PAUSE).await.with_context(|| path)?));
        }
        Ok(costs)
    }

    /// Signs the user in to the portal. Returns the cookie of the session.
    async fn sign_in(&self, url: &str) -> Result<String> {
        let browser =
            Client::new(url)?.header("origin", url)?.header("content-type", "application/x-www-form-urlencoded")?;
        let form = form([("email", self.user.email.as_str()), ("password", self.user.password.as_str())]);
        let signed_in = browser.send(Method::POST, "/sign-in", Some(form.into_bytes())).await?;
        let cookies = signed_in.headers.get_all("set-cookie").iter().filter_map(|cookie| cookie.to_str().ok());
        let session =
            cookies.filter_map(|cookie| cookie.split(';').next()).find(|cookie| cookie.starts_with("__Host-session="));
        session.map(str::to_owned).with_context(|| format!("the sign-in: {}", signed_in.status))
    }

    /// Opens Home until the figures of all payments are added up.
    async fn add_up(&self, url: &str, cookie: &str, db: &mut PgConnection) -> Result<()> {
        let browser = Client::new(url)?.header("cookie", cookie)?;
        loop {
            let page = browser.get("/test").await?;
            ensure!(page.status == 200, "Home: {}", page.status);
            if !String::from_utf8_lossy(&page.bytes).contains("are being added up") {
                break;
            }
        }
        let sums = "SELECT (SELECT sum(amount_captured) FROM payments WHERE account_id = $1)::text,
                           (SELECT sum(amount) FROM figures WHERE account_id = $1 AND kind = 'captured')::text";
        let (paid, counted): (String, String) = sqlx::query_as(sums).bind(self.id).fetch_one(db).await?;
        ensure!(paid == counted, "Home shows {counted} of {paid}");
        Ok(())
    }

    /// The memory of api in MiB, before it sends all payments as CSV, and the most meanwhile.
    async fn memory_of_csv(&self, cluster: &mut Cluster) -> Result<(f64, f64)> {
        let measured_processes = measured_processes(cluster);
        let of_api = || usage::memory_mib(&measured_processes).get("api").copied().unwrap_or_default();
        let before = of_api();
        let client = cluster.client(&self.account)?.header("accept", "text/csv")?;
        let mut response = pin!(client.get("/v1/payments"));
        let mut most = before;
        let response = loop {
            if let Ok(response) = timeout(SAMPLING, &mut response).await {
                break response?;
            }
            most = f64::max(most, of_api());
        };
        let rows = response.bytes.split(|byte| *byte == b'\n').count();
        ensure!(rows as i64 > MANY, "only {rows} rows were sent");
        Ok((before, most))
    }
}

async fn cost(cluster: &mut Cluster, read: &Exchange, seconds: u64, clients: usize, pause: Duration) -> Result<Cost> {
    let run = async |duration: Duration| load::closed_loop_with(clients, duration, read, pause, |_, _| {}).await;
    // Long enough for every connection to have cached its plans.
    run(WARM_UP).await?;
    let measured_processes = measured_processes(cluster);
    let before: f64 = usage::cpu_seconds(&measured_processes).values().sum();
    let measurement = run(Duration::from_millis((seconds * 400).max(500))).await?;
    let used = usage::cpu_seconds(&measured_processes).values().sum::<f64>() - before;
    Ok(Cost {
        per_second: measurement.per_second,
        cpu_ms: used * 1000.0 / measurement.count as f64,
        p50_ms: measurement.percentile(50),
    })
}

/// The UUID of an id such as `acct_…`.
fn uuid(id: &str) -> Result<Uuid> {
    let ulid = id.split_once('_').and_then(|(_, text)| Ulid::from_string(text).ok());
    ulid.map(|ulid| Uuid::from_u128(ulid.0)).with_context(|| format!("not an id: {id}"))
}
