//! Rules for the repository itself, checked on its files.
//!
//! Each check collects all violations and reports them at once. A check that reads nothing would always pass, so each
//! states how much it must at least have read.

mod import_cycles;
mod manifests;
mod paths;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Maximum lines of a file.
const MAX_LINES: usize = 500;
/// Generated files, and files outside the repository.
const EXCLUDED: [&str; 9] =
    ["target", ".dev", ".git", ".sqlx", ".venv", "node_modules", "secrets", "Cargo.lock", "openapi.json"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("testkit is in the repository").to_owned()
}

/// Every text file of the repository, by its path from the root.
fn files() -> BTreeMap<String, String> {
    fn walk(folder: &Path, root: &Path, found: &mut BTreeMap<String, String>) {
        for entry in fs::read_dir(folder).expect("a readable folder") {
            let path = entry.expect("a readable entry").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if EXCLUDED.contains(&name.as_str()) || name == ".env" {
                continue;
            }
            if path.is_dir() {
                walk(&path, root, found);
            } else if let Ok(text) = fs::read_to_string(&path) {
                let path = path.strip_prefix(root).expect("below the root");
                found.insert(path.to_string_lossy().into_owned(), text);
            }
        }
    }
    let mut found = BTreeMap::new();
    walk(&root(), &root(), &mut found);
    assert!(found.len() > 80, "only {} files were found", found.len());
    found
}

