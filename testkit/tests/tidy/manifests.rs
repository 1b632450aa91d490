//! Rules for the manifests of the packages.

use super::{files, rust_files, verdict};

/// Where the executable for unit tests is not built, a test would never run.
#[test]
fn libraries_without_an_executable_for_tests_have_no_tests() {
    let is_untested = |manifest: &str| {
        manifest.split("\n[").any(|section| section.starts_with("lib]") && section.contains("\ntest = false"))
    };
    let manifests = files().into_iter().filter(|(path, text)| path.ends_with("/Cargo.toml") && is_untested(text));
    let untested: Vec<_> = manifests.map(|(path, _)| path.replace("Cargo.toml", "src/")).collect();
    let has_tests = |(path, text): &(String, String)| {
        let is_of_untested = untested.iter().any(|folder| path.starts_with(folder));
        is_of_untested && (text.contains("#[test]") || text.contains("#[tokio::test"))
    };
    let wrong: Vec<_> = rust_files().filter(has_tests).map(|(path, _)| path).collect();
    verdict("libraries without an executable for tests", untested.len(), 5, &wrong);
}
