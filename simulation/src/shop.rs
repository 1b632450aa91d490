//! The merchant's account, and its accounts at providers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result};
use domain::accounts::{self, AccountSettings, Mode};
use foundation::clock::Clock;
use foundation::config;
use foundation::id::AccountId;
use foundation::money::Currency;
use gateway::accounts::{CryptoKeys, Settings, create};
use gateway::cards::Brand;
use providers::ProviderKind;
use providers::card_gateway;
use providers::credentials::Stored as _;
use providers::stripe;
use serde_json::json;
use sqlx::PgPool;
use testkit::stripe::{Stripe, StripeKeys};

use crate::history::{History, Provider};

/// The time from a capture at Stripe until its money is available: less than a subscription's shortest cycle, so that at
/// some time everything has settled.
const AVAILABLE_AFTER: Duration = Duration::from_secs(6 * 3_600);

/// The name of the account at the card gateway.
pub const USERNAME: &str = "shop";
/// That of the account at Stripe.
pub const AT_STRIPE: &str = "acct_1";

/// The merchant's keys.
#[derive(Clone, Debug)]
pub struct Shop {
    /// The account at the service.
    pub account: AccountId,
    /// The secret key.
    pub key: String,
    /// What names the account in browsers to the card gateway, if it is connected to one.
    pub app_key: Option<String>,
    /// The account at Stripe, if it is connected to one.
    pub stripe: Option<(Arc<Stripe>, StripeKeys)>,
    provider: Arc<Mutex<Provider>>,
    /// The history's token of each card at Stripe whose holder or issuer acts after a charge.
    acting: Arc<Mutex<BTreeMap<String, String>>>,
}

impl Shop {
    /// The holder and the issuer of this card at Stripe act after a charge, as the history's token says.
    pub fn will_act(&self, card: &str, token: &str) {
        self.acting.lock().unwrap_or_else(PoisonError::into_inner).insert(card.to_owned(), token.to_owned());
    }

    /// Whether there are such cards.
    pub fn has_acting(&self) -> bool {
        !self.acting.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// The history's token of such a card.
    pub fn acting(&self, card: &str) -> Option<String> {
        self.acting.lock().unwrap_or_else(PoisonError::into_inner).get(card).cloned()
    }

    /// The provider of new payments.
    pub fn provider(&self) -> Provider {
        *self.provider.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Moves the account to another provider.
    ///
    /// # Errors
    /// If Postgres fails.
    pub async fn move_to(self, to: Provider) -> Result<()> {
        let pool = PgPool::connect(config::database_url()?.expose()).await?;
        let settings = AccountSettings { provider: Some(kind(to)), ..AccountSettings::default() };
        accounts::set(&mut *pool.acquire().await?, Clock::system().now(), self.account, &settings).await?;
        pool.close().await;
        *self.provider.lock().unwrap_or_else(PoisonError::into_inner) = to;
        Ok(())
    }
}

const fn kind(provider: Provider) -> ProviderKind {
    match provider {
        Provider::Mock => ProviderKind::Mock,
        Provider::CardGateway => ProviderKind::CardGateway,
        Provider::Stripe => ProviderKind::Stripe,
    }
}

/// Creates the account of a history, with an account at each provider that the history uses.
///
/// # Errors
/// If it cannot be created.
pub async fn open(history: History, at_stripe: Arc<Stripe>) -> Result<Shop> {
    let (peppers, encryption) = (config::peppers()?, config::encryption_keys()?);
    let pool = PgPool::connect(config::database_url()?.expose()).await?;
    let now = Clock::system().now();
    let settings = AccountSettings {
        name: Some("Shop".to_owned()),
        timezone: Some(history.timezone().to_owned()),
        provider: Some(kind(history.provider)),
        ..AccountSettings::default()
    };
    let id = accounts::create(&pool, now, None, Mode::Test, &settings).await?;
    let app_key = match history.uses(Provider::CardGateway) {
        true => Some(connect_gateway(&pool, id, history.gateway_zone()).await?),
        false => None,
    };
    let stripe = match history.uses(Provider::Stripe) {
        true => Some((Arc::clone(&at_stripe), connect_stripe(&pool, id, &at_stripe).await?)),
        false => None,
    };
    let secret =
        accounts::issue_secret(&mut *pool.acquire().await?, &peppers, &encryption, now, id, (None, None)).await?;
    pool.close().await;
    let provider = Arc::new(Mutex::new(history.provider));
    Ok(Shop { account: id, key: secret.key.expose().to_owned(), app_key, stripe, provider, acting: Arc::default() })
}

/// Connects the account to a new one at the card gateway, whose days end in this time zone. Returns its app key.
async fn connect_gateway(pool: &PgPool, account: AccountId, zone: &str) -> Result<String> {
    let crypto = CryptoKeys::new(gateway::config::pepper()?, gateway::config::card_keys()?);
    let settings = Settings {
        time_zone: Some(zone.parse().ok().context("a time zone")?),
        three_ds: Some(true),
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
    let credentials = card_gateway::Credentials::parse(&credentials).context("credentials")?;
    let usd = [Currency::active("USD").ok().context("a currency")?];
    accounts::connect(pool, &config::encryption_keys()?, now, account, credentials, Some(&usd)).await?;
    Ok(keys.app_key)
}

/// Connects the account to a new one at Stripe.
async fn connect_stripe(pool: &PgPool, account: AccountId, stripe: &Stripe) -> Result<StripeKeys> {
    let keys = stripe.account();
    stripe.make_available_after(&keys, AVAILABLE_AFTER);
    let credentials = stripe::Credentials::parse(&keys.json()).context("credentials")?;
    let connection = (&credentials, AT_STRIPE);
    accounts::connect_stripe(pool, &config::encryption_keys()?, Clock::system().now(), account, connection).await?;
    Ok(keys)
}
