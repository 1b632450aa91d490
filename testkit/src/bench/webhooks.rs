//! `bench webhooks`: from POST /v1/customers to the arrival of `customer.created`, compared with a bare HTTP client
//! that posts to the same receiver.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::hop::percentile;
use super::load::{self, Exchange};
use super::payments::measured_processes;
use super::report::{Goal, Report, Row};
use super::usage;
use crate::receiver::{Receiver, Reply};
use crate::{Account, Client, Cluster};

const CLIENTS: usize = 32;
/// Endpoints that receive each event.
const MANY_ENDPOINTS: usize = 20;
const WARM_UP: Duration = Duration::from_secs(2);
/// How long all accepted deliveries may take to arrive after the load has ended.
const TIMEOUT: Duration = Duration::from_secs(120);
/// Between events of the idle run, so that each finds the processes idle.
const PAUSE: Duration = Duration::from_millis(20);
const BODY: &str = r#"{"email":"ada@example.com","name":"Ada Lovelace","phone":"+15550100"}"#;

/// When each customer's request was sent, when its response arrived, and when each webhook for it arrived.
#[derive(Default)]
struct Timeline {
    sent: HashMap<String, (Instant, Instant)>,
    received: Vec<(String, Instant)>,
}

type Shared = Arc<Mutex<Timeline>>;

fn lock(timeline: &Shared) -> std::sync::MutexGuard<'_, Timeline> {
    timeline.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The customer id in a message.
fn customer(message: &str) -> Option<String> {
    let at = message.find("\"id\":\"cus_")? + 6;
    message.get(at..at + 30).map(str::to_owned)
}

/// Runs the loads, prints a table and returns the report.
pub(super) async fn run(seconds: u64) -> Result<Report> {
    let mut cluster = super::cluster().await?;
    let timeline = Shared::default();
    let receiver = {
        let timeline = Arc::clone(&timeline);
        Receiver::start(move |request| {
            if let Some(customer) = customer(&String::from_utf8_lossy(&request.body)) {
                lock(&timeline).received.push((customer, request.at.into_std()));
            }
            Reply::ok()
        })
        .await?
    };
    println!(
        "endpoints  clients  events/s  deliveries/s  p50 ms  p99 ms   after response p50 ms  p99 ms    CPU ms/delivery"
    );
    let mut loads = Vec::new();
    for (endpoints, clients) in [(1, 1), (1, CLIENTS), (MANY_ENDPOINTS, CLIENTS)] {
        let account = account(&cluster, &receiver.url("/"), endpoints).await?;
        loads.push(load(&mut cluster, &account, &timeline, endpoints, clients, seconds).await?);
    }
    let memory = usage::memory_mib(&measured_processes(&mut cluster));
    println!("memory MiB: {memory:.0?}");
    let bare_client = bare_client(&receiver.url("/"), seconds).await?;
    println!("a bare reqwest loop sends {bare_client:.0} posts per second to the same receiver, {CLIENTS} at a time");
    let rows = loads.iter().filter(|load| load["clients"] == CLIENTS).map(|load| {
        let what = format!("webhooks/s, {} endpoints, vs. a bare client", load["endpoints"]);
        let ours = load["deliveries_per_second"].as_f64().unwrap_or(f64::NAN);
        Row { bench: "webhooks", what, ours, baseline: Some(bare_client), goal: Goal::None }
    });
    let rows = rows.collect();
    let details = json!({
        "bench": "webhooks", "seconds": seconds, "loads": loads, "bare_posts_per_second": bare_client, "memory_mib": memory,
    });
    Ok(Report { rows, details, ..Report::default() })
}

/// An account with `endpoints` webhook endpoints at the receiver.
async fn account(cluster: &Cluster, url: &str, endpoints: usize) -> Result<Account> {
    let account = cluster.account_with(&super::NO_LIMIT).await?;
    let api = Client::new(&cluster.api_url(0))?.bearer(&account.secret_key)?;
    for number in 0..endpoints {
        let response = api.post("/v1/webhook_endpoints", json!({"url": format!("{url}{number}")})).await?;
        ensure!(response.status == 201, "cannot create an endpoint: {:?}", response.status);
    }
    Ok(account)
}

