//! `gateway account …`: manages merchants' accounts.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use foundation::actor::Actor;
use foundation::calendar::TimeZone;
use foundation::clock::Clock;
use foundation::db::begin;
use foundation::email::is_internet_email;
use foundation::web_url::WebOrigin;
use serde_json::{Value, json};
use sqlx::PgPool;

use super::keys::checked_keys;
use crate::accounts::{self, Account, CURRENCIES, HUNDRED_PERCENT, Keys, Settings};
use crate::amount::Amount;
use crate::audit;
use crate::cards::Brand;

/// Subcommands of `account`.
#[derive(Subcommand)]
pub enum Command {
    /// Create an account. Its keys are printed only this once.
    Create(Box<AccountArgs>),
    /// Change an account's settings.
    Set(Box<AccountArgs>),
    /// Give an account new keys, printed only this once. The current keys stay valid for an hour; keys from an earlier
    /// rotation expire at once.
    RotateKeys(RotateArgs),
    /// List all accounts.
    List,
}

/// Arguments of `rotate-keys`.
#[derive(Args)]
pub struct RotateArgs {
    #[arg(long)]
    username: String,
    /// How long the former keys stay valid; a week at most. 0 expires them at once.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(..=10_080))]
    grace_minutes: u32,
    /// Expire the former keys at once, because they have leaked.
    #[arg(long, conflicts_with = "grace_minutes")]
    at_once: bool,
}

impl RotateArgs {
    fn grace(&self) -> Duration {
        Duration::from_secs(if self.at_once { 0 } else { 60 * u64::from(self.grace_minutes) })
    }
}

/// An account's name and settings.
#[derive(Args)]
pub struct AccountArgs {
    /// The merchant's user name: 3 to 64 letters, digits, points, hyphens, underscores.
    #[arg(long)]
    username: String,
    /// Displayed to cardholders. The user name by default.
    #[arg(long)]
    name: Option<String>,
    /// IANA time zone name. UTC by default.
    #[arg(long)]
    time_zone: Option<TimeZone>,
    /// A currency that the account accepts; repeatable. All eleven by default.
    #[arg(long = "currency", value_parser = currency)]
    currencies: Option<Vec<String>>,
    /// A card brand that the account's processors do not accept (code 11); repeatable, `none` accepts all.
    #[arg(long = "refuse-brand", value_parser = brand)]
    refused_brands: Option<Vec<Option<Brand>>>,
    /// Whether a sale requires the security code. No by default.
    #[arg(long)]
    cvv_required: Option<bool>,
    /// Whether cards may be challenged by 3-D Secure. Yes by default.
    #[arg(long)]
    three_ds: Option<bool>,
    /// Whether cards that cannot be authenticated are declined. No by default.
    #[arg(long)]
    deny_unauthenticated: Option<bool>,
    /// Code 17: the largest transaction, such as 10000.00.
    #[arg(long, value_parser = limit)]
    sale_limit: Option<Amount>,
    /// Code 18: volume of sales and authorizations per month, in each currency.
    #[arg(long, value_parser = limit)]
    monthly_limit: Option<Amount>,
    /// Code 19: transactions per day.
    #[arg(long, value_parser = clap::value_parser!(i32).range(1..))]
    daily_transactions: Option<i32>,
    /// Code 20: transactions per hour from one address.
    #[arg(long, value_parser = clap::value_parser!(i32).range(1..))]
    hourly_per_address: Option<i32>,
    /// Convenience fee on sales in basis points of the amount: 250 is 2.5 %. 0 by default.
    #[arg(long, value_parser = clap::value_parser!(i32).range(0..=i64::from(HUNDRED_PERCENT)))]
    convenience_fee_percent: Option<i32>,
    /// Fixed convenience fee on sales, such as 0.50. 0 by default.
    #[arg(long, value_parser = amount)]
    convenience_fee_fixed: Option<Amount>,
    /// The merchant's address for receipts (emailReceiptDBAEmail). `none`, the default, sends none.
    #[arg(long, value_parser = contact)]
    contact_email: Option<String>,
    /// An origin, such as https://shop.example, that may frame the account's card field, in any spelling; repeatable,
    /// `none` removes all.
    #[arg(long = "origin", value_parser = origin)]
    allowed_origins: Option<Vec<String>>,
}

fn origin(text: &str) -> Result<String, String> {
    match text {
        "none" => Ok(text.to_owned()),
        text => {
            text.parse().map(|origin: WebOrigin| origin.as_str().to_owned()).map_err(|why| format!("{why}, or none"))
        }
    }
}

fn currency(text: &str) -> Result<String, String> {
    let upper = text.to_ascii_uppercase();
    if CURRENCIES.contains(&upper.as_str()) {
        Ok(upper)
    } else {
        Err(format!("must be one of {}", CURRENCIES.join(", ")))
    }
}

