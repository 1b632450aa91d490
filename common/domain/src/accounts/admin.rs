//! Changes of accounts by operators, and of some settings by the merchant's owners.

use sqlx::{Acquire, Connection, PgConnection, PgExecutor, PgPool, Postgres, Transaction};

use super::settlement::require_currency;
use super::{Mode, gateway_accounts};
use crate::modifiers::Modifiers;
use foundation::calendar::TimeZone;
use foundation::color::Color;
use foundation::crypto::KeyRing;
use foundation::db;
use foundation::email::is_internet_email;
use foundation::error::{Error, Result};
use foundation::id::{AccountId, MerchantId, ProviderAccountId};
use foundation::money::Currency;
use foundation::time::Timestamp;
use foundation::web_url::WebOrigin;
use providers::ProviderKind;
use providers::capabilities::Permission;
use providers::card_gateway::{self, Credentials};
use providers::stripe;

/// The settings of an account; `None` leaves a setting unchanged, or at its default.
#[derive(Debug, Default)]
pub struct AccountSettings {
    /// The displayed name.
    pub name: Option<String>,
    /// The IANA name of the time zone in which its days begin.
    pub timezone: Option<String>,
    /// The provider for new payments. Existing cards and payments stay with theirs.
    pub provider: Option<ProviderKind>,
    /// Whether partial captures are allowed.
    pub partial_capture: Option<bool>,
    /// Whether partial refunds are allowed.
    pub partial_refund: Option<bool>,
    /// `{surcharge?, tax?, tip?}`, each `{type: "percent"
    ///
    /// "fixed", value}`; percent in basis points.
    pub modifiers: Option<serde_json::Value>,
    /// Origins allowed to use the publishable keys; replaces the list.
    pub allowed_origins: Option<Vec<WebOrigin>>,
    /// Requests per second and burst of each key.
    pub rate_limit: Option<(i32, i32)>,
    /// The email address sent to a provider for a payer who has none.
    pub email: Option<String>,
    /// The contact for cardholders' questions; empty for none.
    pub support_contact: Option<String>,
    /// The lines of the merchant's address for payers; empty for none.
    pub address: Option<String>,
    /// The merchant's number for tax for payers; empty for none.
    pub tax_number: Option<String>,
    /// The colour of buttons and links on payers' pages, as `#rrggbb`; empty for none.
    pub color: Option<String>,
    /// Whether a live account may be at the mock, where no money moves.
    pub allow_mock: bool,
}

/// Maximum length of a support contact.
const MAX_CONTACT: usize = 200;
/// Maximum length of an address and number of its lines.
const MAX_ADDRESS: usize = 400;
const MAX_ADDRESS_LINES: usize = 6;
/// Maximum length of a number for tax.
const MAX_TAX_NUMBER: usize = 50;

impl AccountSettings {
    fn check(&self, mode: Mode) -> Result<()> {
        if mode == Mode::Live && self.provider == Some(ProviderKind::Mock) && !self.allow_mock {
            let problem =
                "a live account cannot be at the mock, where no money moves; --allow-mock permits it for tests";
            return Err(Error::invalid("provider", problem));
        }
        if let Some(name) = &self.name
            && name.trim().is_empty()
        {
            return Err(Error::invalid("name", "name must not be empty"));
        }
        if let Some(email) = &self.email
            && !is_internet_email(email)
        {
            return Err(Error::invalid("email", format!("{email} is not an email address")));
        }
        if let Some(contact) = &self.support_contact
            && (contact.chars().count() > MAX_CONTACT || contact.contains(char::is_control))
        {
            let message =
                format!("the support contact must have at most {MAX_CONTACT} characters and no control characters");
            return Err(Error::invalid("support_contact", message));
        }
        if let Some(address) = &self.address {
            let lines = address.lines().count();
            let has_control = address.lines().any(|line| line.contains(char::is_control));
            if address.chars().count() > MAX_ADDRESS || lines > MAX_ADDRESS_LINES || has_control {
                let message =
                    format!("the address must have at most {MAX_ADDRESS_LINES} lines and {MAX_ADDRESS} characters");
                return Err(Error::invalid("address", message));
            }
        }
        if let Some(number) = &self.tax_number
            && (number.chars().count() > MAX_TAX_NUMBER || number.contains(char::is_control))
        {
            let message =
                format!("the tax number must have at most {MAX_TAX_NUMBER} characters and no control characters");
            return Err(Error::invalid("tax_number", message));
        }
        if let Some(color) = self.color.as_deref().filter(|color| !color.trim().is_empty()) {
            color.trim().parse::<Color>().map_err(|error| Error::invalid("color", format!("{color:?} {error}")))?;
        }
        if let Some(zone) = &self.timezone {
            zone.parse::<TimeZone>()
                .map_err(|_| Error::invalid("timezone", format!("{zone} is not the name of a time zone")))?;
        }
        self.modifiers.as_ref().map_or(Ok(()), |modifiers| Modifiers::parse(modifiers).map(drop))
    }
}

