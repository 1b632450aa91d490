//! Wrong machine clocks: nothing is charged early. A process with a wrong clock starts no work that moves money, is not
//! ready, and is reported by the doctor. It resumes by itself when its clock is right.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use testkit::{Client, Cluster, ProcessKind, TempDir};

use crate::recurring_invoices::{cadence, recurring};
use crate::support::{Merchant, created, eventually, id, ok, sale, with};

const DAYS: i64 = 24 * 3600;

/// An adjustable clock of one process.
struct MachineClock {
    file: PathBuf,
    _folder: TempDir,
}

impl MachineClock {
    /// Restarts a process of this kind with an adjustable clock.
    async fn attach(cluster: &mut Cluster, kind: ProcessKind) -> Result<Self> {
        let folder = TempDir::new()?;
        let file = folder.path().join("clock");
        let process = cluster.processes().iter_mut().find(|process| process.kind() == kind).context("a process")?;
        process.set_env("CLOCK_OFFSET_FILE", &file.display().to_string());
        process.restart().await?;
        Ok(Self { file, _folder: folder })
    }

    fn set(&self, seconds: i64) -> Result<()> {
        Ok(std::fs::write(&self.file, seconds.to_string())?)
    }
}

/// The status and text of `/readyz` of the first process of a kind.
async fn ready(cluster: &Cluster, kind: ProcessKind) -> Result<(u16, String)> {
    let response = Client::new(&cluster.metrics_url(kind, 0))?.get("/readyz").await?;
    Ok((response.status, String::from_utf8(response.bytes)?))
}

async fn wait_until_unready(cluster: &Cluster, kind: ProcessKind, reason: &str) -> Result<()> {
    eventually("a process to be unready", async || {
        let (status, text) = ready(cluster, kind).await?;
        Ok((status == 503 && text.contains(reason)).then_some(()))
    })
    .await
}

async fn wait_until_ready(cluster: &Cluster, kind: ProcessKind) -> Result<()> {
    eventually("a process to be ready", async || Ok((ready(cluster, kind).await?.0 == 200).then_some(()))).await
}

/// The doctor's finding about the processes' clocks.
async fn doctor(cluster: &Cluster) -> Result<Value> {
    let report = cluster.ctl_output(&["doctor", "--json"]).await?.json();
    let checks = report["checks"].as_array().context("checks")?.clone();
    checks.into_iter().find(|check| check["check"] == "clocks of processes").context("the check")
}

/// Creates a subscription, a recurring invoice and an invoice that fall due in a few weeks, and nothing that is due
/// now.
async fn schedule_in_weeks(merchant: &Merchant) -> Result<()> {
    let customer = merchant.customer().await?;
    created(&merchant.save_card(&customer, "tok_ok").await?);
    let plan = json!({"name": "Gold", "amount": 2900, "currency": "USD", "interval": "month"});
    let plan = id(&merchant.api.post("/v1/plans", plan).await?.body)?;
    let in_weeks: String = sqlx::query_scalar("SELECT to_char(now() + interval '20 days', 'YYYY-MM-DD')")
        .fetch_one(&merchant.books.db)
        .await?;
    let subscription = json!({"customerId": customer, "planId": plan, "startAt": in_weeks});
    created(&merchant.api.post("/v1/subscriptions", subscription).await?);
    let recurring = with(recurring(&customer, cadence("weekly", 3)), "startDate", in_weeks.as_str());
    created(&merchant.api.post("/v1/recurring_invoices", recurring).await?);
    let invoice = json!({"customerId": customer, "currency": "USD", "amount": 700});
    let invoice = id(created(&merchant.api.post("/v1/invoices", invoice).await?))?;
    let schedule = json!({"collectAt": format!("{in_weeks}T00:00:00Z")});
    ok(&merchant.api.post(&format!("/v1/invoices/{invoice}/schedule"), schedule).await?);
    Ok(())
}

/// The numbers of payments and invoices of an account.
async fn counts(merchant: &Merchant) -> Result<(i64, i64)> {
    let query = "SELECT (SELECT count(*) FROM payments WHERE account_id = $1), (SELECT count(*) FROM invoices WHERE account_id = $1)";
    Ok(sqlx::query_as(query).bind(merchant.books.account).fetch_one(&merchant.books.db).await?)
}

