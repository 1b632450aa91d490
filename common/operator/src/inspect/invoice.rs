//! Explains why an invoice is not collected.

use sqlx::{PgConnection, PgPool};

use domain::accounts;
use domain::invoices::{self, Invoice, Status};
use domain::payments;
use domain::subscriptions;
use domain::test_clocks;
use foundation::clock::Clock;
use foundation::error::{Error, Result};
use foundation::id::{AccountId, InvoiceId, PaymentMethodId};
use foundation::time::Timestamp;
use providers::ProviderKind;
use providers::capabilities::Permission;

/// An invoice, with an explanation of its state.
#[derive(Debug)]
pub struct WhyInvoice {
    pub invoice: Invoice,
    /// Sentences, the main reason first.
    pub why: Vec<String>,
}

/// The card that an attempt would charge.
struct Card {
    id: PaymentMethodId,
    brand: Option<String>,
    last4: Option<String>,
    is_active: bool,
    is_default: bool,
}

struct Account {
    provider: ProviderKind,
    unsupported: Vec<String>,
    currencies: Option<Vec<String>>,
    connected: bool,
}

/// Explains the state of an invoice.
///
/// # Errors
/// [`Error::NotFound`].
pub async fn why_invoice(db: &PgPool, clock: &Clock, id: InvoiceId) -> Result<WhyInvoice> {
    let account = sqlx::query_scalar!("SELECT account_id FROM invoices WHERE id = $1", id.uuid());
    let account = account.fetch_optional(db).await?.ok_or_else(|| Error::no_such("invoice", id))?;
    let invoice = invoices::retrieve(db, account, id).await?;
    let now = accounts::now(db, account, clock.now()).await?;
    let mut why = Vec::new();
    match invoice.status {
        Status::Draft => why.push("It is a draft: nothing is due until it is issued.".to_owned()),
        Status::Voided => why.push("It was voided.".to_owned()),
        Status::Paid => {
            let by = invoice.payment_id.map(|payment| payment.to_string()).unwrap_or_default();
            why.push(format!("It was paid by {by}."));
        }
        Status::Open => open(&invoice, &mut why),
        Status::Scheduled => scheduled(db, &invoice, now, &mut why).await?,
    }
    if matches!(invoice.status, Status::Open | Status::Scheduled) {
        add_context(db, &invoice, clock.now(), &mut why).await?;
    }
    Ok(WhyInvoice { invoice, why })
}

fn open(invoice: &Invoice, why: &mut Vec<String>) {
    why.push(if invoice.collection_exhausted {
        format!(
            "Its last retry failed, after {} attempts: it is not collected again until it is scheduled again.",
            invoice.attempt_count
        )
    } else {
        "It is not scheduled, so it is not collected automatically. Its customer can pay it on its page.".to_owned()
    });
}

async fn scheduled(db: &PgPool, invoice: &Invoice, now: Timestamp, why: &mut Vec<String>) -> Result<()> {
    let mut connection = db.acquire().await?;
    if let Some(live) = payments::live_for_invoice(&mut connection, invoice.account_id, invoice.id).await? {
        let (payment, status) = (live.id, live.status.name());
        why.push(format!("A payment for it is in progress: {payment}, which is {status}: ctl payments why {payment}"));
    }
    if payments::has_unreturned_charge(&mut connection, invoice.account_id, invoice.id.uuid()).await? {
        why.push(
            "A charge for it has not been returned, and nothing is charged until it is: ctl anomalies list".to_owned(),
        );
    }
    let card = card(&mut connection, invoice).await?;
    match invoice.next_attempt_at {
        Some(at) if at <= now => why.push(format!("An attempt has been due since {at}.")),
        Some(at) => why.push(format!("The next attempt is made at {at}, by the account's clock.")),
        None if why.is_empty() && card.is_some() => {
            why.push(
                "The card can no longer be charged: the invoice waits until its customer has another default card."
                    .to_owned(),
            );
        }
        None => {}
    }
    match card {
        None => why.push("There is no card to charge: neither the invoice nor its customer has one.".to_owned()),
        Some(card) => {
            let whose = if card.is_default { "the customer's default card" } else { "the card given for it" };
            let (brand, last4) = (card.brand.unwrap_or_default(), card.last4.unwrap_or_default());
            let state = if card.is_active { "" } else { ", which is not active" };
            why.push(format!("It would be charged to {whose}, {} ({brand} {last4}){state}.", card.id));
        }
    }
    Ok(())
}

