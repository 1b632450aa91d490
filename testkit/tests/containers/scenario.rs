//! The steps and checks on the running services, with the commands of docs/deploying.md.

use std::{collections::BTreeMap, process::Command, time::Duration};

use anyhow::{Context, Result, ensure};
use reqwest::Method;
use serde_json::json;
use testkit::{
    Client,
    docker::{Docker, run as execute},
    form,
};
use tokio::time::{Instant, sleep};

const API: &str = "http://127.0.0.1:8080";
const PORTAL: &str = "http://127.0.0.1:8070";
/// `PORTAL_URL` of .env.example.
const PORTAL_ORIGIN: &str = "http://localhost:8070";
const GATEWAY: &str = "http://127.0.0.1:8090";
const PROMETHEUS: &str = "http://127.0.0.1:9090";
const TIMEOUT: Duration = Duration::from_secs(75);
const OURS: [(&str, usize); 5] = [("api", 3), ("portal", 1), ("worker", 4), ("scheduler", 2), ("gateway", 1)];
const SCALE: [&str; 6] = ["--scale", "api=3", "--scale", "worker=4", "--scale", "scheduler=2"];
/// The document whose commands are run.
const GUIDE: &str = include_str!("../../../docs/deploying.md");
/// Prints what a process of ours may do, and each folder in which it can create a file.
const PRIVILEGES: &str = "grep -h -E '^(Uid|Gid|Groups|NoNewPrivs|Cap...):' /proc/1/status; \
                          find / -xdev -type d -writable -print 2>/dev/null; \
                          for at in /tmp /var/tmp /run /run/secrets /dev /dev/shm /home /usr/local/bin; do \
                          if : > $at/new; then echo $at; fi; done 2>/dev/null; true";

pub(crate) async fn run(docker: &Docker) -> Result<()> {
    let guide = block("## Docker Compose")?;
    println!("{}", execute(&mut as_operator(docker, guide))?);
    docker.up(&SCALE)?;
    let account = docker.account("mock")?;
    let api = Client::new(API)?.bearer(&account.secret_key)?;
    pay(&api, "tok_ok").await?;
    see_the_payment_in_the_portal(docker, &account.id).await?;
    pay_through_the_gateway(docker).await?;
    for (service, count) in OURS {
        let containers = docker.containers(service)?;
        ensure!(containers.len() == count, "{service}: {containers:?}");
        containers.iter().try_for_each(|id| check_privileges(docker, id).with_context(|| service.to_owned()))?;
    }
    check_postgres(docker)?;
    await_all_targets().await?;
    for command in ["docker compose exec gateway gateway account list", "docker compose restart balancer"] {
        ensure!(GUIDE.contains(&format!("`{command}`")), "docs/deploying.md has no {command}");
        execute(&mut as_operator(docker, command))?;
    }
    start_what_was_stopped(docker, guide)?;
    kill_one_of_each(docker).await?;
    // The former connections may lead to the balancer that was killed.
    let api = Client::new(API)?.bearer(&account.secret_key)?;
    pay(&api, "tok_ok").await?;
    replace_all(docker, &api).await?;
    check_redis_users(docker)?;
    docker.compose(&["stop"])?;
    for id in docker.compose(&["ps", "--all", "--quiet"])?.split_whitespace() {
        let code = docker.inspect(id, "{{.Name}} exited with {{.State.ExitCode}}")?;
        ensure!(code.ends_with(" 0"), "{code}");
    }
    docker.compose(&["down", "--volumes"]).map(drop)
}

/// The first block of commands below a heading of the guide.
fn block(heading: &str) -> Result<&'static str> {
    let below = GUIDE.split_once(&format!("\n{heading}\n")).map(|(_, below)| below);
    let block = below.and_then(|below| below.split_once("\n```sh\n")?.1.split("\n```").next());
    block.with_context(|| format!("docs/deploying.md has no commands below {heading}"))
}

/// Commands of the guide, in the project's folder.
fn as_operator(docker: &Docker, commands: &str) -> Command {
    docker.command(&["USER=operator", "bash", "-eu", "-o", "pipefail", "-c", commands])
}