fn brand(text: &str) -> Result<Option<Brand>, String> {
    match text {
        "none" => Ok(None),
        text => Brand::parse(text).map(Some).ok_or_else(|| "must be a card brand, or none".to_owned()),
    }
}

fn contact(text: &str) -> Result<String, String> {
    match text {
        "none" => Ok(String::new()),
        text if is_internet_email(text) => Ok(text.to_owned()),
        _ => Err("must be an e-mail address, or none".to_owned()),
    }
}

fn amount(text: &str) -> Result<Amount, String> {
    text.parse::<Amount>().map_err(|_| "must be an amount such as 10000.00".to_owned())
}

fn limit(text: &str) -> Result<Amount, String> {
    let amount = amount(text)?;
    if amount > Amount::ZERO { Ok(amount) } else { Err("must be greater than 0".to_owned()) }
}

impl AccountArgs {
    fn settings(&self) -> Settings {
        Settings {
            name: self.name.clone(),
            time_zone: self.time_zone.clone(),
            currencies: self.currencies.clone(),
            refused_brands: self.refused_brands.as_ref().map(|brands| brands.iter().flatten().copied().collect()),
            cvv_required: self.cvv_required,
            three_ds: self.three_ds,
            deny_unauthenticated: self.deny_unauthenticated,
            sale_limit: self.sale_limit.map(Amount::get),
            monthly_limit: self.monthly_limit.map(Amount::get),
            daily_transactions: self.daily_transactions,
            hourly_per_address: self.hourly_per_address,
            fee_percent: self.convenience_fee_percent,
            fee_fixed: self.convenience_fee_fixed.map(Amount::get),
            contact_email: self.contact_email.clone(),
            allowed_origins: self
                .allowed_origins
                .as_ref()
                .map(|origins| origins.iter().filter(|origin| *origin != "none").cloned().collect()),
        }
    }
}

/// Runs a subcommand. A change and its audit record are committed together.
pub(super) async fn run(db: &PgPool, command: Command, actor: &Actor) -> Result<Value> {
    // The command has one connection, so each transaction begins when nothing else is read.
    let mut tx;
    let (action, username, printed) = match command {
        Command::Create(create) => {
            let (now, crypto) = (Clock::system().now(), checked_keys(db).await?);
            tx = begin(db).await?;
            let keys = accounts::create(&mut tx, &crypto, &create.username, &create.settings(), now).await;
            let keys = keys.context("cannot create the account; the user name may be taken")?;
            ("account.create", create.username.clone(), Some(keys_json(&create.username, &keys)))
        }
        Command::Set(set) => {
            tx = begin(db).await?;
            if !accounts::set(&mut tx, &set.username, &set.settings()).await? {
                bail!("account {} does not exist", set.username);
            }
            ("account.set", set.username, None)
        }
        Command::RotateKeys(rotate) => {
            let crypto = checked_keys(db).await?;
            tx = begin(db).await?;
            let keys = accounts::rotate_keys(&mut tx, &crypto, &rotate.username, rotate.grace()).await?;
            let keys = keys.with_context(|| format!("account {} does not exist", rotate.username))?;
            ("account.rotate_keys", rotate.username.clone(), Some(keys_json(&rotate.username, &keys)))
        }
        Command::List => {
            let all = accounts::list(db).await?;
            return Ok(json!({"accounts": all.iter().map(account_json).collect::<Vec<_>>()}));
        }
    };
    // The record has the resulting settings and no key.
    let account = accounts::find(&mut *tx, &username)
        .await?
        .map(|account| account_json(&account))
        .context("the account was deleted")?;
    audit::record(&mut tx, actor.name()?, action, Some(&username), &account).await?;
    tx.commit().await?;
    let Some(mut keys) = printed else { return Ok(account) };
    keys["former_keys_until"] = account["former_keys_until"].clone();
    Ok(keys)
}

fn keys_json(username: &str, keys: &Keys) -> Value {
    json!({
        "username": username,
        "api_key": keys.api_key.expose(),
        "secret_key": keys.secret_key.expose(),
        "app_key": keys.app_key,
    })
}

fn account_json(account: &Account) -> Value {
    json!({
        "username": account.username,
        "name": account.name,
        "app_key": account.app_key,
        "former_keys_until": account.former_keys_until,
        "time_zone": account.time_zone,
        "currencies": account.currencies,
        "refused_brands": account.refused_brands,
        "cvv_required": account.cvv_required,
        "three_ds": account.three_ds,
        "deny_unauthenticated": account.deny_unauthenticated,
        "sale_limit": Amount::from_minor(account.sale_limit),
        "monthly_limit": Amount::from_minor(account.monthly_limit),
        "daily_transactions": account.daily_transactions,
        "hourly_per_address": account.hourly_per_address,
        "convenience_fee_percent": account.fee().percent,
        "convenience_fee_fixed": Amount::from_minor(account.fee().fixed),
        "contact_email": account.contact_email,
        "allowed_origins": account.allowed_origins,
        "created_at": account.created_at,
    })
}