#[tokio::test]
async fn a_scheduler_with_a_fast_clock_charges_nothing_early() -> Result<()> {
    let mut cluster = Cluster::builder().api(1).worker(1).scheduler(1).start().await?;
    let merchant = Merchant::new(&cluster).await?;
    schedule_in_weeks(&merchant).await?;
    let before = counts(&merchant).await?;
    let clock = MachineClock::attach(&mut cluster, ProcessKind::Scheduler).await?;

    // The clock changes while the process runs; then the process starts with a wrong clock.
    clock.set(100 * DAYS)?;
    wait_until_unready(&cluster, ProcessKind::Scheduler, "+8640000.").await?;
    cluster.scheduler(0).kill9()?;
    let waiting = tokio::time::timeout(std::time::Duration::from_secs(6), cluster.scheduler(0).restart());
    assert!(waiting.await.is_err(), "it must not become ready");
    wait_until_unready(&cluster, ProcessKind::Scheduler, "this machine's clock differs").await?;
    eventually("the doctor to report it", async || {
        let finding = doctor(&cluster).await?;
        // The difference is measured again and again, and each measurement is off by up to half a round trip.
        let text = finding["message"].as_str().unwrap_or_default();
        let reported = text.contains("scheduler on ") && text.contains("+8640000.");
        Ok((finding["grade"] == "bad" && reported).then_some(()))
    })
    .await?;
    assert_eq!(counts(&merchant).await?, before, "nothing is charged or issued early");

    // The scheduler resumes when the clock is right.
    clock.set(0)?;
    wait_until_ready(&cluster, ProcessKind::Scheduler).await?;
    assert_eq!(counts(&merchant).await?, before);
    merchant.books.audit().await
}

#[tokio::test]
async fn small_clock_errors_have_no_effect() -> Result<()> {
    let mut cluster = Cluster::builder().api(1).worker(1).scheduler(1).start().await?;
    let merchant = Merchant::new(&cluster).await?;
    for kind in [ProcessKind::Api, ProcessKind::Worker, ProcessKind::Scheduler] {
        // Just below the tolerance, in both directions.
        let clock = MachineClock::attach(&mut cluster, kind).await?;
        clock.set(if kind == ProcessKind::Worker { 1 } else { -1 })?;
        // A process measures the difference of the clocks again and again, each time with an error of up to half a
        // round trip.
        eventually("a payment dated by the database's clock", async || {
            let database_now = "SELECT extract(epoch FROM clock_timestamp())::float8";
            let before: f64 = sqlx::query_scalar(database_now).fetch_one(&merchant.books.db).await?;
            let paid = created(&merchant.pay(100).await?).clone();
            let after: f64 = sqlx::query_scalar(database_now).fetch_one(&merchant.books.db).await?;
            let dated: f64 = sqlx::query_scalar("SELECT extract(epoch FROM $1::text::timestamptz)::float8")
                .bind(paid["createdAt"].as_str().context("a time")?)
                .fetch_one(&merchant.books.db)
                .await?;
            ensure!((before - 0.3..after + 0.3).contains(&dated), "{dated} is not from {before} to {after}");
            Ok(Some(()))
        })
        .await?;
        std::mem::forget(clock);
    }
    merchant.books.audit().await
}

#[tokio::test]
async fn a_worker_and_an_api_with_wrong_clocks_move_no_money() -> Result<()> {
    let mut cluster = Cluster::builder().api(1).worker(1).scheduler(1).start().await?;
    let merchant = Merchant::new(&cluster).await?;
    let worker = MachineClock::attach(&mut cluster, ProcessKind::Worker).await?;
    worker.set(-3600)?;
    wait_until_unready(&cluster, ProcessKind::Worker, "-3600.").await?;
    let paying = merchant.pay_with_key("k", sale(500));
    let fix_clock = async {
        tokio::time::sleep(std::time::Duration::from_secs(5)).await;
        assert_eq!(merchant.books.in_flight().await?, 0, "a worker with a wrong clock must send nothing");
        worker.set(0)?;
        anyhow::Ok(())
    };
    let (paid, fixed) = tokio::join!(paying, fix_clock);
    fixed?;
    let paid = merchant.wait_until_finished(&id(created(&paid?))?).await?;
    assert_eq!(paid["status"], "pending_settlement", "the worker resumes by itself");

    let api = MachineClock::attach(&mut cluster, ProcessKind::Api).await?;
    api.set(5)?;
    wait_until_unready(&cluster, ProcessKind::Api, "+5.").await?;
    let refused = merchant.pay(600).await?;
    assert_eq!((refused.status, refused.body["error"]["code"].as_str()), (503, Some("api_error")), "{refused:?}");
    ok(&merchant.api.get("/v1/payments").await?);
    assert_eq!(merchant.books.payments_with_amount(600).await?, 0);
    api.set(0)?;
    wait_until_ready(&cluster, ProcessKind::Api).await?;
    created(&merchant.pay(600).await?);
    merchant.books.audit().await
}
