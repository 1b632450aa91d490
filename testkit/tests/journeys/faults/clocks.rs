//! Clocks of machines that are wrong: nothing is charged early, and a process with such a clock starts no work that moves money,
//! says so, and is named by the doctor. It goes on by itself once its clock is right.

use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use testkit::{Client, Cluster, Kind, TempDir};

use crate::recurring_invoices::{cadence, recurring};
use crate::support::{Merchant, created, eventually, id, ok, sale, with};

const DAYS: i64 = 24 * 3600;

/// The clock of one process, which can be set.
struct MachineClock {
    file: PathBuf,
    _folder: TempDir,
}

impl MachineClock {
    /// Of a process that is started anew with it.
    async fn of(cluster: &mut Cluster, kind: Kind) -> Result<Self> {
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

/// What `/readyz` of the first process of a kind answers.
async fn ready(cluster: &Cluster, kind: Kind) -> Result<(u16, String)> {
    let answer = Client::new(&cluster.metrics_url(kind, 0))?.get("/readyz").await?;
    Ok((answer.status, String::from_utf8(answer.bytes)?))
}

async fn becomes_unready(cluster: &Cluster, kind: Kind, reason: &str) -> Result<()> {
    eventually("a process that is not ready", async || {
        let (status, text) = ready(cluster, kind).await?;
        Ok((status == 503 && text.contains(reason)).then_some(()))
    })
    .await
}

async fn becomes_ready(cluster: &Cluster, kind: Kind) -> Result<()> {
    eventually("a process that is ready", async || Ok((ready(cluster, kind).await?.0 == 200).then_some(()))).await
}

/// What the doctor says of the processes' clocks.
async fn doctor(cluster: &Cluster) -> Result<Value> {
    let ended = cluster.ctl_to_its_end(&["doctor", "--json"]).await?.json();
    let checks = ended["checks"].as_array().context("checks")?.clone();
    checks.into_iter().find(|check| check["check"] == "clocks of processes").context("the check")
}

/// A subscription, a recurring invoice and an invoice that all fall due in a few weeks, and nothing that is due now.
async fn falls_due_in_weeks(merchant: &Merchant) -> Result<()> {
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

/// Payments and invoices of an account.
async fn made(merchant: &Merchant) -> Result<(i64, i64)> {
    let query = "SELECT (SELECT count(*) FROM payments WHERE account_id = $1), (SELECT count(*) FROM invoices WHERE account_id = $1)";
    Ok(sqlx::query_as(query).bind(merchant.books.account).fetch_one(&merchant.books.db).await?)
}

#[tokio::test]
async fn a_scheduler_whose_clock_is_ahead_makes_nothing_due() -> Result<()> {
    let mut cluster = Cluster::builder().api(1).worker(1).scheduler(1).start().await?;
    let merchant = Merchant::new(&cluster).await?;
    falls_due_in_weeks(&merchant).await?;
    let before = made(&merchant).await?;
    let clock = MachineClock::of(&mut cluster, Kind::Scheduler).await?;

    // Set while it runs, and then started with a wrong clock.
    clock.set(100 * DAYS)?;
    becomes_unready(&cluster, Kind::Scheduler, "+8640000.").await?;
    cluster.scheduler(0).kill9()?;
    let waiting = tokio::time::timeout(std::time::Duration::from_secs(6), cluster.scheduler(0).restart());
    assert!(waiting.await.is_err(), "it must not become ready");
    becomes_unready(&cluster, Kind::Scheduler, "the clock of this machine differs").await?;
    let said = eventually("the doctor to name it", async || {
        let said = doctor(&cluster).await?;
        Ok((said["grade"] == "bad").then_some(said))
    })
    .await?;
    let text = said["says"].as_str().unwrap_or_default();
    assert!(text.contains("scheduler on ") && text.contains("+8640000."), "{said}");
    assert_eq!(made(&merchant).await?, before, "nothing is charged or issued early");

    // What is handed out late by that is handed out once the clock is right.
    clock.set(0)?;
    becomes_ready(&cluster, Kind::Scheduler).await?;
    assert_eq!(made(&merchant).await?, before);
    merchant.books.audit().await
}

#[tokio::test]
async fn a_clock_that_is_slightly_wrong_decides_nothing() -> Result<()> {
    let mut cluster = Cluster::builder().api(1).worker(1).scheduler(1).start().await?;
    let merchant = Merchant::new(&cluster).await?;
    for kind in [Kind::Api, Kind::Worker, Kind::Scheduler] {
        // Each a little less than what is tolerated, in both directions.
        let clock = MachineClock::of(&mut cluster, kind).await?;
        clock.set(if kind == Kind::Worker { 1 } else { -1 })?;
        let paid = created(&merchant.pay(100).await?).clone();
        let off: f64 =
            sqlx::query_scalar("SELECT extract(epoch FROM clock_timestamp() - $1::text::timestamptz)::float8")
                .bind(paid["createdAt"].as_str().context("an instant")?)
                .fetch_one(&merchant.books.db)
                .await?;
        assert!((-0.3..20.0).contains(&off), "{off} s by the clock of the database");
        std::mem::forget(clock);
    }
    merchant.books.audit().await
}

#[tokio::test]
async fn a_worker_and_an_api_with_wrong_clocks_leave_money_to_others() -> Result<()> {
    let mut cluster = Cluster::builder().api(1).worker(1).scheduler(1).start().await?;
    let merchant = Merchant::new(&cluster).await?;
    let worker = MachineClock::of(&mut cluster, Kind::Worker).await?;
    worker.set(-3600)?;
    becomes_unready(&cluster, Kind::Worker, "-3600.").await?;
    let paying = merchant.pay_once("k", sale(500));
    let others = async {
        tokio::time::sleep(std::time::Duration::from_secs(5)).await;
        assert_eq!(merchant.books.sent().await?, 0, "a worker whose clock is wrong sends nothing");
        worker.set(0)?;
        anyhow::Ok(())
    };
    let (paid, others) = tokio::join!(paying, others);
    others?;
    assert_eq!(created(&paid?)["status"], "pending_settlement", "it goes on by itself");

    let api = MachineClock::of(&mut cluster, Kind::Api).await?;
    api.set(5)?;
    becomes_unready(&cluster, Kind::Api, "+5.").await?;
    let refused = merchant.pay(600).await?;
    assert_eq!((refused.status, refused.body["error"]["code"].as_str()), (503, Some("api_error")), "{refused:?}");
    ok(&merchant.api.get("/v1/payments").await?);
    assert_eq!(merchant.books.payments_of(600).await?, 0);
    api.set(0)?;
    becomes_ready(&cluster, Kind::Api).await?;
    created(&merchant.pay(600).await?);
    merchant.books.audit().await
}
