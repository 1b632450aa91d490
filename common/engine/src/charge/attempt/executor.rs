//! What a worker executes operations with. The statements of concurrent operations are batched.

use std::time::Duration;

use crate::charge::counters::{CollectionOutcome, count_collections};
use crate::charge::outcome::charge::apply_response;
use crate::charge::outcome::invoice_payment::{is_collected, paid_invoice};
use crate::charge::outcome::record_outcome;
use crate::charge::outcome::stale::had_no_effect;
use domain::charges::{Batches, Claimed, EndedCharge};
use domain::invoices::{self, Invoice};
use domain::operations::Subject;
use foundation::clock::Clock;
use foundation::concurrency::{ConcurrencyLimit, FairConcurrencyLimit, Permit};
use foundation::db::{Db, Reader};
use foundation::error::Result;
use foundation::id::{AccountId, InvoiceId};
use providers::{ProviderResponse, Providers};
use tokio::time::timeout;

/// A known outcome does not wait longer for a read that would make recording it cheaper.
const READ_TIMEOUT: Duration = Duration::from_secs(2);
/// How long an operation waits for its permit to begin one: as long as it may wait for a lock.
const PERMIT_TIMEOUT: Duration = Duration::from_secs(10);
const BUSY: &str = "too many transactions of the account are waiting for locks";

pub struct Executor {
    pub(crate) db: Db,
    pub(super) providers: Providers,
    pub(crate) clock: Clock,
    pub(crate) batches: Batches,
    invoices: Reader<InvoiceId, Invoice>,
    /// Of transactions that end or release operations.
    limit: FairConcurrencyLimit<AccountId>,
}

impl Executor {
    /// Must be called inside a Tokio runtime.
    pub fn start(db: Db, providers: Providers, clock: Clock) -> Self {
        // The other half of the connections is for what waits for no lock, such as claims.
        let at_once = (db.options().get_max_connections() / 2).max(1) as usize;
        // A merchant has two accounts.
        let of_account = (at_once / 4).clamp(1, 4);
        Self {
            limit: FairConcurrencyLimit::new(ConcurrencyLimit::new(at_once, PERMIT_TIMEOUT, BUSY), move |_| of_account),
            batches: Batches::start(db.clone(), clock.clone()),
            invoices: invoices::reader((*db).clone()),
            db,
            providers,
            clock,
        }
    }

    /// Records a known outcome: that of a charge in one statement if its payment still awaits it, any other in a
    /// transaction. Recording it again changes nothing. Returns what a waiting request is notified of.
    pub(super) async fn record(&self, claimed: &Claimed, response: &ProviderResponse) -> Result<Subject> {
        if self.try_finish_charge(claimed, response).await? {
            return Ok(claimed.subject);
        }
        let _permit = self.permit(claimed).await?;
        record_outcome(&self.db, claimed, response, &self.clock).await
    }

    /// A permit for a transaction that ends or releases this operation. It may wait for locks, and holds a connection
    /// meanwhile: those of one merchant must leave permits and connections to the others.
    pub(crate) async fn permit(&self, claimed: &Claimed) -> Result<Permit> {
        self.limit.acquire([claimed.account_id]).await
    }

    /// Returns `false` if one statement is not enough; then nothing was written.
    async fn try_finish_charge(&self, claimed: &Claimed, response: &ProviderResponse) -> Result<bool> {
        let Some(mut payment) = claimed.payment.clone() else { return Ok(false) };
        let in_transaction =
            matches!(response, ProviderResponse::Challenged { .. } | ProviderResponse::Mismatched { .. });
        if in_transaction || had_no_effect(claimed, response) {
            return Ok(false);
        }
        let now = claimed.time.now(&*self.db, &self.clock).await?;
        if let Some(invoice) = payment.invoice_id {
            if !is_collected(&payment, response) {
                return Ok(false);
            }
            let invoice = timeout(READ_TIMEOUT, self.invoices.retrieve(claimed.account_id, invoice)).await;
            let Ok(Ok(invoice)) = invoice else { return Ok(false) };
            let Some(paid) = paid_invoice(claimed, payment, invoice, response, now)? else { return Ok(false) };
            let written = self.batches.write(paid).await?;
            count_collections(CollectionOutcome::Paid, written.into());
            return Ok(written);
        }
        if payment.payment_link_id.is_some() {
            return Ok(false);
        }
        apply_response(&mut payment, claimed, response, now)?;
        self.batches.write(EndedCharge::new(claimed.id, payment, response, now)?).await
    }
}
