//! Rotation of keys in operation (docs/rotation.md).

mod api_keys;
mod binding;
mod peppers;
mod reencryption;
mod under_load;
mod wrong_keys;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use testkit::{Builder, Cluster};

/// Environment variables of every process and of `ctl`; an empty value means unset.
type Settings<'a> = [(&'a str, &'a str)];

const ENCRYPTION: [&str; 2] = ["ENCRYPTION_KEY", "OLD_ENCRYPTION_KEYS"];
const PEPPER: [&str; 2] = ["KEY_PEPPER", "OLD_KEY_PEPPERS"];

/// A key of one repeated digit, easy to recognize.
fn key(digit: &str) -> String {
    digit.repeat(64)
}

/// The signing secret of an endpoint.
fn secret(endpoint: &Value) -> Result<String> {
    endpoint["secret"].as_str().map(str::to_owned).context("a secret")
}

/// A cluster with keys of these digits.
fn with_keys(encryption: &str, pepper: &str) -> Builder {
    Cluster::builder().env("ENCRYPTION_KEY", &key(encryption)).env("KEY_PEPPER", &key(pepper))
}

/// Restarts the processes one after another with these variables.
async fn restart_with(cluster: &mut Cluster, settings: &Settings<'_>) -> Result<()> {
    for (name, value) in settings {
        cluster.set_env(name, value);
    }
    for process in cluster.processes() {
        settings.iter().for_each(|(name, value)| process.set_env(name, value));
        let status = process.terminate().await?;
        ensure!(status.code() == Some(0), "{} exits with 0", process.kind().name());
        process.restart().await?;
    }
    Ok(())
}

/// Grade and text of a check of `ctl doctor`.
async fn doctor_check(cluster: &Cluster, check: &str) -> Result<(String, String)> {
    let output = cluster.ctl_output(&["doctor", "--json"]).await?;
    let report = output.json();
    let row = report["checks"].as_array().into_iter().flatten().find(|row| row["check"] == check);
    let row = row.with_context(|| format!("{check} is not in {output:?}"))?;
    let text = |field: &str| row[field].as_str().unwrap_or_default().to_owned();
    Ok((text("grade"), text("message")))
}

/// Fails unless the check has this grade and its text contains these words.
async fn assert_doctor(cluster: &Cluster, check: &str, grade: &str, words: &str) -> Result<()> {
    let (actual, text) = doctor_check(cluster, check).await?;
    ensure!(actual == grade && text.contains(words), "{check} is {actual}: {text}");
    Ok(())
}

/// The numbers in a command's output.
fn counts<const N: usize>(output: &Value, names: [&str; N]) -> [i64; N] {
    names.map(|name| output[name].as_i64().unwrap_or_else(|| panic!("{name} of {output}")))
}

const REENCRYPTED: [&str; 3] = ["reencrypted", "remaining", "unreadable"];
const REHASHED: [&str; 3] = ["rehashed", "publishable", "secret"];
