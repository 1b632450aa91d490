//! `ctl accounts connect`: an account's credentials at a provider, checked there.

use anyhow::{Context, Result, bail};
use clap::Args;
use domain::accounts;
use foundation::config;
use foundation::console::print_error;
use foundation::id::AccountId;
use foundation::money::Currency;
use providers::ProviderKind;
use providers::card_gateway::{self, Credentials, Settings as AtGateway};
use providers::credentials::Stored as _;
use providers::stripe::{self, AtStripe};
use serde_json::json;

use super::changed_account;
use crate::output::Output;
use crate::{Ctl, entry};

#[derive(Args)]
pub(crate) struct Connect {
    /// The account (acct_…).
    id: AccountId,
    /// Where: `card_gateway`, or `stripe` with the keys {secret_key, publishable_key, webhook_secret} on standard input.
    #[arg(long, default_value = "card_gateway", value_parser = parse_connectable)]
    provider: ProviderKind,
    /// A currency the account accepts there; may be repeated. Default: all that the gateway supports.
    #[arg(long = "currency", value_parser = parse_currency)]
    currencies: Option<Vec<Currency>>,
    /// Connect even if the gateway cannot be reached to check the account's settings.
    #[arg(long)]
    unchecked: bool,
}

fn parse_connectable(text: &str) -> Result<ProviderKind, String> {
    let connectable = [ProviderKind::CardGateway, ProviderKind::Stripe];
    let named = connectable.into_iter().find(|kind| kind.name() == text);
    named.ok_or_else(|| "card_gateway or stripe".to_owned())
}

fn parse_currency(text: &str) -> Result<Currency, String> {
    Currency::active(text).map_err(|error| error.to_string())
}

pub(super) async fn connect(ctl: &Ctl, args: Connect) -> Result<Output> {
    let json = std::io::read_to_string(std::io::stdin()).context("standard input")?;
    if args.provider == ProviderKind::Stripe {
        return connect_stripe(ctl, &args, &json).await;
    }
    let credentials = Credentials::parse(&json).context(
        "standard input is not a JSON object {username, api_key, secret_key} with a secret_key of 16 characters",
    )?;
    let currencies = args.currencies.as_deref();
    let encryption = ctl.verified_keys().await?.encryption;
    let codes = currencies.map(|list| list.iter().map(|currency| currency.code()).collect::<Vec<_>>());
    let checked = check_at_gateway(&credentials, currencies, args.unchecked).await?;
    // The audit log gets the user name, but no keys.
    let detail = json!({"username": credentials.username, "currencies": codes, "checked": checked});
    let mut tx = ctl.begin().await?;
    accounts::connect(&mut **tx, encryption, ctl.clock.now(), args.id, credentials, currencies).await?;
    tx.commit(&entry("accounts.connect", args.id, args.id, detail)).await?;
    Ok(changed_account(ctl, args.id).await)
}

async fn connect_stripe(ctl: &Ctl, args: &Connect, json: &str) -> Result<Output> {
    let credentials = stripe::Credentials::parse(json).context(
        "standard input is not a JSON object {secret_key, publishable_key} with keys of the same mode, and webhook_secret if \
         Stripe sends events",
    )?;
    if args.currencies.is_some() {
        bail!("--currency: Stripe's account decides which currencies it accepts");
    }
    let encryption = ctl.verified_keys().await?.encryption;
    let known = match stripe::check(config::stripe_url()?, &credentials).await {
        AtStripe::Known(id) => id,
        AtStripe::Lacks(permissions) => bail!("secret_key: it lacks the permissions {}", permissions.join(", ")),
        AtStripe::WrongKey(why) => bail!("secret_key: Stripe does not accept it: {why}"),
        AtStripe::NoResponse(why) => bail!("the account was not connected: Stripe: {why}"),
    };
    // The audit log gets the account's id, but no keys.
    let detail = json!({"provider": "stripe", "at_provider": known});
    let mut tx = ctl.begin().await?;
    accounts::connect_stripe(&mut **tx, encryption, ctl.clock.now(), args.id, (&credentials, &known)).await?;
    tx.commit(&entry("accounts.connect", args.id, args.id, detail)).await?;
    Ok(changed_account(ctl, args.id).await)
}

/// Checks that the gateway accepts the credentials and charges exactly the requested amount. Returns `false` if it
/// could not be checked and the operator accepts that.
async fn check_at_gateway(credentials: &Credentials, currencies: Option<&[Currency]>, unchecked: bool) -> Result<bool> {
    let Some(url) = config::card_gateway_url()? else {
        print_error(format_args!(
            "ctl: warning: the account was not checked at the card gateway: CARD_GATEWAY_URL is not set"
        ));
        return Ok(false);
    };
    let name = &credentials.username;
    let settings = match card_gateway::account_settings(&url, credentials).await {
        AtGateway::Known(settings) => settings,
        AtGateway::UnknownUsername => bail!("username: the card gateway has no account {name} (code 01)"),
        AtGateway::WrongApiKey => bail!("api_key: it is not the key of {name} at the card gateway (code 09)"),
        AtGateway::Unsupported => {
            print_error(format_args!(
                "ctl: warning: the account was not checked: this card gateway has no account.php; make sure that {name} has no \
                 convenience fee"
            ));
            return Ok(false);
        }
        AtGateway::NoResponse(why) if unchecked => {
            print_error(format_args!(
                "ctl: warning: the account was not checked: the card gateway at CARD_GATEWAY_URL: {why}"
            ));
            return Ok(false);
        }
        AtGateway::NoResponse(why) => bail!(
            "the card gateway at CARD_GATEWAY_URL could not be queried about {name}: {why}; use --unchecked to connect it anyway"
        ),
    };
    if settings.has_fee() {
        bail!(
            "{name} has a convenience fee at the card gateway ({} basis points and {}), so a payment of 100.00 would charge more than \
             100.00; remove it there (gateway account set --username {name} --convenience-fee-percent 0 --convenience-fee-fixed 0.00), \
             or connect an account without one",
            settings.convenience_fee_percent,
            settings.convenience_fee_fixed,
        );
    }
    let accepts = |currency: &Currency| settings.currencies.iter().any(|code| code == currency.code());
    if let Some(unsupported) = currencies.unwrap_or_default().iter().find(|currency| !accepts(currency)) {
        bail!("--currency {}: {name} does not accept it at the card gateway", unsupported.code());
    }
    Ok(true)
}
