//! The sandbox program, as far as it can be tried beside a running one.

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

/// What of ctl is not about the gateway works without the gateway's environment.
fn ctl_needs_no_gateway(running: &Running, told: &Value) -> Result<()> {
    let secrets: Value = serde_json::from_str(&fs::read_to_string(running.root().join(".dev/secrets.json"))?)?;
    let text = |value: &Value| value.as_str().map(str::to_owned).context("a text");
    let environment = [
        ("DATABASE_URL", text(&told["database_url"])?),
        ("KEY_PEPPER", text(&secrets["key_pepper"])?),
        ("ENCRYPTION_KEY", text(&secrets["encryption_key"])?),
    ];
    let ctl = |arguments: &[&str]| {
        let mut command = Command::new(Path::new(env!("CARGO_BIN_EXE_sandbox")).with_file_name("ctl"));
        command.env_clear().envs(environment.clone()).args(arguments).output()
    };
    assert!(ctl(&["accounts", "list"])?.status.success());
    let refused = ctl(&["gateway", "account", "rotate-keys", "--username", "sandbox"])?;
    let complaint = String::from_utf8(refused.stderr)?;
    assert!(!refused.status.success() && complaint.contains("GATEWAY_"), "{complaint}");
    Ok(())
}

/// Keys that somebody has rotated by hand are those of the next start too.
async fn rotated_keys_stay(running: Running) -> Result<Running> {
    let account = running.description()?["accounts"]["gateway"]["id"].as_str().context("an account")?.to_owned();
    let rotated = running.operate(&["gateway", "account", "rotate-keys", "--username", "sandbox"])?;
    let mut connect = program(running.root())?;
    connect.args(["ctl", "accounts", "connect", &account]).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut connect = connect.spawn()?;
    connect.stdin.take().context("its input")?.write_all(rotated.to_string().as_bytes())?;
    assert!(connect.wait()?.success());

    let running = running.restart().await?;
    let url = running.description()?["database_url"].as_str().context("a database")?.to_owned();
    let known: String = sqlx::query_scalar("SELECT field_key FROM provider_accounts WHERE field_key = $1")
        .bind(rotated["app_key"].as_str())
        .fetch_one(&mut PgConnection::connect(&url).await?)
        .await
        .context("the account is known by the keys of before")?;
    assert_eq!(rotated["app_key"], known);
    Ok(running)
}

#[tokio::test]
async fn it_tells_its_addresses_and_the_keys_of_its_accounts() -> Result<()> {
    let running = Running::start()?;
    let told = running.description()?;
    for name in ["api_url", "gateway_url", "database_url", "redis_url"] {
        assert!(told[name].is_string(), "{name} in {told}");
    }
    for name in ["api", "worker", "scheduler", "gateway"] {
        assert!(told["metrics"][name].as_str().is_some_and(|url| url.ends_with("/metrics")), "{name} in {told}");
    }
    for name in ["mock", "other", "live"] {
        assert!(told["accounts"][name]["secret_key"].is_string(), "{name} in {told}");
    }
    let of_gateway = told["gateway_accounts"].as_object().context("the gateway's accounts")?;
    let names: Vec<_> = of_gateway.keys().map(String::as_str).collect();
    assert_eq!(names, ["cvv_optional", "cvv_required", "limited", "other", "usd_only"]);
    let listed = running.operate(&["gateway", "account", "list"])?;
    assert_eq!(running.operate(&["ctl", "gateway", "account", "list"])?, listed, "the one tool does it too");
    assert!(running.operate(&["ctl", "gateway", "reencrypt"])?["remaining"] == 0);
    ctl_needs_no_gateway(&running, &told)?;
    let settings = |keys: &Value| -> Result<Value> {
        let fields = keys.as_object().context("keys")?;
        assert_eq!(fields.keys().collect::<Vec<_>>(), ["api_key", "secret_key", "username"], "{keys}");
        assert_eq!(keys["secret_key"].as_str().map(str::len), Some(16));
        let mut accounts = listed["accounts"].as_array().context("accounts")?.iter();
        accounts.find(|account| account["username"] == keys["username"]).cloned().context("it is listed")
    };
    let main = settings(&told["gateway_account"])?;
    let limits = |account: &Value| ["monthly_limit", "daily_transactions"].map(|name| account[name].to_string());
    assert_eq!(limits(&main), ["999999999.99", "1000000"]);
    assert_eq!((&main["three_ds"], &main["time_zone"]), (&true.into(), &"UTC".into()));
    assert_eq!(main["hourly_per_address"], 1_000_000);
    assert_eq!(limits(&settings(&of_gateway["limited"])?), ["50.0", "5"]);
    assert_eq!(settings(&of_gateway["usd_only"])?["currencies"], serde_json::json!(["USD"]));
    assert_eq!(settings(&of_gateway["cvv_required"])?["cvv_required"], true);
    assert_eq!(settings(&of_gateway["cvv_optional"])?["cvv_required"], false);
    settings(&of_gateway["other"])?;
    // Here, since of two sandboxes at once both want the same ports.
    rotated_keys_stay(running).await?.stop().await
}

#[test]
fn a_command_gets_a_migrated_database_and_its_exit_code_comes_back() -> Result<()> {
    let root = TempDir::new()?;
    let seen = root.path().join("seen");
    let script = format!("printf %s \"$DATABASE_URL\" > '{}'; exit 7", seen.display());
    let status = program(root.path())?.args(["database", "--", "sh", "-c", &script]).status()?;
    assert_eq!(status.code(), Some(7));
    assert!(fs::read_to_string(seen)?.starts_with("postgres://"));
    Ok(())
}

#[test]
fn without_a_running_sandbox_ctl_says_so_and_reset_succeeds() -> Result<()> {
    let root = TempDir::new()?;
    let refused = program(root.path())?.args(["ctl", "accounts", "list"]).output()?;
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8(refused.stderr)?.contains("does not run"));
    assert!(program(root.path())?.arg("reset").status()?.success());
    Ok(())
}
