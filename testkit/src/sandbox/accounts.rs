//! The demo accounts, made at the first start.

use anyhow::{Context, Result};

use super::{
    display::say,
    state::{DemoAccount, Place, Secrets},
};
use crate::{
    account::{Account, run_ctl},
    process::{Environment, binary},
};

const TIMEZONE: &str = "UTC";

struct Wanted {
    name: &'static str,
    mode: &'static str,
    provider: &'static str,
    origins: &'static [&'static str],
}

const WANTED: [Wanted; 3] = [
    Wanted { name: "mock", mode: "test", provider: "mock", origins: &["http://localhost:3000"] },
    Wanted { name: "other", mode: "test", provider: "mock", origins: &[] },
    Wanted { name: "live", mode: "live", provider: "mock", origins: &[] },
];

/// Makes those that are missing. Each is written down before the next is made: a key that is not can never be read again.
pub(super) async fn ensure(place: &Place, secrets: &mut Secrets, environment: &Environment) -> Result<()> {
    for wanted in WANTED {
        if !secrets.accounts.contains_key(wanted.name) {
            say(&format!("making the account {}", wanted.name));
            secrets.accounts.insert(wanted.name.to_owned(), create(&wanted, environment).await?);
            place.write_secrets(secrets)?;
        }
    }
    Ok(())
}

async fn create(wanted: &Wanted, environment: &Environment) -> Result<DemoAccount> {
    let mut arguments = vec!["accounts", "create", "--name", wanted.name, "--mode", wanted.mode];
    arguments.extend(["--provider", wanted.provider, "--timezone", TIMEZONE]);
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
