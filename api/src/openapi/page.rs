//! Renders the OpenAPI document as one HTML page that needs no script and no third-party server.

use std::fmt::Write as _;

use axum::http::HeaderValue;
use domain::events::EventType;
use domain::invoices::Failure;
use providers::mock::CardBehavior;
use providers::{DeclineCode, DeclineType};
use serde_json::Value;

use super::errors;
use super::guides::{self, Guide};
use super::markdown;
use super::schema_html::rows;
use crate::error::anchor;
use crate::html::{Style, Text};

/// An amount of which half differs.
const TEST_AMOUNT: i64 = 1000;

/// The page and its Content-Security-Policy, which allows only the inline style.
pub(super) struct Page {
    pub(super) html: String,
    pub(super) policy: HeaderValue,
}

/// A page with this content and menu.
fn page(title: &str, content: &str, menu: &str) -> Page {
    let style = Style::new(&[include_str!("page.css")]);
    let policy = format!(
        "default-src 'none'; style-src {}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        style.source()
    );
    // On a phone, the menu follows the content.
    let html = format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n\
         <style>{style}</style>\n<main>\n<p class=\"to-contents\"><a href=\"#contents\">Contents</a></p>\n{content}</main>\n\
         <nav id=\"contents\">\n{menu}</nav>\n</html>\n",
        title = Text(title),
        style = style.text,
    );
    let policy = HeaderValue::try_from(policy).expect("base64 and keywords are valid in a header");
    Page { html, policy }
}

/// The page of a guide.
pub(super) fn of_guide(guide: &Guide) -> Page {
    let menu = format!("<a href=\"/docs\">API reference</a>\n{}", guides::links());
    page(&guide.title(), &guide.html(), &menu)
}

