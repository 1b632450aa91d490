//! The steps and checks on the running services.

use std::{collections::BTreeMap, fs, time::Duration};

use anyhow::{Context, Result, bail, ensure};
use reqwest::{Method, Url};
use serde_json::{Value, json};
use testkit::Client;
use tokio::time::{Instant, sleep};

use crate::{container::Container, engine::Engine, limits};

const TIMEOUT: Duration = Duration::from_secs(75);
/// As in docs/deploying.md.
const SCALE: [(&str, usize); 3] = [("api", 3), ("worker", 4), ("scheduler", 2)];
const OURS: [&str; 4] = ["api", "worker", "scheduler", "gateway"];
const CAPABILITIES: [&str; 5] = ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"];

pub(crate) async fn run(engine: &mut Engine) -> Result<()> {
    engine.up(&[])?;
    let key = account(engine, &["--provider", "mock"])?.1;
    pay_at_every_api(engine, &key, "tok_ok").await?;
    pay_through_the_gateway(engine).await?;
    engine.up(&SCALE)?;
    pay_at_every_api(engine, &key, "tok_ok").await?;
    for container in engine.containers.iter().filter(|container| OURS.contains(&container.service.name.as_str())) {
        check_privileges(container).with_context(|| container.name.clone())?;
    }
    check_connections(engine)?;
    await_all_targets(engine).await?;
    stop_one_api_without_errors(engine, &key).await?;
    let stopped = engine.stop(|container| OURS.contains(&container.service.name.as_str()))?;
    ensure!(stopped.len() == 9, "stopped {stopped:?}");
    let servers = engine.stop(|container| !container.service.name.ends_with("migrate"))?;
    ensure!(servers.len() == 3, "stopped {servers:?}");
    Ok(())
}

/// Creates an account with the command of docs/deploying.md: its id and secret key.
fn account(engine: &mut Engine, options: &[&str]) -> Result<(String, String)> {
    let create = ["accounts", "create", "--name", "Shop", "--mode", "test", "--as", "operator", "--json"];
    let created: Value = serde_json::from_str(&engine.run("ctl", &[&create, options].concat(), "")?)?;
    let text = |name: &str| created[name].as_str().map(str::to_owned).with_context(|| format!("{name} in {created}"));
    Ok((text("id")?, text("secret_key")?))
}

fn published_url(container: &Container) -> Result<String> {
    let port = container.ports.first().with_context(|| format!("{} has no port", container.name))?;
    Ok(format!("http://127.0.0.1:{port}"))
}

/// Pays at each api process through its published port.
async fn pay_at_every_api(engine: &Engine, key: &str, token: &str) -> Result<()> {
    for container in engine.containers_of("api") {
        pay(container, key, token).await?;
    }
    Ok(())
}

async fn pay(container: &Container, key: &str, token: &str) -> Result<()> {
    let api = Client::new(&published_url(container)?)?.bearer(key)?;
    let body = json!({"amount": 1_250, "currency": "USD", "paymentToken": token});
    let response = api.post("/v1/payments", body).await.with_context(|| container.log())?;
    ensure!(response.status == 201, "{}: {} {}", container.name, response.status, response.body);
    ensure!(response.body["status"] == "pending_settlement", "{}", response.body);
    Ok(())
}

/// Pays through the card gateway with a card entered at the gateway.
async fn pay_through_the_gateway(engine: &mut Engine) -> Result<()> {
    let keys = engine.exec("gateway", &["gateway", "account", "create", "--username", "shop", "--as", "operator"])?;
    let app_key = serde_json::from_str::<Value>(&keys)?["app_key"].as_str().context("app_key")?.to_owned();
    let (id, key) = account(engine, &["--provider", "card_gateway"])?;
    engine.run("ctl", &["accounts", "connect", &id, "--as", "operator", "--json"], &keys)?;
    let mut form = Url::parse("http://form")?;
    form.query_pairs_mut()
        .extend_pairs([("app_key", app_key.as_str()), ("creditcard_number", "4242424242424242"), ("cvv", "123")])
        .extend_pairs([("expire_month", "12"), ("expire_year", "2034"), ("name", "Ada Lovelace")])
        .extend_pairs([("zip_code", "10001"), ("country_code", "US")]);
    let form = form.query().unwrap_or_default().to_owned().into_bytes();
    let gateway = engine.containers_of("gateway").next().context("a gateway")?;
    let client = Client::new(&published_url(gateway)?)?.header("content-type", "application/x-www-form-urlencoded")?;
    let response = client.send(Method::POST, "/services/field_token", Some(form)).await?.body;
    let token = response["response"]["card_token"].as_str().with_context(|| format!("no token: {response}"))?;
    pay(engine.containers_of("api").next().context("an api")?, &key, token).await
}

