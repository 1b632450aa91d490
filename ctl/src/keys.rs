//! `ctl keys …`

use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Args, Subcommand, ValueEnum};
use domain::accounts::{self, KeyFilter, KeyKind};
use domain::audit::Entry;
use foundation::crypto::hex;
use foundation::id::{AccountId, KeyId};
use providers::capabilities::Permission;
use serde_json::json;

use crate::output::Output;
use crate::{Ctl, VerifiedKeys, duration, entry};

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Issue a key. Its secrets are printed only once.
    Create(Create),
    /// List keys, newest first, without their secrets.
    List {
        /// Only keys of this account (acct_…).
        #[arg(long)]
        account: Option<AccountId>,
        /// Only keys of this kind.
        #[arg(long, value_enum, ignore_case = true)]
        kind: Option<KindArg>,
        /// Only keys that are neither revoked nor expired.
        #[arg(long)]
        in_use: bool,
        /// Only valid keys not known to be hashed with the current KEY_PEPPER.
        #[arg(long)]
        not_moved: bool,
    },
    /// Issue a replacement for a key, with the same name and entitlements. The old key expires after a grace period.
    Rotate {
        /// The key to replace (key_…).
        id: KeyId,
        /// How long the old key remains valid, such as 30m, 24h or 7d.
        #[arg(long, default_value = "24h", value_parser = duration)]
        grace: Duration,
    },
    /// Hash the publishable keys with the current KEY_PEPPER. A secret key is rehashed at its next use.
    Rehash,
    /// Revoke a key, or all keys of an account. Takes effect within a second on every process.
    #[command(group = clap::ArgGroup::new("which").required(true))]
    Revoke {
        /// The key (key_…).
        #[arg(group = "which")]
        id: Option<KeyId>,
        /// All valid keys of this account (acct_…).
        #[arg(long, group = "which")]
        account: Option<AccountId>,
    },
}

