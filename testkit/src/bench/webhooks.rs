//! `bench webhooks`: POST /v1/customers until `customer.created` has been received, beside what a bare HTTP client reaches at
//! the same receiver.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::hop::percentile;
use super::load::{self, Exchange};
use super::payments::watched;
use super::receiver::Receiver;
use super::report::{Goal, Report, Row};
use super::usage;
use crate::{Account, Client, Cluster};

const CLIENTS: usize = 32;
/// Endpoints that hear of each event.
const MANY: usize = 20;
const WARM_UP: Duration = Duration::from_secs(2);
/// How long all that was accepted may take to arrive once the load has ended.
const PATIENCE: Duration = Duration::from_secs(120);
/// Between events of the idle run, so that each finds everything asleep.
const PAUSE: Duration = Duration::from_millis(20);
const BODY: &str = r#"{"email":"ada@example.com","name":"Ada Lovelace","phone":"+15550100"}"#;

/// When each customer's request was sent, when it was answered, and when which endpoint heard of it.
#[derive(Default)]
struct Diary {
    sent: HashMap<String, (Instant, Instant)>,
    heard: Vec<(String, Instant)>,
}

type Shared = Arc<Mutex<Diary>>;

fn open(diary: &Shared) -> std::sync::MutexGuard<'_, Diary> {
    diary.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The customer that a message is about.
fn customer(message: &str) -> Option<String> {
    let at = message.find("\"id\":\"cus_")? + 6;
    message.get(at..at + 30).map(str::to_owned)
}

/// Runs the loads and prints a table; answers the report.
pub(super) async fn run(seconds: u64) -> Result<Report> {
    let mut cluster = super::cluster().await?;
    let diary = Shared::default();
    let receiver = {
        let diary = Arc::clone(&diary);
        Receiver::start(move |message, at| {
            if let Some(customer) = customer(message) {
                open(&diary).heard.push((customer, at));
            }
        })
        .await?
    };
    println!(
        "endpoints  clients  events/s  deliveries/s  p50 ms  p99 ms  from the answer p50 ms  p99 ms  CPU ms a delivery"
    );
    let mut loads = Vec::new();
    for (endpoints, clients) in [(1, 1), (1, CLIENTS), (MANY, CLIENTS)] {
        let account = account(&cluster, &receiver.url, endpoints).await?;
        loads.push(load(&mut cluster, &account, &diary, endpoints, clients, seconds).await?);
    }
    let memory = usage::memory_mib(&watched(&mut cluster));
    println!("memory MiB: {memory:.0?}");
    let bare = bare(&receiver.url, seconds).await?;
    println!("a bare reqwest loop posts {bare:.0} times a second to the same receiver, {CLIENTS} at a time");
    let rows = loads.iter().filter(|load| load["clients"] == CLIENTS).map(|load| {
        let what = format!("webhooks/s, {} endpoints, beside a bare client", load["endpoints"]);
        let ours = load["deliveries_per_second"].as_f64().unwrap_or(f64::NAN);
        Row { bench: "webhooks", what, ours, floor: Some(bare), goal: Goal::None }
    });
    let rows = rows.collect();
    let details = json!({
        "bench": "webhooks", "seconds": seconds, "loads": loads, "bare_posts_per_second": bare, "memory_mib": memory,
    });
    Ok(Report { rows, details, ..Report::default() })
}

/// An account that so many endpoints of the receiver listen to.
async fn account(cluster: &Cluster, url: &str, endpoints: usize) -> Result<Account> {
    let account = cluster.account_with(&super::NO_LIMIT).await?;
    let api = Client::new(&cluster.api_url(0))?.bearer(&account.secret_key)?;
    for number in 0..endpoints {
        let answer = api.post("/v1/webhook_endpoints", json!({"url": format!("{url}/{number}")})).await?;
        ensure!(answer.status == 201, "an endpoint was not made: {:?}", answer.status);
    }
    Ok(account)
}

