//! The demo accounts, of the payments API and of the card gateway, made at the first start.

use anyhow::{Context, Result};

use super::{
    display::say,
    state::{DemoAccount, Place, Secrets},
};
use crate::{
    account::{Account, run_ctl},
    gateway_account,
    process::{Environment, Programs, binary},
};

const TIMEZONE: &str = "UTC";

struct Wanted {
    name: &'static str,
    mode: &'static str,
    provider: &'static str,
    origins: &'static [&'static str],
    /// By which account the card gateway knows it.
    of_gateway: Option<&'static str>,
}

const SHOP: &[&str] = &["http://localhost:3000"];
const WANTED: [Wanted; 4] = [
    Wanted { name: "mock", mode: "test", provider: "mock", origins: SHOP, of_gateway: None },
    Wanted { name: "other", mode: "test", provider: "mock", origins: &[], of_gateway: None },
    Wanted { name: "gateway", mode: "test", provider: "card_gateway", origins: SHOP, of_gateway: Some(GATEWAY_MAIN) },
    Wanted { name: "live", mode: "live", provider: "card_gateway", origins: &[], of_gateway: Some(GATEWAY_LIVE) },
];

/// The card gateway's accounts behind ours; their names in secrets.json too.
pub(super) const GATEWAY_MAIN: &str = "main";
pub(super) const GATEWAY_LIVE: &str = "live";

/// An account of the card gateway, and what distinguishes it.
struct WantedOfGateway {
    name: &'static str,
    username: &'static str,
    options: &'static [&'static str],
}

/// What every one of them has before its own: a zone, limits that nobody meets by trying things, and the origin of a
/// shop on this machine.
const OF_GATEWAY: [&str; 12] = [
    "--time-zone",
    TIMEZONE,
    "--three-ds",
    "true",
    "--monthly-limit",
    "999999999.99",
    "--daily-transactions",
    "1000000",
    "--hourly-per-address",
    "1000000",
    "--origin",
    SHOP[0],
];

const WANTED_OF_GATEWAY: [WantedOfGateway; 7] = [
    WantedOfGateway { name: GATEWAY_MAIN, username: "sandbox", options: &[] },
    WantedOfGateway { name: GATEWAY_LIVE, username: "sandbox-live", options: &[] },
    WantedOfGateway { name: "other", username: "sandbox-other", options: &[] },
    WantedOfGateway { name: "usd_only", username: "sandbox-usd-only", options: &["--currency", "USD"] },
    WantedOfGateway { name: "cvv_optional", username: "sandbox-cvv-optional", options: &["--cvv-required", "false"] },
    WantedOfGateway { name: "cvv_required", username: "sandbox-cvv-required", options: &["--cvv-required", "true"] },
    WantedOfGateway {
        name: "limited",
        username: "sandbox-limited",
        options: &["--monthly-limit", "50.00", "--daily-transactions", "5"],
    },
];

/// Makes those of the card gateway that are missing, and writes each down before the next is made.
pub(super) async fn ensure_gateway(place: &Place, secrets: &mut Secrets, environment: &Environment) -> Result<()> {
    for wanted in WANTED_OF_GATEWAY {
        if !secrets.gateway_accounts.contains_key(wanted.name) {
            say(&format!("making the gateway's account {}", wanted.username));
            // Of an option that comes twice the command line takes offence.
            let common = OF_GATEWAY.chunks_exact(2).filter(|pair| !wanted.options.contains(&pair[0]));
            let options = [&common.flatten().copied().collect::<Vec<_>>(), wanted.options].concat();
            let made = gateway_account::ensure(&Programs::own()?, environment, wanted.username, &options).await?;
            secrets.gateway_accounts.insert(wanted.name.to_owned(), made);
            place.write_secrets(secrets)?;
        }
    }
    Ok(())
}

/// Makes those that are missing. Each is written down before the next is made: a key that is not can never be read again.
pub(super) async fn ensure(place: &Place, secrets: &mut Secrets, environment: &Environment) -> Result<()> {
    for wanted in WANTED {
        if !secrets.accounts.contains_key(wanted.name) {
            say(&format!("making the account {}", wanted.name));
            secrets.accounts.insert(wanted.name.to_owned(), create(&wanted, environment).await?);
            place.write_secrets(secrets)?;
        }
        settle(&wanted, secrets, environment).await?;
        place.write_secrets(secrets)?;
    }
    Ok(())
}

/// Has an account settle where it is wanted: its keys at the gateway may be new, and it may be of a time before that.
async fn settle(wanted: &Wanted, secrets: &mut Secrets, environment: &Environment) -> Result<()> {
    let Some(name) = wanted.of_gateway else { return Ok(()) };
    let known = secrets.gateway_accounts.get(name).context("they are made first")?;
    let account = secrets.accounts.get_mut(wanted.name).context("it was just made")?;
    if secrets.connected.get(wanted.name) != Some(&known.api_key) {
        gateway_account::connect(&Programs::own()?, environment, &account.id, known, &[]).await?;
        secrets.connected.insert(wanted.name.to_owned(), known.api_key.clone());
    }
    if account.provider != wanted.provider {
        let arguments = ["accounts", "set", &account.id, "--provider", wanted.provider];
        run_ctl(&binary("ctl")?, environment, &arguments).await?;
        wanted.provider.clone_into(&mut account.provider);
    }
    Ok(())
}

async fn create(wanted: &Wanted, environment: &Environment) -> Result<DemoAccount> {
    let mut arguments = vec!["accounts", "create", "--name", wanted.name, "--mode", wanted.mode];
    arguments.extend(["--provider", wanted.provider, "--timezone", TIMEZONE, "--support-contact", "help@shop.example"]);
    for origin in wanted.origins {
        arguments.extend(["--origin", origin]);
    }
    let made = run_ctl(&binary("ctl")?, environment, &arguments).await?;
    let account: Account = serde_json::from_value(made).context("ctl printed no account")?;
    Ok(DemoAccount {
        id: account.id,
        mode: wanted.mode.to_owned(),
        provider: wanted.provider.to_owned(),
        timezone: TIMEZONE.to_owned(),
        secret_key: account.secret_key,
        secret_key_id: account.secret_key_id,
        publishable_key: account.publishable_key,
        allowed_origins: wanted.origins.iter().map(|origin| (*origin).to_owned()).collect(),
        signing_secret: account.signing_secret,
    })
}