/// Creates an account, and its merchant unless an existing one is given.
///
/// # Errors
/// [`Error::Invalid`] for an invalid setting, [`Error::NotFound`] for an unknown merchant, [`Error::Conflict`] if the
/// merchant already has an account in this mode.
pub async fn create(
    db: impl Acquire<'_, Database = Postgres>,
    now: Timestamp,
    merchant: Option<MerchantId>,
    mode: Mode,
    settings: &AccountSettings,
) -> Result<AccountId> {
    settings.check(mode)?;
    let name = settings.name.as_deref().ok_or_else(|| Error::invalid("name", "name is required"))?;
    let provider = settings.provider.ok_or_else(|| Error::invalid("provider", "provider is required"))?;
    let (id, provider_account) = (AccountId::new(now), ProviderAccountId::new(now));
    let mut tx = db.begin().await?;
    let merchant_id = match merchant {
        Some(id) => id,
        None => {
            let id = MerchantId::new(now);
            sqlx::query!("INSERT INTO merchants (id, name, created_at) VALUES ($1, $2, $3)", id.uuid(), name, now)
                .execute(&mut *tx)
                .await?;
            id
        }
    };
    sqlx::query!(
        "INSERT INTO accounts (id, merchant_id, mode, name, timezone, provider_account_id, created_at)
         VALUES ($1, $2, $3, $4, 'UTC', $5, $6)",
        id.uuid(),
        merchant_id.uuid(),
        mode as Mode,
        name,
        provider_account.uuid(),
        now,
    )
    .execute(&mut *tx)
    .await
    .map_err(|error| match db::violated_constraint(&error) {
        Some("accounts_one_per_mode") => Error::conflict(format!("the merchant already has a {} account", mode.name())),
        Some("accounts_merchant_id_fkey") => Error::no_such("merchant", merchant_id),
        _ => error.into(),
    })?;
    insert_provider_account(&mut tx, id, provider_account, provider, now).await?;
    apply(&mut tx, id, settings).await?;
    tx.commit().await?;
    Ok(id)
}

