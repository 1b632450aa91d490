//! The test executables that cargo has built.

use std::{
    io::{BufRead, BufReader, Read},
    path::PathBuf,
};

use anyhow::{Context, Result};
use serde::Deserialize;

/// A test executable and how cargo would start it.
#[derive(Clone, Debug)]
pub(super) struct Executable {
    /// Package and target, such as `testkit::journeys`, or the package alone for its unit tests.
    pub(super) name: String,
    pub(super) path: PathBuf,
    pub(super) directory: PathBuf,
}

#[derive(Deserialize)]
struct Message {
    reason: String,
    manifest_path: Option<PathBuf>,
    target: Option<Target>,
    profile: Option<Profile>,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    kind: Vec<String>,
    name: String,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

/// Reads what `cargo build --message-format=json` prints.
pub(super) fn read(messages: impl Read) -> Result<Vec<Executable>> {
    let mut found = Vec::new();
    for line in BufReader::new(messages).lines() {
        let line = line?;
        let message: Message =
            serde_json::from_str(&line).with_context(|| format!("not a message of cargo: {line}"))?;
        found.extend(executable(message)?);
    }
    // Cargo prints them in the order in which they were built, which differs between builds.
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

fn executable(message: Message) -> Result<Option<Executable>> {
    let Message { manifest_path: Some(manifest), target: Some(target), profile: Some(profile), .. } = message else {
        return Ok(None);
    };
    let (true, Some(path)) = (message.reason == "compiler-artifact" && profile.test, message.executable) else {
        return Ok(None);
    };
    if target.kind.iter().any(|kind| kind == "bench" || kind == "example") {
        return Ok(None);
    }
    let directory = manifest.parent().context("a manifest has a folder")?.to_path_buf();
    let package = directory.file_name().context("a package has a folder")?.to_string_lossy().into_owned();
    let name = match target.kind.first().map(String::as_str) {
        Some("test") => format!("{package}::{}", target.name),
        Some("bin") => format!("{package}::bin::{}", target.name),
        _ => package,
    };
    Ok(Some(Executable { name, path, directory }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_test_executables_are_read() {
        let message = |kind: &str, test: bool, executable: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"/p/queue/Cargo.toml","target":{{"kind":["{kind}"],"name":"suite"}},"profile":{{"test":{test}}},"executable":{executable}}}"#
            )
        };
        let messages = [
            message("test", true, r#""/t/suite-1""#),
            message("lib", true, r#""/t/queue-1""#),
            message("bin", false, r#""/t/queue""#),
            message("lib", false, "null"),
            message("bench", true, r#""/t/hop-1""#),
            r#"{"reason":"build-finished","success":true}"#.to_owned(),
        ];
        let found = read(messages.join("\n").as_bytes()).expect("messages are valid");
        let names: Vec<_> = found.iter().map(|executable| executable.name.as_str()).collect();
        assert_eq!(names, ["queue", "queue::suite"]);
        assert_eq!(found[1].path, PathBuf::from("/t/suite-1"));
        assert_eq!(found[1].directory, PathBuf::from("/p/queue"));
    }
}
