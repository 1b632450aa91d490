//! Captures, voids and refunds: children of a charge, entered under the charge's row lock, where the rules are checked
//! and the amount is reserved. The child's own reference is inserted first: of two requests with one reference the
//! second waits for the first and gets 26 if that one was entered, whatever the rules would then return.

use foundation::time::Timestamp;
use sqlx::{PgConnection, PgPool};

use super::Processor;
use super::enter::{begin, commit};
use super::finish::unresolved;
use super::outcome::Outcome;
use super::rules::{self, Parent};
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
        match self.finish_request(account, id, &Outcome::of(&response, None, None)).await?.state {
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
        match child_reference_is_used(&self.db, account, reference).await? {
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
        let _permit = self.connections.acquire(account).await?;
        let mut tx = begin(&self.db).await?;
        if let Some(reference) = &change.reference_id {
            insert_child_reference(&mut tx, account, reference, id).await.map_err(map_violation)?;
        }
        let target = find_target(&mut tx, account, change.target).await?.ok_or(Code::TransactionId.refuse())?;
        let parent = match rules::applies_to_parent(change.kind, target.kind, target.state)? {
            true => target.parent_id.ok_or(Code::TransactionId.refuse())?,
            false => change.target,
        };
        let rules = lock_parent(&mut tx, account, parent).await?;
        let amount = change.amount.unwrap_or(rules.amount);
        match change.kind {
            TransactionKind::Capture => rules.capture(amount, now)?,
            TransactionKind::Void => rules.void(now)?,
            TransactionKind::Refund => rules.refund(amount)?,
            TransactionKind::Sale | TransactionKind::Authorize | TransactionKind::Credit => {
                return Err(Code::UpdateFailed.refuse());
            }
        }
        reserve(&mut tx, parent, change.kind, amount).await?;
        insert_child(&mut tx, id, parent, change.kind, amount, change.receipt, now).await?;
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

/// The transaction that a capture, void or refund names.
struct Target {
    kind: TransactionKind,
    state: State,
    parent_id: Option<TransactionId>,
}

async fn child_reference_is_used(db: &PgPool, account: AccountId, reference: &str) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar!(
        r#"SELECT EXISTS (SELECT 1 FROM gateway.child_references
                          WHERE account_id = $1 AND reference_id = $2) AS "used!""#,
        account.uuid(),
        reference,
    )
    .fetch_one(db)
    .await
}

/// Inserts the reference of a child before the child itself. Blocks while another transaction with the same reference
/// is uncommitted.
async fn insert_child_reference(
    db: &mut PgConnection,
    account: AccountId,
    reference: &str,
    child: TransactionId,
) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "INSERT INTO gateway.child_references (account_id, reference_id, transaction_id) VALUES ($1, $2, $3)",
        account.uuid(),
        reference,
        child.uuid(),
    )
    .execute(db)
    .await?;
    Ok(())
}

async fn find_target(
    db: &mut PgConnection,
    account: AccountId,
    id: TransactionId,
) -> Result<Option<Target>, sqlx::Error> {
    sqlx::query_as!(
        Target,
        r#"SELECT kind AS "kind: TransactionKind", state AS "state: State", parent_id AS "parent_id: TransactionId"
           FROM gateway.transactions WHERE account_id = $1 AND id = $2"#,
        account.uuid(),
        id.uuid(),
    )
    .fetch_optional(db)
    .await
}

/// Locks a charge and reads what the rules need.
async fn lock_parent(db: &mut PgConnection, account: AccountId, id: TransactionId) -> Result<Parent, sqlx::Error> {
    let row = sqlx::query!(
        r#"SELECT kind AS "kind: TransactionKind", state AS "state: State", amount, captured, refunded + refunding AS "returned!",
                  voided, changing AS "changing: TransactionKind", settles_at, lapses_at
           FROM gateway.transactions WHERE account_id = $1 AND id = $2 FOR NO KEY UPDATE"#,
        account.uuid(),
        id.uuid(),
    )
    .fetch_one(db)
    .await?;
    Ok(Parent {
        kind: row.kind,
        state: row.state,
        amount: Amount::from_minor(row.amount),
        captured: Amount::from_minor(row.captured),
        returned: Amount::from_minor(row.returned),
        voided: row.voided,
        changing: row.changing,
        settles_at: row.settles_at,
        expires_at: row.lapses_at,
    })
}

/// Reserves the amount of a child on its charge.
async fn reserve(
    db: &mut PgConnection,
    id: TransactionId,
    kind: TransactionKind,
    amount: Amount,
) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "UPDATE gateway.transactions
         SET refunding = refunding + CASE WHEN $2 = 'refund' THEN $3 ELSE 0::bigint END,
             changing = CASE WHEN $2 = 'refund' THEN changing ELSE $2 END
         WHERE id = $1",
        id.uuid(),
        kind as TransactionKind,
        amount.get(),
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Inserts a child with its parent's card, details and reference. A void includes the fee.
async fn insert_child(
    db: &mut PgConnection,
    id: TransactionId,
    parent: TransactionId,
    kind: TransactionKind,
    amount: Amount,
    receipt: bool,
    now: Timestamp,
) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "INSERT INTO gateway.transactions (id, account_id, parent_id, kind, state, source, amount, currency, reference_id,
             brand, masked, expiry, details, created_at, fee, receipt_cardholder, recover_at)
         SELECT $1, account_id, id, $3, 'in_progress', source, $4, currency, reference_id, brand, masked, expiry, details,
             $5, CASE WHEN $3 = 'void' THEN fee ELSE 0 END, $6, clock_timestamp() + interval '15 seconds'
         FROM gateway.transactions WHERE id = $2",
        id.uuid(),
        parent.uuid(),
        kind as TransactionKind,
        amount.get(),
        now,
        receipt,
    )
    .execute(db)
    .await?;
    Ok(())
}
