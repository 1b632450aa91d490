//! A merchant's account at the card gateway, created with the gateway's command line.

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    account::{run, run_ctl_with},
    process::{Environment, ProcessKind, Programs},
};

/// The user name and the keys of an account, as printed once by `gateway account create`.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct GatewayAccount {
    /// Identifies the merchant at the gateway.
    pub username: String,
    /// Authenticates every operation.
    pub api_key: String,
    /// 16 characters: encrypts card numbers and signs the tokens of card fields.
    pub secret_key: String,
    /// When the previous keys stop working, as printed by `gateway account rotate-keys`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub former_keys_until: Option<String>,
}

/// Creates an account with these options for `gateway account create`. If the user name exists, because an earlier
/// process was killed before it stored the keys, the account gets the options and new keys.
pub(crate) async fn ensure(
    programs: &Programs,
    environment: &Environment,
    username: &str,
    options: &[&str],
) -> Result<GatewayAccount> {
    let gateway = async |arguments: &[&str]| run_gateway(programs, environment, arguments).await;
    let account_command = |command| [&["account", command, "--username", username], options].concat();
    let printed = match gateway(&account_command("create")).await {
        Ok(created) => created,
        Err(error) => {
            let listed = gateway(&["account", "list"]).await?;
            let mut accounts = listed["accounts"].as_array().into_iter().flatten();
            if !accounts.any(|account| account["username"] == username) {
                return Err(error);
            }
            gateway(&account_command("set")).await?;
            gateway(&["account", "rotate-keys", "--username", username]).await?
        }
    };
    serde_json::from_value(printed).context("the gateway did not print an account")
}

/// Runs the gateway's command line and returns the JSON it prints.
pub(crate) async fn run_gateway(programs: &Programs, environment: &Environment, arguments: &[&str]) -> Result<Value> {
    let printed = run(&programs.path(ProcessKind::Gateway.name())?, environment, arguments).await?;
    serde_json::from_slice(&printed).context("the gateway did not print JSON")
}

/// Stores the gateway account's credentials for a merchant account of the payments API.
pub(crate) async fn connect(
    programs: &Programs,
    environment: &Environment,
    account: &str,
    credentials: &GatewayAccount,
    options: &[&str],
) -> Result<()> {
    let arguments = [&["accounts", "connect", account], options].concat();
    run_ctl_with(&programs.path("ctl")?, environment, &arguments, &serde_json::to_string(credentials)?).await?;
    Ok(())
}