async fn load(
    cluster: &mut Cluster,
    account: &Account,
    timeline: &Shared,
    endpoints: usize,
    clients: usize,
    seconds: u64,
) -> Result<Value> {
    let create =
        Exchange::post(&cluster.api_url(0), "/v1/customers", &account.secret_key, BODY, "\"object\":\"customer\"");
    load::closed_loop(clients, WARM_UP, &create).await?;
    sleep(Duration::from_secs(1)).await;
    *lock(timeline) = Timeline::default();

    let measured_processes = measured_processes(cluster);
    let (before, began) = (usage::cpu_seconds(&measured_processes), Instant::now());
    let recorded = Arc::clone(timeline);
    let pause = if clients == 1 { PAUSE } else { Duration::ZERO };
    load::closed_loop_with(clients, Duration::from_secs(seconds), &create, pause, move |response, sent| {
        if let Some(customer) = customer(response) {
            lock(&recorded).sent.insert(customer, (sent, Instant::now()));
        }
    })
    .await?;
    let accepting_for = began.elapsed();
    let expected = lock(timeline).sent.len() * endpoints;
    while lock(timeline).received.len() < expected {
        let in_time = began.elapsed() < accepting_for + TIMEOUT;
        ensure!(in_time, "only {} of {expected} arrived", lock(timeline).received.len());
        sleep(Duration::from_millis(5)).await;
    }
    sleep(Duration::from_millis(100)).await;
    let after = usage::cpu_seconds(&measured_processes);

    let timeline = std::mem::take(&mut *lock(timeline));
    let last = timeline.received.iter().map(|(_, at)| *at).max().context("nothing arrived")?;
    let elapsed = last.duration_since(began).as_secs_f64();
    let mut from_request = Vec::new();
    let mut from_response = Vec::new();
    for (customer, at) in &timeline.received {
        // Deliveries of the warm-up do not count.
        let Some((sent, responded)) = timeline.sent.get(customer) else { continue };
        from_request.push(at.duration_since(*sent).as_secs_f64() * 1000.0);
        // A webhook may arrive before the client has read its response.
        from_response.push(at.saturating_duration_since(*responded).as_secs_f64() * 1000.0);
    }
    from_request.sort_by(f64::total_cmp);
    from_response.sort_by(f64::total_cmp);
    let deliveries = from_request.len() as f64;
    let cpu: BTreeMap<_, _> = after
        .iter()
        .map(|(name, used)| (name.clone(), (used - before.get(name).unwrap_or(&0.0)) / deliveries))
        .collect();
    let total: f64 = cpu.values().sum();
    let [p50, p99] = [50, 99].map(|percent| percentile(&from_request, percent));
    let [response_p50, response_p99] = [50, 99].map(|percent| percentile(&from_response, percent));
    let events = timeline.sent.len() as f64 / elapsed;
    println!(
        "{endpoints:>9} {clients:>8} {events:>9.0} {:>13.0} {p50:>7.2} {p99:>7.2} {response_p50:>23.2} {response_p99:>7.2} {:>18.2}",
        deliveries / elapsed,
        total * 1000.0
    );
    Ok(json!({
        "endpoints": endpoints, "clients": clients, "events_per_second": events,
        "deliveries_per_second": deliveries / elapsed, "p50_ms": p50, "p99_ms": p99,
        "from_response_p50_ms": response_p50, "from_response_p99_ms": response_p99,
        "cpu_seconds_per_delivery": total, "cpu_seconds_per_delivery_by_process": cpu,
    }))
}

/// Posts per second of an HTTP client library that does nothing else.
async fn bare_client(url: &str, seconds: u64) -> Result<f64> {
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
    while let Some(count) = tasks.join_next().await {
        posts += count??;
    }
    Ok(posts as f64 / began.elapsed().as_secs_f64())
}
