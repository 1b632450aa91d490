//! Renders the OpenAPI document as one HTML page that needs no script and no third-party server.

use axum::http::HeaderValue;
use domain::events::EventType;
use domain::invoices::Failure;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use providers::mock::CardBehavior;
use providers::{DeclineCode, DeclineType};
use serde_json::Value;

use super::errors;
use super::guides::{self, Guide};
use super::markdown;
use super::schema_html::{field, link, name, rows};
use crate::error::anchor;
use crate::html::Style;

/// An amount of which half differs.
const TEST_AMOUNT: i64 = 1000;

/// The page and its Content-Security-Policy, which allows only the inline style.
pub(super) struct Page {
    pub(super) html: String,
    pub(super) policy: HeaderValue,
}

/// A page with this content and menu.
fn page(title: &str, content: &Markup, menu: &Markup) -> Page {
    let style = Style::new(&[include_str!("page.css")]);
    let policy = format!(
        "default-src 'none'; style-src {}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        style.source()
    );
    let html = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                style { (PreEscaped(&style.text)) }
            }
            body {
                // On a phone, the menu follows the content.
                main {
                    p.to-contents { a href="#contents" { "Contents" } }
                    (content)
                }
                nav #contents { (menu) }
            }
        }
    };
    let policy = HeaderValue::try_from(policy).expect("base64 and keywords are valid in a header");
    Page { html: html.into_string(), policy }
}

/// The page of a guide.
pub(super) fn of_guide(guide: &Guide) -> Page {
    let menu = html! {
        a href="/docs" { "API reference" }
        (guides::links())
    };
    page(&guide.title(), &guide.html(), &menu)
}

/// The page of the API.
pub(super) fn render(document: &Value) -> Page {
    let info = &document["info"];
    let title = format!("{} API", text(&info["title"]));
    let content = html! {
        h1 { (title) }
        p.muted {
            "Version " (text(&info["version"])) " at " code { (text(&document["servers"][0]["url"])) }
            ". Machine-readable: " a href="/openapi.json" { "openapi.json" } " (OpenAPI 3.1). Begin with the "
            a href="/docs/guide/quick-start" { "quick start" } "."
        }
        (markdown::render(text(&info["description"])))
        (keys(document))
        (sections(document))
        (test_cards())
        (declines())
        (events(document))
        (errors(document))
        (schemas(document))
    };
    page(&title, &content, &menu(document))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn entries(value: &Value) -> impl Iterator<Item = (&str, &Value)> {
    value.as_object().into_iter().flatten().map(|(key, value)| (key.as_str(), value))
}

/// Every operation: method, path and operation object.
fn operations(document: &Value) -> Vec<(&str, &str, &Value)> {
    let of_path = |(path, methods)| entries(methods).map(move |(method, operation)| (method, path, operation));
    entries(&document["paths"]).flat_map(of_path).collect()
}

fn of_tag<'a>(document: &'a Value, tag: &Value) -> Vec<(&'a str, &'a str, &'a Value)> {
    operations(document).into_iter().filter(|(_, _, operation)| operation["tags"][0] == tag["name"]).collect()
}

fn tags(document: &Value) -> impl Iterator<Item = &Value> {
    document["tags"].as_array().into_iter().flatten()
}

fn menu(document: &Value) -> Markup {
    html! {
        (guides::links())
        strong { "API" }
        a href="#keys" { "Keys" }
        @for tag in tags(document) {
            strong { (text(&tag["name"])) }
            ul {
                @for (_, _, operation) in of_tag(document, tag) {
                    li { a href={ "#" (text(&operation["operationId"])) } { (text(&operation["summary"])) } }
                }
            }
        }
        strong { "General" }
        a href="#test-cards" { "Test cards" }
        a href="#declines" { "Declines" }
        a href="#events" { "Event types" }
        a href="#errors" { "Errors" }
        a href="#schemas" { "Objects and bodies" }
    }
}

fn table(rows: &Markup) -> Markup {
    html! { div.scroll { table { (rows) } } }
}