/// The page of the API.
pub(super) fn render(document: &Value) -> Page {
    let info = &document["info"];
    let (title, version) = (text(&info["title"]), text(&info["version"]));
    let content = format!(
        "<h1>{title} API</h1>\n\
         <p class=\"muted\">Version {version} at <code>{server}</code>. Machine-readable: \
         <a href=\"/openapi.json\">openapi.json</a> (OpenAPI 3.1). Begin with the \
         <a href=\"/docs/guide/quick-start\">quick start</a>.</p>\n{about}\n{keys}\n{sections}\n{cards}\n{declines}\n\
         {events}\n{errors}\n{schemas}\n",
        server = Text(text(&document["servers"][0]["url"])),
        about = markdown::render(text(&info["description"])),
        keys = keys(document),
        sections = sections(document),
        cards = test_cards(),
        declines = declines(),
        events = events(document),
        errors = errors(document),
        schemas = schemas(document),
    );
    page(&format!("{title} API"), &content, &menu(document))
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

fn menu(document: &Value) -> String {
    let mut html = guides::links() + "<strong>API</strong>\n<a href=\"#keys\">Keys</a>\n";
    for tag in tags(document) {
        let _ = write!(html, "<strong>{}</strong>\n<ul>\n", Text(text(&tag["name"])));
        for (_, _, operation) in of_tag(document, tag) {
            let (id, summary) = (text(&operation["operationId"]), Text(text(&operation["summary"])));
            let _ = writeln!(html, "<li><a href=\"#{id}\">{summary}</a>");
        }
        html.push_str("</ul>\n");
    }
    html + "<strong>General</strong>\n<a href=\"#test-cards\">Test cards</a>\n<a href=\"#declines\">Declines</a>\n<a href=\"#events\">Event types</a>\n<a href=\"#errors\">Errors</a>\n<a href=\"#schemas\">Objects and bodies</a>\n"
}

fn keys(document: &Value) -> String {
    let schemes = entries(&document["components"]["securitySchemes"]);
    let descriptions: String = schemes.map(|(_, scheme)| markdown::render(text(&scheme["description"]))).collect();
    format!(
        "<h2 id=\"keys\">Keys</h2>\n<p>Send a key with every request: <code>Authorization: Bearer …</code></p>\n{descriptions}"
    )
}

fn sections(document: &Value) -> String {
    let section = |tag| {
        let operations: String = of_tag(document, tag)
            .into_iter()
            .map(|(method, path, operation)| article(document, method, path, operation))
            .collect();
        format!("<h2>{}</h2>\n{operations}", Text(text(&tag["name"])))
    };
    tags(document).map(section).collect()
}

fn article(document: &Value, method: &str, path: &str, operation: &Value) -> String {
    let id = text(&operation["operationId"]);
    let mut html = format!(
        "<article id=\"{id}\">\n<h3><a href=\"#{id}\">{}</a></h3>\n\
         <p class=\"endpoint\"><span class=\"{method}\">{method}</span> <code>{path}</code> \
         <span class=\"muted\">{id}</span></p>\n{}",
        Text(text(&operation["summary"])),
        markdown::render(text(&operation["description"])),
    );
    if let Some(parameters) = operation["parameters"].as_array().filter(|list| !list.is_empty()) {
        html.push_str("<h4>Parameters</h4>\n<div class=\"scroll\"><table>\n");
        for parameter in parameters {
            let (name, place) = (Text(text(&parameter["name"])), text(&parameter["in"]));
            let required = if parameter["required"] == true { ", required" } else { "" };
            let _ = writeln!(
                html,
                "<tr><th><code>{name}</code><br><span class=\"muted\">{place}{required}</span><td>{}",
                super::schema_html::field(parameter, &parameter["schema"])
            );
        }
        html.push_str("</table></div>\n");
    }
    let body = &operation["requestBody"]["content"]["application/json"];
    if let Some(schema) = resolve(document, &body["schema"]) {
        let _ = write!(html, "<h4>Body</h4>\n{}", rows(schema));
    }
    html.push_str(&samples(operation));
    let _ = write!(
        html,
        "<h4>Responses</h4>\n<div class=\"scroll\"><table>\n{}</table></div>\n</article>\n",
        responses(document, operation)
    );
    html
}

/// The first sample is shown, the others open on demand.
fn samples(operation: &Value) -> String {
    let sample = |(i, sample): (usize, &Value)| {
        let (language, source) = (Text(text(&sample["label"])), Text(text(&sample["source"])));
        let open = if i == 0 { " open" } else { "" };
        format!("<details{open}><summary>{language}</summary>\n<pre>{source}</pre></details>\n")
    };
    operation["x-codeSamples"].as_array().into_iter().flatten().enumerate().map(sample).collect()
}

/// Every event type, with when it is sent.
fn events(document: &Value) -> String {
    let row = |kind: &EventType| {
        let schema = &document["webhooks"][kind.name()]["post"]["requestBody"]["content"]["application/json"]["schema"];
        let name = text(&schema["$ref"]).rsplit('/').next().unwrap_or_default();
        format!(
            "<tr id=\"event-{kind}\"><th><code>{kind}</code><td>{}<a href=\"#schema-{name}\">{name}</a>\n",
            markdown::render(kind.meaning()),
            kind = kind.name(),
        )
    };
    let rows: String = EventType::ALL.iter().map(row).collect();
    format!("<h2 id=\"events\">Event types</h2>\n<div class=\"scroll\"><table>\n{rows}</table></div>\n")
}

/// The decline codes of payments, and why else a collection attempt fails.
fn declines() -> String {
    let row = |code: &str, kind: DeclineType, meaning: &str| {
        let retry = match kind {
            DeclineType::Soft => "soft: a retry may succeed",
            DeclineType::Hard => "hard: never retry",
        };
        format!("<tr><th><code>{code}</code><td>{retry}<td>{}\n", Text(meaning))
    };
    let codes = DeclineCode::ALL.iter().map(|code| row(code.name(), code.kind(), code.meaning()));
    let others = Failure::without_decline().map(|(failure, meaning)| row(failure.code, failure.kind, meaning));
    let table = |rows: String| format!("<div class=\"scroll\"><table>\n{rows}</table></div>\n");
    format!(
        "<h2 id=\"declines\">Declines</h2>\n<p><code>declineCode</code> and <code>declineType</code> of a declined \
         payment, the same for all providers. Show the payer no reason for lost and stolen cards.</p>\n{}\
         <p>A collection attempt also fails for these reasons. What is soft is retried by the service.</p>\n{}",
        table(codes.collect()),
        table(others.collect()),
    )
}

/// The cards of test accounts on the mock.
fn test_cards() -> String {
    let row = |behavior: CardBehavior| {
        let outcome = match behavior.authorize(TEST_AMOUNT) {
            Ok(TEST_AMOUNT) => "approved".to_owned(),
            Ok(_) => "half of the amount is approved".to_owned(),
            Err(decline) => format!("declined: <code>{}</code>", Text(&decline.code)),
        };
        format!("<tr><th><code>{}</code><td>…{} <td>{outcome}\n", behavior.token(), Text(&behavior.card().last4))
    };
    let rows: String = CardBehavior::ALL.into_iter().map(row).collect();
    format!(
        "<h2 id=\"test-cards\">Test cards</h2>\n<p>Test accounts on the mock provider accept these as \
         <code>paymentToken</code> and <code>upstreamToken</code>, any number of times.</p>\n\
         <div class=\"scroll\"><table>\n{rows}</table></div>\n"
    )
}

fn example(value: &Value) -> String {
    let text = serde_json::to_string_pretty(value).unwrap_or_default();
    if value.is_null() { String::new() } else { format!("<pre>{}</pre>\n", Text(&text)) }
}

fn resolve<'a>(document: &'a Value, schema: &'a Value) -> Option<&'a Value> {
    match schema.get("$ref").and_then(Value::as_str) {
        Some(reference) => document.pointer(reference.trim_start_matches('#')),
        None => Some(schema).filter(|schema| !schema.is_null()),
    }
}

fn responses(document: &Value, operation: &Value) -> String {
    let row = |(status, response): (&str, &Value)| {
        let Some(resolved) = resolve(document, response) else { return String::new() };
        let description = markdown::render(text(&resolved["description"]));
        let schema = &resolved["content"]["application/json"]["schema"];
        let name = text(&schema["$ref"]).rsplit('/').next().unwrap_or_default();
        let content = match resolved["x-error-codes"].as_array() {
            Some(codes) => codes.iter().map(|code| format!("<code>{}</code> ", text(code))).collect(),
            None => format!("<a href=\"#schema-{name}\">{name}</a>"),
        };
        format!("<tr><th>{status}<td>{content} {description}\n")
    };
    entries(&operation["responses"]).map(row).collect()
}

fn errors(document: &Value) -> String {
    let shape = "{\n  \"error\": {\n    \"code\": \"invalid_request\",\n    \"message\": \"amount is required\",\n    \"param\": \"amount\",\n    \"requestId\": \"req_01KAJ4M2V8Q0S5T7W9X1Y3Z5A7\",\n    \"docUrl\": \"https://pay.example/docs#error-invalid_request\"\n  }\n}";
    let mut html = format!("<h2 id=\"errors\">Errors</h2>\n<pre>{shape}</pre>\n");
    html.push_str(&resolve(document, &document["components"]["schemas"]["ErrorDetail"]).map(rows).unwrap_or_default());
    html.push_str("<div class=\"scroll\"><table>\n");
    for (code, statuses, description) in errors::explained() {
        let statuses = statuses.iter().map(u16::to_string).collect::<Vec<_>>().join(", ");
        let _ = writeln!(
            html,
            "<tr id=\"{id}\"><th><a href=\"#{id}\"><code>{code}</code></a><br><span class=\"muted\">{statuses}</span><td>{}",
            markdown::render(description),
            id = anchor(code),
        );
    }
    html + "</table></div>\n"
}

fn schemas(document: &Value) -> String {
    let mut html = String::from("<h2 id=\"schemas\">Objects and bodies</h2>\n");
    for (name, schema) in entries(&document["components"]["schemas"]) {
        let _ = write!(
            html,
            "<article id=\"schema-{name}\">\n<h3><a href=\"#schema-{name}\">{name}</a></h3>\n{}{}{}</article>\n",
            markdown::render(text(&schema["description"])),
            rows(schema),
            example(&schema["examples"][0])
        );
    }
    html
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routes::endpoints;

    #[test]
    fn the_page_has_every_operation_and_loads_nothing() {
        let document = super::super::document(&mut endpoints(), "https://pay.example/<x>");
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
