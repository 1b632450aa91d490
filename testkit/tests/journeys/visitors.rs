//! Limits by address: what one visitor of a shop, or four, can take from the others, and what guessing keys costs.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use testkit::{Answer, Client, Cluster};

use crate::support::{ORIGIN, created, eventually, ok, refused, together};

const SESSIONS: &str = "/v1/checkout_sessions";
const ELSEWHERE: &str = "https://elsewhere.example";
/// The settings that limit an address at the api.
const SETTINGS: [&str; 3] = ["PAGE_RATE_LIMIT", "UNAUTHENTICATED_RATE_LIMIT", "ADDRESS_SHARE"];

/// What a file that we ship sets of these: `NAME: ${NAME:-20}` of compose.yaml, `NAME=500` of Kubernetes.
fn shipped(file: &str) -> Result<Vec<(&'static str, String)>> {
    let text = std::fs::read_to_string(testkit::tools::project_root().join(file))?;
    let of = |name: &'static str| {
        let rest = [format!("{name}: ${{{name}:-"), format!("- {name}=")];
        let rest = rest.iter().find_map(|before| text.split_once(before.as_str())).map(|(_, rest)| rest);
        let value = rest.map(|rest| rest.chars().take_while(char::is_ascii_digit).collect::<String>());
        value.filter(|value| !value.is_empty()).map(|value| (name, value)).with_context(|| format!("{name} in {file}"))
    };
    SETTINGS.into_iter().map(of).collect()
}

/// Pages of one shop, each at an address of its own.
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

    async fn start(&self, nth: usize, address: &str, origin: &str, body: Value) -> Result<Answer> {
        let page = self.pages[nth % self.pages.len()].header("origin", origin)?;
        page.header("x-forwarded-for", address)?.post(SESSIONS, body).await
    }

    /// So many requests at once from each address; how many were not limited.
    async fn flood(&self, addresses: &[String], each: usize, origin: &str, body: &Value) -> Result<usize> {
        let one = async |nth: usize| self.start(nth, &addresses[nth % addresses.len()], origin, body.clone()).await;
        let answers = together(each * addresses.len(), one).await?;
        Ok(answers.iter().filter(|answer| answer.status != 429).count())
    }

    /// Somebody who has asked nothing before buys something. Answers what the key's bucket has left.
    async fn another_visitor(&self, number: usize) -> Result<u64> {
        let answer = self.start(0, &format!("203.0.113.{number}"), ORIGIN, json!({})).await?;
        created(&answer);
        let left = answer.header("ratelimit").and_then(|state| state.strip_prefix("\"key\";r=")?.split(';').next());
        left.context("RateLimit of the key")?.parse().context("a number")
    }
}

fn addresses(count: usize) -> Vec<String> {
    (1..=count).map(|number| format!("192.0.2.{number}")).collect()
}

