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
    /// it was read, the payment no longer awaits an outcome, or the invoice is no longer being collected; then nothing
    /// was written.
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

/// Executes claims or outcomes with one statement that commits by itself, and both in one transaction. After an error
/// nothing was written, unless the connection was lost: the response to COMMIT then covers all items, and each caller does
/// what it does if its own statement has no response.
///
/// Outcomes are first, because only they may wait for a lock: after a claim the transaction waits for nothing but the commit.
/// An operation that is in both parts has ended when the claims follow.
async fn execute(connection: &mut PgConnection, db: Db, items: &[Item], now: Timestamp) -> sqlx::Result<Vec<Done>> {
    let (mut ids, mut charges, mut payments) = (Vec::new(), Vec::new(), HashSet::new());
    for item in items {
        match item {
            Item::Claim(id) => ids.push(*id),
            // Of several outcomes of one payment the first counts: the payment no longer awaits the others.
            Item::End(charge) if payments.insert(charge.payment.id) => charges.push(&**charge),
            Item::End(_) => {}
        }
    }
    let is_transaction = !ids.is_empty() && !charges.is_empty();
    let (written, rows) = if is_transaction {
        // If it is dropped, the rollback precedes the next statement of the connection.
        let mut tx = connection.begin().await?;
        let written = finish_charges(&mut tx, &charges).await?;
        let rows = claim_rows(&mut tx, &ids, &kinds_claimed_with_outcomes(), now).await?;
        tx.commit().await?;
        (written, rows)
    } else if charges.is_empty() {
        (Written::default(), claim_rows(connection, &ids, &OperationKind::ALL, now).await?)
    } else {
        (finish_charges(connection, &charges).await?, Vec::new())
    };
    db.wake(queues::WEBHOOKS, written.endpoints);
    let (mut rows, mut written) = (rows.into_iter(), written.payments.into_iter().collect::<HashSet<_>>());
    let done = items.iter().map(|item| match item {
        Item::Claim(_) => {
            let row = rows.next().flatten();
            Done { may_be_claimed_alone: is_transaction && row.is_none(), row, is_written: false }
        }
        Item::End(charge) => {
            Done { row: None, may_be_claimed_alone: false, is_written: written.remove(&charge.payment.id.uuid()) }
        }
    });
    Ok(done.collect())
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
