//! What a process is told by its environment. Every variable is read here, once, at start.

use std::fmt::Display;
use std::net::SocketAddr;
use std::time::Duration;

use crate::crypto::{EncryptionKey, KeyRing, Pepper, Peppers, Secret};
use crate::id::AccountId;
use crate::network::{Network, Proxies};
use crate::server::Listening;

/// How often Postgres is asked again whether the environment fits when it does not answer.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// A variable that is missing or unusable. It never repeats the value, which may be a secret.
#[derive(Debug, thiserror::Error)]
#[error("environment variable {name}: {problem}")]
pub struct ConfigError {
    /// Which variable.
    pub name: &'static str,
    /// What is wrong with it.
    pub problem: &'static str,
}

/// A variable, or what the file contains that `…_FILE` names: secrets are mounted so. Without its last line break. What is
/// empty, the variable or the file, is not set.
///
/// # Errors
/// It is given twice, or its file cannot be read.
pub fn optional(name: &'static str) -> Result<Option<String>, ConfigError> {
    let refuse = |problem| Err(ConfigError { name, problem });
    let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    match (set(name), set(&format!("{name}_FILE"))) {
        (Some(_), Some(_)) => refuse("is set, and so is its _FILE: one of them must go"),
        (value, None) => Ok(value),
        (None, Some(file)) => match std::fs::read_to_string(file) {
            Ok(text) => Ok(Some(text.trim_end_matches(['\r', '\n']).to_owned()).filter(|text| !text.is_empty())),
            Err(_) => refuse("has a _FILE that cannot be read"),
        },
    }
}

fn required(name: &'static str) -> Result<String, ConfigError> {
    optional(name)?.ok_or(ConfigError { name, problem: "is not set" })
}

/// A variable that must be there, read by `parse`.
///
/// # Errors
/// It is missing, or `parse` makes nothing of it.
pub fn parsed<T>(
    name: &'static str,
    problem: &'static str,
    parse: impl FnOnce(&str) -> Option<T>,
) -> Result<T, ConfigError> {
    parse(&required(name)?).ok_or(ConfigError { name, problem })
}

/// A variable that is a number, `default` if not set.
///
/// # Errors
/// It is not a number in the range of the type.
pub fn number_or<T: std::str::FromStr>(name: &'static str, default: T) -> Result<T, ConfigError> {
    match optional(name)? {
        Some(text) => text.parse().map_err(|_| ConfigError { name, problem: "is not a number in range" }),
        None => Ok(default),
    }
}

/// `DATABASE_URL`: where Postgres is, with user and password.
///
/// # Errors
/// It is not set.
pub fn database_url() -> Result<Secret<String>, ConfigError> {
    required("DATABASE_URL").map(Secret::new)
}

/// `REDIS_URL`: where Redis is; and `REDIS_CA_FILE`: the certificates, as PEM, that vouch for it.
///
/// # Errors
/// It is not set or no address of Redis, or there are certificates and it is not `rediss://`, or they cannot be read.
pub fn redis() -> Result<queue::Redis, ConfigError> {
    redis_at(&required("REDIS_URL")?, optional("REDIS_CA")?)
}

/// The same where it may be missing.
///
/// # Errors
/// As for [`redis`], but for its absence.
pub fn redis_if_any() -> Result<Option<queue::Redis>, ConfigError> {
    match optional("REDIS_URL")? {
        Some(url) => redis_at(&url, optional("REDIS_CA")?).map(Some),
        None => Ok(None),
    }
}

fn redis_at(url: &str, authority: Option<String>) -> Result<queue::Redis, ConfigError> {
    let wrong = |name, problem| move |_| ConfigError { name, problem };
    match authority {
        None => queue::Redis::new(url)
            .map_err(wrong("REDIS_URL", "is not an address such as redis://127.0.0.1:6379 or rediss://127.0.0.1:6380")),
        Some(pem) => queue::Redis::vouched_for_by(url, &pem)
            .map_err(wrong("REDIS_CA", "holds no certificates, or REDIS_URL is not rediss://")),
    }
}