#[derive(Args)]
pub(crate) struct Create {
    /// The account (acct_…).
    #[arg(long)]
    account: AccountId,
    /// secret for the merchant's server, publishable for a browser.
    #[arg(long, value_enum)]
    kind: KindArg,
    /// A permission of the key, such as payments.create; may be repeated. Default: all.
    #[arg(long)]
    entitlement: Option<Vec<Permission>>,
    /// What the merchant calls it, at most 64 characters.
    #[arg(long)]
    name: Option<String>,
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum KindArg {
    Secret,
    Publishable,
}

const COLUMNS: [&str; 10] = [
    "id",
    "account",
    "kind",
    "name",
    "created_at",
    "last_used_at",
    "revoked_at",
    "expires_at",
    "pepper",
    "entitlements",
];

impl From<KindArg> for KeyKind {
    fn from(arg: KindArg) -> Self {
        match arg {
            KindArg::Secret => Self::Secret,
            KindArg::Publishable => Self::Publishable,
        }
    }
}

pub(crate) async fn run(ctl: &Ctl, command: Command) -> Result<Output> {
    match command {
        Command::Create(create) => self::create(ctl, create).await,
        Command::List { account, kind, in_use, not_moved } => {
            let peppers = ctl.keys.peppers.as_ref();
            let current = peppers.map(|peppers| peppers.current().id());
            let not_under = current.filter(|_| not_moved);
            let filter = KeyFilter { account, kind: kind.map(Into::into), in_use, not_under };
            let rows = accounts::list_keys(&ctl.db, filter).await?;
            Ok(Output::list("keys", rows.iter().map(|row| key(row, current)), &COLUMNS))
        }
        Command::Rotate { id, grace } => rotate(ctl, id, grace).await,
        Command::Rehash => rehash(ctl).await,
        Command::Revoke { id: Some(id), .. } => {
            let mut tx = ctl.begin().await?;
            let account = accounts::revoke(&mut **tx, None, id, ctl.clock.now()).await?;
            tx.commit(&entry("keys.revoke", account, id, json!({}))).await?;
            Ok(Output::new(vec![("id", json!(id)), ("revoked", json!(true))]))
        }
        Command::Revoke { account, .. } => revoke_all(ctl, account.context("--account")?).await,
    }
}

async fn revoke_all(ctl: &Ctl, account: AccountId) -> Result<Output> {
    let mut tx = ctl.begin().await?;
    let keys = accounts::revoke_all(&mut tx, account, ctl.clock.now()).await?;
    tx.commit(&entry("keys.revoke", account, account, json!({"keys": keys}))).await?;
    Ok(Output::new(vec![("account", json!(account)), ("revoked", json!(keys))]))
}

async fn create(ctl: &Ctl, create: Create) -> Result<Output> {
    let (now, name, only) = (ctl.clock.now(), create.name.as_deref(), create.entitlement.as_deref());
    let keys = ctl.verified_keys().await?;
    let mut tx = ctl.begin().await?;
    let (kind, issued) = match create.kind {
        KindArg::Secret => {
            let VerifiedKeys { peppers, encryption } = keys;
            ("secret", accounts::issue_secret(&mut tx, peppers, encryption, now, create.account, (name, only)).await?)
        }
        KindArg::Publishable => {
            let chosen = (name, only);
            ("publishable", accounts::issue_publishable(&mut tx, keys.peppers, now, create.account, chosen).await?)
        }
    };
    let names = only.map(|list| list.iter().map(|permission| permission.name()).collect::<Vec<_>>());
    let detail = json!({"kind": kind, "name": name, "entitlements": names});
    tx.commit(&entry("keys.create", create.account, issued.id, detail)).await?;
    Ok(Output::new(vec![
        ("id", json!(issued.id)),
        ("key", json!(issued.key.expose())),
        ("signing_secret", json!(issued.signing_secret.as_ref().map(|secret| secret.expose()))),
    ]))
}

async fn rotate(ctl: &Ctl, old: KeyId, grace: Duration) -> Result<Output> {
    let VerifiedKeys { peppers, encryption } = ctl.verified_keys().await?;
    let mut tx = ctl.begin().await?;
    let rotated = accounts::rotate(&mut tx, peppers, encryption, ctl.clock.now(), (None, old), None, grace).await?;
    let (account, issued, old_expires_at) = rotated;
    let detail = json!({"former": old, "former_expires_at": old_expires_at});
    tx.commit(&entry("keys.rotate", account, issued.id, detail)).await?;
    Ok(Output::new(vec![
        ("id", json!(issued.id)),
        ("key", json!(issued.key.expose())),
        ("signing_secret", json!(issued.signing_secret.as_ref().map(|secret| secret.expose()))),
        ("former", json!(old)),
        ("former_expires_at", json!(old_expires_at)),
    ]))
}

/// Works in batches, each with its audit record. Committed batches remain if a later one fails; another run continues.
async fn rehash(ctl: &Ctl) -> Result<Output> {
    let peppers = ctl.verified_keys().await?.peppers;
    let (mut rehashed, mut after) = (0, None);
    loop {
        let mut tx = ctl.begin().await?;
        let (count, last) = accounts::rehash_publishable(&mut tx, peppers, after).await?;
        if count == 0 {
            tx.rollback().await?;
        } else {
            let detail = json!({"rehashed": count, "under": hex(&peppers.current().id())});
            tx.commit(&Entry { action: "keys.rehash", account: None, object: None, detail }).await?;
        }
        rehashed += count;
        after = last;
        if last.is_none() {
            break;
        }
    }
    let remaining = accounts::keys_under_other_peppers(&ctl.db, peppers).await?;
    Ok(Output::new(vec![
        ("rehashed", json!(rehashed)),
        ("remaining", json!(remaining.secret + remaining.publishable)),
        ("publishable", json!(remaining.publishable)),
        ("secret", json!(remaining.secret)),
    ]))
}

pub(crate) fn key(row: &accounts::KeyRow, pepper: Option<[u8; 4]>) -> Output {
    let pepper = match &row.pepper_id {
        None => "unknown",
        Some(id) if pepper.is_some_and(|current| current == id.as_slice()) => "current",
        Some(_) => "former",
    };
    Output::new(vec![
        ("id", json!(row.id)),
        ("account", json!(row.account_id)),
        ("kind", json!(row.kind)),
        ("name", json!(row.name)),
        ("key", json!(row.key_text)),
        ("entitlements", json!(row.entitlements)),
        ("created_at", json!(row.created_at)),
        ("last_used_at", json!(row.last_used_at)),
        ("revoked_at", json!(row.revoked_at)),
        ("expires_at", json!(row.expires_at)),
        ("pepper", json!(pepper)),
    ])
}
