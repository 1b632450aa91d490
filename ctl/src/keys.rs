//! `ctl keys …`

use anyhow::Result;
use clap::{Args, Subcommand, ValueEnum};
use common::accounts;
use common::capabilities::Operation;
use common::id::{AccountId, KeyId};
use serde_json::{Value, json};

use crate::output::Output;
use crate::{Ctl, entry};

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Issue a key; its secrets are shown this once.
    Create(Create),
    /// Every key, newest first, without its secret.
    List {
        /// Of this account alone (acct_…).
        #[arg(long)]
        account: Option<AccountId>,
    },
    /// Refuse a key, within a second on every process.
    Revoke {
        /// The key (key_…).
        id: KeyId,
    },
}

#[derive(Args)]
pub(crate) struct Create {
    /// The account (acct_…).
    #[arg(long)]
    account: AccountId,
    /// For the merchant's server, or for a browser.
    #[arg(long, value_enum)]
    kind: KindArg,
    /// An operation that the key may do, such as payments.create; may be repeated. Every one by default.
    #[arg(long)]
    entitlement: Option<Vec<Operation>>,
}

#[derive(Clone, Copy, ValueEnum)]
enum KindArg {
    Secret,
    Publishable,
}

pub(crate) async fn run(ctl: &Ctl, command: Command) -> Result<Output> {
    match command {
        Command::Create(create) => self::create(ctl, create).await,
        Command::List { account } => {
            let rows = accounts::list_keys(&ctl.db, account).await?;
            let rows = rows.iter().map(|row| key(row).into_json()).collect();
            Ok(Output::new(vec![("keys", Value::Array(rows))]))
        }
        Command::Revoke { id } => {
            let mut act = ctl.act().await?;
            let account = accounts::revoke(&mut **act, id, ctl.clock.now()).await?;
            act.commit(&entry("keys.revoke", account, id, json!({}))).await?;
            Ok(Output::new(vec![("id", json!(id)), ("revoked", json!(true))]))
        }
    }
}

async fn create(ctl: &Ctl, create: Create) -> Result<Output> {
    let (now, only) = (ctl.clock.now(), create.entitlement.as_deref());
    let mut act = ctl.act().await?;
    let (kind, issued) = match create.kind {
        KindArg::Secret => {
            let (pepper, encryption) = (&ctl.pepper, &ctl.encryption);
            ("secret", accounts::issue_secret(&mut **act, pepper, encryption, now, create.account, only).await?)
        }
        KindArg::Publishable => {
            ("publishable", accounts::issue_publishable(&mut **act, &ctl.pepper, now, create.account, only).await?)
        }
    };
    let names = only.map(|list| list.iter().map(|operation| operation.name()).collect::<Vec<_>>());
    let detail = json!({"kind": kind, "entitlements": names});
    act.commit(&entry("keys.create", create.account, issued.id, detail)).await?;
    Ok(Output::new(vec![
        ("id", json!(issued.id)),
        ("key", json!(issued.key.expose())),
        ("signing_secret", json!(issued.signing_secret.as_ref().map(|secret| secret.expose()))),
    ]))
}

fn key(row: &accounts::KeyRow) -> Output {
    Output::new(vec![
        ("id", json!(row.id)),
        ("account", json!(row.account_id)),
        ("kind", json!(row.kind)),
        ("key", json!(row.key_text)),
        ("entitlements", json!(row.entitlements)),
        ("created_at", json!(row.created_at)),
        ("revoked_at", json!(row.revoked_at)),
    ])
}
