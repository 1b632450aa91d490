//! What is done with all that runs, and what must be true of it.

use std::{collections::BTreeMap, fs, time::Duration};

use anyhow::{Context, Result, bail, ensure};
use reqwest::{Method, Url};
use serde_json::{Value, json};
use testkit::Client;
use tokio::time::{Instant, sleep};

use crate::{container::Container, engine::Engine, limits};

const PATIENCE: Duration = Duration::from_secs(75);
/// As docs/deploying.md has it.
const SCALE: [(&str, usize); 3] = [("api", 3), ("worker", 4), ("scheduler", 2)];
const OURS: [&str; 4] = ["api", "worker", "scheduler", "gateway"];
const CAPABILITIES: [&str; 5] = ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"];

pub(crate) async fn tell(engine: &mut Engine) -> Result<()> {
    engine.up(&[])?;
    let key = account(engine, &["--provider", "mock"])?.1;
    pay_at_all(engine, &key, "tok_ok").await?;
    at_the_gateway(engine).await?;
    engine.up(&SCALE)?;
    pay_at_all(engine, &key, "tok_ok").await?;
    for container in engine.containers.iter().filter(|container| OURS.contains(&container.service.name.as_str())) {
        nothing_more_than_it_needs(container).with_context(|| container.name.clone())?;
    }
    connections_are_left(engine)?;
    prometheus_sees_all(engine).await?;
    one_stops_and_nobody_notices(engine, &key).await?;
    let stopped = engine.stop(|container| OURS.contains(&container.service.name.as_str()))?;
    ensure!(stopped.len() == 9, "only {stopped:?} stopped");
    let servers = engine.stop(|container| !container.service.name.ends_with("migrate"))?;
    ensure!(servers.len() == 3, "only {servers:?} stopped");
    Ok(())
}

/// A new account, by the command of docs/deploying.md: its id and its key.
fn account(engine: &mut Engine, options: &[&str]) -> Result<(String, String)> {
    let create = ["accounts", "create", "--name", "Shop", "--mode", "test", "--as", "operator", "--json"];
    let made: Value = serde_json::from_str(&engine.run("ctl", &[&create, options].concat(), "")?)?;
    let text = |name: &str| made[name].as_str().map(str::to_owned).with_context(|| format!("{name} in {made}"));
    Ok((text("id")?, text("secret_key")?))
}

fn published(container: &Container) -> Result<String> {
    let port = container.ports.first().with_context(|| format!("{} has no port", container.name))?;
    Ok(format!("http://127.0.0.1:{port}"))
}

/// A payment at each api, by the port that is published.
async fn pay_at_all(engine: &Engine, key: &str, token: &str) -> Result<()> {
    for container in engine.of("api") {
        pay(container, key, token).await?;
    }
    Ok(())
}

async fn pay(container: &Container, key: &str, token: &str) -> Result<()> {
    let api = Client::new(&published(container)?)?.bearer(key)?;
    let body = json!({"amount": 1_250, "currency": "USD", "paymentToken": token});
    let answer = api.post("/v1/payments", body).await.with_context(|| container.log())?;
    ensure!(answer.status == 201, "{}: {} {}", container.name, answer.status, answer.body);
    ensure!(answer.body["status"] == "pending_settlement", "{}", answer.body);
    Ok(())
}

/// A payment whose money the card gateway settles, with a card that is given to the gateway.
async fn at_the_gateway(engine: &mut Engine) -> Result<()> {
    let known = engine.exec("gateway", &["gateway", "account", "create", "--username", "shop", "--as", "operator"])?;
    let app_key = serde_json::from_str::<Value>(&known)?["app_key"].as_str().context("app_key")?.to_owned();
    let (id, key) = account(engine, &["--provider", "card_gateway"])?;
    engine.run("ctl", &["accounts", "connect", &id, "--as", "operator", "--json"], &known)?;
    let mut form = Url::parse("http://form")?;
    form.query_pairs_mut()
        .extend_pairs([("app_key", app_key.as_str()), ("creditcard_number", "4242424242424242"), ("cvv", "123")])
        .extend_pairs([("expire_month", "12"), ("expire_year", "2034"), ("name", "Ada Lovelace")])
        .extend_pairs([("zip_code", "10001"), ("country_code", "US")]);
    let form = form.query().unwrap_or_default().to_owned().into_bytes();
    let gateway = engine.of("gateway").next().context("a gateway")?;
    let client = Client::new(&published(gateway)?)?.header("content-type", "application/x-www-form-urlencoded")?;
    let said = client.send(Method::POST, "/services/field_token", Some(form)).await?.body;
    let token = said["response"]["card_token"].as_str().with_context(|| format!("no token: {said}"))?;
    pay(engine.of("api").next().context("an api")?, &key, token).await
}

