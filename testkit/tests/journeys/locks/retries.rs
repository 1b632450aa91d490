//! Transactions that Postgres aborts are retried: the response is unchanged, and the request takes effect once.

use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result};
use reqwest::Method;
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, PgPool};
use testkit::{Client, Cluster, Response};

use crate::support::{Browser, Merchant, created, eventually, id, ok, sale, with};

/// Where a transaction is aborted.
#[derive(Clone, Copy, Debug)]
enum AbortAt {
    Statement,
    Commit,
}

/// SQLSTATE, place, and consecutive aborts. Which of them are retried depends on no request, so most have the first only:
/// also a statement outside of a transaction commits.
const ABORTS: [(&str, AbortAt, i64); 4] = [
    ("40P01", AbortAt::Commit, 2),
    ("40P01", AbortAt::Statement, 1),
    ("40001", AbortAt::Statement, 2),
    ("55P03", AbortAt::Statement, 1),
];

/// The requests with all aborts: one in a transaction, one in a batch, and a worker's outcome.
const WITH_ALL: [&str; 3] = ["invoices.create", "payments.create", "payments.create, the outcome"];

/// The route, and the table whose rows it inserts (`+`) or changes (`~`).
const REQUESTS: [(&str, &str); 33] = [
    ("customers.create", "+customers"),
    ("customers.update", "~customers"),
    ("payment_methods.create", "+payment_methods"),
    ("payment_methods.default", "~customers"),
    ("payments.create", "+payments"),
    ("payments.create with a key", "+payments"),
    ("payments.create, the outcome", "~payments"),
    ("payments.capture", "+operations"),
    ("payments.void", "+operations"),
    ("payments.refund", "+refunds"),
    ("addresses.create", "+addresses"),
    ("addresses.update", "~addresses"),
    ("addresses.default", "~customers"),
    ("plans.create", "+plans"),
    ("subscriptions.create", "+subscriptions"),
    ("subscriptions.cancel", "~subscriptions"),
    ("invoices.create", "+invoices"),
    ("invoices.void", "~invoices"),
    ("invoices.schedule", "~invoices"),
    ("invoices.cancel_schedule", "~invoices"),
    ("invoices.scheduler_run", "+collection_attempts"),
    ("recurring_invoices.create", "+recurring_invoices"),
    ("recurring_invoices.update", "~recurring_invoices"),
    ("recurring_invoices.pause", "~recurring_invoices"),
    ("recurring_invoices.cancel", "~recurring_invoices"),
    ("payment_links.create", "+payment_links"),
    ("payment_links.cancel", "~payment_links"),
    ("webhook_endpoints.create", "+webhook_endpoints"),
    ("webhook_endpoints.rotate_secret", "~webhook_endpoints"),
    ("webhook_endpoints.delete", "~webhook_endpoints"),
    ("checkout_sessions.create", "+checkout_sessions"),
    ("tokens.create", "+payment_tokens"),
    ("a payment page", "+payments"),
];

/// A test account and the clients that its requests use.
struct Shop {
    merchant: Merchant,
    browser: Browser,
    pages: Client,
    db: PgPool,
}

impl Shop {
    async fn new(cluster: &Cluster) -> Result<Self> {
        let merchant = Merchant::new(cluster).await?;
        let browser = Browser::for_account(cluster, &merchant.account)?;
        let form = ("content-type", "application/x-www-form-urlencoded");
        let pages = Client::new(&cluster.api_url(0))?.header(form.0, form.1)?;
        let db = PgPool::connect(cluster.database_url()).await?;
        let function = "CREATE SEQUENCE test_aborts;
            GRANT ALL ON SEQUENCE test_aborts TO PUBLIC;
            CREATE FUNCTION test_abort() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN
                IF nextval('test_aborts') <= TG_ARGV[1]::bigint THEN
                    RAISE EXCEPTION 'a test aborts this transaction' USING ERRCODE = TG_ARGV[0];
                END IF;
                RETURN NULL;
            END $$";
        sqlx::raw_sql(function).execute(&db).await?;
        Ok(Self { merchant, browser, pages, db })
    }