async fn cluster_with(apis: usize, settings: &[(&'static str, String)]) -> Result<Cluster> {
    let builder = Cluster::builder().api(apis).worker(1).env("TRUSTED_PROXIES", "127.0.0.1");
    settings.iter().fold(builder, |builder, (name, value)| builder.env(name, value)).start().await
}

/// With the defaults that are shipped, and an account with the default limits of a key.
async fn nobody_shuts_a_checkout(file: &str) -> Result<()> {
    let cluster = cluster_with(1, &shipped(file)?).await?;
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
async fn nobody_shuts_a_checkout_as_compose_ships_it() -> Result<()> {
    nobody_shuts_a_checkout("compose.yaml").await
}

#[tokio::test]
async fn nobody_shuts_a_checkout_as_kubernetes_ships_it() -> Result<()> {
    nobody_shuts_a_checkout("deploy/kubernetes/base/kustomization.yaml").await
}

#[tokio::test]
async fn a_refused_request_takes_nothing_from_the_bucket_of_a_publishable_key() -> Result<()> {
    let share = [("ADDRESS_SHARE", "100".to_owned())];
    let cluster = cluster_with(1, &share).await?;
    // A second of its own for each request, so that what was taken would be missed.
    let shop = Shop::new(&cluster, 1, &["--rate-limit", "1", "--burst", "60"]).await?;
    shop.flood(&addresses(4), 25, ELSEWHERE, &json!({})).await?;
    assert_eq!(shop.another_visitor(1).await?, 59, "the origin is wrong");
    // One after the other: what is under way holds its place.
    for nth in 0..70 {
        let address = format!("192.0.2.{}", nth % 10);
        refused(&shop.start(nth, &address, ORIGIN, json!({"intent": 1})).await?, 422, "invalid_request");
    }
    assert!(shop.another_visitor(2).await? >= 58, "the body is wrong");
    for address in addresses(70) {
        let page = shop.pages[0].header("x-forwarded-for", &address)?;
        refused(&page.get("/v1/payments").await?, 403, "permission_denied");
    }
    assert!(shop.another_visitor(3).await? >= 57, "the kind of key is wrong");
    Ok(())
}

#[tokio::test]
async fn a_visitor_has_a_share_of_the_key_and_one_bucket_for_all_processes() -> Result<()> {
    let cluster = cluster_with(2, &[("ADDRESS_SHARE", "20".to_owned())]).await?;
    let shop = Shop::new(&cluster, 2, &["--rate-limit", "1", "--burst", "50"]).await?;
    let through = shop.flood(&addresses(1), 40, ORIGIN, &json!({})).await?;
    assert!((10..20).contains(&through), "{through} of 40 were let in");
    assert!(shop.another_visitor(1).await? >= 30);
    let answer = shop.start(0, "192.0.2.1", ORIGIN, json!({})).await?;
    if answer.status == 429 {
        assert_eq!(answer.header("ratelimit-policy"), Some("\"address\";q=10;w=10"));
        assert!(answer.header("access-control-allow-origin").is_some(), "the page is told too");
    }
    Ok(())
}

#[tokio::test]
async fn pages_are_limited_by_address_across_processes_and_by_network() -> Result<()> {
    let cluster = cluster_with(2, &[("PAGE_RATE_LIMIT", "1".to_owned())]).await?;
    let apis = [Client::new(&cluster.api_url(0))?, Client::new(&cluster.api_url(1))?];
    let open =
        async |nth: usize, address: &str| apis[nth % 2].header("x-forwarded-for", address)?.get("/pay/l/nothing").await;
    let flood = async |addresses: &[String]| {
        let began = tokio::time::Instant::now();
        let answers = together(60, async |nth| open(nth, &addresses[nth % addresses.len()]).await).await?;
        let through = answers.iter().filter(|answer| answer.status == 404).count();
        anyhow::Ok((through, usize::try_from(began.elapsed().as_secs())? + 1))
    };
    let (through, refilled) = flood(&addresses(1)).await?;
    assert!((5..=5 + refilled).contains(&through), "{through} of one address");
    let network: Vec<_> = (0..12).map(|number| format!("2001:db8:1:{number}::{number}")).collect();
    let (through, refilled) = flood(&network).await?;
    assert!((15..=15 + 3 * refilled).contains(&through), "{through} of one /48");
    assert_eq!(open(0, "2001:db8:2::1").await?.status, 404, "another network");
    Ok(())
}

#[tokio::test]
async fn a_limit_that_is_used_up_stays_so_when_redis_goes_away() -> Result<()> {
    let mut cluster = cluster_with(1, &[("PAGE_RATE_LIMIT", "1".to_owned())]).await?;
    let page = Client::new(&cluster.api_url(0))?;
    let began = tokio::time::Instant::now();
    let flood = async || {
        let answers = together(30, async |_| page.get("/pay/l/nothing").await).await?;
        anyhow::Ok(answers.iter().filter(|answer| answer.status == 404).count())
    };
    let before = flood().await?;
    cluster.redis.kill9()?;
    let through = before + flood().await?;
    let most = 5 + 1 + usize::try_from(began.elapsed().as_secs())?;
    assert!((5..=most).contains(&through), "{before}, and {through} in all: {most} at most");
    Ok(())
}

#[tokio::test]
async fn who_guesses_keys_is_refused_before_the_database_is_asked() -> Result<()> {
    let builder = Cluster::builder().own_postgres().env("TRUSTED_PROXIES", "127.0.0.1");
    let mut cluster = builder.env("UNAUTHENTICATED_RATE_LIMIT", "1").api(2).worker(1).start().await?;
    let account = cluster.account().await?;
    let at = |api: usize, key: &str, address: &str| {
        Client::new(&cluster.api_url(api))?.bearer(key)?.header("x-forwarded-for", address)
    };
    // Well formed, so that it has to be looked up.
    let digit = if account.secret_key.ends_with('0') { '1' } else { '0' };
    let wrong = format!("{}{digit}", &account.secret_key[..account.secret_key.len() - 1]);
    let guess = async |nth: usize| at(nth % 2, &wrong, "192.0.2.7")?.get("/v1/payments").await;
    // A process that has seen a key to be good goes on letting it in from wherever it comes.
    ok(&at(0, &account.secret_key, "192.0.2.8")?.get("/v1/payments").await?);
    let answers = together(40, guess).await?;
    let told = answers.iter().filter(|answer| answer.status == 401).count();
    assert!((4..20).contains(&told), "{told} of 40 were told that the key is wrong");
    for answer in answers.iter().filter(|answer| answer.status != 401) {
        refused(answer, 429, "rate_limited");
        assert!(answer.header("retry-after").is_some());
    }
    ok(&at(0, &account.secret_key, "192.0.2.7")?.get("/v1/payments").await?);
    // From another address, at a process that has not seen it either.
    ok(&at(1, &account.secret_key, "192.0.2.9")?.get("/v1/payments").await?);
    for _ in 0..20 {
        ok(&at(1, &account.secret_key, "192.0.2.9")?.get("/v1/payments").await?);
    }
    // Everybody has a publishable key, so its address is counted where it is of no use.
    let page = at(0, &account.publishable_key, "192.0.2.11")?;
    let answers = together(20, async |_| page.get("/v1/payments").await).await?;
    let told = answers.iter().filter(|answer| answer.status == 403).count();
    assert!((4..15).contains(&told) && answers.iter().any(|answer| answer.status == 429), "{told} of 20");
    let other = at(0, &wrong, "192.0.2.10")?;
    let guesser = at(0, &wrong, "192.0.2.7")?;
    eventually("the end of the bucket", async || {
        Ok((together(10, async |_| guesser.get("/v1/payments").await).await?.iter().any(|one| one.status == 429))
            .then_some(()))
    })
    .await?;
    cluster.postgres.as_mut().context("its own Postgres")?.kill_immediate()?;
    let answers = together(10, async |_| guesser.get("/v1/payments").await).await?;
    assert!(answers.iter().any(|answer| answer.status == 429), "Postgres was not asked");
    assert_eq!(other.get("/v1/payments").await?.status, 500, "and here it was");
    Ok(())
}
