//! Rate limits by client address: abusive visitors cannot exhaust a shop's checkout, and key guessing is limited.

use anyhow::{Context, Result};
use reqwest::redirect::Policy;
use serde_json::{Value, json};
use testkit::limits::{self, refilled};
use testkit::{Account, Client, Cluster, Response};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::support::{ORIGIN, concurrently, created, eventually, ok, refused};

const SESSIONS: &str = "/v1/checkout_sessions";
const ELSEWHERE: &str = "https://elsewhere.example";
/// The settings of the api's limits by address.
const SETTINGS: [&str; 3] = ["PAGE_RATE_LIMIT", "UNAUTHENTICATED_RATE_LIMIT", "ADDRESS_SHARE"];

/// The values in a deployment file: `NAME: ${NAME:-20}` in compose.yaml, `NAME=500` in Kubernetes.
fn deployment_defaults(file: &str) -> Result<Vec<(&'static str, String)>> {
    let text = std::fs::read_to_string(testkit::tools::project_root().join(file))?;
    let value_of = |name: &'static str| {
        let rest = [format!("{name}: ${{{name}:-"), format!("- {name}=")];
        let rest = rest.iter().find_map(|prefix| text.split_once(prefix.as_str())).map(|(_, rest)| rest);
        let value = rest.map(|rest| rest.chars().take_while(char::is_ascii_digit).collect::<String>());
        value.filter(|value| !value.is_empty()).map(|value| (name, value)).with_context(|| format!("{name} in {file}"))
    };
    SETTINGS.into_iter().map(value_of).collect()
}

/// A shop's page, at each api process.
struct Shop {
    pages: Vec<Client>,
}

impl Shop {
    async fn new(cluster: &Cluster, apis: usize, rate: &[&str]) -> Result<Self> {
        let options = [&["--mode", "test", "--provider", "mock", "--origin", ORIGIN][..], rate].concat();
        let account = cluster.account_with(&options).await?;
        let page = |api| Client::new(&cluster.api_url(api))?.bearer(&account.publishable_key);
        Ok(Self { pages: (0..apis).map(page).collect::<Result<_>>()? })
    }

    async fn start(&self, nth: usize, address: &str, origin: &str, body: Value) -> Result<Response> {
        let page = self.pages[nth % self.pages.len()].header("origin", origin)?;
        page.header("x-forwarded-for", address)?.post(SESSIONS, body).await
    }

    /// Sends `each` concurrent requests from each address; returns how many were not limited.
    async fn flood(&self, addresses: &[String], each: usize, origin: &str, body: &Value) -> Result<usize> {
        let request = async |nth: usize| self.start(nth, &addresses[nth % addresses.len()], origin, body.clone()).await;
        let responses = concurrently(each * addresses.len(), request).await?;
        Ok(responses.iter().filter(|response| response.status != 429).count())
    }

    /// Starts a checkout from a new address, which must succeed. Returns the remaining tokens of the key's bucket.
    async fn another_visitor(&self, number: usize) -> Result<u64> {
        let response = self.start(0, &format!("203.0.113.{number}"), ORIGIN, json!({})).await?;
        created(&response);
        let left = response.header("ratelimit").and_then(|state| state.strip_prefix("\"key\";r=")?.split(';').next());
        left.context("RateLimit of the key")?.parse().context("a number")
    }
}

fn addresses(count: usize) -> Vec<String> {
    (1..=count).map(|number| format!("192.0.2.{number}")).collect()
}

