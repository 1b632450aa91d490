//! Configuration from environment variables. Every variable is read here, once, at startup.

use std::fmt::Display;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::crypto::{EncryptionKey, KeyRing, Pepper, Peppers, Secret};
use crate::id::AccountId;
use crate::network::{Network, Proxies};
use crate::server::ListenerConfig;

/// The delay between attempts to check the environment against the database.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// A missing or invalid variable. Never contains the value, which may be a secret.
#[derive(Debug, thiserror::Error)]
#[error("environment variable {name}: {problem}")]
pub struct ConfigError {
    pub name: &'static str,
    pub problem: &'static str,
}

/// Reads a variable, or the file named by `…_FILE`, which is how secrets are mounted. Strips the trailing line break.
/// An empty variable or file counts as not set.
///
/// # Errors
/// Both are set, or the file cannot be read.
pub fn optional(name: &'static str) -> Result<Option<String>, ConfigError> {
    let refuse = |problem| Err(ConfigError { name, problem });
    let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    match (set(name), set(&format!("{name}_FILE"))) {
        (Some(_), Some(_)) => refuse("is set, and so is its _FILE variant; remove one of them"),
        (value, None) => Ok(value),
        (None, Some(file)) => match std::fs::read_to_string(file) {
            Ok(text) => Ok(Some(text.trim_end_matches(['\r', '\n']).to_owned()).filter(|text| !text.is_empty())),
            Err(_) => refuse("cannot be read from the file named by its _FILE variant"),
        },
    }
}

fn required(name: &'static str) -> Result<String, ConfigError> {
    optional(name)?.ok_or(ConfigError { name, problem: "is not set" })
}

/// A required variable, parsed with `parse`.
///
/// # Errors
/// It is missing, or `parse` returns `None`.
pub fn parsed<T>(
    name: &'static str,
    problem: &'static str,
    parse: impl FnOnce(&str) -> Option<T>,
) -> Result<T, ConfigError> {
    parse(&required(name)?).ok_or(ConfigError { name, problem })
}

/// A numeric variable, with a default.
///
/// # Errors
/// It is not a number in the range of the type.
pub fn number_or<T: std::str::FromStr>(name: &'static str, default: T) -> Result<T, ConfigError> {
    match optional(name)? {
        Some(text) => text.parse().map_err(|_| ConfigError { name, problem: "must be a number in the allowed range" }),
        None => Ok(default),
    }
}

/// `DATABASE_URL`: the URL of Postgres with user and password.
///
/// # Errors
/// It is not set.
pub fn database_url() -> Result<Secret<String>, ConfigError> {
    required("DATABASE_URL").map(Secret::new)
}

/// `REDIS_URL`: the URL of Redis; and `REDIS_CA_FILE`: the PEM certificates of the authorities that sign its
/// certificate.
///
/// # Errors
/// `REDIS_URL` is missing or invalid, or the certificates are invalid, or they are set and the URL is not `rediss://`.
pub fn redis() -> Result<queue::Redis, ConfigError> {
    redis_at(&required("REDIS_URL")?, optional("REDIS_CA")?)
}

/// As [`redis`], but optional.
///
/// # Errors
/// As [`redis`], except for a missing URL.
pub fn redis_if_any() -> Result<Option<queue::Redis>, ConfigError> {
    match optional("REDIS_URL")? {
        Some(url) => redis_at(&url, optional("REDIS_CA")?).map(Some),
        None => Ok(None),
    }
}

fn redis_at(url: &str, authority: Option<String>) -> Result<queue::Redis, ConfigError> {
    let error = |name, problem| move |_| ConfigError { name, problem };
    match authority {
        None => queue::Redis::new(url)
            .map_err(error("REDIS_URL", "must be a URL such as redis://127.0.0.1:6379 or rediss://127.0.0.1:6380")),
        Some(pem) => queue::Redis::with_root_certificates(url, &pem)
            .map_err(error("REDIS_CA", "contains no certificates, or REDIS_URL is not rediss://")),
    }
}

/// The public listener. `MAX_CONNECTIONS`: concurrent connections; by default 10,000, or what the limit of open files
/// permits. `TRUSTED_PROXIES`: a comma-separated list of networks whose `X-Forwarded-For` is trusted; empty by default.
///
/// # Errors
/// One of them is invalid.
pub fn listener() -> Result<ListenerConfig, ConfigError> {
    const MAX: &str = "MAX_CONNECTIONS";
    let connections = match number_or(MAX, ListenerConfig::default_connections())? {
        0 => return Err(ConfigError { name: MAX, problem: "must be at least 1" }),
        connections => connections,
    };
    let problem = "must be a comma-separated list of networks such as 10.0.0.0/8";
    let proxies = Proxies::new(listed("TRUSTED_PROXIES", problem, Network::parse)?);
    Ok(ListenerConfig::public(connections, proxies))
}

