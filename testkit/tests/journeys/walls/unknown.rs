//! What an operation does not know is refused by name, on every route, and nothing is done.

use anyhow::Result;
use testkit::{Answer, Client};

use super::{
    document::{Operation, operations},
    estate::Estate,
    quiet,
};
use crate::support::invalid;

/// A key would be used up by what is accepted.
const KEY: &str = "unknown-1";

async fn send(estate: &Estate, operation: &Operation, path: &str, body: Option<String>) -> Result<Answer> {
    let api = if operation.is_for_browsers() { &estate.browser.api } else { &estate.merchant.api };
    let api = api.header("idempotency-key", KEY)?;
    api.send(operation.method.clone(), path, body.map(String::into_bytes)).await
}

#[tokio::test]
async fn no_operation_takes_what_it_does_not_know() -> Result<()> {
    let cluster = quiet().await?;
    let operations = operations(&Client::new(&cluster.api_url(0))?).await?;
    let estate = Estate::new(&cluster).await?;
    let before = estate.books().await?;
    for operation in &operations {
        let (path, body) = operation.request(|kind| estate.own(kind), None);
        let fields = body.as_deref().and_then(|body| body.strip_suffix('}')).unwrap_or("{").to_owned();
        let comma = if fields == "{" { "" } else { "," };
        let joint = if path.contains('?') { '&' } else { '?' };
        let unknown = format!("{path}{joint}starting_after=x");
        invalid(&send(&estate, operation, &unknown, body.clone()).await?, "starting_after");
        let sent = |more: &str| format!("{fields}{comma}{more}}}");
        invalid(&send(&estate, operation, &path, Some(sent(r#""idempotencyKey":"x""#))).await?, "idempotencyKey");
        invalid(&send(&estate, operation, &path, Some(sent(r#""twice":{"a":1,"a":2}"#))).await?, "twice.a");
        invalid(&send(&estate, operation, &path, Some(sent(r#""capture":null,"capture":true"#))).await?, "capture");
        if !path.contains("limit") && operation.is_list() {
            invalid(&send(&estate, operation, &format!("{path}{joint}limit=1&limit=2"), None).await?, "limit");
        }
    }
    estate.is_untouched(&before, "what nobody knows").await
}

/// The document says so: every object of a body is closed.
#[tokio::test]
async fn the_document_closes_every_body() -> Result<()> {
    let cluster = quiet().await?;
    let document = Client::new(&cluster.api_url(0))?.get("/openapi.json").await?.body;
    let mut bodies = 0;
    for operation in
        document["paths"].as_object().into_iter().flatten().flat_map(|(_, path)| path.as_object()).flatten()
    {
        let schema = &operation.1["requestBody"]["content"]["application/json"]["schema"]["$ref"];
        let Some(schema) = schema.as_str().and_then(|name| document.pointer(name.trim_start_matches('#'))) else {
            continue;
        };
        bodies += 1;
        let mut open = Vec::new();
        collect_open(schema, &mut open);
        assert!(open.is_empty(), "{}: {open:?}", operation.1["operationId"]);
    }
    assert!(bodies >= 18, "{bodies}");
    Ok(())
}

fn collect_open(schema: &serde_json::Value, open: &mut Vec<String>) {
    if schema.get("properties").is_some() && schema["additionalProperties"] != false {
        open.push(schema.to_string());
    }
    schema.as_object().into_iter().flat_map(|map| map.values()).for_each(|value| collect_open(value, open));
    schema.as_array().into_iter().flatten().for_each(|value| collect_open(value, open));
}