async fn load(
    cluster: &mut Cluster,
    account: &Account,
    diary: &Shared,
    endpoints: usize,
    clients: usize,
    seconds: u64,
) -> Result<Value> {
    let create =
        Exchange::post(&cluster.api_url(0), "/v1/customers", &account.secret_key, BODY, "\"object\":\"customer\"");
    load::closed_loop(clients, WARM_UP, &create).await?;
    sleep(Duration::from_secs(1)).await;
    *open(diary) = Diary::default();

    let watched = watched(cluster);
    let (before, began) = (usage::cpu_seconds(&watched), Instant::now());
    let noted = Arc::clone(diary);
    let pause = if clients == 1 { PAUSE } else { Duration::ZERO };
    load::closed_loop_with(clients, Duration::from_secs(seconds), &create, pause, move |answer, sent| {
        if let Some(customer) = customer(answer) {
            open(&noted).sent.insert(customer, (sent, Instant::now()));
        }
    })
    .await?;
    let accepting = began.elapsed();
    let expected = open(diary).sent.len() * endpoints;
    while open(diary).heard.len() < expected {
        ensure!(began.elapsed() < accepting + PATIENCE, "only {} of {expected} arrived", open(diary).heard.len());
        sleep(Duration::from_millis(5)).await;
    }
    sleep(Duration::from_millis(100)).await;
    let after = usage::cpu_seconds(&watched);

    let diary = std::mem::take(&mut *open(diary));
    let last = diary.heard.iter().map(|(_, at)| *at).max().context("nothing arrived")?;
    let elapsed = last.duration_since(began).as_secs_f64();
    let mut whole = Vec::new();
    let mut accepted = Vec::new();
    for (customer, at) in &diary.heard {
        // What the warm-up left behind is not ours.
        let Some((sent, answered)) = diary.sent.get(customer) else { continue };
        whole.push(at.duration_since(*sent).as_secs_f64() * 1000.0);
        // Some are delivered before the client has read its answer.
        accepted.push(at.saturating_duration_since(*answered).as_secs_f64() * 1000.0);
    }
    whole.sort_by(f64::total_cmp);
    accepted.sort_by(f64::total_cmp);
    let deliveries = whole.len() as f64;
    let cpu: BTreeMap<_, _> = after
        .iter()
        .map(|(name, used)| (name.clone(), (used - before.get(name).unwrap_or(&0.0)) / deliveries))
        .collect();
    let total: f64 = cpu.values().sum();
    let [p50, p99] = [50, 99].map(|percent| percentile(&whole, percent));
    let [accepted_p50, accepted_p99] = [50, 99].map(|percent| percentile(&accepted, percent));
    let events = diary.sent.len() as f64 / elapsed;
    println!(
        "{endpoints:>9} {clients:>8} {events:>9.0} {:>13.0} {p50:>7.2} {p99:>7.2} {accepted_p50:>23.2} {accepted_p99:>7.2} {:>18.2}",
        deliveries / elapsed,
        total * 1000.0
    );
    Ok(json!({
        "endpoints": endpoints, "clients": clients, "events_per_second": events,
        "deliveries_per_second": deliveries / elapsed, "p50_ms": p50, "p99_ms": p99,
        "from_answer_p50_ms": accepted_p50, "from_answer_p99_ms": accepted_p99,
        "cpu_seconds_per_delivery": total, "cpu_seconds_per_delivery_by_process": cpu,
    }))
}

/// Posts per second that a client library reaches which does nothing else.
async fn bare(url: &str, seconds: u64) -> Result<f64> {
    let client = reqwest::Client::builder().no_proxy().build()?;
    let (began, duration) = (Instant::now(), Duration::from_secs(seconds));
    let payload = "x".repeat(450);
    let mut tasks = JoinSet::new();
    for _ in 0..CLIENTS {
        let (client, url, payload) = (client.clone(), url.to_owned(), payload.clone());
        tasks.spawn(async move {
            let mut posts = 0u64;
            while began.elapsed() < duration {
                client.post(&url).body(payload.clone()).send().await?.bytes().await?;
                posts += 1;
            }
            anyhow::Ok(posts)
        });
    }
    let mut posts = 0;
    while let Some(made) = tasks.join_next().await {
        posts += made??;
    }
    Ok(posts as f64 / began.elapsed().as_secs_f64())
}
