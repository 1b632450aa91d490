//! The essentials of deny.toml, checked without cargo-deny, which takes minutes to build and is not always installed:
//! licences, sources and versions of what this machine builds. cargo-deny checks more, including crates of other
//! platforms.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("testkit is in the repository")
}

fn output(command: &mut Command) -> String {
    let output = command.current_dir(root()).output().expect("the program starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// The metadata of every package that a build on this machine uses.
fn packages() -> Vec<Value> {
    let version = output(Command::new("rustc").arg("-vV"));
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).expect("rustc prints its host");
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let arguments = ["metadata", "--format-version", "1", "--locked", "--filter-platform", host];
    let metadata: Value = serde_json::from_str(&output(Command::new(cargo).args(arguments))).expect("JSON");
    // Packages of other platforms are listed too; the dependency graph has only those in use.
    let used: BTreeSet<&str> = metadata["resolve"]["nodes"]
        .as_array()
        .expect("a graph")
        .iter()
        .filter_map(|node| node["id"].as_str())
        .collect();
    let all = metadata["packages"].as_array().expect("packages");
    all.iter().filter(|package| package["id"].as_str().is_some_and(|id| used.contains(id))).cloned().collect()
}

/// The list `allow` under `[licenses]`.
fn allowed() -> BTreeSet<String> {
    let text = std::fs::read_to_string(root().join("deny.toml")).expect("deny.toml");
    let (_, section) = text.split_once("[licenses]").expect("a section on licences");
    let (_, list) = section.split_once("allow = [").expect("a list");
    let list = list.split(']').next().unwrap_or_default();
    list.lines().filter_map(|line| line.trim().strip_prefix('"')?.split('"').next()).map(str::to_owned).collect()
}

/// Whether the allowed licences satisfy an SPDX expression: `A OR B`, `(A OR B) AND C`, or the older `A/B`. The
/// exception in `A WITH B` only grants more than A.
fn is_satisfied(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let expression = expression.trim();
    if let Some((left, right)) = split_outside(expression, " AND ") {
        return is_satisfied(left, allowed) && is_satisfied(right, allowed);
    }
    if let Some(inner) = expression.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) {
        return is_satisfied(inner, allowed);
    }
    if let Some((left, right)) = split_outside(expression, " OR ").or_else(|| expression.split_once('/')) {
        return is_satisfied(left, allowed) || is_satisfied(right, allowed);
    }
    let licence = expression.split_once(" WITH ").map_or(expression, |(licence, _)| licence);
    allowed.contains(licence)
}

/// Splits at the first `separator` outside parentheses.
fn split_outside<'a>(text: &'a str, separator: &str) -> Option<(&'a str, &'a str)> {
    text.match_indices(separator)
        .find(|(at, _)| text[..*at].matches('(').count() == text[..*at].matches(')').count())
        .map(|(at, _)| (&text[..at], &text[at + separator.len()..]))
}

fn assert_every_package(packages: &[Value], what: &str, is_right: impl Fn(&Value) -> bool) {
    assert!(packages.len() > 150, "only {} packages: this check no longer sees them all", packages.len());
    let wrong: Vec<_> = packages.iter().filter(|p| !is_right(p)).map(|p| p["id"].to_string()).collect();
    assert!(wrong.is_empty(), "{what}:\n  {}", wrong.join("\n  "));
}

#[test]
fn licences_sources_and_versions_conform_to_deny_toml() {
    let (packages, allowed) = (packages(), allowed());
    assert!(allowed.contains("MIT") && allowed.len() < 15, "{allowed:?}");
    assert_every_package(&packages, "licences that deny.toml does not allow", |package| {
        package["license"].as_str().is_some_and(|expression| is_satisfied(expression, &allowed))
    });
    let sources: BTreeSet<_> = packages.iter().filter_map(|package| package["source"].as_str()).collect();
    assert!(
        sources.len() == 1 && sources.iter().all(|s| s.starts_with("registry+")),
        "not a single registry: {sources:?}"
    );
    let ours: Vec<_> = packages.iter().filter(|package| package["source"].is_null()).collect();
    for package in &ours {
        for dependency in package["dependencies"].as_array().expect("a list") {
            let is_ours = dependency["path"].is_string();
            assert!(
                is_ours || dependency["req"] != "*",
                "{} accepts any version of {}",
                package["name"],
                dependency["name"]
            );
        }
    }
    assert!(ours.len() >= 8, "only {} packages of the workspace", ours.len());
}

#[test]
fn licence_expressions_are_evaluated() {
    let allowed = BTreeSet::from(["MIT".to_owned(), "Apache-2.0".to_owned()]);
    for right in
        ["MIT", "GPL-3.0 OR MIT", "GPL-3.0/MIT", "(GPL-3.0 OR MIT) AND Apache-2.0", "Apache-2.0 WITH LLVM-exception"]
    {
        assert!(is_satisfied(right, &allowed), "{right}");
    }
    for wrong in
        ["GPL-3.0", "MIT AND GPL-3.0", "(MIT OR Apache-2.0) AND GPL-3.0", "GPL-3.0 AND (MIT OR Apache-2.0)", ""]
    {
        assert!(!is_satisfied(wrong, &allowed), "{wrong}");
    }
}

/// Runs `./dev advisories` with a fake cargo-deny that exits with these codes.
fn advisories(fetch: u8, check: u8, required: &str) -> (bool, String) {
    use std::os::unix::fs::PermissionsExt as _;

    let folder = testkit::TempDir::new().expect("a temporary directory");
    let program = folder.path().join("cargo-deny");
    let script = format!(
        "#!/bin/sh\ncase \"$*\" in *'fetch db') exit {fetch} ;; *'check --disable-fetch advisories') exit {check} ;; esac\nexit 9\n"
    );
    std::fs::write(&program, script).expect("a program");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("executable");
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").expect("PATH"));
    let mut command = Command::new(root().join("dev"));
    let command = command.arg("advisories").env("PATH", path).env("ADVISORIES", required).current_dir(root());
    let output = command.output().expect("bash");
    let printed = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(printed).expect("text"))
}

#[test]
fn advisories_are_checked_or_reported_as_skipped() {
    let (ok, printed) = advisories(0, 0, "");
    let duration = printed.lines().find(|line| line.starts_with("==> advisories: ") && line.ends_with(" s"));
    assert!(ok && duration.is_some() && !printed.contains("SKIPPED"), "{printed}");
    let (ok, printed) = advisories(0, 1, "");
    assert!(!ok && printed.contains("advisories failed"), "{printed}");
    let (ok, printed) = advisories(1, 0, "");
    assert!(ok && printed.contains("ADVISORIES SKIPPED: the database"), "{printed}");
    let (ok, printed) = advisories(1, 0, "required");
    assert!(!ok && printed.contains("were not checked"), "{printed}");
}