fn rust_files() -> impl Iterator<Item = (String, String)> {
    files().into_iter().filter(|(path, _)| path.ends_with(".rs"))
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Fails with all violations, or if fewer than `expected` items were checked.
fn verdict(what: &str, seen: usize, expected: usize, wrong: &[String]) {
    assert!(wrong.is_empty(), "{what}:\n  {}", wrong.join("\n  "));
    assert!(seen >= expected, "{what}: only {seen} were checked, so this check no longer sees them all");
}

/// The code without its comments. The `//` of a URL is no comment.
fn without_comments(text: &str) -> String {
    let code = |line: &str| {
        let comment = line.match_indices("//").find(|(at, _)| !line[..*at].ends_with(':'));
        comment.map_or(line, |(at, _)| &line[..at]).to_owned()
    };
    text.lines().map(code).collect::<Vec<_>>().join("\n")
}

/// The text after each occurrence of `mark`.
fn after<'a>(text: &'a str, mark: &'a str) -> impl Iterator<Item = &'a str> {
    text.match_indices(mark).map(move |(at, _)| &text[at + mark.len()..])
}

fn word(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    &text[..end]
}

/// The string literal at the start of `text`, after white space.
fn literal(text: &str) -> Option<&str> {
    text.trim_start().strip_prefix('"')?.split('"').next()
}

// --- the code -----------------------------------------------------------------------------------------------------------

/// The crates of the workspace that a crate may use, lowest layer first. What is not listed may use nothing of ours but `queue`.
const LAYERS: [(&str, &[&str]); 9] = [
    ("foundation", &["queue"]),
    ("egress", &["foundation"]),
    ("texts", &["foundation"]),
    ("documents", &[]),
    ("mail", &["foundation"]),
    ("providers", &["foundation", "egress"]),
    ("domain", &["foundation", "egress", "providers"]),
    ("engine", &["foundation", "providers", "domain", "queue"]),
    ("operator", &["foundation", "providers", "domain", "engine"]),
];

/// The crates of the workspace in the section `[dependencies]` of a manifest.
fn own_dependencies(manifest: &str) -> BTreeSet<String> {
    let text = read(manifest);
    let section =
        text.split("\n[").find_map(|section| section.strip_prefix("dependencies]")).unwrap_or_default().to_owned();
    let names = section.lines().map(|line| word(line.trim()).to_owned());
    names.filter(|name| name == "queue" || LAYERS.iter().any(|(layer, _)| layer == name)).collect()
}

#[test]
fn crates_depend_on_lower_layers_only() {
    let mut wrong = Vec::new();
    for (layer, allowed) in LAYERS {
        let used = own_dependencies(&format!("common/{layer}/Cargo.toml"));
        wrong.extend(
            used.iter().filter(|name| !allowed.contains(&name.as_str())).map(|name| format!("{layer} uses {name}")),
        );
    }
    for program in ["api", "portal", "worker", "scheduler", "gateway"] {
        if own_dependencies(&format!("{program}/Cargo.toml")).contains("operator") {
            wrong.push(format!("{program} uses operator, which is for ctl"));
        }
    }
    let gateway = own_dependencies("gateway/Cargo.toml");
    let allowed = ["foundation", "mail", "queue", "texts"];
    wrong.extend(
        gateway.iter().filter(|name| !allowed.contains(&name.as_str())).map(|name| format!("gateway uses {name}")),
    );
    verdict("layers", LAYERS.len(), 6, &wrong);
}

/// The modules of the domain that all resources share.
const SHARED: [&str; 8] =
    ["accounts", "audit", "deleted", "events", "idempotency", "modifiers", "nonces", "operations"];

#[test]
fn what_resources_share_uses_no_resource() {
    let (mut seen, mut wrong) = (0, Vec::new());
    for (path, text) in rust_files() {
        let Some(inside) = path.strip_prefix("common/domain/src/") else { continue };
        let own = inside.split('/').next().unwrap_or_default().trim_end_matches(".rs");
        for used in paths::paths(&without_comments(&text), "crate::") {
            seen += 1;
            if SHARED.contains(&own) && !SHARED.contains(&word(&used)) {
                wrong.push(format!("{path} uses the resource {used}"));
            }
        }
    }
    verdict("paths within the domain", seen, 50, &wrong);
}

/// SQL is in the files of the types and rules that it serves, not in a separate layer.
#[test]
fn there_are_no_store_modules() {
    let has_sql = |path: &String| ["common/", "gateway/"].iter().any(|part| path.starts_with(part));
    let paths: Vec<_> = rust_files().map(|(path, _)| path).filter(has_sql).collect();
    let is_store = |path: &&String| path.ends_with("/store.rs") || path.contains("/store/");
    verdict("store modules", paths.len(), 100, &paths.iter().filter(is_store).cloned().collect::<Vec<_>>());
}

#[test]
fn all_sql_of_the_programs_is_in_common() {
    let programs = ["api/", "portal/", "worker/", "scheduler/", "ctl/", "queue/"];
    let (mut seen, mut wrong) = (0, Vec::new());
    for (path, text) in rust_files() {
        if !programs.iter().any(|program| path.starts_with(program)) {
            continue;
        }
        seen += 1;
        for mark in ["sqlx::query", "sqlx::raw_sql", "QueryBuilder", "query!(", "query_as!(", "query_scalar!("] {
            if without_comments(&text).contains(mark) {
                wrong.push(format!("{path} has {mark}"));
            }
        }
    }
    verdict("SQL outside common", seen, 30, &wrong);
}

/// Otherwise a column that is added is silently lost where a second statement inserts, and a rule that a statement keeps is
/// broken by another.
#[test]
fn charges_have_one_writer() {
    const WRITER: &str = "common/domain/src/charges/";
    let is_checked = |path: &str| path.starts_with("common/") && !path.contains("/tests");
    let files: Vec<_> = rust_files().filter(|(path, _)| is_checked(path)).collect();
    let mut wrong = Vec::new();
    for (statement, allowed) in
        [("INSERT INTO operations", 1), ("INSERT INTO payments", 1), ("UPDATE operations", usize::MAX)]
    {
        let found = files
            .iter()
            .flat_map(|(path, text)| after(text, statement).filter(|rest| !rest.starts_with('_')).map(move |_| path));
        let (of_writer, others): (Vec<_>, Vec<_>) = found.partition(|path| path.starts_with(WRITER));
        wrong.extend(others.iter().map(|path| format!("{path} has {statement}")));
        if !(1..=allowed).contains(&of_writer.len()) {
            wrong.push(format!("{WRITER} has {statement} {} times", of_writer.len()));
        }
    }
    verdict("writers of charges", files.len(), 100, &wrong);
}

#[test]
fn no_file_exceeds_the_line_limit() {
    let files = files();
    let long = |(path, text): (&String, &String)| {
        let lines = text.lines().count();
        (lines > MAX_LINES).then(|| format!("{path} has {lines} lines"))
    };
    let wrong: Vec<_> = files.iter().filter_map(long).collect();
    verdict("files over 500 lines", files.len(), 80, &wrong);
}

#[test]
fn unwrap_is_used_only_in_tests() {
    let (mut seen, mut wrong) = (0, Vec::new());
    for (path, text) in rust_files() {
        let is_test =
            ["/tests/", "/benches/"].iter().any(|folder| path.contains(folder)) || path.ends_with("/tests.rs");
        if is_test {
            continue;
        }
        seen += 1;
        let code = without_comments(text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default());
        for (i, line) in code.lines().enumerate() {
            if line.contains(".unwrap()") {
                wrong.push(format!("{path}:{} unwraps; use expect with the reason why it cannot fail", i + 1));
            }
        }
    }
    verdict("unwrap outside tests", seen, 80, &wrong);
}

// --- the documents ---------------------------------------------------------------------------------------------------

fn documents() -> BTreeMap<String, String> {
    files().into_iter().filter(|(path, _)| path.ends_with(".md")).collect()
}

/// The headings of a document, without lines in code blocks.
fn headings(document: &str) -> BTreeSet<String> {
    let mut in_code = false;
    let mut headings = BTreeSet::new();
    for line in document.lines() {
        in_code ^= line.starts_with("```");
        if !in_code && line.starts_with('#') {
            headings.insert(line.trim_start_matches('#').trim().to_owned());
        }
    }
    headings
}

/// The anchor that Markdown renderers give a heading.
fn anchor(heading: &str) -> String {
    let kept = heading.to_lowercase();
    kept.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c)).map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[test]
