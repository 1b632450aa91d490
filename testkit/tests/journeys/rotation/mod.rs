//! Keys are rotated while merchants go on (docs/rotation.md).

mod api_keys;
mod peppers;
mod reencryption;
mod under_load;
mod wrong_keys;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use testkit::{Builder, Cluster};

/// Variables of every process and of `ctl`; one that is empty is not set.
type Settings<'a> = [(&'a str, &'a str)];

const ENCRYPTION: [&str; 2] = ["ENCRYPTION_KEY", "OLD_ENCRYPTION_KEYS"];
const PEPPER: [&str; 2] = ["KEY_PEPPER", "OLD_KEY_PEPPERS"];

/// A key that is easily told from others.
fn key(digit: &str) -> String {
    digit.repeat(64)
}

/// A cluster whose keys are of these digits.
fn with_keys(encryption: &str, pepper: &str) -> Builder {
    Cluster::builder().env("ENCRYPTION_KEY", &key(encryption)).env("KEY_PEPPER", &key(pepper))
}

/// One after another, every process is started anew in this environment.
async fn restart_with(cluster: &mut Cluster, settings: &Settings<'_>) -> Result<()> {
    for (name, value) in settings {
        cluster.set_env(name, value);
    }
    for process in cluster.processes() {
        settings.iter().for_each(|(name, value)| process.set_env(name, value));
        let status = process.terminate().await?;
        ensure!(status.code() == Some(0), "{} ends well", process.kind().name());
        process.restart().await?;
    }
    Ok(())
}

/// What `ctl doctor` says of a check: its grade, and in which words.
async fn examined(cluster: &Cluster, check: &str) -> Result<(String, String)> {
    let ended = cluster.ctl_to_its_end(&["doctor", "--json"]).await?;
    let report = ended.json();
    let row = report["checks"].as_array().into_iter().flatten().find(|row| row["check"] == check);
    let row = row.with_context(|| format!("{check} is not in {ended:?}"))?;
    let text = |field: &str| row[field].as_str().unwrap_or_default().to_owned();
    Ok((text("grade"), text("says")))
}

/// Whether the doctor says so.
async fn doctor_says(cluster: &Cluster, check: &str, grade: &str, words: &str) -> Result<()> {
    let (found, says) = examined(cluster, check).await?;
    ensure!(found == grade && says.contains(words), "{check} is {found}: {says}");
    Ok(())
}

/// The figures that a command printed.
fn figures<const N: usize>(printed: &Value, names: [&str; N]) -> [i64; N] {
    names.map(|name| printed[name].as_i64().unwrap_or_else(|| panic!("{name} of {printed}")))
}

const REENCRYPTED: [&str; 3] = ["reencrypted", "remaining", "unreadable"];
const REHASHED: [&str; 3] = ["rehashed", "publishable", "secret"];