/// How the address that the outside reaches is listened at. `MAX_CONNECTIONS`: so many at once at most; if not set, 10,000, or
/// what the limit of open files leaves. `TRUSTED_PROXIES`: networks, with commas between them, whose `X-Forwarded-For` is
/// believed; none if not set.
///
/// # Errors
/// One of them is malformed.
pub fn listening() -> Result<Listening, ConfigError> {
    const MAX: &str = "MAX_CONNECTIONS";
    let connections = match number_or(MAX, Listening::default_connections())? {
        0 => return Err(ConfigError { name: MAX, problem: "is not at least 1" }),
        connections => connections,
    };
    let problem = "is not networks such as 10.0.0.0/8 with commas between them";
    let proxies = Proxies::new(listed("TRUSTED_PROXIES", problem, Network::parse)?);
    Ok(Listening::public(connections, proxies))
}

/// `DATABASE_POOL`: connections to Postgres at most, `default` if not set.
///
/// # Errors
/// It is not a number.
pub fn database_pool(default: u32) -> Result<u32, ConfigError> {
    number_or("DATABASE_POOL", default)
}

/// `METRICS_BIND`: the internal address for /metrics, /healthz and /readyz.
///
/// # Errors
/// It is missing or not `host:port`.
pub fn metrics_bind() -> Result<SocketAddr, ConfigError> {
    parsed("METRICS_BIND", "is not an address such as 0.0.0.0:9090", |text| text.parse().ok())
}

/// `API_BIND`: the address that merchants reach.
///
/// # Errors
/// It is missing or not `host:port`.
pub fn api_bind() -> Result<SocketAddr, ConfigError> {
    parsed("API_BIND", "is not an address such as 0.0.0.0:8080", |text| text.parse().ok())
}

/// `PUBLIC_URL`: how the outside world names this service, without a slash at the end. Whoever writes events needs it.
///
/// # Errors
/// It is missing or does not begin with http:// or https://.
pub fn public_url() -> Result<String, ConfigError> {
    parsed("PUBLIC_URL", NO_URL, http_url)
}

/// What each item of a list with commas reads as; nothing if the variable is not set.
///
/// # Errors
/// `parse` makes nothing of one of them.
pub fn listed<T>(
    name: &'static str,
    problem: &'static str,
    parse: impl Fn(&str) -> Option<T>,
) -> Result<Vec<T>, ConfigError> {
    let text = optional(name)?.unwrap_or_default();
    let items = text.split(',').map(str::trim).filter(|item| !item.is_empty()).map(parse);
    items.collect::<Option<_>>().ok_or(ConfigError { name, problem })
}

/// What is wrong with a key.
pub const NO_KEY: &str = "is not 64 hexadecimal digits";
/// What is wrong with a list of keys.
pub const NO_KEYS: &str = "is not keys of 64 hexadecimal digits with commas between them";
/// What is wrong with an address of the web.
pub const NO_URL: &str = "is not an http(s) URL";

/// `KEY_PEPPER`: 64 hexadecimal digits under which API keys are hashed; and `OLD_KEY_PEPPERS`: others, with commas between
/// them, under which keys are accepted too. All processes share them.
///
/// # Errors
/// The first is missing, or any is malformed.
pub fn peppers() -> Result<Peppers, ConfigError> {
    let current = parsed("KEY_PEPPER", NO_KEY, Pepper::from_hex)?;
    Ok(Peppers::new(current, listed("OLD_KEY_PEPPERS", NO_KEYS, Pepper::from_hex)?))
}

/// `ENCRYPTION_KEY`: 64 hexadecimal digits that encrypt secrets at rest; and `OLD_ENCRYPTION_KEYS`: others, with commas between
/// them, that only decrypt. All processes share them.
///
/// # Errors
/// The first is missing, or any is malformed.
pub fn encryption_keys() -> Result<KeyRing, ConfigError> {
    let current = parsed("ENCRYPTION_KEY", NO_KEY, EncryptionKey::from_hex)?;
    Ok(KeyRing::new(current, listed("OLD_ENCRYPTION_KEYS", NO_KEYS, EncryptionKey::from_hex)?))
}

