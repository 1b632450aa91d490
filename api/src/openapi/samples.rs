//! Code samples of each operation, in the languages of the guides.

use serde_json::{Value, json};

use crate::endpoint::Endpoint;
use crate::guard::Access;

/// The time limit of a request in seconds (docs/api.md, Time limits of a client).
const TIMEOUT: u32 = 40;

/// What a sample sends.
struct Request {
    method: String,
    url: String,
    /// The environment variable of the key.
    key: &'static str,
    /// The page that sends a browser request, which needs `Origin`.
    is_browser: bool,
    body: Option<Value>,
}

/// `x-codeSamples`.
pub(super) fn of(endpoint: &Endpoint, public_url: &str) -> Value {
    let example = |parameter: &Value| {
        let schema = &parameter["schema"];
        let value = if schema["examples"][0].is_null() { &schema["enum"][0] } else { &schema["examples"][0] };
        value.as_str().unwrap_or_default().to_owned()
    };
    let (mut url, mut separator) = (format!("{public_url}{}", endpoint.path), '?');
    for parameter in &endpoint.doc.parameters {
        let name = parameter["name"].as_str().unwrap_or_default();
        if parameter["in"] == "path" {
            url = url.replace(&format!("{{{name}}}"), &example(parameter));
        } else if parameter["in"] == "query" && parameter["required"] == true {
            url = format!("{url}{separator}{name}={}", example(parameter));
            separator = '&';
        }
    }
    let is_browser = matches!(endpoint.access, Access::Browser(_));
    let request = Request {
        method: endpoint.method.to_uppercase(),
        url,
        key: if is_browser { "PUBLISHABLE_KEY" } else { "SECRET_KEY" },
        is_browser,
        body: endpoint.doc.body.as_ref().map(|body| body.example.clone()),
    };
    json!([
        {"lang": "curl", "label": "curl", "source": curl(&request)},
        {"lang": "python", "label": "Python", "source": python(&request)},
        {"lang": "typescript", "label": "TypeScript", "source": typescript(&request)},
    ])
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

fn curl(Request { method, url, key, is_browser, body }: &Request) -> String {
    let mut lines = vec![format!("curl -X {method} '{url}'"), format!("-H \"Authorization: Bearer ${key}\"")];
    if *is_browser {
        lines.push("-H 'Origin: https://shop.example'".to_owned());
    }
    if let Some(body) = body {
        lines.push("-H 'Content-Type: application/json'".to_owned());
        lines.push(format!("-d '{}'", pretty(body).replace('\'', "'\\''")));
    }
    lines.join(" \\\n  ")
}

fn python(Request { method, url, key, is_browser, body }: &Request) -> String {
    let origin = if *is_browser { ", \"Origin\": \"https://shop.example\"" } else { "" };
    let body = body.as_ref().map(|body| format!("    json={},\n", python_literal(body, 1))).unwrap_or_default();
    format!(
        "import os\nimport requests\n\nresponse = requests.request(\n    \"{method}\",\n    \"{url}\",\n    \
         headers={{\"Authorization\": \"Bearer \" + os.environ[\"{key}\"]{origin}}},\n{body}    timeout={TIMEOUT},\n)\n\
         print(response.status_code, response.json())"
    )
}

/// JSON as Python writes it.
fn python_literal(value: &Value, depth: usize) -> String {
    let (inner, outer) = ("    ".repeat(depth + 1), "    ".repeat(depth));
    let lines = |items: Vec<String>| items.into_iter().map(|item| format!("{inner}{item},\n")).collect::<String>();
    match value {
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Object(fields) if !fields.is_empty() => {
            let field = |(name, value): (&String, &Value)| format!("{:?}: {}", name, python_literal(value, depth + 1));
            format!("{{\n{}{outer}}}", lines(fields.iter().map(field).collect()))
        }
        Value::Array(items) if !items.is_empty() => {
            format!("[\n{}{outer}]", lines(items.iter().map(|item| python_literal(item, depth + 1)).collect()))
        }
        Value::Number(_) | Value::String(_) | Value::Object(_) | Value::Array(_) => value.to_string(),
    }
}

fn typescript(Request { method, url, key, is_browser, body }: &Request) -> String {
    let key = if *is_browser { key.to_lowercase() } else { format!("process.env.{key}") };
    let content = if body.is_some() { ",\n    \"Content-Type\": \"application/json\"" } else { "" };
    let body = body.as_ref().map(|body| format!("  body: JSON.stringify({}),\n", pretty(body).replace('\n', "\n  ")));
    format!(
        "const response = await fetch(\"{url}\", {{\n  method: \"{method}\",\n  headers: {{\n    Authorization: \
         `Bearer ${{{key}}}`{content},\n  }},\n{}  signal: AbortSignal.timeout({TIMEOUT}_000),\n}});\n\
         console.log(response.status, await response.json());",
        body.unwrap_or_default()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn python_has_its_own_literals() {
        let value = json!({"a": [true, null], "b": {}, "c": "x\"y"});
        let expected =
            "{\n    \"a\": [\n        True,\n        None,\n    ],\n    \"b\": {},\n    \"c\": \"x\\\"y\",\n}";
        assert_eq!(python_literal(&value, 0), expected);
    }
}