fn documents_and_headings_named_in_the_code_exist() {
    let (mut seen, mut wrong) = (0, Vec::new());
    for (path, text) in files() {
        if path.ends_with(".md") || path == "testkit/tests/tidy/main.rs" {
            continue;
        }
        for rest in after(&text, "docs/") {
            let name = word(rest);
            let Some(rest) = rest[name.len()..].strip_prefix(".md") else { continue };
            seen += 1;
            let document = format!("docs/{name}.md");
            let Ok(document_text) = fs::read_to_string(root().join(&document)) else {
                wrong.push(format!("{path} names {document}, which does not exist"));
                continue;
            };
            // A migration that was applied keeps its text, even if a heading is renamed.
            let Some(heading) = rest.strip_prefix(", ").filter(|_| !path.ends_with(".sql")) else { continue };
            let heading = match literal(heading) {
                Some(quoted) => quoted,
                None => heading.split([')', '.', ',', ';', ':', '\n']).next().unwrap_or_default(),
            };
            if !headings(&document_text).contains(heading) {
                wrong.push(format!("{path} names {document}, {heading}, but the document has no such heading"));
            }
        }
    }
    verdict("documents named in the code", seen, 12, &wrong);
}

#[test]
fn relative_links_resolve() {
    let (mut seen, mut wrong) = (0, Vec::new());
    for (path, text) in documents() {
        for rest in after(&text, "](") {
            let target = rest.split(')').next().unwrap_or_default();
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            seen += 1;
            let (file, fragment) = target.split_once('#').map_or((target, None), |(file, anchor)| (file, Some(anchor)));
            let linked = match file {
                "" => root().join(&path),
                file => root().join(&path).with_file_name("").join(file),
            };
            if !linked.exists() {
                wrong.push(format!("{path} links to {target}, which does not exist"));
                continue;
            }
            let Some(fragment) = fragment else { continue };
            let document = fs::read_to_string(&linked).unwrap_or_default();
            if !headings(&document).iter().any(|heading| anchor(heading) == fragment) {
                wrong.push(format!("{path} links to {target}, but the document has no such heading"));
            }
        }
    }
    verdict("relative links", seen, 4, &wrong);
}