    /// Creates the objects of a request, and returns its method, path and body.
    async fn prepare(&self, request: &str) -> Result<(Method, String, Option<Value>)> {
        let merchant = &self.merchant;
        let make = async |path: &str, body: Value| id(created(&merchant.api.post(path, body).await?));
        let post = |path: &str, body: Value| Ok((Method::POST, path.to_owned(), Some(body)));
        let ask = |path: String| Ok((Method::POST, path, None));
        let customer = merchant.customer().await?;
        let of_customer = |body: Value| with(body, "customerId", customer.clone());
        let address = of_customer(json!({"line1": "1 Main St", "country": "US"}));
        let plan = json!({"name": "Gold", "amount": 2900, "currency": "USD", "interval": "month"});
        let invoice = of_customer(json!({"currency": "USD", "amount": 700}));
        let rent = json!({"currency": "USD", "items": [{"description": "Rent", "quantity": 1, "unitAmount": 700}]});
        let monthly = json!({"cadence": {"unit": "monthly", "interval": 1}, "startDate": "2090-01-01"});
        let monthly = with(of_customer(monthly), "template", rent);
        let link = json!({"amount": 700, "currency": "USD"});
        let endpoint = json!({"url": "http://127.0.0.1:9/"});
        let recurring = async || {
            Ok::<_, anyhow::Error>(format!(
                "/v1/recurring_invoices/{}",
                make("/v1/recurring_invoices", monthly.clone()).await?
            ))
        };
        let issued =
            async || Ok::<_, anyhow::Error>(format!("/v1/invoices/{}", make("/v1/invoices", invoice.clone()).await?));
        let hooks = async || {
            let id = make("/v1/webhook_endpoints", endpoint.clone()).await?;
            Ok::<_, anyhow::Error>(format!("/v1/webhook_endpoints/{id}"))
        };
        match request {
            "customers.create" => post("/v1/customers", json!({"email": "ada@example.com"})),
            "customers.update" => post(&format!("/v1/customers/{customer}"), json!({"name": "Ada"})),
            "payment_methods.create" => post("/v1/payment_methods", of_customer(json!({"paymentToken": "tok_ok"}))),
            "payment_methods.default" => {
                created(&merchant.save_card(&customer, "tok_ok").await?);
                let other = id(created(&merchant.save_card(&customer, "tok_ok").await?))?;
                ask(format!("/v1/payment_methods/{other}/default"))
            }
            "payments.create" | "payments.create with a key" | "payments.create, the outcome" => {
                post("/v1/payments", sale(700))
            }
            "payments.capture" => ask(format!("/v1/payments/{}/capture", merchant.hold(700).await?)),
            "payments.void" => ask(format!("/v1/payments/{}/void", merchant.hold(700).await?)),
            "payments.refund" => {
                post(&format!("/v1/payments/{}/refund", merchant.charge(700).await?), json!({"amount": 300}))
            }
            "addresses.create" => post("/v1/addresses", address),
            "addresses.update" => {
                post(&format!("/v1/addresses/{}", make("/v1/addresses", address).await?), json!({"city": "Paris"}))
            }
            "addresses.default" => {
                let path = format!("/v1/addresses/{}/default", make("/v1/addresses", address).await?);
                post(&path, json!({"type": "billing"}))
            }
            "plans.create" => {
                post("/v1/plans", with(plan, "amount", crate::support::uuid(&customer)?.as_u128() as u16 as i64 + 1))
            }
            "subscriptions.create" | "subscriptions.cancel" => {
                let made = merchant.api.post("/v1/plans", plan).await?;
                let body = of_customer(json!({"planId": id(&made.body)?, "startAt": "2090-01-01"}));
                if request == "subscriptions.create" {
                    return post("/v1/subscriptions", body);
                }
                ask(format!("/v1/subscriptions/{}/cancel", make("/v1/subscriptions", body).await?))
            }
            "invoices.create" => post("/v1/invoices", invoice),
            "invoices.void" => ask(format!("{}/void", issued().await?)),
            "invoices.schedule" => {
                post(&format!("{}/schedule", issued().await?), json!({"collectAt": "2090-01-01T00:00:00Z"}))
            }
            "invoices.cancel_schedule" => {
                let path = issued().await?;
                let later = json!({"collectAt": "2090-01-01T00:00:00Z"});
                ok(&merchant.api.post(&format!("{path}/schedule"), later).await?);
                ask(format!("{path}/cancel_schedule"))
            }
            "invoices.scheduler_run" => {
                created(&merchant.save_card(&customer, "tok_ok").await?);
                let path = issued().await?;
                let due = json!({"collectAt": "2020-01-01T00:00:00Z"});
                ok(&merchant.api.post(&format!("{path}/schedule"), due).await?);
                ask("/v1/invoices/scheduler/run".to_owned())
            }
            "recurring_invoices.create" => post("/v1/recurring_invoices", monthly),
            "recurring_invoices.update" => post(&recurring().await?, json!({"name": "Rent"})),
            "recurring_invoices.pause" => ask(format!("{}/pause", recurring().await?)),
            "recurring_invoices.cancel" => ask(format!("{}/cancel", recurring().await?)),
            "payment_links.create" => post("/v1/payment_links", link),
            "payment_links.cancel" => {
                ask(format!("/v1/payment_links/{}/cancel", make("/v1/payment_links", link).await?))
            }
            "webhook_endpoints.create" => post("/v1/webhook_endpoints", endpoint),
            "webhook_endpoints.rotate_secret" => ask(format!("{}/rotate_secret", hooks().await?)),
            "webhook_endpoints.delete" => Ok((Method::DELETE, hooks().await?, None)),
            "checkout_sessions.create" => ask("/v1/checkout_sessions".to_owned()),
            "tokens.create" => {
                let session = self.browser.session().await?;
                post("/v1/tokens", json!({"sessionId": session, "upstreamToken": "tok_ok"}))
            }
            "a payment page" => {
                let made = merchant.api.post("/v1/payment_links", link).await?;
                let url = created(&made)["url"].as_str().context("a url")?;
                ask(url[url.find("/pay/").context("a page")?..].to_owned())
            }
            other => panic!("{other}"),
        }
    }