/// A container that was stopped by hand is started by the last command of the guide, and the others remain.
fn start_what_was_stopped(docker: &Docker, guide: &str) -> Result<()> {
    let before = docker.containers("worker")?;
    let stopped = before.first().context("a worker")?;
    docker.docker(&["stop", stopped])?;
    let running = docker.containers("worker")?;
    ensure!(!running.contains(stopped), "it was started again: {running:?}");
    execute(&mut as_operator(docker, guide.lines().next_back().context("commands")?))?;
    let sorted = |mut ids: Vec<String>| {
        ids.sort();
        ids
    };
    let (after, before) = (sorted(docker.containers("worker")?), sorted(before));
    ensure!(after == before, "{before:?}, {after:?}");
    docker.up(&SCALE)
}

async fn pay(api: &Client, token: &str) -> Result<()> {
    let body = json!({"amount": 1_250, "currency": "USD", "paymentToken": token});
    let response = api.post("/v1/payments", body).await?;
    ensure!(response.status == 201, "{} {}", response.status, String::from_utf8_lossy(&response.bytes));
    ensure!(response.body["status"] == "pending_settlement", "{}", response.body);
    Ok(())
}

/// Signs in to the portal as a new user and opens the first page, for which it makes requests to its own API.
async fn see_the_payment_in_the_portal(docker: &Docker, account: &str) -> Result<()> {
    let listed = docker.ctl(&["accounts", "list"])?;
    let mut accounts = listed["accounts"].as_array().context("accounts")?.iter();
    let row = accounts.find(|row| row["id"] == account).context("the account is not listed")?;
    let merchant = row["merchant"].as_str().context("merchant")?;
    let email = "ada@shop.example";
    let create = ["users", "create", "--merchant", merchant, "--email", email, "--role", "owner", "--as", "operator"];
    let user = docker.ctl(&create)?;
    let password = user["password"].as_str().context("password")?;
    let browser = Client::new(PORTAL)?.header("origin", PORTAL_ORIGIN)?;
    let browser = browser.header("content-type", "application/x-www-form-urlencoded")?;
    let fields = form([("email", email), ("password", password)]);
    let response = browser.send(Method::POST, "/sign-in", Some(fields.into_bytes())).await?;
    let cookie = response.header("set-cookie").and_then(|cookie| cookie.split(';').next());
    let cookie = cookie.with_context(|| format!("the sign-in: {}", response.status))?;
    let page = browser.header("cookie", cookie)?.get("/test").await?;
    let html = String::from_utf8_lossy(&page.bytes);
    ensure!(page.status == 200 && html.contains("/test/payments/pay_"), "the portal: {} {html}", page.status);
    Ok(())
}

/// Pays through the card gateway with a card entered at the gateway.
async fn pay_through_the_gateway(docker: &Docker) -> Result<()> {
    let (account, keys) = docker.account_at_gateway(&[])?;
    let app_key = keys["app_key"].as_str().context("app_key")?;
    let fields = [("app_key", app_key), ("creditcard_number", "4242424242424242"), ("cvv", "123")];
    let more = [("expire_month", "12"), ("expire_year", "2034"), ("name", "Ada Lovelace")];
    let rest = [("zip_code", "10001"), ("country_code", "US")];
    let form = form(fields.into_iter().chain(more).chain(rest));
    let client = Client::new(GATEWAY)?.header("content-type", "application/x-www-form-urlencoded")?;
    let response = client.send(Method::POST, "/services/field_token", Some(form.into_bytes())).await?.body;
    let token = response["response"]["card_token"].as_str().with_context(|| format!("no token: {response}"))?;
    pay(&Client::new(API)?.bearer(&account.secret_key)?, token).await
}

/// Checks that a container runs as the user of the image, without rights, and can write nowhere.
fn check_privileges(docker: &Docker, container: &str) -> Result<()> {
    let printed = docker.docker(&["exec", container, "bash", "-c", PRIVILEGES])?;
    let (facts, writable): (Vec<_>, Vec<_>) = printed.lines().partition(|line| !line.starts_with('/'));
    ensure!(writable.is_empty(), "it can write in {writable:?}");
    let none = ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"].map(|set| format!("{set}:\t0000000000000000"));
    let user = ["Uid", "Gid"].map(|id| format!("{id}:\t10001\t10001\t10001\t10001"));
    for expected in none.iter().chain(&user).map(String::as_str).chain(["NoNewPrivs:\t1"]) {
        ensure!(facts.contains(&expected), "{expected} is not in {facts:?}");
    }
    Ok(())
}

