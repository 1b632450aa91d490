//! Collects invoices: the intent. A due invoice is claimed by inserting its attempt, payment and operation under the
//! invoice's lock in one transaction: voiding it or cancelling its schedule happens before that, or fails because an
//! attempt is in flight.

use std::collections::{HashMap, HashSet};
use std::fmt::Display;
use std::time::Duration;

use sqlx::{PgConnection, PgExecutor};

use crate::charge::counters::{CollectionOutcome, FailedWork, count_collections, count_failed};
use crate::mutants;
use domain::accounts::{self, Mode, Scope};
use domain::charges::{self, FirstStep, Intent};
use domain::customers;
use domain::invoices::{self, Failure, FailureContext, Invoice, attempts};
use domain::operations::Origin;
use domain::payment_methods::{self, PaymentMethod};
use domain::payments::{self, NewPayment, Payment};
use domain::subscriptions;
use foundation::db::{self, Db, column, one_batch, undo_failed};
use foundation::error::Result;
use foundation::failpoint;
use foundation::id::{
    AccountId, CollectionAttemptId, CustomerId, InvoiceId, OperationId, PaymentId, PaymentMethodId, ProviderAccountId,
};
use foundation::merchant_data::{MerchantData, Metadata};
use foundation::money::Money;
use foundation::time::Timestamp;
use providers::{Card, ProviderKind, Source};

/// Maximum number of invoices per claim.
pub const COLLECTION_BATCH: i64 = 100;

/// Why an invoice that another release may read is not collected.
const UNREADABLE: &str = "this release cannot read it";

/// When an invoice that this release cannot read or collect is due again. Until then, it is in the way of no other.
const POSTPONED_BY: Duration = Duration::from_secs(10 * 60);

/// A collection attempt that has begun. Its operation must be pushed.
#[derive(Debug)]
pub struct BegunAttempt {
    /// The operation that charges the card.
    pub operation: OperationId,
    pub payment: PaymentId,
}

/// The result of a claim.
#[derive(Debug, Default)]
pub struct CollectionRun {
    pub begun: Vec<BegunAttempt>,
    /// Attempts that failed without sending a request: no card, or a currency or an amount that is not supported.
    pub unsent: usize,
    /// Invoices that were due. May exceed the number of attempts: a payer may be paying one on its page.
    pub due: usize,
}

/// Claims at most `limit` due invoices and begins an attempt for each. Concurrent callers get different invoices.
///
/// # Errors
/// Database errors; then nothing has begun, or the sweep enqueues what has.
pub async fn collect_due_invoices(db: &Db, scope: Scope, limit: i64, origin: &Origin) -> Result<CollectionRun> {
    let mut tx = db.begin().await?;
    let due = if scope.hold(&mut tx).await? { lock_due(&mut tx, scope, limit).await? } else { Vec::new() };
    if due.is_empty() {
        return Ok(CollectionRun::default());
    }
    let mut tx = mutants::unlock_due_invoices(db, tx).await?;
    let mut attempts = Vec::with_capacity(due.len());
    for invoice in &due {
        match NewAttempt::new(invoice) {
            Some(attempt) => attempts.push(attempt),
            None => postpone(&mut *tx, scope, invoice.id, invoice.now, &UNREADABLE).await?,
        }
    }
    let (mut written, mut batches) = (HashSet::new(), one_batch(&attempts));
    while let Some(batch) = batches.pop() {
        tx.savepoint().await?;
        let begun = begin(&mut tx, batch, origin).await.map(|invoices| written.extend(invoices));
        if let Some((alone, error)) = undo_failed(&mut tx, &mut batches, batch, begun).await? {
            postpone(&mut *tx, scope, alone.invoice, alone.now, &error).await?;
        }
    }
    failpoint!("collect_invoices.written");
    tx.commit().await?;
    failpoint!("collect_invoices.committed");
    let mut run = CollectionRun { due: due.len(), ..CollectionRun::default() };
    for attempt in attempts {
        if written.contains(&attempt.invoice) {
            run.begun.push(BegunAttempt { operation: attempt.operation, payment: attempt.payment });
        } else {
            let failed = match fail_unsent(db, scope, &attempt).await {
                Err(error) if !db::is_temporary(&error) => {
                    postpone(&**db, scope, attempt.invoice, attempt.now, &error).await.map(|()| false)
                }
                failed => failed,
            };
            match failed {
                Ok(failed) => run.unsent += usize::from(failed),
                // The attempts that have begun must be returned; this invoice is due again.
                Err(error) => {
                    tracing::error!(invoice = %attempt.invoice, %error, "the failed attempt of an invoice that cannot be charged was not recorded");
                }
            }
        }
    }
    Ok(run)
}