async fn cluster_with(apis: usize, settings: &[(&'static str, String)]) -> Result<Cluster> {
    let (name, value) = limits::SHARED;
    let builder = Cluster::builder().api(apis).env("TRUSTED_PROXIES", "127.0.0.1").env(name, value);
    settings.iter().fold(builder, |builder, (name, value)| builder.env(name, value)).start().await
}

/// Abuses a checkout with the deployment's defaults and the default limits of a key; other visitors must succeed.
async fn assert_checkout_stays_open(file: &str) -> Result<()> {
    let cluster = cluster_with(1, &deployment_defaults(file)?).await?;
    let shop = Shop::new(&cluster, 1, &[]).await?;
    shop.flood(&addresses(4), 100, ELSEWHERE, &json!({})).await?;
    shop.another_visitor(1).await?;
    shop.flood(&addresses(4), 100, ORIGIN, &json!({"intent": "nonsense"})).await?;
    shop.another_visitor(2).await?;
    shop.flood(&addresses(1), 200, ORIGIN, &json!({})).await?;
    shop.another_visitor(3).await?;
    let network: Vec<_> = (1..=40).map(|number| format!("2001:db8:7:{number}::1")).collect();
    shop.flood(&network, 5, ORIGIN, &json!({})).await?;
    shop.another_visitor(4).await?;
    Ok(())
}

#[tokio::test]
async fn compose_defaults_keep_checkouts_open_under_abuse() -> Result<()> {
    assert_checkout_stays_open("compose.yaml").await
}

#[tokio::test]
async fn kubernetes_defaults_keep_checkouts_open_under_abuse() -> Result<()> {
    assert_checkout_stays_open("deploy/kubernetes/base/kustomization.yaml").await
}

#[tokio::test]
async fn rejected_requests_use_no_token_of_a_publishable_key() -> Result<()> {
    let share = [("ADDRESS_SHARE", "100".to_owned())];
    let cluster = cluster_with(1, &share).await?;
    // One request per second, so that used tokens would be noticed.
    let shop = Shop::new(&cluster, 1, &["--rate-limit", "1", "--burst", "60"]).await?;
    shop.flood(&addresses(4), 25, ELSEWHERE, &json!({})).await?;
    assert_eq!(shop.another_visitor(1).await?, 59, "requests with a wrong origin use no token");
    // One after another, because a request in flight holds a token.
    for nth in 0..70 {
        let address = format!("192.0.2.{}", nth % 10);
        refused(&shop.start(nth, &address, ORIGIN, json!({"intent": 1})).await?, 422, "invalid_request");
    }
    assert!(shop.another_visitor(2).await? >= 58, "requests with an invalid body use no token");
    for address in addresses(70) {
        let page = shop.pages[0].header("x-forwarded-for", &address)?;
        refused(&page.get("/v1/payments").await?, 403, "permission_denied");
    }
    assert!(shop.another_visitor(3).await? >= 57, "requests to routes of secret keys use no token");
    Ok(())
}

#[tokio::test]
async fn addresses_have_a_share_of_the_key_across_all_processes() -> Result<()> {
    let cluster = cluster_with(2, &[("ADDRESS_SHARE", "20".to_owned())]).await?;
    let shop = Shop::new(&cluster, 2, &["--rate-limit", "1", "--burst", "50"]).await?;
    let began = Instant::now();
    let accepted = shop.flood(&addresses(1), 40, ORIGIN, &json!({})).await?;
    assert!((10..=10 + refilled(began.elapsed())).contains(&accepted), "{accepted} of 40 were accepted");
    let left = usize::try_from(shop.another_visitor(1).await?)?;
    assert!(left + accepted + 1 >= 50, "{left} tokens are left, although only {accepted} requests were accepted");
    let response = shop.start(0, "192.0.2.1", ORIGIN, json!({})).await?;
    if response.status == 429 {
        assert_eq!(response.header("ratelimit-policy"), Some("\"address\";q=10;w=10"));
        assert!(response.header("access-control-allow-origin").is_some(), "the page can read the response");
    }
    Ok(())
}

#[tokio::test]
async fn pages_are_limited_by_address_and_network_across_processes() -> Result<()> {
    let cluster = cluster_with(2, &[("PAGE_RATE_LIMIT", "1".to_owned())]).await?;
    let apis = [Client::new(&cluster.api_url(0))?, Client::new(&cluster.api_url(1))?];
    let open =
        async |nth: usize, address: &str| apis[nth % 2].header("x-forwarded-for", address)?.get("/pay/l/nothing").await;
    let flood = async |addresses: &[String]| {
        let began = Instant::now();
        let responses = concurrently(60, async |nth| open(nth, &addresses[nth % addresses.len()]).await).await?;
        let accepted = responses.iter().filter(|response| response.status == 404).count();
        anyhow::Ok((accepted, refilled(began.elapsed())))
    };
    let (accepted, refilled) = flood(&addresses(1)).await?;
    assert!((5..=5 + refilled).contains(&accepted), "{accepted} accepted from one address");
    let network: Vec<_> = (0..12).map(|number| format!("2001:db8:1:{number}::{number}")).collect();
    let (accepted, refilled) = flood(&network).await?;
    assert!((15..=15 + 3 * refilled).contains(&accepted), "{accepted} accepted from one /48");
    assert_eq!(open(0, "2001:db8:2::1").await?.status, 404, "another network");
    Ok(())
}

#[tokio::test]
async fn exhausted_limits_stay_exhausted_without_redis() -> Result<()> {
    let mut cluster = cluster_with(1, &[("PAGE_RATE_LIMIT", "1".to_owned())]).await?;
    let page = Client::new(&cluster.api_url(0))?;
    let began = Instant::now();
    let flood = async || {
        let responses = concurrently(30, async |_| page.get("/pay/l/nothing").await).await?;
        anyhow::Ok(responses.iter().filter(|response| response.status == 404).count())
    };
    let before = flood().await?;
    cluster.redis.kill9()?;
    let accepted = before + flood().await?;
    let max = 5 + refilled(began.elapsed());
    assert!((5..=max).contains(&accepted), "{before} before, {accepted} in total, at most {max}");
    Ok(())
}

/// Invented sessions, sign-ins and invitations of an address are limited at the portal, and so are wrong passwords; those who
/// are signed in are not, and neither are browsers that have signed in before.
async fn assert_portal_limits_before_it_looks_up(cluster: &Cluster, account: &Account) -> Result<()> {
    let client = reqwest::Client::builder().redirect(Policy::none()).build()?;
    let (url, user) = (cluster.portal_url(0), cluster.portal_user(account, "viewer").await?);
    let open = async |path: &str, cookie: &str, address: &str| {
        let request = client.get(format!("{url}{path}")).header("x-forwarded-for", address);
        anyhow::Ok(request.header("cookie", cookie).send().await?.status().as_u16())
    };
    let invented = "ab".repeat(32);
    let (session, sign_in) = (format!("__Host-session={invented}"), format!("__Host-sign-in={invented}"));
    for (number, (path, cookie, looked_up)) in [
        ("/test", session.as_str(), 303),
        ("/sign-in/code", &sign_in, 303),
        (&format!("/invitations/{invented}"), "", 404),
    ]
    .into_iter()
    .enumerate()
    {
        let (address, began) = (format!("192.0.2.{}", 20 + number), Instant::now());
        let statuses = concurrently(20, async |_| open(path, cookie, &address).await).await?;
        let count = statuses.iter().filter(|status| **status == looked_up).count();
        assert!((4..=4 + refilled(began.elapsed())).contains(&count), "{path}: {statuses:?}");
        assert!(statuses.iter().all(|status| [looked_up, 429].contains(status)), "{path}: {statuses:?}");
    }
    let post = async |path: &str, form: String, cookie: &str, address: &str| {
        let request = client.post(format!("{url}{path}")).header("origin", url.as_str()).header("cookie", cookie);
        anyhow::Ok(request.header("x-forwarded-for", address).body(form).send().await?)
    };
    let began = Instant::now();
    let sign_out =
        async |_: usize| anyhow::Ok(post("/sign-out", String::new(), &session, "192.0.2.31").await?.status().as_u16());
    let statuses = concurrently(20, sign_out).await?;
    let count = statuses.iter().filter(|status| **status == 303).count();
    assert!((4..=4 + refilled(began.elapsed())).contains(&count), "{statuses:?}");

    let form = |email: &str, password: &str| format!("email={email}&password={password}");
    let signed_in = post("/sign-in", form(&user.email, &user.password), "", "192.0.2.30").await?;
    let cookie = |name: &str| {
        let set = signed_in.headers().get_all("set-cookie").iter().filter_map(|value| value.to_str().ok());
        set.filter_map(|set| set.split(';').next()).find(|set| set.starts_with(name)).context("a cookie")
    };
    let (session, device) = (cookie("__Host-session=")?, cookie("__Host-device=")?);
    for _ in 0..20 {
        assert_eq!(open("/test/team", session, "192.0.2.30").await?, 200);
    }

    // One wrong password per minute and network, with whatever e-mail address.
    for (host, email, password, cookie, expected) in [
        (1, "nobody@shop.example", "wrong password", "", (422, false)),
        (2, "another@shop.example", "wrong password", "", (429, true)),
        (3, user.email.as_str(), user.password.as_str(), "", (429, true)),
        (4, user.email.as_str(), user.password.as_str(), device, (303, false)),
    ] {
        let response = post("/sign-in", form(email, password), cookie, &format!("2001:db8:9:1::{host}")).await?;
        let status = response.status().as_u16();
        assert_eq!((status, response.text().await?.contains("too many attempts")), expected, "{host}");
    }
    Ok(())
}

/// Challenges for passkeys of an address are limited at the portal before one is stored, and what is not accepted counts with
/// wrong passwords.
async fn assert_portal_limits_passkeys(cluster: &Cluster) -> Result<()> {
    let (client, url) = (reqwest::Client::builder().redirect(Policy::none()).build()?, cluster.portal_url(0));
    let post = async |path: &str, form: &'static str, address: &str| {
        let request = client.post(format!("{url}{path}")).header("origin", url.as_str()).body(form);
        anyhow::Ok(request.header("x-forwarded-for", address).send().await?.status().as_u16())
    };
    let began = Instant::now();
    let statuses = concurrently(20, async |_| post("/passkeys/sign-in", "", "192.0.2.32").await).await?;
    let count = statuses.iter().filter(|status| **status == 200).count();
    assert!((4..=4 + refilled(began.elapsed())).contains(&count), "{statuses:?}");
    for (host, path, form, expected) in [
        (1, "/sign-in/passkey", "credential={}", 422),
        (2, "/sign-in/passkey", "credential={}", 429),
        (3, "/sign-in", "email=nobody@shop.example&password=wrong+password", 429),
    ] {
        assert_eq!(post(path, form, &format!("2001:db8:a:1::{host}")).await?, expected, "{host}");
    }
    Ok(())
}

/// An address over its limit is refused at the portal before its form arrives.
async fn assert_portal_limits_before_it_reads(cluster: &Cluster) -> Result<()> {
    let url = cluster.portal_url(0);
    let send_head = async |_: usize| {
        let mut stream = TcpStream::connect(url.strip_prefix("http://").context("an address")?).await?;
        let head = format!(
            "POST /sign-in HTTP/1.1\r\nHost: portal\r\nOrigin: {url}\r\nX-Forwarded-For: 192.0.2.40\r\n\
             Content-Length: 10\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await?;
        let mut response = String::new();
        stream.read_to_string(&mut response).await?;
        anyhow::Ok(response)
    };
    let began = Instant::now();
    let responses = concurrently(20, send_head).await?;
    let awaited = responses.iter().filter(|response| !response.starts_with("HTTP/1.1 429 ")).count();
    assert!(awaited <= 4 + refilled(began.elapsed()) && awaited < 20, "{responses:?}");
    Ok(())
}

#[tokio::test]
async fn key_guessing_is_limited_before_the_database_is_queried() -> Result<()> {
    let (name, value) = limits::SHARED;
    let builder = Cluster::builder().own_postgres().env("TRUSTED_PROXIES", "127.0.0.1").env(name, value);
    let mut cluster = builder.env("UNAUTHENTICATED_RATE_LIMIT", "1").api(2).portal(1).start().await?;
    let account = cluster.account().await?;
    let at = |api: usize, key: &str, address: &str| {
        Client::new(&cluster.api_url(api))?.bearer(key)?.header("x-forwarded-for", address)
    };
    // A well-formed key, so that it must be looked up.
    let digit = if account.secret_key.ends_with('0') { '1' } else { '0' };
    let wrong = format!("{}{digit}", &account.secret_key[..account.secret_key.len() - 1]);
    let guess = async |nth: usize| at(nth % 2, &wrong, "192.0.2.7")?.get("/v1/payments").await;
    // A process that has cached a valid key keeps accepting it from any address.
    ok(&at(0, &account.secret_key, "192.0.2.8")?.get("/v1/payments").await?);
    let began = Instant::now();
    let responses = concurrently(40, guess).await?;
    let unauthorized = responses.iter().filter(|response| response.status == 401).count();
    assert!((4..=4 + refilled(began.elapsed())).contains(&unauthorized), "{unauthorized} of 40 got 401");
    for response in responses.iter().filter(|response| response.status != 401) {
        refused(response, 429, "rate_limited");
        assert!(response.header("retry-after").is_some());
    }
    ok(&at(0, &account.secret_key, "192.0.2.7")?.get("/v1/payments").await?);
    assert_portal_limits_before_it_looks_up(&cluster, &account).await?;
    assert_portal_limits_passkeys(&cluster).await?;
    assert_portal_limits_before_it_reads(&cluster).await?;
    // From another address, at a process that has not cached it.
    ok(&at(1, &account.secret_key, "192.0.2.9")?.get("/v1/payments").await?);
    for _ in 0..20 {
        ok(&at(1, &account.secret_key, "192.0.2.9")?.get("/v1/payments").await?);
    }
    // Publishable keys are public, so requests to routes that do not accept them are limited by address.
    let page = at(0, &account.publishable_key, "192.0.2.11")?;
    let began = Instant::now();
    let responses = concurrently(20, async |_| page.get("/v1/payments").await).await?;
    let forbidden = responses.iter().filter(|response| response.status == 403).count();
    assert!((4..=4 + refilled(began.elapsed())).contains(&forbidden), "{forbidden} of 20 got 403");
    let other = at(0, &wrong, "192.0.2.10")?;
    let guesser = at(0, &wrong, "192.0.2.7")?;
    eventually("an empty bucket", async || {
        Ok((concurrently(10, async |_| guesser.get("/v1/payments").await)
            .await?
            .iter()
            .any(|response| response.status == 429))
        .then_some(()))
    })
    .await?;
    cluster.postgres.as_mut().context("its own Postgres")?.kill_immediate()?;
    let responses = concurrently(10, async |_| guesser.get("/v1/payments").await).await?;
    assert!(responses.iter().any(|response| response.status == 429), "limited without a query");
    assert_eq!(other.get("/v1/payments").await?.status, 500, "not limited, so Postgres was queried");
    Ok(())
}