fn keys(document: &Value) -> Markup {
    html! {
        h2 #keys { "Keys" }
        p { "Send a key with every request: " code { "Authorization: Bearer …" } }
        @for (_, scheme) in entries(&document["components"]["securitySchemes"]) {
            (markdown::render(text(&scheme["description"])))
        }
    }
}

fn sections(document: &Value) -> Markup {
    html! {
        @for tag in tags(document) {
            h2 { (text(&tag["name"])) }
            @for (method, path, operation) in of_tag(document, tag) { (article(document, method, path, operation)) }
        }
    }
}

fn article(document: &Value, method: &str, path: &str, operation: &Value) -> Markup {
    let id = text(&operation["operationId"]);
    let parameters = operation["parameters"].as_array().filter(|list| !list.is_empty());
    let body = resolve(document, &operation["requestBody"]["content"]["application/json"]["schema"]);
    html! {
        article id=(id) {
            h3 { a href={ "#" (id) } { (text(&operation["summary"])) } }
            p.endpoint { span class=(method) { (method) } " " code { (path) } " " span.muted { (id) } }
            (markdown::render(text(&operation["description"])))
            @if let Some(parameters) = parameters {
                h4 { "Parameters" }
                (table(&html! { @for parameter in parameters { (parameter_row(parameter)) } }))
            }
            @if let Some(schema) = body {
                h4 { "Body" }
                (rows(schema))
            }
            (samples(operation))
            h4 { "Responses" }
            (table(&responses(document, operation)))
        }
    }
}

fn parameter_row(parameter: &Value) -> Markup {
    html! {
        tr {
            th {
                code { (text(&parameter["name"])) }
                br;
                span.muted { (text(&parameter["in"])) @if parameter["required"] == true { ", required" } }
            }
            td { (field(parameter, &parameter["schema"])) }
        }
    }
}

/// The first sample is shown, the others open on demand.
fn samples(operation: &Value) -> Markup {
    html! {
        @for (i, sample) in operation["x-codeSamples"].as_array().into_iter().flatten().enumerate() {
            details open[i == 0] {
                summary { (text(&sample["label"])) }
                pre { (text(&sample["source"])) }
            }
        }
    }
}

/// Every event type, with when it is sent.
fn events(document: &Value) -> Markup {
    let schema = |kind: &EventType| {
        let schema = &document["webhooks"][kind.name()]["post"]["requestBody"]["content"]["application/json"]["schema"];
        name(schema).map(link)
    };
    let rows = html! {
        @for kind in EventType::ALL.iter() {
            tr id={ "event-" (kind.name()) } {
                th { code { (kind.name()) } }
                td { (markdown::render(kind.meaning())) @if let Some(link) = schema(kind) { (link) } }
            }
        }
    };
    html! {
        h2 #events { "Event types" }
        (table(&rows))
    }
}

/// The decline codes of payments, and why else a collection attempt fails.
fn declines() -> Markup {
    let row = |code: &str, kind: DeclineType, meaning: &str| {
        let retry = match kind {
            DeclineType::Soft => "soft: a retry may succeed",
            DeclineType::Hard => "hard: never retry",
        };
        html! { tr { th { code { (code) } } td { (retry) } td { (meaning) } } }
    };
    let codes = html! { @for code in DeclineCode::ALL { (row(code.name(), code.kind(), code.meaning())) } };
    let others = html! {
        @for (failure, meaning) in Failure::without_decline() { (row(failure.code, failure.kind, meaning)) }
    };
    html! {
        h2 #declines { "Declines" }
        p {
            code { "declineCode" } " and " code { "declineType" } " of a declined payment, the same for all providers. \
             Show the payer no reason for lost and stolen cards."
        }
        (table(&codes))
        p { "A collection attempt also fails for these reasons. What is soft is retried by the service." }
        (table(&others))
    }
}

