//! A merchant of a run.

use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::Result;
use sqlx::PgPool;
use uuid::Uuid;

use super::modifiers::Modifiers;
use crate::{Account, GatewayAccount, stripe::StripeKeys};

/// The origin of the cardholders' browsers.
pub(super) const ORIGIN: &str = "https://shop.example";

/// Options of gateway accounts, so that no amount of a run reaches a limit.
pub(super) const NO_LIMITS: [&str; 4] = ["--hourly-per-address", "1000000", "--sale-limit", "999999999.99"];

/// The provider of a merchant with its recovery class, and whether its test clock is moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ShopKind {
    Mock(char),
    Clock(char),
    Gateway,
    /// At the gateway, temporarily moved to the mock.
    Moved,
    /// At the gateway, with a fee on top of the requested amount.
    Fee,
    /// At a double of Stripe.
    Stripe,
}

impl ShopKind {
    /// Its provider, as printed in the report.
    pub(super) fn description(self) -> String {
        match self {
            Self::Mock(class) => format!("mock, class {class}"),
            Self::Clock(class) => format!("mock, class {class}, with a clock"),
            Self::Gateway => "card gateway".to_owned(),
            Self::Moved => "card gateway, moved to the mock and back".to_owned(),
            Self::Fee => "card gateway, with a convenience fee".to_owned(),
            Self::Stripe => "a double of Stripe".to_owned(),
        }
    }

    /// The modifiers of its payment pages.
    pub(super) fn modifiers(self) -> Option<Modifiers> {
        match self {
            Self::Mock('B') | Self::Gateway => Some(Modifiers::FOR_A_RUN),
            Self::Mock(_) | Self::Clock(_) | Self::Moved | Self::Fee | Self::Stripe => None,
        }
    }

    /// The currencies of its payments. JPY has no minor unit, and KWD three decimals.
    pub(super) fn currencies(self) -> &'static [&'static str] {
        match self {
            Self::Mock(_) => &["USD", "USD", "EUR", "JPY", "KWD"],
            Self::Clock(_) => &["USD"],
            Self::Gateway | Self::Moved | Self::Fee => &["USD", "USD", "EUR", "GBP"],
            Self::Stripe => &["USD", "USD", "EUR", "JPY"],
        }
    }
}

/// A merchant.
#[derive(Debug)]
pub(super) struct Shop {
    pub(super) kind: ShopKind,
    pub(super) account: Account,
    /// Its account ids in the records of the gateway and of the mock.
    pub(super) gateway_account_id: Option<Uuid>,
    pub(super) mock_account_id: Option<Uuid>,
    /// The keys of its account at the double of Stripe.
    pub(super) stripe: Option<StripeKeys>,
    /// Its gateway credentials, and the key used by its pages. Both change with key rotation.
    credentials: Mutex<(Option<GatewayAccount>, Option<String>)>,
    /// Its keys, which must not be stored or logged anywhere.
    secrets: Mutex<Vec<String>>,
}

impl Shop {
    pub(super) fn new(kind: ShopKind, account: Account) -> Self {
        let secrets = Mutex::new(vec![account.secret_key.clone()]);
        let credentials = Mutex::default();
        Self { kind, account, gateway_account_id: None, mock_account_id: None, stripe: None, credentials, secrets }
    }

    /// A merchant at the card gateway, with an account there.
    pub(super) async fn at_gateway(
        kind: ShopKind,
        account: Account,
        gateway_account: GatewayAccount,
        db: &PgPool,
    ) -> Result<Self> {
        let (id, app_key) = gateway_id_and_app_key(db, &gateway_account.username).await?;
        let shop = Self { gateway_account_id: Some(id), ..Self::new(kind, account) };
        shop.set_app_key(app_key);
        shop.add_secrets([gateway_account.api_key.clone(), gateway_account.secret_key.clone()]);
        shop.set_gateway_account(gateway_account);
        Ok(shop)
    }

    pub(super) fn secrets(&self) -> Vec<String> {
        lock(&self.secrets).clone()
    }

    pub(super) fn add_secrets(&self, secrets: impl IntoIterator<Item = String>) {
        lock(&self.secrets).extend(secrets);
    }

    /// Its gateway credentials, if it has a gateway account.
    pub(super) fn gateway_account(&self) -> Option<GatewayAccount> {
        lock(&self.credentials).0.clone()
    }

    pub(super) fn set_gateway_account(&self, gateway_account: GatewayAccount) {
        lock(&self.credentials).0 = Some(gateway_account);
    }

    /// The key that its pages send to the gateway.
    pub(super) fn app_key(&self) -> Option<String> {
        lock(&self.credentials).1.clone()
    }

    pub(super) fn set_app_key(&self, app_key: String) {
        lock(&self.credentials).1 = Some(app_key);
    }
}

/// The id and the `app_key` of a gateway account.
pub(super) async fn gateway_id_and_app_key(db: &PgPool, username: &str) -> Result<(Uuid, String)> {
    let query = sqlx::query_as("SELECT id, app_key FROM gateway.accounts WHERE username = $1");
    Ok(query.bind(username).fetch_one(db).await?)
}

/// The account at a provider that was created last.
pub(super) async fn newest_provider_account(db: &PgPool) -> Result<Uuid> {
    Ok(sqlx::query_scalar("SELECT id FROM provider_accounts ORDER BY created_at DESC LIMIT 1").fetch_one(db).await?)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
