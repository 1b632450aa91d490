//! Captures, voids and refunds: children of a charge, entered under the charge's lock, where the rules are asked and what they
//! allow is reserved. A child's own reference is written first: of two requests with one reference the second waits for the first,
//! and is told 26 if that was entered, whatever the rules would say to it by then.

use super::enter::{begin, commit};
use super::outcome::{self, Ending};
use super::{Kind, State, rules, store};
use crate::accounts::Account;
use crate::amount::Amount;
use crate::app::{App, Lifetime};
use crate::failure::{Code, Failure, Result};
use crate::id::TransactionId;

/// What is to be done to a transaction.
#[derive(Clone, Debug)]
pub struct Change {
    /// Capture, void or refund.
    pub kind: Kind,
    /// The transaction that the caller names.
    pub of: TransactionId,
    /// How much; a void has none.
    pub amount: Option<Amount>,
    /// The caller's name for it.
    pub reference_id: Option<String>,
    /// Whether the cardholder is to have a receipt.
    pub receipt: bool,
}

/// Captures, voids or refunds, and says by which transaction.
///
/// # Errors
/// 26 for a used reference, 12 for a transaction that is not the account's or makes no sense here, then 13 to 16; A2 if the acquirer
/// never got it.
pub async fn change(app: &App, account: &Account, change: &Change, lifetime: Lifetime) -> Result<TransactionId> {
    let id = TransactionId::new(app.clock.now());
    enter(app, account, change, id, lifetime).await?;
    let answer = app.acquirer.follow(id.uuid()).await.map_err(|error| outcome::unknown(id, &error))?;
    let ended = outcome::end(app, id, &Ending::of(&answer, None, None)).await;
    match ended.map_err(|error| outcome::unknown(id, &error))?.state {
        State::Approved => Ok(id),
        State::Declined | State::Failed | State::Challenged | State::InProgress => {
            Err(Code::UpdateFailed.because(super::reason::NOT_PROCESSED))
        }
    }
}

/// Whether a reference is used up: the first that a repetition is told, before anything else of it is looked at.
///
/// # Errors
/// 26
pub async fn check_reference(app: &App, account: &Account, reference: &str) -> Result<()> {
    match store::child_reference_is_used(&app.db, account.id, reference).await? {
        true => Err(Code::Duplicate.refuse()),
        false => Ok(()),
    }
}

async fn enter(app: &App, account: &Account, change: &Change, id: TransactionId, lifetime: Lifetime) -> Result<()> {
    let now = app.clock.now();
    let mut tx = begin(app).await?;
    if let Some(reference) = &change.reference_id {
        store::insert_child_reference(&mut tx, account.id, reference, id).await.map_err(taken)?;
    }
    let named = store::named(&mut tx, account.id, change.of).await?.ok_or(Code::TransactionId.refuse())?;
    let parent = match rules::is_about_parent(change.kind, named.kind)? {
        true => named.parent_id.ok_or(Code::TransactionId.refuse())?,
        false => change.of,
    };
    let rules = store::lock_parent(&mut tx, account.id, parent).await?;
    let amount = change.amount.unwrap_or(rules.amount);
    match change.kind {
        Kind::Capture => rules.capture(amount, now)?,
        Kind::Void => rules.void(now)?,
        Kind::Refund => rules.refund(amount)?,
        Kind::Sale | Kind::Authorize | Kind::Credit => return Err(Code::UpdateFailed.refuse()),
    }
    store::reserve(&mut tx, parent, change.kind, amount).await?;
    store::insert_child(&mut tx, id, parent, change.kind, amount, change.receipt, now).await?;
    commit(tx, lifetime).await
}

/// The constraint has the last word.
fn taken(error: sqlx::Error) -> Failure {
    match common::db::violated(&error) {
        Some("child_references_pkey") => Code::Duplicate.refuse(),
        Some(_) | None => error.into(),
    }
}