/// The cards of test accounts on the mock.
fn test_cards() -> Markup {
    let outcome = |behavior: CardBehavior| match behavior.authorize(TEST_AMOUNT) {
        Ok(TEST_AMOUNT) => html! { "approved" },
        Ok(_) => html! { "half of the amount is approved" },
        Err(decline) => html! { "declined: " code { (decline.code) } },
    };
    let rows = html! {
        @for behavior in CardBehavior::ALL {
            tr {
                th { code { (behavior.token()) } }
                td { "…" (behavior.card().last4) }
                td { (outcome(behavior)) }
            }
        }
    };
    html! {
        h2 #test-cards { "Test cards" }
        p {
            "Test accounts on the mock provider accept these as " code { "paymentToken" } " and "
            code { "upstreamToken" } ", any number of times."
        }
        (table(&rows))
    }
}

fn example(value: &Value) -> Markup {
    let text = serde_json::to_string_pretty(value).unwrap_or_default();
    html! { @if !value.is_null() { pre { (text) } } }
}

fn resolve<'a>(document: &'a Value, schema: &'a Value) -> Option<&'a Value> {
    match schema.get("$ref").and_then(Value::as_str) {
        Some(reference) => document.pointer(reference.trim_start_matches('#')),
        None => Some(schema).filter(|schema| !schema.is_null()),
    }
}

fn responses(document: &Value, operation: &Value) -> Markup {
    let content = |response: &Value| match response["x-error-codes"].as_array() {
        Some(codes) => html! { @for code in codes { code { (text(code)) } " " } },
        None => link(name(&response["content"]["application/json"]["schema"]).unwrap_or_default()),
    };
    let resolved = |(status, response)| resolve(document, response).map(|response| (status, response));
    html! {
        @for (status, response) in entries(&operation["responses"]).filter_map(resolved) {
            tr {
                th { (status) }
                td { (content(response)) " " (markdown::render(text(&response["description"]))) }
            }
        }
    }
}

const ERROR_EXAMPLE: &str = r#"{
  "error": {
    "code": "invalid_request",
    "message": "amount is required",
    "param": "amount",
    "requestId": "req_01KAJ4M2V8Q0S5T7W9X1Y3Z5A7",
    "docUrl": "https://pay.example/docs#error-invalid_request"
  }
}"#;

fn errors(document: &Value) -> Markup {
    let codes = html! {
        @for (code, statuses, description) in errors::explained() {
            tr id=(anchor(code)) {
                th {
                    a href={ "#" (anchor(code)) } { code { (code) } }
                    br;
                    span.muted { (statuses.iter().map(u16::to_string).collect::<Vec<_>>().join(", ")) }
                }
                td { (markdown::render(description)) }
            }
        }
    };
    html! {
        h2 #errors { "Errors" }
        pre { (ERROR_EXAMPLE) }
        @if let Some(schema) = resolve(document, &document["components"]["schemas"]["ErrorDetail"]) { (rows(schema)) }
        (table(&codes))
    }
}

fn schemas(document: &Value) -> Markup {
    html! {
        h2 #schemas { "Objects and bodies" }
        @for (name, schema) in entries(&document["components"]["schemas"]) {
            article id={ "schema-" (name) } {
                h3 { (link(name)) }
                (markdown::render(text(&schema["description"])))
                (rows(schema))
                (example(&schema["examples"][0]))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routes::endpoints;

    #[test]
    fn the_page_has_every_operation_and_loads_nothing() {
        let document = super::super::document(&endpoints(), "https://pay.example/<x>");
        let page = render(&document);
        for (_, path, operation) in operations(&document) {
            assert!(page.html.contains(&format!("<article id=\"{}\">", text(&operation["operationId"]))), "{path}");
        }
        for reference in page.html.split("href=\"#").skip(1).filter_map(|rest| rest.split('"').next()) {
            assert!(page.html.contains(&format!("id=\"{reference}\"")), "nothing is at #{reference}");
        }
        for loaded in ["<script", "src=", "<link", "@import", "url(", "style=\"", "<x>"] {
            assert!(!page.html.contains(loaded), "{loaded}");
        }
        assert!(page.policy.to_str().expect("text").starts_with("default-src 'none'; style-src 'sha256-"));
    }
}