/// A due invoice, locked.
struct Due {
    id: InvoiceId,
    account_id: AccountId,
    /// Its account's time.
    now: Timestamp,
    amount: i64,
    currency: String,
    /// JSON. What cannot be read must not fail other rows.
    metadata: Option<String>,
}

/// An attempt with ids generated here.
struct NewAttempt {
    invoice: InvoiceId,
    account: AccountId,
    now: Timestamp,
    money: Money,
    metadata: Option<Metadata>,
    attempt: CollectionAttemptId,
    payment: PaymentId,
    operation: OperationId,
}

impl NewAttempt {
    /// `None` if this release cannot read the currency or the metadata.
    fn new(due: &Due) -> Option<Self> {
        let currency = due.currency.parse().ok()?;
        let metadata = match &due.metadata {
            Some(text) => Some(Metadata::from_json(text)?),
            None => None,
        };
        Some(Self {
            invoice: due.id,
            account: due.account_id,
            now: due.now,
            money: Money { minor: due.amount, currency },
            metadata,
            attempt: CollectionAttemptId::new(due.now),
            payment: PaymentId::new(due.now),
            operation: OperationId::new(due.now),
        })
    }

    /// The payment that charges the card.
    fn intent(&self, card: ChargedCard, origin: &Origin) -> Intent {
        let masked = Card { brand: card.brand, last4: card.last4, exp_month: card.exp_month, exp_year: card.exp_year };
        let payment = NewPayment {
            id: self.payment,
            account_id: self.account,
            provider_account_id: card.provider_account_id,
            money: self.money,
            capture: true,
            customer_id: Some(card.customer_id),
            payment_method: Some((card.id, &masked)),
            invoice_id: Some(self.invoice),
            payment_link_id: None,
            parts: None,
            description: None,
            merchant_data: MerchantData { metadata: self.metadata.clone(), external_id: None },
        };
        Intent {
            payment: Payment::processing(payment, card.mode, self.now),
            return_url: None,
            payer_language: None,
            operation: self.operation,
            first_step: FirstStep::Charge(Source::Card(card.provider_ref)),
            action_token: None,
            origin: origin.clone(),
            key: None,
        }
    }
}

/// Locks due invoices. One that a payer is paying on its page is skipped, and is due again if that payment fails. So is
/// one of which a charge has not been returned.
async fn lock_due(tx: &mut PgConnection, scope: Scope, limit: i64) -> Result<Vec<Due>> {
    let due =
        match scope {
            Scope::AllAccounts(now) => {
                sqlx::query_as!(
                    Due,
                    r#"SELECT i.id, i.account_id, account_now(i.account_id, $1) AS "now!: Timestamp",
                          i.amount, i.currency AS "currency: String", i.metadata::text AS "metadata?" FROM invoices i
                   WHERE i.next_attempt_at <= $1 AND hold_clock(i.account_id)
                     AND NOT EXISTS (SELECT 1 FROM payments p WHERE p.account_id = i.account_id AND p.invoice_id = i.id
                         AND is_live(p.status))
                     AND NOT has_unreturned_charge(i.account_id, i.id)
                   ORDER BY i.next_attempt_at LIMIT $2 FOR NO KEY UPDATE OF i SKIP LOCKED"#,
                    now,
                    limit,
                )
                .fetch_all(tx)
                .await?
            }
            Scope::Account(account, now) | Scope::Advance(account, now) => sqlx::query_as!(
                Due,
                r#"SELECT i.id, i.account_id, $2::timestamptz AS "now!: Timestamp", i.amount, i.currency AS "currency: String",
                          i.metadata::text AS "metadata?" FROM invoices i
                   WHERE i.next_attempt_at IS NOT NULL AND (i.account_id, i.next_attempt_at) >= ($1, '-infinity')
                     AND (i.account_id, i.next_attempt_at) <= ($1, $2)
                     AND NOT EXISTS (SELECT 1 FROM payments p WHERE p.account_id = i.account_id AND p.invoice_id = i.id
                         AND is_live(p.status))
                     AND NOT has_unreturned_charge(i.account_id, i.id)
                   ORDER BY i.account_id, i.next_attempt_at LIMIT $3 FOR NO KEY UPDATE OF i SKIP LOCKED"#,
                account.uuid(),
                now,
                limit,
            )
            .fetch_all(tx)
            .await?,
        };
    Ok(due)
}

