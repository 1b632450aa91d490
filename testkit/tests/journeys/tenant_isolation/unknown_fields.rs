//! Every operation rejects unknown and duplicate fields and parameters by name, without effect.

use anyhow::Result;
use testkit::{Client, Response};

use super::{
    cluster_without_scheduler,
    document::{Operation, operations},
    tenant::Tenant,
};
use crate::support::invalid;

/// An accepted request would use this key, which the snapshot would show.
const KEY: &str = "unknown-1";

async fn send(tenant: &Tenant, operation: &Operation, path: &str, body: Option<String>) -> Result<Response> {
    let api = if operation.is_for_browsers() { &tenant.browser.api } else { &tenant.merchant.api };
    let api = api.header("idempotency-key", KEY)?;
    api.send(operation.method.clone(), path, body.map(String::into_bytes)).await
}

#[tokio::test]
async fn unknown_and_duplicate_fields_are_rejected_by_every_operation() -> Result<()> {
    let cluster = cluster_without_scheduler().await?;
    let operations = operations(&Client::new(&cluster.api_url(0))?).await?;
    let tenant = Tenant::new(cluster).await?;
    let before = tenant.books().await?;
    for operation in &operations {
        let (path, body) = operation.request(|kind| tenant.own(kind), None);
        let fields = body.as_deref().and_then(|body| body.strip_suffix('}')).unwrap_or("{").to_owned();
        let comma = if fields == "{" { "" } else { "," };
        let separator = if path.contains('?') { '&' } else { '?' };
        let unknown = format!("{path}{separator}starting_after=x");
        invalid(&send(&tenant, operation, &unknown, body.clone()).await?, "starting_after");
        let with_field = |more: &str| format!("{fields}{comma}{more}}}");
        invalid(&send(&tenant, operation, &path, Some(with_field(r#""idempotencyKey":"x""#))).await?, "idempotencyKey");
        invalid(&send(&tenant, operation, &path, Some(with_field(r#""twice":{"a":1,"a":2}"#))).await?, "twice.a");
        invalid(
            &send(&tenant, operation, &path, Some(with_field(r#""capture":null,"capture":true"#))).await?,
            "capture",
        );
        if !path.contains("limit") && operation.is_list() {
            invalid(&send(&tenant, operation, &format!("{path}{separator}limit=1&limit=2"), None).await?, "limit");
        }
    }
    tenant.assert_unchanged(&before, "unknown fields").await
}

/// The OpenAPI document sets additionalProperties to false in every object of a body.
#[tokio::test]
async fn openapi_bodies_allow_no_additional_properties() -> Result<()> {
    let cluster = cluster_without_scheduler().await?;
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