/// Checks the connections in use against the pool sizes that docs/operations.md adds up, and that `ctl` ends its own.
fn check_postgres(docker: &Docker) -> Result<()> {
    let number = |query: &str| -> Result<u64> {
        let psql = ["exec", "-T", "postgres", "psql", "-U", "payments", "-d", "payments", "-h", "127.0.0.1", "-Atc"];
        Ok(docker.compose(&[&psql[..], &[query]].concat())?.trim().parse()?)
    };
    let used = number("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'")?;
    let max = number("SELECT setting FROM pg_settings WHERE name = 'max_connections'")?;
    // 3 × 17 + 17 + 4 × 26 + 2 × 9 + 21, and this connection.
    ensure!(max == 400 && used > 9 && used <= 212, "{used} connections of {max}");
    let log = docker.compose(&["logs", "--no-color", "postgres"])?;
    let reset: Vec<_> = log.lines().filter(|line| line.contains("reset by peer") || line.contains("EOF")).collect();
    ensure!(reset.is_empty(), "connections were not closed: {reset:?}");
    Ok(())
}

/// Checks that no program was refused a command by Redis, and that each is refused those of others.
fn check_redis_users(docker: &Docker) -> Result<()> {
    let refused = docker.redis(&["ACL", "LOG"])?;
    ensure!(refused.trim().is_empty(), "commands were refused: {refused}");
    for (user, command) in [
        ("gateway", &["XADD", "queue:{money}", "*", "id", "1"][..]),
        ("scheduler", &["GET", "limit:a"]),
        ("api", &["XLEN", "queue:{money}"]),
        ("ctl", &["GET", "limit:a"]),
        ("worker", &["CONFIG", "GET", "*"]),
    ] {
        let tried = docker.redis(&[&["ACL", "DRYRUN", user][..], command].concat())?;
        ensure!(tried.contains("no permissions"), "{user} may {command:?}: {tried}");
    }
    Ok(())
}

async fn await_all_targets() -> Result<()> {
    let prometheus = Client::new(PROMETHEUS)?;
    let expected: BTreeMap<_, _> = OURS.map(|(service, count)| (service.to_owned(), count)).into();
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

/// Kills one process of each program. Docker starts it again, and the ports stay where they are.
async fn kill_one_of_each(docker: &Docker) -> Result<()> {
    for service in ["api", "portal", "worker", "scheduler", "gateway", "balancer"] {
        let id = docker.containers(service)?.into_iter().next().context("a container")?;
        docker.kill(&id)?;
        let until = Instant::now() + TIMEOUT;
        while docker.inspect(&id, "{{.RestartCount}} {{.State.Health.Status}}")? != "1 healthy" {
            ensure!(Instant::now() < until, "{service} is not running again");
            sleep(Duration::from_millis(250)).await;
        }
    }
    for (url, name) in [(PORTAL, "portal"), (GATEWAY, "gateway")] {
        ensure!(Client::new(url)?.get("/readyz").await?.status == 200, "the balancer finds no {name}");
    }
    Ok(())
}

/// Replaces every container while payments and reads are made. None of these fails.
async fn replace_all(docker: &Docker, api: &Client) -> Result<()> {
    let before: Vec<_> = OURS.iter().map(|(service, _)| docker.containers(service)).collect::<Result<_>>()?;
    let mut replace = as_operator(docker, block("### Replacing containers")?).spawn()?;
    let (portal, gateway) = (Client::new(PORTAL)?, Client::new(GATEWAY)?);
    let mut payments = 0;
    let status = loop {
        pay(api, "tok_ok").await.with_context(|| format!("after {payments} payments"))?;
        ensure!(api.get("/v1/payments").await?.status == 200);
        ensure!(portal.get("/sign-in").await?.status == 200, "the portal");
        ensure!(gateway.get("/services/field.js").await?.status < 500, "the gateway");
        payments += 1;
        if let Some(status) = replace.try_wait()? {
            break status;
        }
    };
    ensure!(status.success() && payments > 20, "{status}, {payments} payments");
    println!("{payments} payments during the replacement");
    for ((service, count), before) in OURS.iter().zip(before) {
        let after = docker.containers(service)?;
        ensure!(
            after.len() == *count && !after.iter().any(|id| before.contains(id)),
            "{service}: {before:?}, {after:?}"
        );
    }
    Ok(())
}
