//! What Postgres breaks off is run again: the answer is the ordinary one, and what was asked for has happened once.

use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result};
use reqwest::Method;
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, PgPool};
use testkit::{Answer, Client, Cluster};

use crate::support::{Browser, Merchant, created, eventually, id, ok, sale, with};

/// What is broken off: a statement, or the COMMIT.
#[derive(Clone, Copy, Debug)]
enum When {
    AtOnce,
    AtCommit,
}

/// Each way to be broken off, and how often in a row.
const BREAKS: [(&str, When, i64); 4] =
    [("40P01", When::AtOnce, 1), ("40P01", When::AtCommit, 2), ("40001", When::AtOnce, 2), ("55P03", When::AtOnce, 1)];

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

/// A test account, and what its requests begin with.
struct Shop {
    merchant: Merchant,
    browser: Browser,
    pages: Client,
    db: PgPool,
}

impl Shop {
    async fn new(cluster: &Cluster) -> Result<Self> {
        let merchant = Merchant::new(cluster).await?;
        let browser = Browser::of(cluster, &merchant.account)?;
        let form = ("content-type", "application/x-www-form-urlencoded");
        let pages = Client::new(&cluster.api_url(0))?.header(form.0, form.1)?;
        let db = PgPool::connect(cluster.database_url()).await?;
        let function = "CREATE SEQUENCE test_breaks;
            GRANT ALL ON SEQUENCE test_breaks TO PUBLIC;
            CREATE FUNCTION test_break() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN
                IF nextval('test_breaks') <= TG_ARGV[1]::bigint THEN
                    RAISE EXCEPTION 'a test breaks this off' USING ERRCODE = TG_ARGV[0];
                END IF;
                RETURN NULL;
            END $$";
        sqlx::raw_sql(function).execute(&db).await?;
        Ok(Self { merchant, browser, pages, db })
    }

    /// Makes what a request is about, and says how it is asked.
    async fn prepare(&self, request: &str) -> Result<(Method, String, Option<Value>)> {
        let merchant = &self.merchant;
        let make = async |path: &str, body: Value| id(created(&merchant.api.post(path, body).await?));
        let post = |path: &str, body: Value| Ok((Method::POST, path.to_owned(), Some(body)));
        let ask = |path: String| Ok((Method::POST, path, None));
        let customer = merchant.customer().await?;
        let ours = |body: Value| with(body, "customerId", customer.clone());
        let address = ours(json!({"line1": "1 Main St", "country": "US"}));
        let plan = json!({"name": "Gold", "amount": 2900, "currency": "USD", "interval": "month"});
        let invoice = ours(json!({"currency": "USD", "amount": 700}));
        let rent = json!({"currency": "USD", "items": [{"description": "Rent", "quantity": 1, "unitAmount": 700}]});
        let monthly = json!({"cadence": {"unit": "monthly", "interval": 1}, "startDate": "2090-01-01"});
        let monthly = with(ours(monthly), "template", rent);
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
            "payment_methods.create" => post("/v1/payment_methods", ours(json!({"paymentToken": "tok_ok"}))),
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
                post(&format!("/v1/payments/{}/refund", merchant.sold(700).await?), json!({"amount": 300}))
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
                let body = ours(json!({"planId": id(&made.body)?, "startAt": "2090-01-01"}));
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

    async fn send(&self, request: &str, (method, path, body): (Method, String, Option<Value>)) -> Result<Answer> {
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

    /// How many rows of each kind the account has, once nothing is under way.
    async fn rows(&self) -> Result<Vec<i64>> {
        eventually("the end of what is under way", async || {
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
        let mut counts = Vec::new();
        for table in tables {
            let count = AssertSqlSafe(format!("SELECT count(*) FROM {table} WHERE account_id = $1"));
            counts.push(sqlx::query_scalar(count).bind(self.merchant.books.account).fetch_one(&self.db).await?);
        }
        let charged = "SELECT count(*) FROM mock.transactions t JOIN provider_accounts p ON p.id = t.account
                       WHERE p.account_id = $1";
        counts.push(sqlx::query_scalar(charged).bind(self.merchant.books.account).fetch_one(&self.db).await?);
        Ok(counts)
    }

    /// The status of an answer, and how many rows there are more.
    async fn observe(&self, request: &str, broken: Option<(&str, &str, When, i64)>) -> Result<(u16, Vec<i64>)> {
        let prepared = self.prepare(request).await?;
        let before = self.rows().await?;
        if let Some((table, code, when, times)) = broken {
            let (operation, table) = (if table.starts_with('+') { "INSERT" } else { "UPDATE" }, &table[1..]);
            let (constraint, when) = match when {
                When::AtOnce => ("", ""),
                When::AtCommit => ("CONSTRAINT", "DEFERRABLE INITIALLY DEFERRED"),
            };
            let arm = format!(
                "SELECT setval('test_breaks', 1, false);
                 CREATE {constraint} TRIGGER test_break AFTER {operation} ON {table} {when}
                     FOR EACH ROW EXECUTE FUNCTION test_break('{code}', '{times}')"
            );
            sqlx::raw_sql(AssertSqlSafe(arm)).execute(&self.db).await?;
        }
        let answer = self.send(request, prepared).await?;
        if let Some((table, _, _, times)) = broken {
            let disarm = format!("DROP TRIGGER test_break ON {}", &table[1..]);
            sqlx::raw_sql(AssertSqlSafe(disarm)).execute(&self.db).await?;
            let met: i64 = sqlx::query_scalar("SELECT last_value FROM test_breaks").fetch_one(&self.db).await?;
            assert!(answer.status >= 500 || met > times, "{request} was broken off {met} times only");
        }
        let more = self.rows().await?.into_iter().zip(before).map(|(now, before)| now - before).collect();
        Ok((answer.status, more))
    }
}

#[tokio::test]
async fn what_postgres_breaks_off_is_run_again() -> Result<()> {
    let cluster = Cluster::builder().api(1).worker(1).start().await?;
    let shop = Shop::new(&cluster).await?;
    let mut wrong = Vec::new();
    for (request, table) in REQUESTS {
        let usual = shop.observe(request, None).await?;
        assert!(usual.0 < 400, "{request}: {}", usual.0);
        for (code, when, times) in BREAKS {
            let broken = shop.observe(request, Some((table, code, when, times))).await?;
            if broken != usual {
                wrong.push(format!("{request}, {code} {when:?}: {broken:?} instead of {usual:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), REQUESTS.len() * BREAKS.len(), wrong.join("\n"));
    Ok(())
}
