//! Claims of operations and outcomes of charges, executed in batches. What waits at the same moment shares a commit.

use std::collections::HashSet;

use sqlx::{Connection as _, PgConnection};

use super::claim::{Claimed, ClaimedRow, claim_rows};
use super::outcomes::{EndedCharge, Written, finish_charges};
use foundation::clock::Clock;
use foundation::db::{self, Batcher, Db};
use foundation::error::Result;
use foundation::failpoint;
use foundation::id::OperationId;
use foundation::queues;
use foundation::time::Timestamp;
use providers::OperationKind;

/// Claims operations and writes outcomes of charges.
pub struct Batches {
    claims_and_outcomes: Batcher<Item, Done>,
    /// Claims of operations that were not claimed in the transaction of outcomes.
    claims: Batcher<OperationId, Option<ClaimedRow>>,
}

enum Item {
    Claim(OperationId),
    End(Box<EndedCharge>),
}

/// What became of an item.
struct Done {
    row: Option<ClaimedRow>,
    /// Whether it is a claim that may succeed alone.
    may_be_claimed_alone: bool,
    /// Whether it is an outcome that was written.
    is_written: bool,
}

impl Batches {
    /// Must be called inside a Tokio runtime.
    pub fn start(db: Db, clock: Clock) -> Self {
        let (pool, time) = ((*db).clone(), clock.clone());
        let claims = Batcher::start("claims", pool.clone(), move |connection, ids: &[OperationId]| {
            Box::pin(claim_rows(connection, ids, &OperationKind::ALL, time.now()))
        });
        let claims_and_outcomes = Batcher::start("claims_and_outcomes", pool, move |connection, items: &[Item]| {
            Box::pin(execute(connection, db.clone(), items, clock.now()))
        });
        Self { claims_and_outcomes, claims }
    }

    /// Claims an operation and moves it to `sending`; a single-row update needs no lock on a parent.
    ///
    /// `None` if the operation is finished, leased by another worker, or gone, as for every duplicate wake-up. Also
    /// `None` for a refund while another operation of its payment is in progress: a constraint serializes them.
    ///
    /// # Errors
    /// Database errors only.
    pub async fn claim(&self, id: OperationId) -> Result<Option<Claimed>> {
        let claimed = match self.claims_and_outcomes.call(Item::Claim(id)).await {
            Ok(Done { may_be_claimed_alone: true, .. }) => self.claims.call(id).await,
            done => done.map(|done| done.row),
        };
        match claimed {
            Err(error) if db::violated_constraint(&error) == Some("operations_one_in_flight") => Ok(None),
            claimed => claimed?.map(ClaimedRow::into_claimed).transpose(),
        }
    }

    /// Writes an outcome. Returns `false` if another transaction has locked the payment or its invoice or changed it since
    /// it was read, the payment no longer awaits an outcome, the invoice is no longer being collected, or another lock cannot
    /// be had soon; then nothing was written.
    ///
    /// # Errors
    /// Database errors. After a lost connection it may have been written.
    pub async fn write(&self, charge: EndedCharge) -> Result<bool> {
        let done = self.claims_and_outcomes.call(Item::End(Box::new(charge))).await?;
        if done.is_written {
            failpoint!("batches.outcome_written");
        }
        Ok(done.is_written)
    }
}

/// Executes claims and outcomes. After an error nothing was written, unless the connection was lost: the response to COMMIT
/// then covers all items, and each caller does what it does if its own statement has no response.
///
/// If a lock cannot be had soon, none of the outcomes is written, and the claims are made without them: each outcome then
/// takes its locks in a transaction of its own, where no other waits for it.
async fn execute(connection: &mut PgConnection, db: Db, items: &[Item], now: Timestamp) -> sqlx::Result<Vec<Done>> {
    let (mut ids, mut charges, mut payments) = (Vec::new(), Vec::new(), HashSet::new());
    for item in items {
        match item {
            Item::Claim(id) => ids.push(*id),
            // The first of several outcomes of one payment counts: the payment no longer awaits the others.
            Item::End(charge) if payments.insert(charge.payment.id) => charges.push(&**charge),
            Item::End(_) => {}
        }
    }
    let executed = write_and_claim(&mut *connection, &charges, &ids, now).await;
    let (written, rows) = match executed {
        Err(error) if !charges.is_empty() && db::is_conflict(&error) => {
            tracing::warn!(outcomes = charges.len(), %error, "a batch of outcomes could not have its locks; each continues in a transaction");
            write_and_claim(connection, &[], &ids, now).await?
        }
        executed => executed?,
    };
    db.wake(queues::WEBHOOKS, written.endpoints);
    let is_mixed = !ids.is_empty() && !charges.is_empty();
    let (mut rows, mut written) = (rows.into_iter(), written.payments.into_iter().collect::<HashSet<_>>());
    let done = items.iter().map(|item| match item {
        Item::Claim(_) => {
            let row = rows.next().flatten();
            Done { may_be_claimed_alone: is_mixed && row.is_none(), row, is_written: false }
        }
        Item::End(charge) => {
            Done { row: None, may_be_claimed_alone: false, is_written: written.remove(&charge.payment.id.uuid()) }
        }
    });
    Ok(done.collect())
}

/// Executes outcomes or claims with one statement that commits by itself, and both in one transaction.
///
/// Outcomes are first, because only they may wait for a lock: a claim that has been made waits for nothing but the commit.
/// An operation that is in both parts has ended when the claims are made.
async fn write_and_claim(
    connection: &mut PgConnection,
    charges: &[&EndedCharge],
    ids: &[OperationId],
    now: Timestamp,
) -> sqlx::Result<(Written, Vec<Option<ClaimedRow>>)> {
    Ok(match (charges.is_empty(), ids.is_empty()) {
        (true, true) => (Written::default(), Vec::new()),
        (true, false) => (Written::default(), claim_rows(connection, ids, &OperationKind::ALL, now).await?),
        (false, true) => (finish_charges(connection, charges, true).await?, Vec::new()),
        (false, false) => {
            // If it is dropped, the rollback precedes the next statement of the connection.
            let mut tx = connection.begin().await?;
            let written = finish_charges(&mut tx, charges, true).await?;
            let rows = claim_rows(&mut tx, ids, &kinds_claimed_with_outcomes(), now).await?;
            tx.commit().await?;
            (written, rows)
        }
    })
}

/// Without those that may wait for a concurrent claim of the same payment (`operations_one_in_flight`): the transaction
/// holds locks of other payments.
fn kinds_claimed_with_outcomes() -> Vec<OperationKind> {
    let waits_for_none = |kind: &OperationKind| match kind {
        OperationKind::Capture | OperationKind::Void | OperationKind::Refund => false,
        OperationKind::Sale
        | OperationKind::Authorize
        | OperationKind::StoreCard
        | OperationKind::Reverse
        | OperationKind::ReverseByRefund => true,
    };
    OperationKind::ALL.into_iter().filter(waits_for_none).collect()
}