async fn card(db: &mut PgConnection, invoice: &Invoice) -> Result<Option<Card>> {
    let row = sqlx::query_as!(
        Card,
        r#"SELECT m.id, m.brand, m.last4, m.status = 'active' AS "is_active!", $3::uuid IS NULL AS "is_default!"
           FROM customers c JOIN payment_methods m ON m.account_id = c.account_id
               AND m.id = coalesce($3, c.default_payment_method_id)
           WHERE c.account_id = $1 AND c.id = $2"#,
        invoice.account_id.uuid(),
        invoice.customer_id.uuid(),
        invoice.collect_payment_method_id.map(PaymentMethodId::uuid),
    );
    Ok(row.fetch_optional(db).await?)
}

/// Adds what may prevent collection besides the invoice: its last failure, its subscription, its account, and the
/// account's clock.
async fn add_context(db: &PgPool, invoice: &Invoice, now: Timestamp, why: &mut Vec<String>) -> Result<()> {
    let account = invoice.account_id;
    if let Some((number, code, at)) = last_failure(db, invoice).await? {
        why.push(format!("Attempt {number} failed at {at}: {code}."));
    }
    if let Some(id) = invoice.subscription_id {
        let subscription = subscriptions::retrieve(db, account, id).await?;
        if let Some(at) = subscription.cancelled_at {
            why.push(format!("Its subscription {id} was cancelled at {at}: a failed attempt is not retried."));
        }
    }
    let clock = test_clocks::retrieve(db, account, now).await?;
    if let Some(target) = clock.target {
        why.push(format!(
            "The account's test clock is being advanced: it is at {} and its target is {target}.",
            clock.now
        ));
    }
    let settlement = settlement(db, account).await?;
    let is_supported = |operation: Permission| !settlement.unsupported.iter().any(|name| name == operation.name());
    if !is_supported(Permission::PaymentsCreate) {
        why.push("The account cannot take payments: payments.create is disabled for its provider account.".to_owned());
    }
    let (provider, code) = (settlement.provider.name(), invoice.currency.code());
    if !settlement.provider.supports(invoice.currency, settlement.currencies.as_deref()) {
        why.push(format!("The account's provider, {provider}, does not support {code} for this account."));
    }
    if !settlement.provider.charges(invoice.money()) {
        let step = settlement.provider.step(invoice.currency);
        why.push(format!(
            "The account's provider, {provider}, charges only multiples of {step} minor units of {code}."
        ));
    }
    if !settlement.connected {
        why.push("The account is not connected to the card gateway: ctl accounts connect.".to_owned());
    }
    Ok(())
}

async fn last_failure(db: &PgPool, invoice: &Invoice) -> Result<Option<(i32, String, Timestamp)>> {
    let row = sqlx::query!(
        r#"SELECT number, decline_code AS "decline_code!", attempted_at FROM collection_attempts
           WHERE account_id = $1 AND invoice_id = $2 AND status = 'failed'
           ORDER BY account_id DESC, invoice_id DESC, number DESC LIMIT 1"#,
        invoice.account_id.uuid(),
        invoice.id.uuid(),
    );
    Ok(row.fetch_optional(db).await?.map(|row| (row.number, row.decline_code, row.attempted_at)))
}

async fn settlement(db: &PgPool, account: AccountId) -> Result<Account> {
    let row = sqlx::query_as!(
        Account,
        r#"SELECT p.provider, p.unsupported, p.currencies, p.provider = 'mock' OR p.credentials IS NOT NULL AS "connected!"
           FROM accounts a JOIN provider_accounts p ON p.id = a.provider_account_id WHERE a.id = $1"#,
        account.uuid(),
    );
    Ok(row.fetch_one(db).await?)
}