/// Fails for each name that does not appear as `code` in the document.
fn documented(what: &str, names: &BTreeSet<String>, expected: usize, document: &str) {
    let text = read(document);
    let occurs = |name: &String| ["`", "{", ","].iter().any(|end| text.contains(&format!("`{name}{end}")));
    let wrong: Vec<_> =
        names.iter().filter(|name| !occurs(name)).map(|name| format!("{name} is not in {document}")).collect();
    verdict(what, names.len(), expected, &wrong);
}

/// The first texts of the lines `Name = "text",`.
fn table(path: &str) -> BTreeSet<String> {
    let line = |line: &str| {
        let (name, text) = line.strip_prefix("    ")?.split_once(" = ")?;
        (name == word(name) && text.ends_with("\",")).then(|| literal(text).map(str::to_owned))?
    };
    read(path).lines().filter_map(line).collect()
}

#[test]
fn every_event_operation_and_status_is_documented() {
    documented("event types", &table("common/domain/src/events.rs"), 12, "docs/webhooks.md");
    documented("decline codes", &table("common/providers/src/decline.rs"), 14, "docs/payments.md");
    documented("operations", &table("common/providers/src/capabilities.rs"), 13, "docs/api.md");
    for (slice, statuses, document) in [
        ("payments", 12, "docs/payments.md"),
        ("invoices", 5, "docs/billing.md"),
        ("subscriptions", 4, "docs/billing.md"),
        ("recurring_invoices", 5, "docs/billing.md"),
        ("payment_links", 4, "docs/billing.md"),
        ("webhooks", 8, "docs/webhooks.md"),
    ] {
        let status = read(&format!("common/domain/src/{slice}/status.rs"));
        let names = after(&status, "=> \"").filter_map(|rest| rest.split('"').next()).map(str::to_owned).collect();
        documented(&format!("statuses of {slice}"), &names, statuses, document);
    }
}

#[test]
fn every_environment_variable_is_documented() {
    let is_variable =
        |name: &str| name.len() > 3 && name.bytes().all(|b| b.is_ascii_uppercase() || b == b'_') && name.contains('_');
    let code = without_comments(&read("common/foundation/src/config.rs"))
        + &without_comments(&read("common/foundation/src/telemetry.rs"));
    let names: BTreeSet<_> =
        code.split('"').skip(1).step_by(2).filter(|name| is_variable(name)).map(str::to_owned).collect();
    documented("environment variables", &names, 9, "docs/operations.md");
    let code = without_comments(&read("gateway/src/config.rs"));
    let names = code.split('"').skip(1).step_by(2).filter(|name| is_variable(name)).map(str::to_owned).collect();
    documented("environment variables of the gateway", &names, 6, "docs/gateway.md");
}

#[test]
fn every_gateway_error_code_is_documented() {
    let text = read("gateway/src/failure.rs");
    let codes: BTreeSet<_> = after(&text, "=> (").filter_map(literal).map(str::to_owned).collect();
    documented("error codes of the gateway", &codes, 31, "docs/gateway.md");
}