/// Of every process: whose it is, what it may do, and where it may write.
fn nothing_more_than_it_needs(container: &Container) -> Result<()> {
    let processes = container.processes()?;
    ensure!(!processes.is_empty(), "no process");
    for pid in processes {
        let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
        let said: BTreeMap<_, _> = status.lines().filter_map(|line| line.split_once(":\t")).collect();
        let is = |name: &str, wanted: &str| {
            let found = said.get(name).copied().unwrap_or_default().trim();
            ensure!(found == wanted, "{name} is {found}, and not {wanted}");
            Ok(())
        };
        is("Uid", "10001\t10001\t10001\t10001")?;
        is("Gid", "10001\t10001\t10001\t10001")?;
        is("Groups", "")?;
        is("NoNewPrivs", "1")?;
        CAPABILITIES.iter().try_for_each(|set| is(set, "0000000000000000"))?;
        let groups = fs::read_to_string(format!("/proc/{pid}/cgroup"))?;
        let limited = groups.lines().filter(|group| group.ends_with(&format!("-{}", container.name))).count();
        ensure!(limited > 0 || limits::left_out().is_some(), "no limit is set: {groups}");
        let wanted = limits::files(65_536)?.to_string();
        let limits = fs::read_to_string(format!("/proc/{pid}/limits"))?;
        let files = limits.lines().find(|line| line.starts_with("Max open files")).context("its limits")?;
        ensure!(files.split_whitespace().filter(|word| **word == *wanted).count() == 2, "{files}");
    }
    let open: Vec<_> = container
        .writable()?
        .into_iter()
        .filter(|path| !path.starts_with("/proc") && !path.starts_with("/dev"))
        .collect();
    ensure!(open.is_empty(), "{open:?} may be written to");
    let attempt = "for at in / /tmp /var/tmp /run /run/lock /run/secrets /etc /usr/local/bin /home; do \
                   if : > $at/new; then echo $at; fi; done 2>/dev/null";
    let written = crate::shell::run(&mut container.inside(&["bash", "-c", attempt]))?;
    ensure!(written.is_empty(), "written to: {written}");
    Ok(())
}

/// The sum of docs/operations.md is what the pools may take; here it is what they have.
fn connections_are_left(engine: &Engine) -> Result<()> {
    let ask = |query: &str| -> Result<u64> {
        let asked = ["psql", "-U", "payments", "-d", "payments", "-Atc", query];
        Ok(engine.exec("postgres", &asked)?.trim().parse()?)
    };
    let used = ask("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'")?;
    let most = ask("SELECT setting FROM pg_settings WHERE name = 'max_connections'")?;
    println!("{used} connections of {most} are in use");
    // 3 × 17 + 4 × 26 + 2 × 9 + 21, and the one that asks.
    ensure!(most == 320 && used > 9 && used <= 195, "{used} connections of {most}");
    Ok(())
}

async fn prometheus_sees_all(engine: &Engine) -> Result<()> {
    let prometheus = Client::new(&published(engine.of("prometheus").next().context("a Prometheus")?)?)?;
    let wanted: BTreeMap<_, _> = OURS.map(|service| (service.to_owned(), engine.of(service).count())).into();
    let until = Instant::now() + PATIENCE;
    loop {
        let found = prometheus.get("/api/v1/query?query=up").await?.body;
        let mut seen = BTreeMap::new();
        for series in found["data"]["result"].as_array().into_iter().flatten() {
            let job = series["metric"]["job"].as_str().unwrap_or_default().to_owned();
            *seen.entry(job).or_default() += usize::from(series["value"][1] == "1");
        }
        if seen == wanted {
            break;
        }
        ensure!(Instant::now() < until, "Prometheus sees {seen:?} of {wanted:?}: {found}");
        sleep(Duration::from_millis(250)).await;
    }
    let rules = prometheus.get("/api/v1/rules").await?.body.to_string();
    ensure!(rules.contains("\"name\":\"TickMissing\""), "no rules: {rules}");
    Ok(())
}

/// While one api is told to stop and ends, those that ask whoever is ready are all answered.
async fn one_stops_and_nobody_notices(engine: &mut Engine, key: &str) -> Result<()> {
    let apis: Vec<_> =
        engine.of("api").map(|api| Ok((api.name.clone(), published(api)?, api.address))).collect::<Result<_>>()?;
    let (stopping, ..) = apis.first().context("an api")?.clone();
    let mut ready = Vec::new();
    for (name, url, address) in &apis {
        ready.push((name.clone(), Client::new(url)?.bearer(key)?, Client::new(&format!("http://{address}:9090"))?));
    }
    engine.containers.iter_mut().find(|api| api.name == stopping).context("it runs")?.tell_to_stop()?;
    let (mut answered, mut is_drained) = (BTreeMap::<String, usize>::new(), false);
    let until = Instant::now() + PATIENCE;
    while !is_drained || answered.values().sum::<usize>() < 30 {
        for (name, api, inside) in &ready {
            if inside.get("/readyz").await.is_ok_and(|said| said.status == 200) {
                let answer = api.get("/v1/payments").await?;
                ensure!(answer.status == 200, "{name}: {}", answer.status);
                *answered.entry(name.clone()).or_default() += 1;
            } else if *name == stopping {
                is_drained = true;
            } else {
                bail!("{name} is not ready");
            }
        }
        ensure!(Instant::now() < until, "{stopping} goes on: {answered:?}");
    }
    engine.stop(|api| api.name == stopping).map(drop)
}
