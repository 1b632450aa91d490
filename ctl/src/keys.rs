//! `ctl keys …`

use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Args, Subcommand, ValueEnum};
use common::accounts::{self, KeyFilter, KeyKind};
use common::audit::Entry;
use common::capabilities::Operation;
use common::crypto::hex;
use common::id::{AccountId, KeyId};
use serde_json::json;

use crate::output::Output;
use crate::{Ctl, FittingKeys, entry, span};

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Issue a key; its secrets are shown this once.
    Create(Create),
    /// Every key, newest first, without its secret.
    List {
        /// Of this account alone (acct_…).
        #[arg(long)]
        account: Option<AccountId>,
        /// Of this kind alone.
        #[arg(long, value_enum, ignore_case = true)]
        kind: Option<KindArg>,
        /// Those alone that are neither revoked nor past their end.
        #[arg(long)]
        in_use: bool,
        /// Those alone that are in use and not known to be hashed under the current KEY_PEPPER.
        #[arg(long)]
        not_moved: bool,
    },
    /// Issue a key in the place of another, with the same entitlements; the former one ends after a while.
    Rotate {
        /// The key to be replaced (key_…).
        id: KeyId,
        /// How long the former one is good for beside it, such as 30m, 24h or 7d.
        #[arg(long, default_value = "24h", value_parser = span)]
        grace: Duration,
    },
    /// Hash the publishable keys under the current KEY_PEPPER; a secret key is when it is next used.
    Rehash,
    /// Refuse a key, within a second on every process; or all that an account has.
    #[command(group = clap::ArgGroup::new("which").required(true))]
    Revoke {
        /// The key (key_…).
        #[arg(group = "which")]
        id: Option<KeyId>,
        /// Every key of this account (acct_…) that is in use.
        #[arg(long, group = "which")]
        account: Option<AccountId>,
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
pub(crate) enum KindArg {
    Secret,
    Publishable,
}

const COLUMNS: [&str; 9] =
    ["id", "account", "kind", "created_at", "last_used_at", "revoked_at", "expires_at", "pepper", "entitlements"];

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
            let mut act = ctl.act().await?;
            let account = accounts::revoke(&mut **act, id, ctl.clock.now()).await?;
            act.commit(&entry("keys.revoke", account, id, json!({}))).await?;
            Ok(Output::new(vec![("id", json!(id)), ("revoked", json!(true))]))
        }
        Command::Revoke { account, .. } => revoke_all(ctl, account.context("--account")?).await,
    }
}

async fn revoke_all(ctl: &Ctl, account: AccountId) -> Result<Output> {
    let mut act = ctl.act().await?;
    let keys = accounts::revoke_all(&mut act, account, ctl.clock.now()).await?;
    act.commit(&entry("keys.revoke", account, account, json!({"keys": keys}))).await?;
    Ok(Output::new(vec![("account", json!(account)), ("revoked", json!(keys))]))
}

async fn create(ctl: &Ctl, create: Create) -> Result<Output> {
    let (now, only) = (ctl.clock.now(), create.entitlement.as_deref());
    let keys = ctl.fitting_keys().await?;
    let mut act = ctl.act().await?;
    let (kind, issued) = match create.kind {
        KindArg::Secret => {
            let FittingKeys { peppers, encryption } = keys;
            ("secret", accounts::issue_secret(&mut **act, peppers, encryption, now, create.account, only).await?)
        }
        KindArg::Publishable => {
            ("publishable", accounts::issue_publishable(&mut **act, keys.peppers, now, create.account, only).await?)
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

async fn rotate(ctl: &Ctl, former: KeyId, grace: Duration) -> Result<Output> {
    let FittingKeys { peppers, encryption } = ctl.fitting_keys().await?;
    let mut act = ctl.act().await?;
    let rotated = accounts::rotate(&mut act, peppers, encryption, ctl.clock.now(), former, grace).await?;
    let (account, issued, ends) = rotated;
    let detail = json!({"former": former, "former_expires_at": ends});
    act.commit(&entry("keys.rotate", account, issued.id, detail)).await?;
    Ok(Output::new(vec![
        ("id", json!(issued.id)),
        ("key", json!(issued.key.expose())),
        ("signing_secret", json!(issued.signing_secret.as_ref().map(|secret| secret.expose()))),
        ("former", json!(former)),
        ("former_expires_at", json!(ends)),
    ]))
}

/// In batches, each with its record. What was written stays when a later batch fails; a second run goes on after it.
async fn rehash(ctl: &Ctl) -> Result<Output> {
    let peppers = ctl.fitting_keys().await?.peppers;
    let (mut done, mut after) = (0, None);
    loop {
        let mut act = ctl.act().await?;
        let (moved, last) = accounts::rehash_publishable(&mut act, peppers, after).await?;
        if moved == 0 {
            act.rollback().await?;
        } else {
            let detail = json!({"rehashed": moved, "under": hex(&peppers.current().id())});
            act.commit(&Entry { action: "keys.rehash", account: None, object: None, detail }).await?;
        }
        done += moved;
        after = last;
        if last.is_none() {
            break;
        }
    }
    let left = accounts::hashed_elsewhere(&ctl.db, peppers).await?;
    Ok(Output::new(vec![
        ("rehashed", json!(done)),
        ("remaining", json!(left.secret + left.publishable)),
        ("publishable", json!(left.publishable)),
        ("secret", json!(left.secret)),
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
        ("key", json!(row.key_text)),
        ("entitlements", json!(row.entitlements)),
        ("created_at", json!(row.created_at)),
        ("last_used_at", json!(row.last_used_at)),
        ("revoked_at", json!(row.revoked_at)),
        ("expires_at", json!(row.expires_at)),
        ("pepper", json!(pepper)),
    ])
}