/// `DATABASE_POOL`: the maximum number of connections to Postgres.
///
/// # Errors
/// It is not a number.
pub fn database_pool(default: u32) -> Result<u32, ConfigError> {
    number_or("DATABASE_POOL", default)
}

/// `METRICS_BIND`: the internal address for `/metrics`, `/healthz` and `/readyz`.
///
/// # Errors
/// It is missing or not `address:port`.
pub fn metrics_bind() -> Result<SocketAddr, ConfigError> {
    parsed("METRICS_BIND", "must be an address such as 0.0.0.0:9090", |text| text.parse().ok())
}

/// `API_BIND`: the public address of the API.
///
/// # Errors
/// It is missing or not `address:port`.
pub fn api_bind() -> Result<SocketAddr, ConfigError> {
    parsed("API_BIND", "must be an address such as 0.0.0.0:8080", |text| text.parse().ok())
}

/// `PUBLIC_URL`: the public base URL of this service, without a trailing slash. Every process that writes events needs
/// it.
///
/// # Errors
/// It is missing or does not begin with http:// or https://.
pub fn public_url() -> Result<String, ConfigError> {
    parsed("PUBLIC_URL", INVALID_URL, http_url)
}

/// `PORTAL_BIND`: the public address of the portal.
///
/// # Errors
/// It is missing or not `address:port`.
pub fn portal_bind() -> Result<SocketAddr, ConfigError> {
    parsed("PORTAL_BIND", "must be an address such as 0.0.0.0:8070", |text| text.parse().ok())
}

/// `PORTAL_URL`: the URL at which browsers reach the portal, without a path. It accepts forms of this origin only.
///
/// # Errors
/// It is missing or does not begin with http:// or https://.
pub fn portal_url() -> Result<String, ConfigError> {
    parsed("PORTAL_URL", INVALID_URL, http_url)
}

/// A comma-separated list; empty if the variable is not set.
///
/// # Errors
/// `parse` returns `None` for an item.
pub fn listed<T>(
    name: &'static str,
    problem: &'static str,
    parse: impl Fn(&str) -> Option<T>,
) -> Result<Vec<T>, ConfigError> {
    let text = optional(name)?.unwrap_or_default();
    let items = text.split(',').map(str::trim).filter(|item| !item.is_empty()).map(parse);
    items.collect::<Option<_>>().ok_or(ConfigError { name, problem })
}

/// The problem of a malformed key.
pub const INVALID_KEY: &str = "must be 64 hexadecimal digits";
/// The problem of a malformed list of keys.
pub const INVALID_KEYS: &str = "must be a comma-separated list of keys of 64 hexadecimal digits";
/// The problem of a malformed URL.
pub const INVALID_URL: &str = "must be an http or https URL";

/// `KEY_PEPPER`: 64 hexadecimal digits, the key of API key hashes; and `OLD_KEY_PEPPERS`: a comma-separated list of
/// further peppers that are accepted. All processes must have the same.
///
/// # Errors
/// The first is missing, or any is malformed.
pub fn peppers() -> Result<Peppers, ConfigError> {
    let current = parsed("KEY_PEPPER", INVALID_KEY, Pepper::from_hex)?;
    Ok(Peppers::new(current, listed("OLD_KEY_PEPPERS", INVALID_KEYS, Pepper::from_hex)?))
}

/// `ENCRYPTION_KEY`: 64 hexadecimal digits, the key that encrypts secrets at rest; and `OLD_ENCRYPTION_KEYS`: a
/// comma-separated list of further keys that only decrypt. All processes must have the same.
///
/// # Errors
/// The first is missing, or any is malformed.
pub fn encryption_keys() -> Result<KeyRing, ConfigError> {
    let current = parsed("ENCRYPTION_KEY", INVALID_KEY, EncryptionKey::from_hex)?;
    Ok(KeyRing::new(current, listed("OLD_ENCRYPTION_KEYS", INVALID_KEYS, EncryptionKey::from_hex)?))
}

/// `COLLECTIONS_HELD`: suspends attempts to collect invoices, for use after a restore; false by default.
///
/// # Errors
/// It is neither `true` nor `false`.
pub fn collections_held() -> Result<bool, ConfigError> {
    switch("COLLECTIONS_HELD")
}

