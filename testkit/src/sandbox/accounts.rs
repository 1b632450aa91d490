//! Creates the demo accounts of the payments API and of the card gateway at the first start.

use anyhow::{Context, Result};

use super::{
    display::print_line,
    state::{DemoAccount, SandboxFolder, Secrets},
};
use crate::{
    PortalUser,
    account::{Account, merchant_of, portal_user, run_ctl},
    gateway_account,
    process::{Environment, Programs, binary},
};

const TIMEZONE: &str = "UTC";
/// The e-mail address of the user of the portal.
const OWNER: &str = "owner@shop.example";

struct AccountSpec {
    name: &'static str,
    mode: &'static str,
    provider: &'static str,
    origins: &'static [&'static str],
    /// The gateway account it is connected to.
    gateway_account: Option<&'static str>,
    /// The account whose merchant it belongs to.
    merchant_of: Option<&'static str>,
}

const SHOP: &[&str] = &["http://localhost:3000"];
const ACCOUNTS: [AccountSpec; 4] = [
    AccountSpec {
        name: "mock",
        mode: "test",
        provider: "mock",
        origins: SHOP,
        gateway_account: None,
        merchant_of: None,
    },
    AccountSpec {
        name: "other",
        mode: "test",
        provider: "mock",
        origins: &[],
        gateway_account: None,
        merchant_of: None,
    },
    AccountSpec {
        name: "gateway",
        mode: "test",
        provider: "card_gateway",
        origins: SHOP,
        gateway_account: Some(GATEWAY_MAIN),
        merchant_of: None,
    },
    AccountSpec {
        name: "live",
        mode: "live",
        provider: "card_gateway",
        origins: &[],
        gateway_account: Some(GATEWAY_LIVE),
        merchant_of: Some("mock"),
    },
];

/// Gateway accounts behind our accounts, and their names in secrets.json.
pub(super) const GATEWAY_MAIN: &str = "main";
pub(super) const GATEWAY_LIVE: &str = "live";

/// A demo account of the card gateway with its specific options.
struct GatewayAccountSpec {
    name: &'static str,
    username: &'static str,
    options: &'static [&'static str],
}