/// `COLLECTIONS_HELD`: whether no attempt to collect an invoice is to begin, after a restore; not if not set.
///
/// # Errors
/// It is neither `true` nor `false`.
pub fn collections_held() -> Result<bool, ConfigError> {
    switch("COLLECTIONS_HELD")
}

/// `KEYS_UNCHECKED`: whether a process works with keys that fit nothing of what is stored, since the right ones were lost; not
/// by default.
///
/// # Errors
/// It is neither `true` nor `false`.
pub fn keys_unchecked() -> Result<bool, ConfigError> {
    switch("KEYS_UNCHECKED")
}

/// Returns when it is known that the environment fits what is stored. `look` says which variable does not; until Postgres answers,
/// it is asked again.
///
/// # Errors
/// One does not. The process must not go on.
pub async fn fits<E: Display>(look: impl AsyncFn() -> Result<Option<ConfigError>, E>) -> Result<(), ConfigError> {
    loop {
        match look().await {
            Ok(wrong) => return wrong.map_or(Ok(()), Err),
            Err(error) => {
                tracing::warn!(%error, "the environment could not be checked against what is stored; trying again")
            }
        }
        tokio::time::sleep(AGAIN_AFTER).await;
    }
}

/// `WORKER_MONEY_CONCURRENCY`: money operations at once in one worker, `default` if not set.
///
/// # Errors
/// It is not a number.
pub fn money_concurrency(default: usize) -> Result<usize, ConfigError> {
    number_or("WORKER_MONEY_CONCURRENCY", default)
}

/// `METRICS_ACCOUNTS`: accounts, separated by commas and 20 at most, whose charges a worker also counts by account; none if not set.
///
/// # Errors
/// One is not the id of an account, or there are more.
pub fn metrics_accounts() -> Result<Vec<AccountId>, ConfigError> {
    const NAME: &str = "METRICS_ACCOUNTS";
    let problem = "is not at most 20 ids such as acc_…, separated by commas";
    let accounts = listed(NAME, problem, |text| text.parse().ok())?;
    if accounts.len() > 20 { Err(ConfigError { name: NAME, problem }) } else { Ok(accounts) }
}

/// `DRAIN_MS`: how long an api or gateway that is to stop goes on taking requests, 5,000 milliseconds if not set, 30,000 at
/// most. By then whatever balances them must have asked `/readyz` again.
///
/// # Errors
/// It is not a number in that range.
pub fn farewell() -> Result<Duration, ConfigError> {
    const NAME: &str = "DRAIN_MS";
    match number_or(NAME, 5_000)? {
        ms @ 0..=30_000 => Ok(Duration::from_millis(ms)),
        _ => Err(ConfigError { name: NAME, problem: "is not between 0 and 30000" }),
    }
}

/// `KEY_CACHE_MS`: how long a process may believe what it read of an API key, from 0 (ask every time) to 1,000
/// milliseconds, which is the default. So long after its revocation a key may still be accepted.
///
/// # Errors
/// It is not a number in that range.
pub fn key_cache() -> Result<Duration, ConfigError> {
    const NAME: &str = "KEY_CACHE_MS";
    match number_or(NAME, 1_000)? {
        ms @ 0..=1_000 => Ok(Duration::from_millis(ms)),
        _ => Err(ConfigError { name: NAME, problem: "is not between 0 and 1000" }),
    }
}

/// Limits to the requests of a client address at the api.
#[derive(Clone, Copy, Debug)]
pub struct ApiLimits {
    /// `PAGE_RATE_LIMIT`: requests a second to payment pages and with publishable keys, 20 if not set.
    pub page: u32,
    /// `UNAUTHENTICATED_RATE_LIMIT`: requests a second whose key is missing, wrong, or not known to be good, 50 if not set.
    pub unknown: u32,
    /// `ADDRESS_SHARE`: how much of the rate limit of a publishable key one address may use, in percent, 20 if not set.
    pub key_share: u32,
}