/// `KEYS_UNCHECKED`: lets a process run with keys that match no stored data, for the case that the right ones were
/// lost; false by default.
///
/// # Errors
/// It is neither `true` nor `false`.
pub fn keys_unchecked() -> Result<bool, ConfigError> {
    switch("KEYS_UNCHECKED")
}

/// Waits until `check` has compared the environment with the stored data, and retries while Postgres does not respond.
///
/// # Errors
/// The mismatch that `check` found. The process must exit.
pub async fn wait_until_consistent<E: Display>(
    check: impl AsyncFn() -> Result<Option<ConfigError>, E>,
) -> Result<(), ConfigError> {
    loop {
        match check().await {
            Ok(mismatch) => return mismatch.map_or(Ok(()), Err),
            Err(error) => {
                tracing::warn!(%error, "could not compare the environment with the stored data; retrying")
            }
        }
        tokio::time::sleep(RETRY_DELAY).await;
    }
}

/// `WORKER_PAYMENT_CONCURRENCY`: concurrent payment operations per worker. Its former name, `WORKER_MONEY_CONCURRENCY`, is
/// still read in this release, if the new one is not set.
///
/// # Errors
/// It is not a number.
pub fn payment_concurrency(default: usize) -> Result<usize, ConfigError> {
    number_or("WORKER_PAYMENT_CONCURRENCY", number_or("WORKER_MONEY_CONCURRENCY", default)?)
}

/// `METRICS_ACCOUNTS`: a comma-separated list of at most 20 accounts whose charges are also counted by account; empty
/// by default.
///
/// # Errors
/// An item is not an account id, or there are too many.
pub fn metrics_accounts() -> Result<Vec<AccountId>, ConfigError> {
    const NAME: &str = "METRICS_ACCOUNTS";
    let problem = "must be a comma-separated list of at most 20 ids such as acct_…";
    let accounts = listed(NAME, problem, |text| text.parse().ok())?;
    if accounts.len() > 20 { Err(ConfigError { name: NAME, problem }) } else { Ok(accounts) }
}

/// `DRAIN_MS`: how long an api or gateway still accepts requests after SIGTERM; 5,000 milliseconds by
/// default, at most 30,000. Must be longer than the interval in which load balancers check `/readyz`.
///
/// # Errors
/// It is not a number in that range.
pub fn drain_delay() -> Result<Duration, ConfigError> {
    const NAME: &str = "DRAIN_MS";
    match number_or(NAME, 5_000)? {
        ms @ 0..=30_000 => Ok(Duration::from_millis(ms)),
        _ => Err(ConfigError { name: NAME, problem: "must be between 0 and 30000" }),
    }
}

/// `KEY_CACHE_MS`: how long a process may cache an API key, from 0 (no cache) to 1,000 milliseconds (the default). A
/// revoked key may still be accepted for this long.
///
/// # Errors
/// It is not a number in that range.
pub fn key_cache() -> Result<Duration, ConfigError> {
    const NAME: &str = "KEY_CACHE_MS";
    match number_or(NAME, 1_000)? {
        ms @ 0..=1_000 => Ok(Duration::from_millis(ms)),
        _ => Err(ConfigError { name: NAME, problem: "must be between 0 and 1000" }),
    }
}

/// Rate limits of the api per client address.
#[derive(Clone, Copy, Debug)]
pub struct ApiLimits {
    /// `PAGE_RATE_LIMIT`: requests per second to payment pages and with publishable keys; 20 by default.
    pub page: u32,
    /// `UNAUTHENTICATED_RATE_LIMIT`: requests per second whose key is missing, invalid or not yet verified; 50 by
    /// default.
    pub unknown: u32,
    /// `ADDRESS_SHARE`: the share of a publishable key's rate limit that one address may use, in percent; 20 by
    /// default.
    pub key_share: u32,
}

/// Reads [`ApiLimits`].
///
/// # Errors
/// One of them is not a number in its range.
pub fn api_limits() -> Result<ApiLimits, ConfigError> {
    const SHARE: &str = "ADDRESS_SHARE";
    let key_share = match number_or(SHARE, 20)? {
        share @ 1..=100 => share,
        _ => return Err(ConfigError { name: SHARE, problem: "must be a percentage from 1 to 100" }),
    };
    let (page, unknown) = (rate("PAGE_RATE_LIMIT", 20)?, rate("UNAUTHENTICATED_RATE_LIMIT", 50)?);
    Ok(ApiLimits { page, unknown, key_share })
}

