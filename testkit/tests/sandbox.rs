//! The sandbox program, without the parts that would clash with a sandbox already running on this machine.

use std::{
    fs,
    io::Write,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context, Result};
use serde_json::Value;
use sqlx::{Connection, PgConnection};
use testkit::{
    TempDir,
    sandbox::{Running, program},
};

/// ctl commands that do not concern the gateway work without the gateway's environment variables.
fn ctl_needs_no_gateway_environment(running: &Running, description: &Value) -> Result<()> {
    let secrets: Value = serde_json::from_str(&fs::read_to_string(running.root().join(".dev/secrets.json"))?)?;
    let text = |value: &Value| value.as_str().map(str::to_owned).context("a string");
    let environment = [
        ("DATABASE_URL", text(&description["database_url"])?),
        ("KEY_PEPPER", text(&secrets["key_pepper"])?),
        ("ENCRYPTION_KEY", text(&secrets["encryption_key"])?),
    ];
    let ctl = |arguments: &[&str]| {
        let mut command = Command::new(Path::new(env!("CARGO_BIN_EXE_sandbox")).with_file_name("ctl"));
        command.env_clear().envs(environment.clone()).args(arguments).output()
    };
    assert!(ctl(&["accounts", "list"])?.status.success());
    let refused = ctl(&["gateway", "account", "rotate-keys", "--username", "sandbox"])?;
    let stderr = String::from_utf8(refused.stderr)?;
    assert!(!refused.status.success() && stderr.contains("GATEWAY_"), "{stderr}");
    Ok(())
}

/// Keys that a user rotated stay valid after a restart.
async fn rotated_keys_survive_a_restart(running: Running) -> Result<Running> {
    let account = running.description()?["accounts"]["gateway"]["id"].as_str().context("an account")?.to_owned();
    let rotated = running.run_tool(&["gateway", "account", "rotate-keys", "--username", "sandbox"])?;
    let mut connect = program(running.root())?;
    connect.args(["ctl", "accounts", "connect", &account]).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut connect = connect.spawn()?;
    connect.stdin.take().context("no stdin")?.write_all(rotated.to_string().as_bytes())?;
    assert!(connect.wait()?.success());

    let running = running.restart().await?;
    let url = running.description()?["database_url"].as_str().context("a database URL")?.to_owned();
    let connected: String = sqlx::query_scalar("SELECT field_key FROM provider_accounts WHERE field_key = $1")
        .bind(rotated["app_key"].as_str())
        .fetch_one(&mut PgConnection::connect(&url).await?)
        .await
        .context("the account still has the rotated keys")?;
    assert_eq!(rotated["app_key"], connected);
    Ok(running)
}

#[tokio::test]
async fn the_description_has_the_urls_and_the_keys_of_every_account() -> Result<()> {
    let running = Running::start()?;
    let description = running.description()?;
    for name in ["api_url", "gateway_url", "portal_url", "database_url", "redis_url"] {
        assert!(description[name].is_string(), "{name} in {description}");
    }
    for name in ["api", "portal", "worker", "scheduler", "gateway"] {
        let url = description["metrics"][name].as_str();
        assert!(url.is_some_and(|url| url.ends_with("/metrics")), "{name} in {description}");
    }
    for name in ["mock", "other", "live"] {
        assert!(description["accounts"][name]["secret_key"].is_string(), "{name} in {description}");
    }
    let gateway_accounts = description["gateway_accounts"].as_object().context("the gateway's accounts")?;
    let names: Vec<_> = gateway_accounts.keys().map(String::as_str).collect();
    assert_eq!(names, ["cvv_optional", "cvv_required", "limited", "other", "usd_only"]);
    let listed = running.run_tool(&["gateway", "account", "list"])?;
    assert_eq!(running.run_tool(&["ctl", "gateway", "account", "list"])?, listed, "ctl runs the gateway commands too");
    assert!(running.run_tool(&["ctl", "gateway", "reencrypt"])?["remaining"] == 0);
    ctl_needs_no_gateway_environment(&running, &description)?;
    let settings = |keys: &Value| -> Result<Value> {
        let fields = keys.as_object().context("keys")?;
        assert_eq!(fields.keys().collect::<Vec<_>>(), ["api_key", "secret_key", "username"], "{keys}");
        assert_eq!(keys["secret_key"].as_str().map(str::len), Some(16));
        let mut accounts = listed["accounts"].as_array().context("accounts")?.iter();
        accounts.find(|account| account["username"] == keys["username"]).cloned().context("the account is not listed")
    };
    let main = settings(&description["gateway_account"])?;
    let limits = |account: &Value| ["monthly_limit", "daily_transactions"].map(|name| account[name].to_string());
    assert_eq!(limits(&main), ["999999999.99", "1000000"]);
    assert_eq!((&main["three_ds"], &main["time_zone"]), (&true.into(), &"UTC".into()));
    assert_eq!(main["hourly_per_address"], 1_000_000);
    assert_eq!(limits(&settings(&gateway_accounts["limited"])?), ["50.0", "5"]);
    assert_eq!(settings(&gateway_accounts["usd_only"])?["currencies"], serde_json::json!(["USD"]));
    assert_eq!(settings(&gateway_accounts["cvv_required"])?["cvv_required"], true);
    assert_eq!(settings(&gateway_accounts["cvv_optional"])?["cvv_required"], false);
    settings(&gateway_accounts["other"])?;
    // In this test, because a second sandbox at the same time would use the same ports.
    rotated_keys_survive_a_restart(running).await?.stop().await
}

#[test]
fn commands_get_a_migrated_database_and_their_exit_code_is_returned() -> Result<()> {
    let root = TempDir::new()?;
    let output = root.path().join("output");
    let script = format!("printf %s \"$DATABASE_URL\" > '{}'; exit 7", output.display());
    let status = program(root.path())?.args(["database", "--", "sh", "-c", &script]).status()?;
    assert_eq!(status.code(), Some(7));
    assert!(fs::read_to_string(output)?.starts_with("postgres://"));
    Ok(())
}

#[test]
fn without_a_running_sandbox_ctl_fails_and_reset_succeeds() -> Result<()> {
    let root = TempDir::new()?;
    let refused = program(root.path())?.args(["ctl", "accounts", "list"]).output()?;
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8(refused.stderr)?.contains("is not running"));
    assert!(program(root.path())?.arg("reset").status()?.success());
    Ok(())
}
