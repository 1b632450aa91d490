//! The merchant's account, and its account at the card gateway.

use anyhow::{Context as _, Result};
use domain::accounts::{self, AccountSettings, Mode};
use foundation::clock::Clock;
use foundation::config;
use foundation::id::AccountId;
use foundation::money::Currency;
use gateway::accounts::{CryptoKeys, Settings, create};
use gateway::cards::Brand;
use providers::ProviderKind;
use providers::card_gateway::Credentials;
use providers::credentials::Stored as _;
use serde_json::json;
use sqlx::PgPool;

/// The merchant's keys.
#[derive(Clone, Debug)]
pub struct Shop {
    /// The account at the service.
    pub account: AccountId,
    /// The secret key.
    pub key: String,
    /// What names the account in browsers to the card gateway, if it is connected to one.
    pub app_key: Option<String>,
}

/// Creates an account whose days begin in this time zone. With `gateway_zone`, it is connected to an account at the card
/// gateway whose days end in that zone; otherwise its provider is the mock.
///
/// # Errors
/// If it cannot be created.
pub async fn open(timezone: &str, gateway_zone: Option<&str>) -> Result<Shop> {
    let (peppers, encryption) = (config::peppers()?, config::encryption_keys()?);
    let pool = PgPool::connect(config::database_url()?.expose()).await?;
    let now = Clock::system().now();
    let provider = if gateway_zone.is_some() { ProviderKind::CardGateway } else { ProviderKind::Mock };
    let settings = AccountSettings {
        name: Some("Shop".to_owned()),
        timezone: Some(timezone.to_owned()),
        provider: Some(provider),
        ..AccountSettings::default()
    };
    let id = accounts::create(&pool, now, None, Mode::Test, &settings).await?;
    let app_key = match gateway_zone {
        Some(zone) => Some(connect(&pool, id, zone).await?),
        None => None,
    };
    let secret = accounts::issue_secret(&pool, &peppers, &encryption, now, id, None).await?;
    pool.close().await;
    Ok(Shop { account: id, key: secret.key.expose().to_owned(), app_key })
}

/// Connects the account to a new one at the card gateway. Returns its app key.
async fn connect(pool: &PgPool, account: AccountId, zone: &str) -> Result<String> {
    const USERNAME: &str = "shop";
    let crypto = CryptoKeys::new(gateway::config::pepper()?, gateway::config::card_keys()?);
    let settings = Settings {
        time_zone: Some(zone.parse().ok().context("a time zone")?),
        three_ds: Some(false),
        refused_brands: Some(vec![Brand::Amex]),
        // No history reaches a limit.
        sale_limit: Some(i64::from(u32::MAX)),
        monthly_limit: Some(i64::from(u32::MAX)),
        daily_transactions: Some(i32::MAX),
        hourly_per_address: Some(i32::MAX),
        ..Settings::default()
    };
    let now = Clock::system().now();
    let keys = create(&mut *pool.acquire().await?, &crypto, USERNAME, &settings, now).await?;
    let (api_key, secret_key) = (keys.api_key.expose(), keys.secret_key.expose());
    let credentials = json!({"username": USERNAME, "api_key": api_key, "secret_key": secret_key}).to_string();
    let credentials = Credentials::parse(&credentials).context("credentials")?;
    let usd = [Currency::active("USD").ok().context("a currency")?];
    accounts::connect(pool, &config::encryption_keys()?, now, account, credentials, Some(&usd)).await?;
    Ok(keys.app_key)
}