/// Changes the settings of an account.
///
/// # Errors
/// [`Error::Invalid`] for an invalid setting, [`Error::NotFound`] for an unknown account.
pub async fn set(db: &mut PgConnection, now: Timestamp, id: AccountId, settings: &AccountSettings) -> Result<()> {
    let mut tx = Connection::begin(db).await?;
    let mode = sqlx::query_scalar!(r#"SELECT mode AS "mode: Mode" FROM accounts WHERE id = $1"#, id.uuid());
    let mode = mode.fetch_optional(&mut *tx).await?.ok_or_else(|| Error::no_such("account", id))?;
    settings.check(mode)?;
    apply(&mut tx, id, settings).await?;
    if let Some(provider) = settings.provider {
        let provider_account = find_or_create_provider_account(&mut tx, id, provider, now).await?;
        sqlx::query!("UPDATE accounts SET provider_account_id = $2 WHERE id = $1", id.uuid(), provider_account.uuid())
            .execute(&mut *tx)
            .await?;
    }
    tx.commit().await?;
    Ok(())
}

async fn insert_provider_account(
    tx: &mut Transaction<'_, Postgres>,
    account: AccountId,
    id: ProviderAccountId,
    provider: ProviderKind,
    now: Timestamp,
) -> Result<()> {
    sqlx::query!(
        "INSERT INTO provider_accounts (id, account_id, provider, created_at) VALUES ($1, $2, $3, $4)",
        id.uuid(),
        account.uuid(),
        provider as ProviderKind,
        now,
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

async fn apply(tx: &mut Transaction<'_, Postgres>, id: AccountId, settings: &AccountSettings) -> Result<()> {
    let origins = settings.allowed_origins.as_deref();
    let done = sqlx::query!(
        "UPDATE accounts SET
            name = coalesce($2, name), timezone = coalesce($3, timezone), partial_capture = coalesce($4, partial_capture),
            partial_refund = coalesce($5, partial_refund), modifiers = coalesce($6, modifiers),
            allowed_origins = coalesce($7, allowed_origins), rate_limit = coalesce($8, rate_limit), burst = coalesce($9, burst),
            email = coalesce($10, email), support_contact = nullif(coalesce($11, support_contact), ''),
            address = nullif(coalesce($12, address), ''), tax_number = nullif(coalesce($13, tax_number), ''),
            color = nullif(coalesce($14, color), '')
         WHERE id = $1",
        id.uuid(),
        settings.name.as_deref(),
        settings.timezone.as_deref(),
        settings.partial_capture,
        settings.partial_refund,
        settings.modifiers.as_ref(),
        origins.map(|origins| db::column(origins, WebOrigin::as_str)) as _,
        settings.rate_limit.map(|(rate, _)| rate),
        settings.rate_limit.map(|(_, burst)| burst),
        settings.email.as_deref(),
        settings.support_contact.as_deref().map(str::trim),
        settings.address.as_deref().map(str::trim),
        settings.tax_number.as_deref().map(str::trim),
        settings.color.as_deref().map(|color| color.trim().to_lowercase()),
    )
    .execute(&mut **tx)
    .await?;
    if done.rows_affected() == 0 { Err(Error::no_such("account", id)) } else { Ok(()) }
}

/// Connects an account to its account at the card gateway, with its credentials and currencies; `None` leaves the
/// currencies unchanged. No money moves. Returns the provider account.
///
/// # Errors
/// [`Error::Invalid`] for a currency that the gateway does not support, [`Error::NotFound`] for an unknown account,
/// [`Error::Conflict`] if it is connected under another user name, or another account uses this one.
pub async fn connect(
    pool: impl Acquire<'_, Database = Postgres>,
    encryption: &KeyRing,
    now: Timestamp,
    account: AccountId,
    credentials: Credentials,
    currencies: Option<&[Currency]>,
) -> Result<ProviderAccountId> {
    let provider = ProviderKind::CardGateway;
    for currency in currencies.unwrap_or_default() {
        require_currency(provider, None, *currency)?;
    }
    let currencies = currencies.map(|list| list.iter().map(|currency| currency.code().to_owned()).collect::<Vec<_>>());
    let mut tx = pool.begin().await?;
    let known = sqlx::query_scalar!("SELECT id FROM accounts WHERE id = $1 FOR NO KEY UPDATE", account.uuid());
    known.fetch_optional(&mut *tx).await?.ok_or_else(|| Error::no_such("account", account))?;
    let id = find_or_create_provider_account(&mut tx, account, provider, now).await?;
    // Cards, authorizations and unknown outcomes of one gateway account cannot be found in another.
    let credentials = match providers::credentials::read::<card_gateway::Credentials>(&mut *tx, encryption, id).await? {
        Some(former) if former.username != credentials.username => {
            let message = format!(
                "the account is connected to the gateway account {}; only its keys may change",
                former.username
            );
            return Err(Error::conflict(message));
        }
        Some(former) => credentials.replacing(former),
        None => credentials,
    };
    gateway_accounts::write_missing_names(&mut tx, encryption).await?;
    let update = sqlx::query!(
        "UPDATE provider_accounts SET credentials = $2, field_key = $3, currencies = coalesce($4, currencies),
                gateway_account = $5
         WHERE id = $1",
        id.uuid(),
        credentials.seal(encryption, account, id),
        credentials.field_key(),
        currencies.as_deref(),
        gateway_accounts::name(&credentials),
    );
    update.execute(&mut *tx).await.map_err(|error| match db::violated_constraint(&error) {
        Some("provider_accounts_field_key" | "provider_accounts_gateway_account") => {
            Error::conflict("another account is connected to this gateway account")
        }
        _ => error.into(),
    })?;
    tx.commit().await?;
    Ok(id)
}

/// Connects an account to Stripe, or replaces its keys. `at_stripe` is the account there (`acct_…`). No money moves.
/// Returns the provider account.
///
/// # Errors
/// [`Error::Invalid`] for keys of the other mode, [`Error::NotFound`] for an unknown account, [`Error::Conflict`] if it
/// is connected to another account at Stripe, or another account to this one.
pub async fn connect_stripe(
    pool: impl Acquire<'_, Database = Postgres>,
    encryption: &KeyRing,
    now: Timestamp,
    account: AccountId,
    (credentials, at_stripe): (&stripe::Credentials, &str),
) -> Result<ProviderAccountId> {
    let mut tx = pool.begin().await?;
    let mode = sqlx::query_scalar!(
        r#"SELECT mode AS "mode: Mode" FROM accounts WHERE id = $1 FOR NO KEY UPDATE"#,
        account.uuid()
    );
    let mode = mode.fetch_optional(&mut *tx).await?.ok_or_else(|| Error::no_such("account", account))?;
    if credentials.livemode() != (mode == Mode::Live) {
        return Err(Error::invalid("secret_key", "the keys must be of the account's mode, test or live"));
    }
    let id = find_or_create_provider_account(&mut tx, account, ProviderKind::Stripe, now).await?;
    // An account at Stripe has one id in both modes.
    let at_stripe = format!("{at_stripe} {}", mode.name());
    // Cards, authorizations and unknown outcomes of one account at Stripe cannot be found in another.
    let done = sqlx::query!(
        "UPDATE provider_accounts SET credentials = $2, gateway_account = $3, field_key = $4
         WHERE id = $1 AND (gateway_account IS NULL OR gateway_account = $3)",
        id.uuid(),
        credentials.seal(encryption, account, id),
        at_stripe,
        credentials.publishable_key,
    );
    let done = done.execute(&mut *tx).await.map_err(|error| match db::violated_constraint(&error) {
        Some("provider_accounts_gateway_account" | "provider_accounts_field_key") => {
            Error::conflict("another account is connected to this account at Stripe")
        }
        _ => error.into(),
    })?;
    if done.rows_affected() == 0 {
        return Err(Error::conflict("the account is connected to another account at Stripe; only its keys may change"));
    }
    tx.commit().await?;
    Ok(id)
}

/// An account's connection to Stripe, with its keys; `None` if it has none.
///
/// # Errors
/// Database errors; [`Error::Internal`] if the keys cannot be decrypted.
pub async fn at_stripe(
    db: &PgPool,
    encryption: &KeyRing,
    account: AccountId,
) -> Result<Option<(ProviderAccountId, stripe::Credentials)>> {
    let id = sqlx::query_scalar!(
        "SELECT id FROM provider_accounts WHERE account_id = $1 AND provider = $2",
        account.uuid(),
        ProviderKind::Stripe as ProviderKind,
    );
    let Some(id) = id.fetch_optional(db).await? else { return Ok(None) };
    Ok(providers::credentials::read(db, encryption, id).await?.map(|credentials| (id, credentials)))
}

/// Returns the provider account, which is created if there is none.
async fn find_or_create_provider_account(
    tx: &mut Transaction<'_, Postgres>,
    account: AccountId,
    provider: ProviderKind,
    now: Timestamp,
) -> Result<ProviderAccountId> {
    let existing = sqlx::query_scalar!(
        "SELECT id FROM provider_accounts WHERE account_id = $1 AND provider = $2",
        account.uuid(),
        provider as ProviderKind,
    )
    .fetch_optional(&mut **tx)
    .await?;
    if let Some(id) = existing {
        // An account that returns to a provider is reconciled again.
        set_reconciliation(&mut **tx, account, provider, true).await?;
        return Ok(id);
    }
    let id = ProviderAccountId::new(now);
    insert_provider_account(tx, account, id, provider, now).await?;
    Ok(id)
}

/// Disables or re-enables reconciliation of an account with a provider. Returns the provider account.
///
/// # Errors
/// [`Error::NotFound`] if the account has none at this provider.
pub async fn set_reconciliation(
    db: impl PgExecutor<'_>,
    account: AccountId,
    provider: ProviderKind,
    enabled: bool,
) -> Result<ProviderAccountId> {
    sqlx::query_scalar!(
        "UPDATE provider_accounts SET reconcile_at = CASE
             WHEN NOT $3 THEN 'infinity' WHEN reconcile_at = 'infinity' THEN clock_timestamp() ELSE reconcile_at END
         WHERE account_id = $1 AND provider = $2 RETURNING id",
        account.uuid(),
        provider as ProviderKind,
        enabled,
    )
    .fetch_optional(db)
    .await?
    .ok_or_else(|| Error::no_such("account at this provider", account))
}

/// Sets the operations that a provider account does not support, in addition to those its provider never supports.
/// Returns the provider account.
///
/// # Errors
/// [`Error::NotFound`] if the account has none at this provider.
pub async fn set_unsupported(
    db: impl PgExecutor<'_>,
    account: AccountId,
    provider: ProviderKind,
    unsupported: Option<&[Permission]>,
) -> Result<ProviderAccountId> {
    let names = unsupported.map(|list| list.iter().map(|o| o.name().to_owned()).collect::<Vec<_>>());
    sqlx::query_scalar!(
        "UPDATE provider_accounts SET unsupported = coalesce($3, unsupported) WHERE account_id = $1 AND provider = $2
         RETURNING id",
        account.uuid(),
        provider as ProviderKind,
        names.as_deref(),
    )
    .fetch_optional(db)
    .await?
    .ok_or_else(|| Error::no_such("account at this provider", account))
}

/// Returns an account's provider account, and the operations that it does not support.
///
/// # Errors
/// [`Error::NotFound`] if the account has never been at this provider.
pub async fn unsupported(
    db: &PgPool,
    account: AccountId,
    provider: ProviderKind,
) -> Result<(ProviderAccountId, Vec<String>)> {
    let row = sqlx::query!(
        "SELECT id, unsupported FROM provider_accounts WHERE account_id = $1 AND provider = $2",
        account.uuid(),
        provider as ProviderKind,
    );
    let row = row.fetch_optional(db).await?.ok_or_else(|| Error::no_such("account at this provider", account))?;
    Ok((row.id, row.unsupported))
}

#[cfg(test)]
mod tests {
    use foundation::clock::Clock;
    use foundation::crypto::{EncryptionKey, Secret};

    use super::*;
    use providers::credentials::Stored as _;

    /// Cards, holds and unknown outcomes of an account are found by its user name at the gateway.
    #[tokio::test]
    async fn a_connected_account_keeps_its_user_name_at_the_gateway() {
        let database = testkit::Database::create().await.expect("a database");
        let url = Secret::new(database.url().to_owned());
        let db = foundation::db::pool(&url, 2, "test").expect("its address");
        let key = KeyRing::new(EncryptionKey::from_hex(&"00".repeat(32)).expect("a key"), vec![]);
        let now = Clock::system().now();
        let settings = AccountSettings {
            name: Some("Shop".into()),
            provider: Some(ProviderKind::CardGateway),
            ..AccountSettings::default()
        };
        let account = create(&db, now, None, Mode::Test, &settings).await.expect("created");
        let connect_as = async |username: &str, api_key: &str| {
            let json = serde_json::json!({"username": username, "api_key": api_key, "secret_key": "0123456789abcdef"});
            let credentials = Credentials::parse(&json.to_string()).expect("complete");
            connect(&db, &key, now, account, credentials, None).await
        };
        let first = connect_as("shop", "one").await.expect("connected");
        let refused = connect_as("other", "one").await;
        assert!(matches!(refused, Err(Error::Conflict(_))), "{refused:?}");
        assert_eq!(connect_as("shop", "two").await.expect("its keys may change"), first);
    }
}