    async fn send(&self, request: &str, (method, path, body): (Method, String, Option<Value>)) -> Result<Response> {
        let api = match request {
            "payments.create with a key" => {
                static KEYS: AtomicUsize = AtomicUsize::new(0);
                let key = KEYS.fetch_add(1, Ordering::Relaxed).to_string();
                self.merchant.api.header("idempotency-key", &key)?
            }
            "tokens.create" => self.browser.api.clone(),
            "checkout_sessions.create" => return self.browser.api.send(method, &path, None).await,
            "a payment page" => return self.pages.send(method, &path, Some(b"token=tok_ok".to_vec())).await,
            _ => self.merchant.api.clone(),
        };
        api.send(method, &path, body.map(|body| body.to_string().into_bytes())).await
    }

    /// The number of rows per table of the account, once no operation is in progress.
    async fn rows(&self) -> Result<Vec<i64>> {
        eventually("the end of all operations", async || {
            let open = "SELECT count(*) FROM operations WHERE account_id = $1 AND finished_at IS NULL";
            let open: i64 = sqlx::query_scalar(open).bind(self.merchant.books.account).fetch_one(&self.db).await?;
            Ok((open == 0).then_some(()))
        })
        .await?;
        let tables = [
            "customers",
            "payment_methods",
            "payments",
            "operations",
            "refunds",
            "addresses",
            "plans",
            "subscriptions",
            "invoices",
            "collection_attempts",
            "recurring_invoices",
            "payment_links",
            "webhook_endpoints",
            "events",
            "checkout_sessions",
            "payment_tokens",
            "idempotency_keys",
        ];
        let counts = tables.map(|table| format!("(SELECT count(*) FROM {table} WHERE account_id = $1)")).join(", ");
        let charged = "(SELECT count(*) FROM mock.transactions t JOIN provider_accounts p ON p.id = t.account
                        WHERE p.account_id = $1)";
        let all = AssertSqlSafe(format!("SELECT ARRAY[{counts}, {charged}]"));
        Ok(sqlx::query_scalar(all).bind(self.merchant.books.account).fetch_one(&self.db).await?)
    }

    /// Sends a request, with aborts if given. Returns the status and the number of rows added per table.
    async fn observe(&self, request: &str, aborts: Option<(&str, &str, AbortAt, i64)>) -> Result<(u16, Vec<i64>)> {
        let prepared = self.prepare(request).await?;
        let before = self.rows().await?;
        if let Some((table, code, at, times)) = aborts {
            let (operation, table) = (if table.starts_with('+') { "INSERT" } else { "UPDATE" }, &table[1..]);
            let (constraint, deferrable) = match at {
                AbortAt::Statement => ("", ""),
                AbortAt::Commit => ("CONSTRAINT", "DEFERRABLE INITIALLY DEFERRED"),
            };
            let arm = format!(
                "SELECT setval('test_aborts', 1, false);
                 CREATE {constraint} TRIGGER test_abort AFTER {operation} ON {table} {deferrable}
                     FOR EACH ROW EXECUTE FUNCTION test_abort('{code}', '{times}')"
            );
            sqlx::raw_sql(AssertSqlSafe(arm)).execute(&self.db).await?;
        }
        let response = self.send(request, prepared).await?;
        if let Some((table, _, _, times)) = aborts {
            let disarm = format!("DROP TRIGGER test_abort ON {}", &table[1..]);
            sqlx::raw_sql(AssertSqlSafe(disarm)).execute(&self.db).await?;
            let count = "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM test_aborts";
            let count: i64 = sqlx::query_scalar(count).fetch_one(&self.db).await?;
            assert!(
                response.status >= 500 || count > times,
                "{request} wrote {count} times, although it was aborted up to {times} times: {}",
                response.body
            );
        }
        let added = self.rows().await?.into_iter().zip(before).map(|(now, before)| now - before).collect();
        Ok((response.status, added))
    }
}

#[tokio::test]
async fn transactions_aborted_by_postgres_are_retried() -> Result<()> {
    let cluster = Cluster::builder().api(1).worker(1).start().await?;
    let shop = Shop::new(&cluster).await?;
    let (mut failures, mut tried) = (Vec::new(), 0);
    for (request, table) in REQUESTS {
        let expected = shop.observe(request, None).await?;
        assert!(expected.0 < 400, "{request}: {}", expected.0);
        let aborts = if WITH_ALL.contains(&request) { &ABORTS[..] } else { &ABORTS[..1] };
        for (code, at, times) in aborts.iter().copied() {
            let actual = shop.observe(request, Some((table, code, at, times))).await?;
            tried += 1;
            if actual != expected {
                failures.push(format!("{request}, {code} {at:?}: {actual:?} instead of {expected:?}"));
            }
        }
    }
    assert!(failures.is_empty(), "{} of {tried}:\n{}", failures.len(), failures.join("\n"));
    Ok(())
}