/// Moves a due invoice that cannot be collected for this reason behind others that are due. An advance of a test clock does
/// so by itself, because ten minutes are nothing to it.
async fn postpone(
    db: impl PgExecutor<'_>,
    scope: Scope,
    invoice: InvoiceId,
    now: Timestamp,
    reason: &(dyn Display + Sync),
) -> Result<()> {
    count_failed(FailedWork::Collections, 1);
    tracing::error!(%invoice, %reason, "a due invoice is not collected");
    if matches!(scope, Scope::Advance(..)) {
        return Ok(());
    }
    sqlx::query!(
        "UPDATE invoices SET next_attempt_at = $2 WHERE id = $1 AND next_attempt_at <= $3",
        invoice.uuid(),
        now.plus(POSTPONED_BY),
        now,
    )
    .execute(db)
    .await?;
    Ok(())
}

/// The card that a new attempt charges.
struct ChargedCard {
    invoice: InvoiceId,
    mode: Mode,
    customer_id: CustomerId,
    id: PaymentMethodId,
    provider_account_id: ProviderAccountId,
    provider_ref: String,
    brand: String,
    last4: String,
    exp_month: i16,
    exp_year: i16,
}

/// Begins attempts of locked invoices, and returns the ids of those invoices. Left out are invoices that no card can be
/// charged for, and those that a payer began to pay before they were locked.
async fn begin(tx: &mut PgConnection, attempts: &[NewAttempt], origin: &Origin) -> Result<HashSet<InvoiceId>> {
    let mut cards = charged_cards(tx, attempts).await?;
    let (begun, intents): (Vec<_>, Vec<_>) = attempts
        .iter()
        .filter_map(|attempt| Some((attempt, attempt.intent(cards.remove(&attempt.invoice)?, origin))))
        .unzip();
    charges::insert_intents(tx, &intents).await?;
    sqlx::query!(
        "WITH due AS MATERIALIZED (
             SELECT n.*, i.account_id, i.amount, i.attempt_count + 1 AS number
             FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::timestamptz[])
                      AS n (invoice_id, attempt_id, payment_id, now)
             JOIN invoices i ON i.id = n.invoice_id),
         attempt AS (
             INSERT INTO collection_attempts
                 (id, account_id, invoice_id, number, status, amount, payment_id, attempted_at)
             SELECT attempt_id, account_id, invoice_id, number, 'processing', amount, payment_id, now FROM due)
         UPDATE invoices i SET attempt_count = due.number, next_attempt_at = NULL,
                series_started_at = coalesce(i.series_started_at, due.now)
         FROM due WHERE i.id = due.invoice_id",
        &column(&begun, |attempt| attempt.invoice.uuid()),
        &column(&begun, |attempt| attempt.attempt.uuid()),
        &column(&begun, |attempt| attempt.payment.uuid()),
        &column(&begun, |attempt| attempt.now) as &[Timestamp],
    )
    .execute(tx)
    .await?;
    Ok(begun.into_iter().map(|attempt| attempt.invoice).collect())
}

/// Returns the card to charge for each invoice: the one that it names or, without one or if that was detached, the default
/// card. Left out are invoices without a card, with a card stored where their currency or their amount is not supported
/// ([`ProviderKind::supports`], [`ProviderKind::charges`]), and those with a live payment.
async fn charged_cards(tx: &mut PgConnection, attempts: &[NewAttempt]) -> Result<HashMap<InvoiceId, ChargedCard>> {
    let (limited, supported) = ProviderKind::currency_limits();
    let (with_step, steps) = ProviderKind::amount_limits();
    let cards = sqlx::query_as!(
        ChargedCard,
        r#"SELECT i.id AS "invoice!: InvoiceId", (SELECT a.mode FROM accounts a WHERE a.id = i.account_id) AS "mode!: Mode",
                  i.customer_id AS "customer_id!: CustomerId",
                  m.id AS "id!: PaymentMethodId",
                  m.provider_account_id AS "provider_account_id!: ProviderAccountId", m.provider_ref AS "provider_ref!: String",
                  m.brand AS "brand!", m.last4 AS "last4!", m.exp_month AS "exp_month!", m.exp_year AS "exp_year!"
           FROM unnest($1::uuid[]) AS n (invoice_id)
           JOIN invoices i ON i.id = n.invoice_id
           -- LIMIT keeps these from being read before what they are looked up by.
           CROSS JOIN LATERAL (SELECT default_payment_method_id FROM customers
               WHERE account_id = i.account_id AND id = i.customer_id LIMIT 1) c
           LEFT JOIN LATERAL (SELECT id FROM payment_methods
               WHERE account_id = i.account_id AND id = i.collect_payment_method_id AND status = 'active' LIMIT 1) named ON true
           CROSS JOIN LATERAL (SELECT * FROM payment_methods
               WHERE account_id = i.account_id AND customer_id = i.customer_id AND status = 'active'
                 AND id = coalesce(named.id, c.default_payment_method_id) LIMIT 1) m
           JOIN provider_accounts s ON s.id = m.provider_account_id
               AND (s.currencies IS NULL OR i.currency = ANY (s.currencies))
               AND (s.provider::text <> ALL ($2::text[]) OR s.provider::text || ' ' || i.currency = ANY ($3::text[]))
               AND coalesce(i.amount % ($5::bigint[])[array_position($4::text[], s.provider::text || ' ' || i.currency)], 0) = 0
           WHERE NOT EXISTS (SELECT 1 FROM payments p WHERE p.account_id = i.account_id AND p.invoice_id = i.id
               AND is_live(p.status))
             AND NOT has_unreturned_charge(i.account_id, i.id)"#,
        &column(attempts, |attempt| attempt.invoice.uuid()),
        limited as &[&str],
        supported,
        with_step,
        steps,
    );
    Ok(cards.fetch_all(tx).await?.into_iter().map(|card| (card.invoice, card)).collect())
}

