//! The OpenAPI 3.1 document at `/openapi.json` and its HTML page at `/docs`. Both are built at their first request, from
//! the route table and the request and response structs (docs/architecture.md, OpenAPI document).

#[cfg(test)]
mod compatibility;
#[cfg(test)]
mod descriptions;
mod errors;
mod events;
mod guides;
mod markdown;
pub(crate) mod operation_doc;
pub(crate) mod operations;
mod page;
mod rendered;
mod samples;
mod schema_html;
mod schemas;

use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::body::Bytes;
use axum::http::header::{
    ACCESS_CONTROL_ALLOW_ORIGIN, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::routing::get;
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use self::page::Page;
use self::rendered::Rendered;
use crate::app::App;
use crate::endpoint::Endpoint;
use crate::error::{ApiError, ErrorBody};
use crate::guard::Access;

const CACHE: &str = "public, max-age=300";
/// An example of each object, by schema name; testkit/tests/openapi validates them against their schemas.
const EXAMPLES: &str = include_str!("examples.json");

/// The routes of the document and of the pages, which are public and not part of /v1. They have no limit by address: the
/// responses are rendered once, at the first request, and sent without a copy, no body is read, and neither Postgres nor Redis
/// is queried, so that counting a request would cost more than responding to it. Connections are limited, and clients that do not
/// read are disconnected.
pub(crate) fn router(endpoints: fn() -> Vec<Endpoint>, public_url: &Arc<str>) -> Router<App> {
    let public_url = Arc::clone(public_url);
    let document = Arc::new(LazyLock::new(move || document(&endpoints(), &public_url)));
    let of_page = Arc::clone(&document);
    let json = Rendered::new(move || Bytes::from(LazyLock::force(&document).to_string()));
    let json_headers = [(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, CACHE), (ACCESS_CONTROL_ALLOW_ORIGIN, "*")];
    let json = async move || Ok::<_, ApiError>((json_headers, json.get().await?));
    let router = Router::new().route("/openapi.json", get(json));
    let router = with_page(router, "/docs", move || page::render(&of_page));
    guides::all().fold(router, |router, guide| {
        with_page(router, &format!("/docs/{}", guide.path), move || page::of_guide(&guide))
    })
}

/// Adds a page, which `make` renders at its first request.
fn with_page(router: Router<App>, path: &str, make: impl Fn() -> Page + Send + Sync + 'static) -> Router<App> {
    let rendered = Rendered::new(move || {
        let Page { html, policy } = make();
        (policy, Bytes::from(html))
    });
    let headers = [
        (CONTENT_TYPE, "text/html; charset=utf-8"),
        (CACHE_CONTROL, CACHE),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
    ];
    let page = async move || {
        let (policy, html) = rendered.get().await?;
        Ok::<_, ApiError>((headers, [(CONTENT_SECURITY_POLICY, policy)], html))
    };
    router.route(path, get(page))
}

const ABOUT: &str = "One API for card payments, whichever provider settles a merchant's money.\n\n\
    Bodies are JSON objects; an empty body is an empty object. An unknown field or query parameter, or one that is \
    sent twice, returns 422, and `param` names it. A field that is `null` counts as omitted, unless its description \
    says otherwise. Strings must not contain U+0000. Amounts are whole numbers of the currency's minor unit; one that \
    the account's provider cannot charge exactly returns 422. Timestamps are RFC 3339 in UTC. A response field without a \
    value is omitted, never `null`. Responses may gain new fields.\n\n\
    Every error response has the same body, `ErrorResponse`. An unknown path returns 404 and a wrong method 405, even \
    without a key. Every response has a `Request-Id` header. `x-extensible-enum` lists the values of today: expect \
    others.\n\n\
    Operations with an `Idempotency-Key` parameter return the first response again for the same key with the same \
    body. Captures, voids and refunds have none: a refund takes an `externalId` instead, and a capture or void that \
    has succeeded returns 409 when repeated.";

const SECRET: &str = "A secret key, `svc_sk_test_…` or `svc_sk_live_…`, for your server. A live request must also \
    be signed: RFC 9421 with `hmac-sha256` over `@method`, `@path`, `@query`, with a body its `content-digest` (RFC \
    9530, sha-256), and `idempotency-key` if it is sent; parameters `created`, `keyid`, `nonce`, `alg`.";
const PUBLISHABLE: &str = "A publishable key, `svc_pk_test_…` or `svc_pk_live_…`, for browsers. Both of its routes \
    accept CORS preflights, which carry no key.";

/// Builds the document.
pub(crate) fn document(endpoints: &[Endpoint], public_url: &str) -> Value {
    let mut responses = Vec::new();
    let mut components = schemas::Named::new();
    for endpoint in endpoints {
        responses.extend(endpoint.doc.response_schemas.iter().cloned());
        if let (Some(body), Some(schema)) = (&endpoint.doc.body, endpoint.doc.body_schema()) {
            components.insert(body.name.to_owned(), schema);
        }
    }
    ErrorBody::schemas(&mut responses);
    responses.push(("ErrorResponse".to_owned(), <ErrorBody<'_> as utoipa::PartialSchema>::schema()));
    components.extend(schemas::of_responses(responses));
    components.entry("ErrorDetail".to_owned()).and_modify(|detail| {
        detail["properties"]["code"][schemas::OPEN_ENUM] = json!(errors::codes());
    });

    let webhooks = events::webhooks(&mut components);

    let examples: Map<String, Value> = serde_json::from_str(EXAMPLES).expect("the embedded file is a JSON object");
    for (name, example) in examples {
        components.entry(name).and_modify(|schema| schema["examples"] = json!([example]));
    }

    let mut paths = Map::new();
    for endpoint in endpoints {
        let path = paths.entry(endpoint.path).or_insert_with(|| json!({}));
        let mut operation = operation(endpoint, endpoints);
        operation["x-codeSamples"] = samples::of(endpoint, public_url);
        path[endpoint.method] = operation;
    }
    let bearer = |description| json!({"type": "http", "scheme": "bearer", "description": description});
    json!({
        "openapi": "3.1.0",
        "info": {"title": "Unified Payments", "version": env!("CARGO_PKG_VERSION"), "description": ABOUT},
        "servers": [{"url": public_url}],
        "tags": TAGS.map(|name| json!({"name": name})),
        "paths": paths,
        "webhooks": webhooks,
        "components": {
            "schemas": components,
            "responses": errors::components(),
            "headers": errors::header_components(),
            "securitySchemes": {"secretKey": bearer(SECRET), "publishableKey": bearer(PUBLISHABLE)},
        },
    })
}

/// The tags, in the order of the page.
const TAGS: [&str; 13] = [
    "Payments",
    "Payment methods",
    "Customers",
    "Addresses",
    "Plans",
    "Subscriptions",
    "Invoices",
    "Test clock",
    "Recurring invoices",
    "Payment links",
    "Webhooks",
    "Browser",
    "Capabilities",
];

/// The tag of each resource; an operation's name starts with its resource.
const TAG_OF_RESOURCE: &[(&str, &str)] = &[
    ("capabilities", "Capabilities"),
    ("customers", "Customers"),
    ("payment_methods", "Payment methods"),
    ("payments", "Payments"),
    ("refunds", "Payments"),
    ("disputes", "Payments"),
    ("settlements", "Payments"),
    ("webhook_endpoints", "Webhooks"),
    ("webhook_deliveries", "Webhooks"),
    ("events", "Webhooks"),
    ("addresses", "Addresses"),
    ("plans", "Plans"),
    ("subscriptions", "Subscriptions"),
    ("invoices", "Invoices"),
    ("test_clock", "Test clock"),
    ("recurring_invoices", "Recurring invoices"),
    ("payment_links", "Payment links"),
    ("checkout_sessions", "Browser"),
    ("tokens", "Browser"),
];

fn tag(endpoint: &Endpoint) -> &'static str {
    let resource = endpoint.name().split('.').next().unwrap_or_default();
    TAG_OF_RESOURCE.iter().find(|(name, _)| *name == resource).map_or("Other", |(_, tag)| tag)
}

fn operation(endpoint: &Endpoint, all: &[Endpoint]) -> Value {
    let doc = &endpoint.doc;
    let scheme = if matches!(endpoint.access, Access::Browser(_)) { "publishableKey" } else { "secretKey" };
    let mut responses = errors::of(endpoint);
    if let Some(success) = &doc.response {
        let mut headers = errors::headers(true);
        headers.extend(doc.headers.iter().map(|(name, header)| ((*name).to_owned(), header.clone())));
        let schema = json!({"$ref": format!("#/components/schemas/{}", success.schema)});
        for (status, description) in [(success.status, success.description)].into_iter().chain(doc.other_status) {
            let mut response = json!({
                "description": description,
                "headers": headers,
                "content": {"application/json": {"schema": schema}},
            });
            if success.is_list {
                response["content"]["text/csv"] = json!({"schema": {"type": "string"}});
            }
            if !doc.links.is_empty() {
                response["links"] = links(doc.links, all);
            }
            responses.insert(status.to_string(), response);
        }
    }
    let mut operation = json!({
        "operationId": endpoint.name(),
        "tags": [tag(endpoint)],
        "summary": doc.summary,
        "description": doc.description,
        "security": [{scheme: []}],
        "parameters": doc.parameters,
        "responses": responses,
    });
    if let Some(body) = &doc.body {
        let schema = json!({"$ref": format!("#/components/schemas/{}", body.name)});
        operation["requestBody"] = json!({
            "required": !body.required.is_empty(),
            "content": {"application/json": {"schema": schema, "example": body.example}},
        });
    }
    operation
}

/// OpenAPI links: the operations that take the id of the returned object.
fn links(names: &[&str], all: &[Endpoint]) -> Value {
    let known = names.iter().filter(|name| all.iter().any(|endpoint| endpoint.name() == **name));
    known
        .map(|name| {
            let link = json!({"operationId": name, "parameters": {"id": "$response.body#/id"}});
            (name.replace('.', "_"), link)
        })
        .collect::<Map<_, _>>()
        .into()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use providers::capabilities::Permission;

    use super::*;
    use crate::routes::endpoints;

    fn all() -> Value {
        document(&endpoints(), "https://pay.example")
    }

    /// Entitlements that a body field of another operation requires.
    const WITHOUT_ROUTE: [Permission; 3] =
        [Permission::PaymentsAuthorize, Permission::PaymentsPartialCapture, Permission::PaymentsPartialRefund];

    #[test]
    fn every_routed_operation_is_documented_once() {
        let document = all();
        let paths = document["paths"].as_object().expect("paths");
        let named: Vec<&str> = paths
            .values()
            .flat_map(|path| path.as_object().expect("methods").values())
            .map(|operation| operation["operationId"].as_str().expect("a name"))
            .collect();
        let unique: BTreeSet<_> = named.iter().copied().collect();
        assert_eq!(unique.len(), named.len(), "{named:?}");
        let expected = Permission::ALL.iter().filter(|operation| !WITHOUT_ROUTE.contains(operation));
        let expected: BTreeSet<_> = expected.map(|operation| operation.name()).chain(["capabilities.list"]).collect();
        assert_eq!(unique, expected);
    }

    #[test]
    fn every_reference_resolves_and_every_component_is_used() {
        let document = all();
        let mut references = BTreeSet::new();
        collect(&document, &mut references);
        for reference in &references {
            let pointer = reference.trim_start_matches('#');
            assert!(document.pointer(pointer).is_some(), "{reference}");
        }
        for kind in ["schemas", "responses", "headers"] {
            for name in document["components"][kind].as_object().expect("components").keys() {
                let reference = format!("#/components/{kind}/{name}");
                // No operation refers to 405: other methods of its path return it.
                let is_used = references.contains(&reference) || name == "MethodNotAllowed";
                assert!(is_used, "nothing refers to {reference}");
            }
        }
    }

    fn collect(value: &Value, found: &mut BTreeSet<String>) {
        match value {
            Value::Object(map) => {
                found.extend(map.get("$ref").and_then(Value::as_str).map(str::to_owned));
                map.values().for_each(|value| collect(value, found));
            }
            Value::Array(items) => items.iter().for_each(|value| collect(value, found)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    #[test]
    fn required_and_nullable_fields_are_documented() {
        let document = all();
        let body = &document["components"]["schemas"]["PaymentCreate"];
        assert_eq!(body["required"], json!(["amount", "currency"]));
        assert_eq!(body["properties"]["amount"]["type"], "integer");
        assert_eq!(body["properties"]["amount"]["maximum"], foundation::money::MAX_AMOUNT);
        assert_eq!(body["properties"]["capture"]["type"], json!(["boolean", "null"]));
        let payment = &document["components"]["schemas"]["Payment"];
        assert_eq!(payment["properties"]["card"]["$ref"], "#/components/schemas/Card");
        assert!(!payment.to_string().contains("null"), "{payment}");
    }
}