#[test]
fn every_metric_is_documented() {
    let (mut names, mut of_gateway) = (BTreeSet::new(), BTreeSet::new());
    for (path, text) in rust_files() {
        if path.contains("/tests/") {
            continue;
        }
        let code = without_comments(&text);
        let names = if path.starts_with("gateway/") { &mut of_gateway } else { &mut names };
        for macro_name in ["counter!(", "gauge!(", "histogram!("] {
            names.extend(after(&code, macro_name).filter_map(literal).map(str::to_owned));
        }
    }
    let help = read("common/foundation/src/telemetry/help.rs");
    let all = || names.union(&of_gateway);
    let without: Vec<_> = all()
        .filter(|name| !help.contains(&format!("(\"{name}\", \"")))
        .map(|name| format!("{name} has no # HELP"))
        .collect();
    verdict("metrics with a help text", all().count(), 60, &without);
    documented("metrics", &names, 15, "docs/operations.md");
    documented("metrics of the gateway", &of_gateway, 6, "docs/gateway.md");
}

/// Whether a file has a test of this name: a function directly below a test attribute.
fn is_a_test(text: &str, name: &str) -> bool {
    text.split_once(&format!("fn {name}(")).is_some_and(|(before, _)| {
        let above = before.rsplit("\n\n").next().unwrap_or_default();
        above.contains("#[test]") || above.contains("#[tokio::test")
    })
}

#[test]
fn every_security_promise_has_a_test() {
    const DOCUMENT: &str = "docs/security.md";
    let (mut seen, mut wrong) = (0, Vec::new());
    for line in read(DOCUMENT).lines().filter(|line| line.starts_with("| ") && *line != "| promise | proof |") {
        let proofs = line.rsplit_once(" | ").map_or("", |(_, proofs)| proofs);
        let named: Vec<_> = proofs.split('`').filter_map(|proof| proof.split_once("::")).collect();
        if named.is_empty() {
            wrong.push(format!("{DOCUMENT} has a promise without a test: {line}"));
        }
        for (path, name) in named {
            seen += 1;
            let is_there = fs::read_to_string(root().join(path)).is_ok_and(|text| is_a_test(&text, name));
            if !is_there {
                wrong.push(format!("{DOCUMENT} names the test {name}, which is not in {path}"));
            }
        }
    }
    verdict("tests of security promises", seen, 70, &wrong);
    let text = "#[test]\nfn a() {}\n\nfn b() {}\n\n#[tokio::test]\n#[ignore]\nasync fn c() {}";
    assert_eq!(["a", "b", "c", "d"].map(|name| is_a_test(text, name)), [true, false, true, false]);
}

// --- consistency ----------------------------------------------------------------------------------------------------

#[test]
fn the_image_uses_the_pinned_rust_version() {
    let toolchain = read("rust-toolchain.toml");
    let version = after(&toolchain, "channel = ").find_map(literal).expect("a pinned version");
    assert!(
        read("Dockerfile").contains(&format!("FROM rust:{version}-")),
        "the Dockerfile does not use Rust {version}"
    );
    let minor = version.rsplit_once('.').map_or(version, |(minor, _)| minor);
    assert!(
        read("Cargo.toml").contains(&format!("rust-version = \"{minor}\"")),
        "rust-version in Cargo.toml is not {minor}"
    );
}

#[test]
fn variables_compose_requires_are_in_the_example_and_none_is_secret() {
    let (compose, example) = (read("compose.yaml"), read(".env.example"));
    let used: BTreeSet<_> = after(&compose, "${").map(word).collect();
    let given = |name: &str| example.lines().any(|line| line.starts_with(&format!("{name}=")));
    // A variable with a default may be omitted.
    let required = used.iter().filter(|name| compose.contains(&format!("${{{name}:?")));
    let wrong: Vec<_> =
        required.filter(|name| !given(name)).map(|name| format!("{name} is not in .env.example")).collect();
    verdict("variables of compose.yaml", used.len(), 5, &wrong);
    let secret = |name: &&str| ["KEY", "PASSWORD", "PEPPER", "SMTP"].iter().any(|word| name.contains(word));
    assert_eq!(used.into_iter().find(secret), None, "secrets are passed as files, not as variables");
}
