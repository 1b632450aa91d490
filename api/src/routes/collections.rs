//! POST /v1/invoices/scheduler/run: the scheduler's claim, for one test account, and its outcome.

use axum::extract::State;
use common::accounts::Scope;
use common::flows;
use common::id::{AccountId, PaymentId};
use common::payments::{self, Status};
use common::queues;
use queue::Wake;
use serde::Serialize;
use utoipa::ToSchema;

use crate::answer::{Answer, ok};
use crate::app::App;
use crate::envelope::RequestId;
use crate::guard::Authenticated;
use crate::waiting::Waiting;

/// Invoices of one run at most.
const BATCH: i64 = 50;

/// What a run has come to.
#[derive(Serialize, ToSchema)]
#[schema(as = SchedulerRun)]
pub(crate) struct RunView {
    /// Invoices that were due and that this run has taken, 50 at most. If it is 50, there may be more.
    claimed: usize,
    /// Of these, how many are paid.
    collected: usize,
    /// The others: declined, without a card, or not decided yet.
    released: usize,
}

pub(super) async fn run(State(app): State<App>, Authenticated(caller): Authenticated, request_id: RequestId) -> Answer {
    let origin = app.origin(request_id, Some(caller.key_id));
    let scope = Scope::Account(caller.account_id, app.now(&caller).await?);
    let collecting = flows::collect_due_invoices(&app.db, scope, BATCH, &origin).await?;
    // All are under way before the first is waited for, and the patience of all ends together.
    let mut waiting = Vec::with_capacity(collecting.begun.len());
    for begun in &collecting.begun {
        waiting.push((Waiting::new(app.replies.register(begun.payment.uuid())), begun.payment));
        app.push(queues::COLLECTIONS, Wake { id: begun.operation.uuid(), request_id: origin.request_id.clone() });
    }
    let mut collected = 0;
    for (waiting, payment) in waiting {
        collected += usize::from(is_paid(&app, waiting, caller.account_id, payment).await);
    }
    let claimed = collecting.begun.len() + collecting.unsent;
    Ok(ok(RunView { claimed, collected, released: claimed - collected }))
}

/// Waits for the outcome of one. The attempt exists by then, so nothing that goes wrong becomes an error.
async fn is_paid(app: &App, mut waiting: Waiting, account: AccountId, id: PaymentId) -> bool {
    while waiting.worth_a_look().await {
        match payments::retrieve(&app.db, account, id).await {
            Ok(payment) if payment.status == Status::Processing => {}
            Ok(payment) => return payment.status == Status::PendingSettlement || payment.settled,
            Err(error) => tracing::warn!(%error, payment = %id, "the payment could not be read; waiting on"),
        }
    }
    // Patience may have ended while an earlier one was waited for.
    let last = payments::retrieve(&app.db, account, id).await;
    last.is_ok_and(|payment| payment.status == Status::PendingSettlement || payment.settled)
}