/// What the environment sets of the api's limits by address.
///
/// # Errors
/// One of them is not a number in its range.
pub fn api_limits() -> Result<ApiLimits, ConfigError> {
    const SHARE: &str = "ADDRESS_SHARE";
    let key_share = match number_or(SHARE, 20)? {
        share @ 1..=100 => share,
        _ => return Err(ConfigError { name: SHARE, problem: "is not a percentage from 1 to 100" }),
    };
    let (page, unknown) = (rate("PAGE_RATE_LIMIT", 20)?, rate("UNAUTHENTICATED_RATE_LIMIT", 50)?);
    Ok(ApiLimits { page, unknown, key_share })
}

/// Requests a second: a number from 1 on, `default` if not set.
///
/// # Errors
/// It is not such a number.
pub fn rate(name: &'static str, default: u32) -> Result<u32, ConfigError> {
    match number_or(name, default)? {
        0 => Err(ConfigError { name, problem: "is not at least 1" }),
        rate => Ok(rate),
    }
}

/// `WEBHOOK_ALLOW_LOOPBACK`: whether test accounts may have webhook endpoints on this machine's loopback; not by default.
///
/// # Errors
/// It is neither `true` nor `false`.
pub fn webhook_loopback() -> Result<bool, ConfigError> {
    switch("WEBHOOK_ALLOW_LOOPBACK")
}

fn switch(name: &'static str) -> Result<bool, ConfigError> {
    match optional(name)?.as_deref() {
        Some("true") => Ok(true),
        Some("false") | None => Ok(false),
        Some(_) => Err(ConfigError { name, problem: "is neither true nor false" }),
    }
}

/// `RETENTION_MONTHS`: whole months for which events and deliveries are kept, 13 if not set, at least 2: what is still to be
/// delivered must be there.
///
/// # Errors
/// It is not such a number.
pub fn retention_months() -> Result<i32, ConfigError> {
    const NAME: &str = "RETENTION_MONTHS";
    match number_or(NAME, 13)? {
        months @ 2..=1_200 => Ok(months),
        _ => Err(ConfigError { name: NAME, problem: "is not between 2 and 1200" }),
    }
}

/// `PROVIDER_RETRY_LIMIT_S`: for how many seconds what a provider does not process is sent again where nobody waits for it,
/// `default` if not set, 30 days at most.
///
/// # Errors
/// It is not a number from 1 to 2,592,000.
pub fn provider_retry_limit(default: Duration) -> Result<Duration, ConfigError> {
    const NAME: &str = "PROVIDER_RETRY_LIMIT_S";
    match number_or(NAME, default.as_secs())? {
        seconds @ 1..=2_592_000 => Ok(Duration::from_secs(seconds)),
        _ => Err(ConfigError { name: NAME, problem: "is not a number of seconds from 1 to 2592000" }),
    }
}

/// `CARD_GATEWAY_URL`: where the card gateway is, without a slash at the end. None if no account settles there.
///
/// # Errors
/// It does not begin with http:// or https://.
pub fn card_gateway_url() -> Result<Option<String>, ConfigError> {
    optional_url("CARD_GATEWAY_URL")
}

/// `CARD_GATEWAY_PUBLIC_URL`: where browsers reach it; `CARD_GATEWAY_URL` if not set.
///
/// # Errors
/// As [`card_gateway_url`].
pub fn card_gateway_public_url() -> Result<Option<String>, ConfigError> {
    Ok(match optional_url("CARD_GATEWAY_PUBLIC_URL")? {
        Some(url) => Some(url),
        None => card_gateway_url()?,
    })
}

fn optional_url(name: &'static str) -> Result<Option<String>, ConfigError> {
    let read = |text: String| http_url(&text).ok_or(ConfigError { name, problem: NO_URL });
    optional(name)?.map(read).transpose()
}

/// An address of the web, without a slash at the end.
pub fn http_url(text: &str) -> Option<String> {
    let known = text.starts_with("http://") || text.starts_with("https://");
    known.then(|| text.trim_end_matches('/').to_owned())
}