/// Options of every gateway account: a time zone, limits too high to reach by trying things out, and the origin of a
/// local shop.
const COMMON_GATEWAY_OPTIONS: [&str; 12] = [
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

const GATEWAY_ACCOUNTS: [GatewayAccountSpec; 7] = [
    GatewayAccountSpec { name: GATEWAY_MAIN, username: "sandbox", options: &[] },
    GatewayAccountSpec { name: GATEWAY_LIVE, username: "sandbox-live", options: &[] },
    GatewayAccountSpec { name: "other", username: "sandbox-other", options: &[] },
    GatewayAccountSpec { name: "usd_only", username: "sandbox-usd-only", options: &["--currency", "USD"] },
    GatewayAccountSpec {
        name: "cvv_optional",
        username: "sandbox-cvv-optional",
        options: &["--cvv-required", "false"],
    },
    GatewayAccountSpec { name: "cvv_required", username: "sandbox-cvv-required", options: &["--cvv-required", "true"] },
    GatewayAccountSpec {
        name: "limited",
        username: "sandbox-limited",
        options: &["--monthly-limit", "50.00", "--daily-transactions", "5"],
    },
];

/// Creates the missing gateway accounts. Stores each one before the next is created.
pub(super) async fn ensure_gateway(
    folder: &SandboxFolder,
    secrets: &mut Secrets,
    environment: &Environment,
) -> Result<()> {
    for spec in GATEWAY_ACCOUNTS {
        if !secrets.gateway_accounts.contains_key(spec.name) {
            print_line(&format!("creating the gateway account {}", spec.username));
            // The command line rejects repeated options.
            let common = COMMON_GATEWAY_OPTIONS.chunks_exact(2).filter(|pair| !spec.options.contains(&pair[0]));
            let options = [&common.flatten().copied().collect::<Vec<_>>(), spec.options].concat();
            let created = gateway_account::ensure(&Programs::own()?, environment, spec.username, &options).await?;
            secrets.gateway_accounts.insert(spec.name.to_owned(), created);
            folder.write_secrets(secrets)?;
        }
    }
    Ok(())
}

/// Creates the missing accounts. Stores each one before the next is created, because keys are shown only once.
pub(super) async fn ensure(folder: &SandboxFolder, secrets: &mut Secrets, environment: &Environment) -> Result<()> {
    for spec in ACCOUNTS {
        if !secrets.accounts.contains_key(spec.name) {
            print_line(&format!("creating the account {}", spec.name));
            let merchant = match spec.merchant_of {
                Some(other) => {
                    let other = secrets.accounts.get(other).context("the account is missing")?;
                    Some(merchant_of(&binary("ctl")?, environment, &other.id).await?)
                }
                None => None,
            };
            secrets.accounts.insert(spec.name.to_owned(), create(&spec, merchant.as_deref(), environment).await?);
            folder.write_secrets(secrets)?;
        }
        connect(&spec, secrets, environment).await?;
        folder.write_secrets(secrets)?;
    }
    Ok(())
}

/// Connects an account to its gateway account if the gateway's keys are new, and sets its provider if the account was
/// created with another one.
async fn connect(spec: &AccountSpec, secrets: &mut Secrets, environment: &Environment) -> Result<()> {
    let Some(name) = spec.gateway_account else { return Ok(()) };
    let credentials = secrets.gateway_accounts.get(name).context("the gateway account is missing")?;
    let account = secrets.accounts.get_mut(spec.name).context("the account is missing")?;
    if secrets.connected.get(spec.name) != Some(&credentials.api_key) {
        gateway_account::connect(&Programs::own()?, environment, &account.id, credentials, &[]).await?;
        secrets.connected.insert(spec.name.to_owned(), credentials.api_key.clone());
    }
    if account.provider != spec.provider {
        let arguments = ["accounts", "set", &account.id, "--provider", spec.provider];
        run_ctl(&binary("ctl")?, environment, &arguments).await?;
        spec.provider.clone_into(&mut account.provider);
    }
    Ok(())
}

/// Creates the owner who signs in to the portal, at the first start.
pub(super) async fn ensure_user(
    folder: &SandboxFolder,
    secrets: &mut Secrets,
    environment: &Environment,
) -> Result<PortalUser> {
    if let Some(user) = &secrets.portal_user {
        return Ok(user.clone());
    }
    let account = secrets.accounts.get("mock").context("the account is missing")?;
    let user = portal_user(&binary("ctl")?, environment, &account.id, OWNER, "owner").await?;
    secrets.portal_user = Some(user.clone());
    folder.write_secrets(secrets)?;
    Ok(user)
}

async fn create(spec: &AccountSpec, merchant: Option<&str>, environment: &Environment) -> Result<DemoAccount> {
    let mut arguments = vec!["accounts", "create", "--name", spec.name, "--mode", spec.mode];
    arguments.extend(["--provider", spec.provider, "--timezone", TIMEZONE, "--support-contact", "help@shop.example"]);
    arguments.extend(merchant.into_iter().flat_map(|merchant| ["--merchant", merchant]));
    for origin in spec.origins {
        arguments.extend(["--origin", origin]);
    }
    let created = run_ctl(&binary("ctl")?, environment, &arguments).await?;
    let account: Account = serde_json::from_value(created).context("ctl did not print an account")?;
    Ok(DemoAccount {
        id: account.id,
        mode: spec.mode.to_owned(),
        provider: spec.provider.to_owned(),
        timezone: TIMEZONE.to_owned(),
        secret_key: account.secret_key,
        secret_key_id: account.secret_key_id,
        publishable_key: account.publishable_key,
        allowed_origins: spec.origins.iter().map(|origin| (*origin).to_owned()).collect(),
        signing_secret: account.signing_secret,
    })
}