/// Inserts a failed attempt for a due invoice for which no request can be sent. Returns `false` if that is no longer
/// so. The customer is locked: a first card saved concurrently is either seen here, or finds the invoice waiting for a
/// card.
async fn fail_unsent(db: &Db, scope: Scope, attempt: &NewAttempt) -> Result<bool> {
    let NewAttempt { invoice: id, account, now, .. } = *attempt;
    let owed = invoices::retrieve(&**db, account, id).await?;
    let mut tx = db.begin().await?;
    // The transaction that found it due has ended, and an advance of the clock may have begun since.
    if !scope.of(account, now).hold(&mut tx).await? {
        return Ok(false);
    }
    // Deleted only if the invoice is no longer scheduled.
    let Some(customer) = customers::find_locked(&mut tx, account, owed.customer_id).await? else { return Ok(false) };
    let mut subscription = subscriptions::lock_producer(&mut tx, &owed).await?;
    let mut invoice = invoices::lock(&mut tx, account, id).await?;
    let due = invoice.next_attempt_at.is_some_and(|at| at <= now);
    // A payment on its page either is visible here, or waits for this lock.
    let is_live = payments::live_for_invoice(&mut tx, account, id).await?.is_some();
    if !due || is_live || payments::has_unreturned_charge(&mut tx, account, id.uuid()).await? {
        return Ok(false);
    }
    let named = find_card(&mut tx, account, invoice.collect_payment_method_id).await?;
    let card = match named {
        Some(card) => Some(card),
        None => find_card(&mut tx, account, customer.default_payment_method_id).await?,
    };
    // What the named card cannot be charged with may be charged to the default card.
    let default_card = customer.default_payment_method_id;
    let default_card_changed = card.as_ref().is_some_and(|card| default_card.is_some_and(|id| id != card.id));
    let Some(failure) = unsent_reason(&mut tx, &invoice, card).await? else { return Ok(false) };
    let number = invoice.begin_attempt(now);
    let zone = accounts::timezone(&mut *tx, account).await?;
    let context = FailureContext { now, zone: &zone, default_card_changed, collection_stopped: false };
    let next = invoices::attempt_failed(&mut tx, &mut invoice, failure, context).await?;
    attempts::insert_unsent(&mut tx, &invoice, number, failure, now).await?;
    if let Some(subscription) = &mut subscription {
        subscriptions::invoice_failed(&mut tx, subscription, now).await?;
    }
    failpoint!("collect_invoices.failed_without_card");
    tx.commit().await?;
    count_collections(CollectionOutcome::failed(failure, next), 1);
    Ok(true)
}

async fn find_card(
    tx: &mut PgConnection,
    account: AccountId,
    id: Option<PaymentMethodId>,
) -> Result<Option<PaymentMethod>> {
    match id {
        Some(id) => payment_methods::find(tx, account, id).await,
        None => Ok(None),
    }
}

/// Why no request can be sent for an invoice.
async fn unsent_reason(
    tx: &mut PgConnection,
    invoice: &Invoice,
    card: Option<PaymentMethod>,
) -> Result<Option<Failure<'static>>> {
    let Some(card) = card else { return Ok(Some(Failure::NO_CARD)) };
    let settlement = accounts::settlement(tx, card.provider_account_id).await?;
    Ok(if !settlement.supports(invoice.currency) {
        Some(Failure::CURRENCY)
    } else if !settlement.provider.charges(invoice.money()) {
        Some(Failure::AMOUNT)
    } else {
        None
    })
}
