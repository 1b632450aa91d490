//! The essentials of deny.toml without the program cargo-deny, which takes minutes to build and is not everywhere:
//! licences, sources and versions of what this machine builds. cargo-deny itself checks more, and other machines' crates.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("testkit lies in the repository")
}

fn output(command: &mut Command) -> String {
    let output = command.current_dir(root()).output().expect("it can be started");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// What cargo knows of every package that a build here uses.
fn packages() -> Vec<Value> {
    let about = output(Command::new("rustc").arg("-vV"));
    let host = about.lines().find_map(|line| line.strip_prefix("host: ")).expect("rustc names its host");
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let arguments = ["metadata", "--format-version", "1", "--locked", "--filter-platform", host];
    let metadata: Value = serde_json::from_str(&output(Command::new(cargo).args(arguments))).expect("JSON");
    // Packages of other platforms are listed too; the graph says which are used.
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

/// Whether an SPDX expression can be met. Crates write `A OR B`, `(A OR B) AND C`, and of old `A/B`; an exception such as
/// `A WITH B` only adds to A.
fn met(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let expression = expression.trim();
    if let Some((left, right)) = split_outside(expression, " AND ") {
        return met(left, allowed) && met(right, allowed);
    }
    if let Some(inner) = expression.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) {
        return met(inner, allowed);
    }
    if let Some((left, right)) = split_outside(expression, " OR ").or_else(|| expression.split_once('/')) {
        return met(left, allowed) || met(right, allowed);
    }
    let licence = expression.split_once(" WITH ").map_or(expression, |(licence, _)| licence);
    allowed.contains(licence)
}

/// Splits at the first `separator` that no bracket encloses.
fn split_outside<'a>(text: &'a str, separator: &str) -> Option<(&'a str, &'a str)> {
    text.match_indices(separator)
        .find(|(at, _)| text[..*at].matches('(').count() == text[..*at].matches(')').count())
        .map(|(at, _)| (&text[..at], &text[at + separator.len()..]))
}

fn verdict(packages: &[Value], what: &str, is_right: impl Fn(&Value) -> bool) {
    assert!(packages.len() > 150, "only {} packages: this check has lost its way", packages.len());
    let wrong: Vec<_> = packages.iter().filter(|p| !is_right(p)).map(|p| p["id"].to_string()).collect();
    assert!(wrong.is_empty(), "{what}:\n  {}", wrong.join("\n  "));
}

#[test]
fn licences_sources_and_versions_are_those_of_deny_toml() {
    let (packages, allowed) = (packages(), allowed());
    assert!(allowed.contains("MIT") && allowed.len() < 15, "{allowed:?}");
    verdict(&packages, "licences that deny.toml does not allow", |package| {
        package["license"].as_str().is_some_and(|expression| met(expression, &allowed))
    });
    let sources: BTreeSet<_> = packages.iter().filter_map(|package| package["source"].as_str()).collect();
    assert!(
        sources.len() == 1 && sources.iter().all(|s| s.starts_with("registry+")),
        "one registry, no git: {sources:?}"
    );
    let ours: Vec<_> = packages.iter().filter(|package| package["source"].is_null()).collect();
    for package in &ours {
        for dependency in package["dependencies"].as_array().expect("a list") {
            let is_ours = dependency["path"].is_string();
            assert!(is_ours || dependency["req"] != "*", "{} takes any {}", package["name"], dependency["name"]);
        }
    }
    assert!(ours.len() >= 8, "the workspace is among them");
}

#[test]
fn expressions_are_read() {
    let allowed = BTreeSet::from(["MIT".to_owned(), "Apache-2.0".to_owned()]);
    for right in
        ["MIT", "GPL-3.0 OR MIT", "GPL-3.0/MIT", "(GPL-3.0 OR MIT) AND Apache-2.0", "Apache-2.0 WITH LLVM-exception"]
    {
        assert!(met(right, &allowed), "{right}");
    }
    for wrong in
        ["GPL-3.0", "MIT AND GPL-3.0", "(MIT OR Apache-2.0) AND GPL-3.0", "GPL-3.0 AND (MIT OR Apache-2.0)", ""]
    {
        assert!(!met(wrong, &allowed), "{wrong}");
    }
}

/// `./dev advisories` with a cargo-deny that does as told: 0 is yes.
fn advisories(fetched: u8, found: u8, required: &str) -> (bool, String) {
    use std::os::unix::fs::PermissionsExt as _;

    let folder = testkit::TempDir::new().expect("a folder");
    let program = folder.path().join("cargo-deny");
    let script = format!(
        "#!/bin/sh\ncase \"$*\" in *'fetch db') exit {fetched} ;; *'check --disable-fetch advisories') exit {found} ;; esac\nexit 9\n"
    );
    std::fs::write(&program, script).expect("a program");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("it may be run");
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").expect("a path"));
    let mut command = Command::new(root().join("dev"));
    let command = command.arg("advisories").env("PATH", path).env("ADVISORIES", required).current_dir(root());
    let output = command.output().expect("bash");
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(said).expect("text"))
}

#[test]
fn advisories_are_looked_up_or_it_is_said_that_they_were_not() {
    let (ok, said) = advisories(0, 0, "");
    assert!(ok && said.contains("advisories: 0 s") && !said.contains("SKIPPED"), "{said}");
    let (ok, said) = advisories(0, 1, "");
    assert!(!ok && said.contains("advisories failed"), "{said}");
    let (ok, said) = advisories(1, 0, "");
    assert!(ok && said.contains("ADVISORIES SKIPPED: the database"), "{said}");
    let (ok, said) = advisories(1, 0, "required");
    assert!(!ok && said.contains("were not checked"), "{said}");
}
