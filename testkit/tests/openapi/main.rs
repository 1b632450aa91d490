//! The document at /openapi.json is valid, complete and correct: third-party tools check it and test the API with it.

mod generated;
mod tools;

use std::collections::HashSet;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use futures_util::future::try_join_all;
use reqwest::Method;
use serde_json::{Value, json};
use sqlx::PgPool;
use testkit::{Client, Cluster, eventually};
use tools::{Tools, run};
use ulid::Ulid;
use uuid::Uuid;

const ORIGIN: &str = "https://shop.example";
/// What merchants read.
const DOCUMENTS: [&str; 5] = ["api", "payments", "billing", "webhooks", "elements"];
/// Where nothing listens: what is sent there fails at once.
const HOOK: &str = "http://127.0.0.1:1/fresh";

fn entries(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

/// Responses may gain fields and values, so the document allows unknown ones. This copy forbids them, so that all must
/// be documented.
fn closed(document: &Value) -> Value {
    let mut closed = document.clone();
    close_enumerations(&mut closed);
    for (_, response) in closed["components"]["responses"].as_object_mut().into_iter().flatten() {
        let detail = json!({
            "properties": {"code": {"enum": response["x-error-codes"]}},
            "required": response["x-error-fields"],
        });
        let schema = &mut response["content"]["application/json"]["schema"];
        *schema = json!({"allOf": [schema, {"properties": {"error": detail}}]});
    }
    let bodies: Vec<String> = entries(&document["paths"])
        .flat_map(|(_, methods)| entries(methods))
        .filter_map(|(_, operation)| {
            operation.pointer("/requestBody/content/application~1json/schema/$ref")?.as_str().map(str::to_owned)
        })
        .collect();
    let Some(schemas) = closed["components"]["schemas"].as_object_mut() else { return closed };
    for (name, schema) in schemas {
        if !bodies.iter().any(|body| body.ends_with(&format!("/{name}"))) {
            schema["additionalProperties"] = false.into();
        }
    }
    closed
}

/// Turns the lists of today's values into enumerations.
fn close_enumerations(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if let Some(values) = fields.remove("x-extensible-enum") {
                fields.insert("enum".to_owned(), values);
            }
            fields.values_mut().for_each(close_enumerations);
        }
        Value::Array(items) => items.iter_mut().for_each(close_enumerations),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[tokio::test]
async fn the_documentation_is_public_and_documented_routes_exist() -> Result<()> {
    let cluster = Cluster::builder().api(1).start().await?;
    let client = Client::new(&cluster.api_url(0))?;
    let page = client.get("/docs").await?;
    ensure!(page.status == 200 && page.header("content-type") == Some("text/html; charset=utf-8"));
    ensure!(page.header("content-security-policy").is_some_and(|policy| policy.starts_with("default-src 'none'")));

    let document = client.get("/openapi.json").await?;
    ensure!(document.status == 200 && document.header("request-id").is_some());
    let document = document.body;
    assert_eq!(document["servers"][0]["url"], cluster.api_url(0));
    let mut seen = 0;
    for (path, methods) in entries(&document["paths"]) {
        for (method, operation) in entries(methods) {
            seen += 1;
            let method: Method = method.to_uppercase().parse()?;
            let response = client.send(method.clone(), &path.replace("{id}", "x"), None).await?;
            assert_eq!(response.status, 401, "{method} {path}, {}", operation["operationId"]);
        }
        let response = client.send(Method::PATCH, &path.replace("{id}", "x"), None).await?;
        assert_eq!(response.status, 405, "PATCH {path}");
    }
    ensure!(seen >= 40, "only {seen} operations");
    Ok(())
}

/// Random data rarely creates objects in the state that an operation needs, so these are created first, by operation.
async fn fresh_objects(client: &Client, database_url: &str) -> Result<Value> {
    let mut fresh = serde_json::Map::new();
    let endpoint = client.post("/v1/webhook_endpoints", json!({"url": HOOK})).await?.body["id"].clone();
    for operation in ["webhook_endpoints.update", "webhook_endpoints.delete"] {
        let mut ids = Vec::new();
        for _ in 0..15 {
            ids.push(client.post("/v1/webhook_endpoints", json!({"url": HOOK})).await?.body["id"].clone());
        }
        fresh.insert(operation.to_owned(), ids.into());
    }
    for (operation, capture) in [("payments.capture", false), ("payments.void", false), ("payments.refund", true)] {
        let mut ids = Vec::new();
        for _ in 0..20 {
            let body = json!({"amount": 1000, "currency": "USD", "paymentToken": "tok_ok", "capture": capture});
            ids.push(client.post("/v1/payments", body).await?.body["id"].clone());
        }
        fresh.insert(operation.to_owned(), ids.into());
    }
    let mut addresses = Vec::new();
    for _ in 0..20 {
        // One customer each, because a customer has a single default address.
        let body = json!({"customerId": customer(client).await?, "line1": "1 Main St", "country": "US"});
        addresses.push(client.post("/v1/addresses", body).await?.body["id"].clone());
    }
    fresh.insert("addresses.default".to_owned(), addresses.into());
    let (customer, plan) = (customer(client).await?, plan(client).await?);
    let mut subscriptions = Vec::new();
    for _ in 0..20 {
        let body = json!({"customerId": customer, "planId": plan});
        subscriptions.push(client.post("/v1/subscriptions", body).await?.body["id"].clone());
    }
    fresh.insert("subscriptions.cancel".to_owned(), subscriptions.into());
    let mut links = Vec::new();
    for _ in 0..20 {
        let body = json!({"amount": 500, "currency": "USD", "description": "Lunch"});
        links.push(client.post("/v1/payment_links", body).await?.body["id"].clone());
    }
    fresh.insert("payment_links.cancel".to_owned(), links.into());
    fresh.insert("disputes.retrieve".to_owned(), vec![dispute(client, database_url).await?; 20].into());
    fresh_invoices(client, database_url, &mut fresh).await?;
    fresh_recurring_invoices(client, &mut fresh).await?;
    fresh.insert("webhook_deliveries.replay".to_owned(), failed_deliveries(client, &endpoint).await?);
    Ok(fresh.into())
}

/// A dispute of a payment, which the mock opens when the payment settles.
async fn dispute(client: &Client, database_url: &str) -> Result<Value> {
    let body = json!({"amount": 1000, "currency": "USD", "paymentToken": "tok_disputed"});
    client.post("/v1/payments", body).await?;
    let to = r#"SELECT to_char((now() + interval '5 minutes') AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')"#;
    let to: String = sqlx::query_scalar(to).fetch_one(&PgPool::connect(database_url).await?).await?;
    client.post("/v1/test_clock/advance", json!({"to": to})).await?;
    let dispute = client.get("/v1/disputes").await?.body["data"][0]["id"].clone();
    ensure!(dispute.is_string(), "no dispute was opened");
    Ok(dispute)
}

/// Recurring invoices for each operation.
async fn fresh_recurring_invoices(client: &Client, fresh: &mut serde_json::Map<String, Value>) -> Result<()> {
    let body = json!({
        "customerId": customer(client).await?, "name": "Fresh", "cadence": {"unit": "monthly"}, "startDate": "2090-01-15",
        "template": {"currency": "USD", "items": [{"description": "Rent", "quantity": 1, "unitAmount": 500}]},
    });
    for operation in ["update", "pause", "resume", "cancel"] {
        let mut ids = Vec::new();
        for _ in 0..15 {
            let id = client.post("/v1/recurring_invoices", body.clone()).await?.body["id"].clone();
            if operation == "resume" {
                let id = id.as_str().context("a recurring invoice")?;
                client.post(&format!("/v1/recurring_invoices/{id}/pause"), json!({})).await?;
            }
            ids.push(id);
        }
        fresh.insert(format!("recurring_invoices.{operation}"), ids.into());
    }
    Ok(())
}

/// Invoices to issue, inserted because no route creates drafts, and invoices to schedule, unschedule and void.
async fn fresh_invoices(client: &Client, database_url: &str, fresh: &mut serde_json::Map<String, Value>) -> Result<()> {
    let customer = customer(client).await?;
    let bill = json!({"customerId": customer, "currency": "USD", "amount": 500});
    let (mut drafts, mut issued, mut open, mut scheduled) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let db = PgPool::connect(database_url).await?;
    for _ in 0..20 {
        for ids in [&mut issued, &mut open, &mut scheduled] {
            ids.push(client.post("/v1/invoices", bill.clone()).await?.body["id"].clone());
        }
        let last = scheduled.last().and_then(Value::as_str).context("an invoice")?;
        let path = format!("/v1/invoices/{last}/schedule");
        ensure!(client.post(&path, json!({"collectAt": "2090-01-15T00:00:00Z"})).await?.status == 200);
        let draft: Uuid = sqlx::query_scalar(
            "INSERT INTO invoices (id, account_id, customer_id, currency, amount, payment_terms, page_token, created_at)
             SELECT new_ulid(clock_timestamp()), account_id, id, 'USD', 500, 'net_7', gen_random_uuid()::text, now()
             FROM customers ORDER BY id DESC LIMIT 1 RETURNING id",
        )
        .fetch_one(&db)
        .await?;
        drafts.push(Value::from(format!("inv_{}", Ulid(draft.as_u128()))));
    }
    fresh.insert("invoices.issue".to_owned(), drafts.into());
    fresh.insert("invoices.void".to_owned(), issued.into());
    fresh.insert("invoices.schedule".to_owned(), open.into());
    fresh.insert("invoices.cancel_schedule".to_owned(), scheduled.into());
    Ok(())
}

/// Creates a customer and returns its id.
async fn customer(client: &Client) -> Result<String> {
    let customer = client.post("/v1/customers", json!({"email": "ada@example.com"})).await?.body;
    Ok(customer["id"].as_str().context("a customer")?.to_owned())
}

/// Creates a plan and returns its id.
async fn plan(client: &Client) -> Result<String> {
    let body = json!({"name": "Gold", "amount": 2900, "currency": "USD", "interval": "month"});
    Ok(client.post("/v1/plans", body).await?.body["id"].as_str().context("a plan")?.to_owned())
}

/// Failed deliveries, which can be replayed.
async fn failed_deliveries(client: &Client, endpoint: &Value) -> Result<Value> {
    let endpoint = endpoint.as_str().context("an endpoint")?;
    let list = format!("/v1/webhook_deliveries?endpointId={endpoint}&status=failed");
    eventually("the failed deliveries", async || {
        let failed = client.get(&list).await?.body;
        let ids: Vec<Value> = failed["data"].as_array().into_iter().flatten().map(|row| row["id"].clone()).collect();
        Ok((ids.len() > 5).then_some(ids.into()))
    })
    .await
}

/// The operations without an accepted request in hooks.py: if every request is rejected, the operation is not tested.
fn never_accepted(document: &Value, accepted: &Path) -> Result<Vec<String>> {
    let accepted = std::fs::read_to_string(accepted)?;
    let accepted: HashSet<&str> = accepted.lines().collect();
    let operations = entries(&document["paths"]).flat_map(|(_, methods)| entries(methods));
    let names = operations.filter_map(|(_, operation)| operation["operationId"].as_str());
    Ok(names.filter(|name| !accepted.contains(name)).map(str::to_owned).collect())
}

/// The routes of billing.
const BILLING: &str = "^/v1/(invoices|recurring_invoices|plans|subscriptions|payment_links)";

/// The work of schemathesis in parts of about the same duration. Each uses one processor.
const PARTS: [&[&str]; 3] = [
    &["--phases", "examples,coverage,stateful"],
    &["--phases", "fuzzing", "--include-path-regex", BILLING],
    &["--phases", "fuzzing", "--exclude-path-regex", BILLING],
];

#[tokio::test]
#[ignore = "sends generated requests for two minutes"]
async fn the_api_conforms_to_its_openapi_document() -> Result<()> {
    let Some(tools) = Tools::install_once().await? else { return Ok(()) };
    let cluster = Cluster::builder().api(1).worker(1).scheduler(1).start().await?;
    let no_limit = ["--mode", "test", "--provider", "mock", "--rate-limit", "1000000", "--burst", "1000000"];
    let account = cluster.account_with(&[&no_limit[..], &["--origin", ORIGIN]].concat()).await?;
    let url = cluster.api_url(0);
    let document = Client::new(&url)?.get("/openapi.json").await?.body;

    let file = tools.folder().join("openapi.json");
    std::fs::write(&file, document.to_string())?;
    run(tools.command("openapi-spec-validator").args(["--errors", "all"]).arg(&file))
        .await
        .context("the document is not valid")?;

    let client = cluster.client(&account)?;
    let fresh = fresh_objects(&client, cluster.database_url()).await?;
    let customer = customer(&client).await?;
    let file = tools.folder().join("closed.json");
    std::fs::write(&file, closed(&document).to_string())?;
    let check = tools::path_of("check_examples.py");
    run(tools.command("python").args([&check, &file])).await.context("an invalid example")?;
    let documents = DOCUMENTS.map(|name| tools::path_of(&format!("../../../docs/{name}.md")));
    let check = tools::path_of("check_documents.py");
    run(tools.command("python").args([&check, &file]).args(documents)).await.context("docs show an invalid object")?;
    let secret = format!("Authorization: Bearer {}", account.secret_key);
    let plan = plan(&client).await?;
    let accepted = tools.folder().join("accepted.txt");
    std::fs::write(&accepted, "")?;
    let with_secret = PARTS.map(|part| {
        let more = [&["--exclude-tag", "Browser"], part].concat();
        let mut with_secret = tools.schemathesis(&file, &url, &secret, &more);
        with_secret
            .env("FRESH", fresh.to_string())
            .env("CUSTOMER", &customer)
            .env("PLAN", &plan)
            .env("ACCEPTED", &accepted);
        with_secret
    });
    let run_one = async |mut command| run(&mut command).await.context("with the secret key");
    try_join_all(with_secret.map(run_one)).await?;
    let publishable = format!("Authorization: Bearer {}", account.publishable_key);
    let origin = format!("Origin: {ORIGIN}");
    let only = ["--include-tag", "Browser", "-H", &origin];
    let mut with_publishable = tools.schemathesis(&file, &url, &publishable, &only);
    run(with_publishable.env("ACCEPTED", &accepted)).await.context("with the publishable key")?;
    let never = never_accepted(&document, &accepted)?;
    ensure!(never.is_empty(), "every request was rejected: {never:?}");
    Ok(())
}
