//! A merchant's account of the card gateway, as its command line makes it.

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    account::{run, run_ctl_with},
    process::{Environment, Kind, Programs},
};

/// The name and the keys of an account, as `gateway account create` prints them once.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct GatewayAccount {
    /// By which the merchant names itself.
    pub username: String,
    /// What every operation is called with.
    pub api_key: String,
    /// 16 characters under which card numbers may be encrypted, and capture fields' tokens are signed.
    pub secret_key: String,
    /// Until when the keys before these hold too, as `gateway account rotate-keys` prints it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub former_keys_until: Option<String>,
}

/// Makes an account with these options of `gateway account create`. One of this name that is there already, because whoever
/// made it did not live to write its keys down, is set to the options and given new keys.
pub(crate) async fn ensure(
    programs: &Programs,
    environment: &Environment,
    username: &str,
    options: &[&str],
) -> Result<GatewayAccount> {
    let gateway = async |arguments: &[&str]| run_gateway(programs, environment, arguments).await;
    let of_account = |command| [&["account", command, "--username", username], options].concat();
    let listed = gateway(&["account", "list"]).await?;
    let mut accounts = listed["accounts"].as_array().into_iter().flatten();
    let made = if accounts.any(|account| account["username"] == username) {
        gateway(&of_account("set")).await?;
        gateway(&["account", "rotate-keys", "--username", username]).await?
    } else {
        gateway(&of_account("create")).await?
    };
    serde_json::from_value(made).context("the gateway printed no account")
}

/// Runs the gateway's command line and gives back the JSON it prints.
pub(crate) async fn run_gateway(programs: &Programs, environment: &Environment, arguments: &[&str]) -> Result<Value> {
    let printed = run(&programs.path(Kind::Gateway.name())?, environment, arguments).await?;
    serde_json::from_slice(&printed).context("the gateway printed no JSON")
}

/// Tells by what the card gateway knows an account of the payments API.
pub(crate) async fn connect(
    programs: &Programs,
    environment: &Environment,
    account: &str,
    known: &GatewayAccount,
    options: &[&str],
) -> Result<()> {
    let arguments = [&["accounts", "connect", account], options].concat();
    run_ctl_with(&programs.path("ctl")?, environment, &arguments, &serde_json::to_string(known)?).await?;
    Ok(())
}