/// Checks the user, capabilities, limits and writable paths of every process.
fn check_privileges(container: &Container) -> Result<()> {
    let processes = container.processes()?;
    ensure!(!processes.is_empty(), "no process");
    for pid in processes {
        let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
        let fields: BTreeMap<_, _> = status.lines().filter_map(|line| line.split_once(":\t")).collect();
        let is = |name: &str, expected: &str| {
            let value = fields.get(name).copied().unwrap_or_default().trim();
            ensure!(value == expected, "{name} is {value}, not {expected}");
            Ok(())
        };
        is("Uid", "10001\t10001\t10001\t10001")?;
        is("Gid", "10001\t10001\t10001\t10001")?;
        is("Groups", "")?;
        is("NoNewPrivs", "1")?;
        CAPABILITIES.iter().try_for_each(|set| is(set, "0000000000000000"))?;
        let groups = fs::read_to_string(format!("/proc/{pid}/cgroup"))?;
        let limited = groups.lines().filter(|group| group.ends_with(&format!("-{}", container.name))).count();
        ensure!(limited > 0 || limits::unavailable().is_some(), "no limit is set: {groups}");
        let open_files = limits::open_files(65_536)?.to_string();
        let limits = fs::read_to_string(format!("/proc/{pid}/limits"))?;
        let files = limits.lines().find(|line| line.starts_with("Max open files")).context("Max open files")?;
        ensure!(files.split_whitespace().filter(|word| **word == *open_files).count() == 2, "{files}");
    }
    let writable: Vec<_> = container
        .writable()?
        .into_iter()
        .filter(|path| !path.starts_with("/proc") && !path.starts_with("/dev"))
        .collect();
    ensure!(writable.is_empty(), "writable mounts: {writable:?}");
    let attempt = "for at in / /tmp /var/tmp /run /run/lock /run/secrets /etc /usr/local/bin /home; do \
                   if : > $at/new; then echo $at; fi; done 2>/dev/null";
    let written = crate::shell::run(&mut container.exec_command(&["bash", "-c", attempt]))?;
    ensure!(written.is_empty(), "files could be created in {written}");
    Ok(())
}

/// Checks the connections in use against the pool sizes that docs/operations.md adds up.
fn check_connections(engine: &Engine) -> Result<()> {
    let number = |query: &str| -> Result<u64> {
        let command = ["psql", "-U", "payments", "-d", "payments", "-Atc", query];
        Ok(engine.exec("postgres", &command)?.trim().parse()?)
    };
    let used = number("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'")?;
    let max = number("SELECT setting FROM pg_settings WHERE name = 'max_connections'")?;
    println!("{used} connections of {max} are in use");
    // 3 × 17 + 4 × 26 + 2 × 9 + 21, and this connection.
    ensure!(max == 320 && used > 9 && used <= 195, "{used} connections of {max}");
    Ok(())
}

async fn await_all_targets(engine: &Engine) -> Result<()> {
    let prometheus = Client::new(&published_url(engine.containers_of("prometheus").next().context("a Prometheus")?)?)?;
    let expected: BTreeMap<_, _> =
        OURS.map(|service| (service.to_owned(), engine.containers_of(service).count())).into();
    let until = Instant::now() + TIMEOUT;
    loop {
        let response = prometheus.get("/api/v1/query?query=up").await?.body;
        let mut up = BTreeMap::new();
        for series in response["data"]["result"].as_array().into_iter().flatten() {
            let job = series["metric"]["job"].as_str().unwrap_or_default().to_owned();
            *up.entry(job).or_default() += usize::from(series["value"][1] == "1");
        }
        if up == expected {
            break;
        }
        ensure!(Instant::now() < until, "Prometheus has {up:?} of the targets {expected:?}: {response}");
        sleep(Duration::from_millis(250)).await;
    }
    let rules = prometheus.get("/api/v1/rules").await?.body.to_string();
    ensure!(rules.contains("\"name\":\"TickMissing\""), "no rules: {rules}");
    Ok(())
}

/// Stops one api process. Until it has stopped, every request to a ready process succeeds, as behind a load balancer.
async fn stop_one_api_without_errors(engine: &mut Engine, key: &str) -> Result<()> {
    let apis: Vec<_> = engine
        .containers_of("api")
        .map(|api| Ok((api.name.clone(), published_url(api)?, api.address)))
        .collect::<Result<_>>()?;
    let (stopping, ..) = apis.first().context("an api")?.clone();
    let mut targets = Vec::new();
    for (name, url, address) in &apis {
        targets.push((name.clone(), Client::new(url)?.bearer(key)?, Client::new(&format!("http://{address}:9090"))?));
    }
    engine.containers.iter_mut().find(|api| api.name == stopping).context("the process to stop")?.request_stop()?;
    let (mut responses, mut is_drained) = (BTreeMap::<String, usize>::new(), false);
    let until = Instant::now() + TIMEOUT;
    while !is_drained || responses.values().sum::<usize>() < 30 {
        for (name, api, metrics) in &targets {
            if metrics.get("/readyz").await.is_ok_and(|response| response.status == 200) {
                let response = api.get("/v1/payments").await?;
                ensure!(response.status == 200, "{name}: {}", response.status);
                *responses.entry(name.clone()).or_default() += 1;
            } else if *name == stopping {
                is_drained = true;
            } else {
                bail!("{name} is not ready");
            }
        }
        ensure!(Instant::now() < until, "{stopping} stays ready: {responses:?}");
    }
    engine.stop(|api| api.name == stopping).map(drop)
}
