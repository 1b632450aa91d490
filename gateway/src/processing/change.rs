//! Captures, voids and refunds: children of a charge, entered under the charge's row lock, where the rules are checked
//! and the amount is reserved. The child's own reference is inserted first: of two requests with one reference the
//! second waits for the first and gets 26 if that one was entered, whatever the rules would then return.

use super::enter::{begin, commit};
use super::finish::unresolved;
use super::outcome::Outcome;
use super::{Processor, rules, store};
use crate::amount::Amount;
use crate::deadline::Deadline;
use crate::failure::{Code, Failure, Result};
use crate::id::{AccountId, TransactionId};
use crate::transactions::{State, TransactionKind, reason};

/// A capture, void or refund to be entered.
#[derive(Clone, Debug)]
pub struct Change {
    /// Capture, void or refund.
    pub kind: TransactionKind,
    /// The transaction that the caller names.
    pub target: TransactionId,
    /// None for a void.
    pub amount: Option<Amount>,
    /// The caller's reference for it.
    pub reference_id: Option<String>,
    /// Whether the cardholder gets a receipt.
    pub receipt: bool,
}

impl Processor {
    /// Captures, voids or refunds, and returns the id of the new transaction.
    ///
    /// # Errors
    /// 26 for a used reference, 12 for a transaction that is not the account's or does not allow the operation, then 13
    /// to 16; A2 if the request never reached the acquirer.
    pub async fn change(&self, account: AccountId, change: &Change, deadline: Deadline) -> Result<TransactionId> {
        let id = TransactionId::new(self.clock.now());
        self.enter_change(account, change, id, deadline).await?;
        let response = self.acquirer.follow_up(id.uuid()).await.map_err(|error| unresolved(id, &error))?;
        let status = self.finish(id, State::InProgress, &Outcome::of(&response, None, None)).await;
        match status.map_err(|error| unresolved(id, &error))?.state {
            State::Approved => Ok(id),
            State::Declined | State::Failed | State::Challenged | State::InProgress => {
                Err(Code::UpdateFailed.because(reason::NOT_PROCESSED))
            }
        }
    }

    /// Checked before any other field, so that a repeated request gets 26 and no other code.
    ///
    /// # Errors
    /// 26 if the reference was used before.
    pub async fn check_change_reference(&self, account: AccountId, reference: &str) -> Result<()> {
        match store::child_reference_is_used(&self.db, account, reference).await? {
            true => Err(Code::Duplicate.refuse()),
            false => Ok(()),
        }
    }

    async fn enter_change(
        &self,
        account: AccountId,
        change: &Change,
        id: TransactionId,
        deadline: Deadline,
    ) -> Result<()> {
        let now = self.clock.now();
        let mut tx = begin(&self.db).await?;
        if let Some(reference) = &change.reference_id {
            store::insert_child_reference(&mut tx, account, reference, id).await.map_err(map_violation)?;
        }
        let target = store::find_target(&mut tx, account, change.target).await?.ok_or(Code::TransactionId.refuse())?;
        let parent = match rules::applies_to_parent(change.kind, target.kind, target.state)? {
            true => target.parent_id.ok_or(Code::TransactionId.refuse())?,
            false => change.target,
        };
        let rules = store::lock_parent(&mut tx, account, parent).await?;
        let amount = change.amount.unwrap_or(rules.amount);
        match change.kind {
            TransactionKind::Capture => rules.capture(amount, now)?,
            TransactionKind::Void => rules.void(now)?,
            TransactionKind::Refund => rules.refund(amount)?,
            TransactionKind::Sale | TransactionKind::Authorize | TransactionKind::Credit => {
                return Err(Code::UpdateFailed.refuse());
            }
        }
        store::reserve(&mut tx, parent, change.kind, amount).await?;
        store::insert_child(&mut tx, id, parent, change.kind, amount, change.receipt, now).await?;
        commit(tx, deadline).await
    }
}

/// Concurrent requests pass the earlier check together; the constraint decides between them.
fn map_violation(error: sqlx::Error) -> Failure {
    match foundation::db::violated_constraint(&error) {
        Some("child_references_pkey") => Code::Duplicate.refuse(),
        Some(_) | None => error.into(),
    }
}
