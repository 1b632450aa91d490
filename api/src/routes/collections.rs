//! POST /v1/invoices/scheduler/run: collects the due invoices of one test account, as the scheduler does, and waits.

use axum::extract::State;
use domain::accounts::Scope;
use domain::payments::Status;
use foundation::id::{AccountId, PaymentId};
use foundation::queues;
use queue::Wake;
use serde::Serialize;
use utoipa::ToSchema;

use crate::app::App;
use crate::error::{ApiResult, ok};
use crate::guard::Authenticated;
use crate::waiting::Waiting;

/// Invoices per run.
const BATCH: i64 = 50;

/// The result of a run.
#[derive(Serialize, ToSchema)]
#[schema(as = SchedulerRun)]
pub(crate) struct RunView {
    /// Due invoices that this run claimed, at most 50. If it is 50, there may be more.
    claimed: usize,
    /// How many of them were paid.
    collected: usize,
    /// The others: declined, without a card, or still processing.
    #[serde(rename = "released")]
    not_collected: usize,
}

pub(super) async fn run(State(app): State<App>, Authenticated(caller): Authenticated) -> ApiResult {
    let origin = app.origin(Some(caller.key_id));
    let scope = Scope::Account(caller.account_id, app.now(&caller).await?);
    let collecting = engine::collect_due_invoices(&app.db, scope, BATCH, &origin).await?;
    // All payments are queued before the first is awaited, so they share one timeout.
    let mut waiting = Vec::with_capacity(collecting.begun.len());
    for begun in &collecting.begun {
        waiting.push((Waiting::new(app.replies.register(begun.payment.uuid())), begun.payment));
        app.publisher
            .post(queues::COLLECTIONS, Wake { id: begun.operation.uuid(), request_id: origin.request_id.clone() });
    }
    let mut collected = 0;
    for (waiting, payment) in waiting {
        collected += usize::from(is_paid(&app, waiting, caller.account_id, payment).await);
    }
    let claimed = collecting.begun.len() + collecting.unsent;
    Ok(ok(RunView { claimed, collected, not_collected: claimed - collected }))
}

/// Waits for the outcome of one payment. The attempt is already committed, so a failed read never becomes an error
/// response.
async fn is_paid(app: &App, mut waiting: Waiting, account: AccountId, id: PaymentId) -> bool {
    while waiting.next_poll().await {
        match app.payments.retrieve(account, id).await {
            Ok(payment) if payment.status == Status::Processing => {}
            Ok(payment) => return payment.status == Status::PendingSettlement || payment.settled,
            Err(error) => tracing::warn!(%error, payment = %id, "the payment could not be read; retrying"),
        }
    }
    // The shared timeout may have passed while an earlier payment was awaited.
    let last = app.payments.retrieve(account, id).await;
    last.is_ok_and(|payment| payment.status == Status::PendingSettlement || payment.settled)
}
