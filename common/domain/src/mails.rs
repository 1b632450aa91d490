//! E-mails to customers: which an account sends, and those that wait. An e-mail is written with the event that it is
//! about, in one transaction, and names only the event; text and recipient are read when it is sent. Those of invitations
//! to the portal are written with the invitation.

mod queue;

use std::time::Duration;

use sqlx::{PgConnection, PgPool};

use foundation::country::Country;
use foundation::crypto::random_hex;
use foundation::email::is_internet_email;
use foundation::error::{Error, Result};
use foundation::id::{AccountId, CustomerId, EventId, PaymentId};

pub use queue::{
    Attempted, Due, Queue, Subject, claim, delete_ended, link_place, oldest_due_seconds, open_link, record,
    write_invitation,
};

/// The most addresses that receive e-mails in test mode.
pub const MAX_TEST_RECIPIENTS: usize = 20;
/// How long after its event an e-mail may be sent: longer than all attempts take.
const TIMELY: Duration = Duration::from_secs(2 * 86_400);
/// The most e-mails that an account sends in a day in test mode.
const MAX_TEST_MAILS: i64 = 100;
/// The length of the token of a customer's page.
const PAGE_TOKEN_BYTES: usize = 20;

/// The subject of an e-mail to a customer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, sqlx::Type)]
#[sqlx(type_name = "text", rename_all = "snake_case")]
pub enum Kind {
    /// An invoice was issued.
    Invoice,
    /// An invoice was paid, or a customer's payment of no invoice and no link captured.
    Receipt,
    /// A card could not be charged for an invoice.
    CollectionFailed,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 3] = [Self::Invoice, Self::Receipt, Self::CollectionFailed];

    /// As stored, and in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Invoice => "invoice",
            Self::Receipt => "receipt",
            Self::CollectionFailed => "collection_failed",
        }
    }
}

/// Which e-mails an account sends to its customers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Invoices, when they are issued.
    pub invoices: bool,
    /// Receipts, when customers pay.
    pub receipts: bool,
    /// That a card could not be charged.
    pub collections: bool,
    /// The code of a language of `texts`, for customers whose country does not determine it.
    pub language: String,
    /// The only recipients in test mode.
    pub test_recipients: Vec<String>,
}

/// The settings of an account; all off unless they were saved.
///
/// # Errors
/// Database errors only.
pub async fn settings(db: &PgPool, account: AccountId) -> Result<Settings> {
    let saved = sqlx::query_as!(
        Settings,
        "SELECT invoices, receipts, collections, language, test_recipients FROM mail_settings WHERE account_id = $1",
        account.uuid(),
    );
    let off = || Settings { language: "en".to_owned(), ..Settings::default() };
    Ok(saved.fetch_optional(db).await?.unwrap_or_else(off))
}

