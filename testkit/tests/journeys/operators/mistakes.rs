//! What `ctl` says and refuses before an operator makes a mistake.

use std::time::{Duration, Instant};

use anyhow::Result;
use testkit::Cluster;

use super::ctl_error;
use crate::support::{cluster, created, merchant, payment};

#[tokio::test]
async fn help_shows_what_an_account_requires() -> Result<()> {
    let help = cluster().await?.ctl_output(&["accounts", "create", "--help"]).await?;
    assert_eq!(help.code, 0, "{help:?}");
    for required in ["--mode <MODE>", "--name <NAME>", "--provider <PROVIDER>"] {
        let usage = help.stdout.lines().find(|line| line.starts_with("Usage:")).unwrap_or_default();
        assert!(usage.contains(required) && !usage.contains(&format!("[{required}")), "{required}: {usage}");
    }
    Ok(())
}

#[tokio::test]
async fn commands_say_at_once_why_postgres_cannot_be_reached() -> Result<()> {
    let unreachable =
        ["DATABASE_URL", "GATEWAY_DATABASE_URL"].map(|name| (name, "postgres://api:secret@127.0.0.1:1/none"));
    let cluster = cluster().await?;
    let started = Instant::now();
    for command in [["accounts", "list"], ["gateway", "receipts"]] {
        let output = cluster.ctl_output_with(&unreachable, &command).await?;
        assert_ne!(output.code, 0, "{output:?}");
        let refused = output.stderr;
        assert!(refused.contains("cannot connect to Postgres") && refused.contains("refused"), "{refused}");
        assert!(!refused.contains("secret"), "{refused}");
    }
    assert!(started.elapsed() < Duration::from_secs(25), "{:?}", started.elapsed());
    Ok(())
}

#[tokio::test]
async fn live_accounts_at_the_mock_are_refused() -> Result<()> {
    let cluster = cluster().await?;
    let create = ["accounts", "create", "--name", "Live", "--mode", "live", "--provider"];
    let refused = ctl_error(cluster, &[&create[..], &["mock"]].concat()).await?;
    assert!(refused.contains("no money moves"), "{refused}");
    let live = cluster.account_with(&["--mode", "live", "--provider", "card_gateway"]).await?;
    let refused = ctl_error(cluster, &["accounts", "set", &live.id, "--provider", "mock"]).await?;
    assert!(refused.contains("no money moves"), "{refused}");
    cluster.ctl(&["accounts", "set", &live.id, "--provider", "mock", "--allow-mock"]).await?;
    Ok(())
}

#[tokio::test]
async fn the_mock_shows_what_was_set() -> Result<()> {
    let (cluster, merchant) = (cluster().await?, merchant().await?);
    let account = merchant.account.id.as_str();
    let set = ["mock", "set", account, "--latency-ms", "5", "--class", "b", "--without", "payments.authorize"];
    let set = cluster.ctl(&set).await?;
    assert_eq!(cluster.ctl(&["mock", "show", account]).await?, set);
    for (field, value) in [("latency_ms", "5"), ("lose_responses", "0"), ("refuse", "false"), ("reject", "false")] {
        assert_eq!(set[field].to_string(), value, "{field}");
    }
    assert_eq!((&set["class"], &set["without"][0]), (&"B".into(), &"payments.authorize".into()));
    Ok(())
}

/// The day of the database, in UTC.
async fn today(cluster: &Cluster) -> Result<String> {
    let now = cluster.ctl(&["accounts", "list"]).await?;
    let newest = now["accounts"][0]["created_at"].as_str().unwrap_or_default();
    Ok(newest[..10].to_owned())
}

#[tokio::test]
async fn a_comparison_of_a_day_that_is_not_over_says_so() -> Result<()> {
    let (cluster, merchant) = (cluster().await?, merchant().await?);
    created(&merchant.api.post("/v1/payments", payment(900, "tok_ok")).await?);
    let compare = ["reconcile", "--account", &merchant.account.id, "--day"];
    for (day, is_over) in [(today(cluster).await?.as_str(), false), ("2020-01-01", true)] {
        let output = cluster.ctl_output(&[&compare[..], &[day]].concat()).await?;
        assert_eq!(output.stdout.contains("the day is not over in UTC"), !is_over, "{output:?}");
        assert_eq!(cluster.ctl(&[&compare[..], &[day]].concat()).await?["day_is_over"], is_over);
    }
    Ok(())
}

#[tokio::test]
async fn approval_rates_are_rounded() -> Result<()> {
    let (cluster, merchant) = (cluster().await?, merchant().await?);
    for token in ["tok_ok", "tok_ok", "tok_insufficient"] {
        created(&merchant.api.post("/v1/payments", payment(900, token)).await?);
    }
    let volume = cluster.ctl(&["accounts", "volume", &merchant.account.id]).await?;
    assert_eq!(volume["volume"][0]["approval_rate"].to_string(), "0.6667");
    Ok(())
}
