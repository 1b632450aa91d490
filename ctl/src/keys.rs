//! `ctl keys …`

use std::time::Duration;

use anyhow::Result;
use clap::{Args, Subcommand, ValueEnum};
use common::accounts;
use common::audit::Entry;
use common::capabilities::Operation;
use common::crypto::hex;
use common::id::{AccountId, KeyId};
use serde_json::{Value, json};

use crate::output::Output;
use crate::{Ctl, FittingKeys, entry};

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Issue a key; its secrets are shown this once.
    Create(Create),
    /// Every key, newest first, without its secret.
    List {
        /// Of this account alone (acct_…).
        #[arg(long)]
        account: Option<AccountId>,
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
        Command::List { account, not_moved } => {
            let peppers = ctl.keys.peppers.as_ref();
            let current = peppers.map(|peppers| peppers.current().id());
            let rows = accounts::list_keys(&ctl.db, account, current.filter(|_| not_moved)).await?;
            let rows = rows.iter().map(|row| key(row, current).into_json()).collect();
            Ok(Output::new(vec![("keys", Value::Array(rows))]))
        }
        Command::Rotate { id, grace } => rotate(ctl, id, grace).await,
        Command::Rehash => rehash(ctl).await,
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

/// A number and its unit: s, m, h or d; 366 days at most.
fn span(text: &str) -> Result<Duration, &'static str> {
    const WRONG: &str = "not a time such as 30m, 24h or 7d";
    let (number, unit) = text.split_at_checked(text.len().saturating_sub(1)).ok_or(WRONG)?;
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => return Err(WRONG),
    };
    let digits = number.bytes().all(|byte| byte.is_ascii_digit());
    let number: u64 = number.parse().ok().filter(|_| digits).ok_or(WRONG)?;
    let span = number.checked_mul(seconds).filter(|span| *span <= 366 * 86_400).ok_or("longer than 366 days")?;
    Ok(Duration::from_secs(span))
}

fn key(row: &accounts::KeyRow, pepper: Option<[u8; 4]>) -> Output {
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
        ("revoked_at", json!(row.revoked_at)),
        ("expires_at", json!(row.expires_at)),
        ("pepper", json!(pepper)),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_a_number_and_a_unit() {
        for (text, seconds) in [("0s", 0), ("90s", 90), ("30m", 1_800), ("24h", 86_400), ("366d", 31_622_400)] {
            assert_eq!(span(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for bad in ["", "h", "24", "-1h", "+1h", "1.5h", "24H", "1w", "367d", "99999999999999999999h", "5€", "€h"] {
            assert!(span(bad).is_err(), "{bad}");
        }
    }
}