/// `RATE_LIMIT_TIMEOUT_MS`: how long a request waits for Redis to count it, from 50 to 60,000 milliseconds; 250 by
/// default. After that the limits of the process alone apply.
///
/// # Errors
/// It is not a number in that range.
pub fn rate_limit_timeout() -> Result<Duration, ConfigError> {
    const NAME: &str = "RATE_LIMIT_TIMEOUT_MS";
    match number_or(NAME, 250)? {
        ms @ 50..=60_000 => Ok(Duration::from_millis(ms)),
        _ => Err(ConfigError { name: NAME, problem: "must be between 50 and 60000" }),
    }
}

/// A rate limit in requests per second, with a default.
///
/// # Errors
/// It is not a number of at least 1.
pub fn rate(name: &'static str, default: u32) -> Result<u32, ConfigError> {
    match number_or(name, default)? {
        0 => Err(ConfigError { name, problem: "must be at least 1" }),
        rate => Ok(rate),
    }
}

/// `WEBHOOK_ALLOW_LOOPBACK`: permits webhook endpoints of test accounts on this machine's loopback; false by default.
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
        Some(_) => Err(ConfigError { name, problem: "must be true or false" }),
    }
}

/// `RETENTION_MONTHS`: how many months events and deliveries are retained; 13 by default, at least 2, so that events of
/// pending deliveries exist.
///
/// # Errors
/// It is not a number from 2 to 1,200.
pub fn retention_months() -> Result<i32, ConfigError> {
    const NAME: &str = "RETENTION_MONTHS";
    match number_or(NAME, 13)? {
        months @ 2..=1_200 => Ok(months),
        _ => Err(ConfigError { name: NAME, problem: "must be between 2 and 1200" }),
    }
}

/// `PROVIDER_RETRY_LIMIT_S`: for how many seconds background operations that a provider does not process are retried;
/// at most 30 days.
///
/// # Errors
/// It is not a number from 1 to 2,592,000.
pub fn provider_retry_limit(default: Duration) -> Result<Duration, ConfigError> {
    const NAME: &str = "PROVIDER_RETRY_LIMIT_S";
    match number_or(NAME, default.as_secs())? {
        seconds @ 1..=2_592_000 => Ok(Duration::from_secs(seconds)),
        _ => Err(ConfigError { name: NAME, problem: "must be a number of seconds from 1 to 2592000" }),
    }
}

/// `CARD_GATEWAY_URL`: the base URL of the card gateway, without a trailing slash. Not set if no account uses it.
///
/// # Errors
/// It does not begin with http:// or https://.
pub fn card_gateway_url() -> Result<Option<String>, ConfigError> {
    optional_url("CARD_GATEWAY_URL")
}

/// `CARD_GATEWAY_PUBLIC_URL`: the base URL of the card gateway for browsers; `CARD_GATEWAY_URL` by default.
///
/// # Errors
/// As [`card_gateway_url`].
pub fn card_gateway_public_url() -> Result<Option<String>, ConfigError> {
    Ok(match optional_url("CARD_GATEWAY_PUBLIC_URL")? {
        Some(url) => Some(url),
        None => card_gateway_url()?,
    })
}

/// `FONTS_DIRS`: the folders with the fonts of documents, separated by colons; those of the system by default.
///
/// # Errors
/// If its `_FILE` variant cannot be read.
pub fn fonts_dirs() -> Result<Vec<PathBuf>, ConfigError> {
    const SYSTEM: &str = "/usr/share/fonts:/usr/local/share/fonts:/System/Library/Fonts:/Library/Fonts";
    let folders = optional("FONTS_DIRS")?.unwrap_or_else(|| SYSTEM.to_owned());
    Ok(std::env::split_paths(&folders).collect())
}

/// `STRIPE_URL`: the base URL of Stripe's API, if it is another than Stripe's own.
///
/// # Errors
/// As [`card_gateway_url`].
pub fn stripe_url() -> Result<Option<String>, ConfigError> {
    optional_url("STRIPE_URL")
}

fn optional_url(name: &'static str) -> Result<Option<String>, ConfigError> {
    let parse = |text: String| http_url(&text).ok_or(ConfigError { name, problem: INVALID_URL });
    optional(name)?.map(parse).transpose()
}

/// Checks that the text is an http or https URL, and strips trailing slashes.
pub fn http_url(text: &str) -> Option<String> {
    let is_http = text.starts_with("http://") || text.starts_with("https://");
    is_http.then(|| text.trim_end_matches('/').to_owned())
}