/// Replaces the settings of an account. They apply to events that follow.
///
/// # Errors
/// [`Error::Invalid`] for too many test recipients, or one that is not an address.
pub async fn save_settings(tx: &mut PgConnection, account: AccountId, settings: &Settings) -> Result<()> {
    let recipients = &settings.test_recipients;
    if recipients.len() > MAX_TEST_RECIPIENTS {
        return Err(Error::invalid("testRecipients", format!("at most {MAX_TEST_RECIPIENTS} addresses")));
    }
    if let Some(wrong) = recipients.iter().find(|address| !is_internet_email(address)) {
        return Err(Error::invalid("testRecipients", format!("{wrong} is not an e-mail address")));
    }
    sqlx::query!(
        "INSERT INTO mail_settings (account_id, invoices, receipts, collections, language, test_recipients)
         VALUES ($1, $2, $3, $4, $5, $6)
         ON CONFLICT (account_id) DO UPDATE SET invoices = excluded.invoices, receipts = excluded.receipts,
             collections = excluded.collections, language = excluded.language, test_recipients = excluded.test_recipients",
        account.uuid(),
        settings.invoices,
        settings.receipts,
        settings.collections,
        settings.language,
        &recipients[..],
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Whether a customer receives receipts, if the account sends them.
///
/// # Errors
/// Database errors only.
pub async fn wants_receipts(db: &PgPool, account: AccountId, customer: CustomerId) -> Result<bool> {
    let wants = sqlx::query_scalar!(
        r#"SELECT NOT EXISTS (SELECT FROM receipt_refusals WHERE account_id = $1 AND customer_id = $2) AS "wants!""#,
        account.uuid(),
        customer.uuid(),
    );
    Ok(wants.fetch_one(db).await?)
}

/// Stops receipts to a customer.
///
/// # Errors
/// Database errors only.
pub async fn stop_receipts(db: &PgPool, account: AccountId, customer: CustomerId) -> Result<()> {
    let refusal = sqlx::query!(
        "INSERT INTO receipt_refusals (account_id, customer_id) VALUES ($1, $2) ON CONFLICT DO NOTHING",
        account.uuid(),
        customer.uuid(),
    );
    refusal.execute(db).await?;
    Ok(())
}

/// Sends receipts to a customer again.
///
/// # Errors
/// Database errors only.
pub async fn resume_receipts(db: &PgPool, account: AccountId, customer: CustomerId) -> Result<()> {
    let refusal = sqlx::query!(
        "DELETE FROM receipt_refusals WHERE account_id = $1 AND customer_id = $2",
        account.uuid(),
        customer.uuid(),
    );
    refusal.execute(db).await?;
    Ok(())
}

/// The token of the page on which a customer stops receipts.
///
/// # Errors
/// Database errors only.
pub async fn customer_page(db: &PgPool, account: AccountId, customer: CustomerId) -> Result<String> {
    let token = sqlx::query_scalar!(
        "SELECT token FROM customer_pages WHERE account_id = $1 AND customer_id = $2",
        account.uuid(),
        customer.uuid(),
    );
    if let Some(token) = token.fetch_optional(db).await? {
        return Ok(token);
    }
    // The token of another process that was faster is kept.
    let token = sqlx::query_scalar!(
        "INSERT INTO customer_pages (account_id, customer_id, token) VALUES ($1, $2, $3)
         ON CONFLICT (account_id, customer_id) DO UPDATE SET token = customer_pages.token RETURNING token",
        account.uuid(),
        customer.uuid(),
        random_hex(PAGE_TOKEN_BYTES),
    );
    Ok(token.fetch_one(db).await?)
}

/// The customer of a page, with the account.
///
/// # Errors
/// [`Error::NotFound`] for an unknown token.
pub async fn customer_of_page(db: &PgPool, token: &str) -> Result<(AccountId, CustomerId)> {
    let page = sqlx::query!(
        r#"SELECT account_id AS "account_id: AccountId", customer_id AS "customer_id: CustomerId"
           FROM customer_pages WHERE token = $1"#,
        token,
    );
    let page = page.fetch_optional(db).await?.ok_or_else(|| Error::no_such("page", ""))?;
    Ok((page.account_id, page.customer_id))
}

/// The data of an e-mail's text, beside the page of its invoice or its payment.
#[derive(Clone, Debug)]
pub struct Content {
    /// The token of the invoice's page; `None` if it is about a payment.
    pub page_token: Option<String>,
    pub payment_id: Option<PaymentId>,
    pub customer_id: CustomerId,
    /// Why its last collection failed.
    pub decline_code: Option<String>,
    /// Whether the last collection sent nothing to the provider, because there was no card or it would have been refused.
    pub is_unsent: bool,
    /// Whether there is a card that a collection charges.
    pub has_card: bool,
    /// The customer's e-mail address.
    pub email: String,
    /// The country of the customer's default billing address.
    pub country: Option<Country>,
    /// The account's language.
    pub language: String,
    pub test_recipients: Vec<String>,
    /// Whether the account has sent as many as it may in a day in test mode.
    pub is_test_limit_reached: bool,
    /// Whether the customer wants no receipts.
    pub refuses_receipts: bool,
    /// Whether the event was too long ago, or there is a later one of its type about the invoice or payment.
    pub is_out_of_date: bool,
}

/// The data of the text of an e-mail; `None` if the event is past its retention, or the customer was deleted.
///
/// # Errors
/// Database errors only.
pub async fn content(db: &PgPool, account: AccountId, event: EventId) -> Result<Option<Content>> {
    let event = sqlx::query!(
        r#"SELECT event_object_id(e.payload) AS object_id,
               substring(e.payload::jsonb #>> '{data,object,url}' FROM '[0-9a-f]+$') AS page_token,
               e.created_at < clock_timestamp() - make_interval(secs => $3) OR e.id < ANY (ARRAY (
                   SELECT n.id FROM events n WHERE n.account_id = $1 AND n.type = e.type
                       AND event_object_id(n.payload) = event_object_id(e.payload))) AS "is_out_of_date!"
           FROM events e WHERE e.account_id = $1 AND e.id = $2"#,
        account.uuid(),
        event.uuid(),
        TIMELY.as_secs_f64(),
    );
    let Some(event) = event.fetch_optional(db).await? else { return Ok(None) };
    let payment = event.object_id.and_then(|id| id.parse::<PaymentId>().ok());
    let content = sqlx::query_as!(
        Content,
        r#"SELECT i.page_token AS "page_token?", p.id AS "payment_id?: PaymentId", c.id AS "customer_id!: CustomerId", c.email AS "email!", b.country AS "country?: Country", s.language, s.test_recipients,
               (SELECT decline_code FROM collection_attempts WHERE account_id = $1 AND invoice_id = i.id
                ORDER BY number DESC LIMIT 1) AS decline_code,
               coalesce((SELECT payment_id IS NULL FROM collection_attempts WHERE account_id = $1 AND invoice_id = i.id
                         ORDER BY number DESC LIMIT 1), false) AS "is_unsent!",
               coalesce(i.collect_payment_method_id, c.default_payment_method_id) IS NOT NULL AS "has_card!",
               (SELECT count(*) FROM (SELECT FROM mails
                WHERE (account_id, ended_at) > ($1, (SELECT clock_timestamp() - interval '1 day')) AND account_id <= $1
                  AND outcome = 'sent' AND kind <> 'invitation' LIMIT $4) AS sent) >= $4 AS "is_test_limit_reached!",
               EXISTS (SELECT FROM receipt_refusals WHERE account_id = $1 AND customer_id = c.id) AS "refuses_receipts!",
               $5::boolean AS "is_out_of_date!"
           FROM mail_settings s
           LEFT JOIN invoices i ON i.page_token = $2
           LEFT JOIN payments p ON p.account_id = $1 AND p.id = $3
           JOIN customers c ON c.account_id = $1 AND c.id = coalesce(i.customer_id, p.customer_id) AND c.deleted_at IS NULL
           LEFT JOIN addresses b ON b.account_id = $1 AND b.id = c.default_billing_address_id
           WHERE s.account_id = $1"#,
        account.uuid(),
        event.page_token.as_deref(),
        payment.map(PaymentId::uuid),
        MAX_TEST_MAILS,
        event.is_out_of_date,
    );
    Ok(content.fetch_optional(db).await?)
}
