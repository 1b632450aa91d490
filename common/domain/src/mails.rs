//! E-mails to customers: which an account sends, and those that wait. An e-mail is written with the event that it is
//! about, in one transaction, and names only the event; text and recipient are read when it is sent. Those of invitations
//! to the portal are written with the invitation.

use std::time::Duration;

use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use foundation::country::Country;
use foundation::crypto::{KeyRing, Place, Secret, random_hex};
use foundation::email::is_internet_email;
use foundation::error::{Error, Result};
use foundation::id::{AccountId, CustomerId, EventId, InvitationId, PaymentId};

/// The languages of e-mails, by their codes.
pub const LANGUAGES: [&str; 5] = ["de", "en", "es", "fr", "ja"];
/// The most addresses that receive e-mails in test mode.
pub const MAX_TEST_RECIPIENTS: usize = 20;
/// How long a claim lasts, which is longer than sending takes.
const CLAIM: Duration = Duration::from_secs(120);
/// How long an e-mail that has ended is kept.
const KEPT: Duration = Duration::from_secs(30 * 86_400);
/// How long after its event an e-mail may be sent: longer than all attempts take.
const TIMELY: Duration = Duration::from_secs(2 * 86_400);
/// The most e-mails that an account sends in a day in test mode.
const MAX_TEST_MAILS: i64 = 100;
/// Of the token of a customer's page.
const PAGE_TOKEN_BYTES: usize = 20;

/// What an e-mail is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, sqlx::Type)]
#[sqlx(type_name = "text", rename_all = "snake_case")]
pub enum Kind {
    /// An invoice was issued.
    Invoice,
    /// An invoice was paid, or a customer's payment of no invoice and no link captured.
    Receipt,
    /// A card could not be charged for an invoice.
    CollectionFailed,
    /// A person was invited to the portal.
    Invitation,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::Invoice, Self::Receipt, Self::CollectionFailed, Self::Invitation];

    /// As stored, and in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Invoice => "invoice",
            Self::Receipt => "receipt",
            Self::CollectionFailed => "collection_failed",
            Self::Invitation => "invitation",
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
    /// One of [`LANGUAGES`], for customers whose country does not tell it.
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
/// [`Error::Invalid`] for an unknown language, too many test recipients, or one that is not an address.
pub async fn save_settings(tx: &mut PgConnection, account: AccountId, settings: &Settings) -> Result<()> {
    if !LANGUAGES.contains(&settings.language.as_str()) {
        return Err(Error::invalid("language", format!("must be one of {}", LANGUAGES.join(", "))));
    }
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

/// Where the link of an invitation's e-mail is stored.
pub fn link_place(account: AccountId, invitation: InvitationId) -> Place {
    Place::new("mails.link", account, invitation)
}

/// Writes the e-mail of an invitation, in the transaction of the invitation, which was made in this account. The link is
/// sealed, and is removed when the e-mail has ended.
///
/// # Errors
/// Database errors only.
pub async fn write_invitation(
    tx: &mut PgConnection,
    encryption: &KeyRing,
    account: AccountId,
    invitation: InvitationId,
    link: &Secret<String>,
) -> Result<()> {
    let sealed = encryption.seal(link.expose(), &link_place(account, invitation));
    sqlx::query!(
        "INSERT INTO mails (id, account_id, kind, due_at, link) VALUES ($1, $2, 'invitation', clock_timestamp(), $3)",
        invitation.uuid(),
        account.uuid(),
        sealed,
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// The token of the page on which a customer stops receipts.
///
/// # Errors
/// Database errors only.
pub async fn customer_page(db: &PgPool, account: AccountId, customer: CustomerId) -> Result<String> {
    let new = sqlx::query!(
        "INSERT INTO customer_pages (account_id, customer_id, token) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
        account.uuid(),
        customer.uuid(),
        random_hex(PAGE_TOKEN_BYTES),
    );
    new.execute(db).await?;
    let token = sqlx::query_scalar!(
        "SELECT token FROM customer_pages WHERE account_id = $1 AND customer_id = $2",
        account.uuid(),
        customer.uuid(),
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

/// An e-mail that this process has claimed.
#[derive(Clone, Debug)]
pub struct Due {
    /// Of the event or the invitation.
    pub id: Uuid,
    pub account_id: AccountId,
    pub kind: Kind,
    /// Including this one.
    pub attempts: i32,
    /// The sealed link of an invitation.
    link: Option<Vec<u8>>,
}

impl Due {
    /// The public id of what it is about.
    pub fn about(&self) -> String {
        match self.kind {
            Kind::Invoice | Kind::Receipt | Kind::CollectionFailed => EventId::from_uuid(self.id).to_string(),
            Kind::Invitation => InvitationId::from_uuid(self.id).to_string(),
        }
    }

    /// The link of an invitation.
    ///
    /// # Errors
    /// [`Error::Internal`] if it cannot be decrypted.
    pub fn link(&self, encryption: &KeyRing) -> Result<Secret<String>> {
        let place = link_place(self.account_id, InvitationId::from_uuid(self.id));
        let link = self.link.as_deref().and_then(|sealed| encryption.open(sealed, &place));
        link.ok_or_else(|| Error::internal("the link of an invitation cannot be decrypted"))
    }
}

/// Claims due e-mails, of the kinds that this build knows, for two minutes. If that process dies, another one then claims
/// them.
///
/// # Errors
/// Database errors only.
pub async fn claim(db: &PgPool, limit: i64) -> Result<Vec<Due>> {
    let due = sqlx::query_as!(
        Due,
        r#"UPDATE mails SET attempts = attempts + 1, reason = NULL, due_at = clock_timestamp() + make_interval(secs => $2)
           WHERE id = ANY (ARRAY (SELECT id FROM mails WHERE due_at <= statement_timestamp() AND kind = ANY ($3)
               ORDER BY due_at LIMIT $1 FOR NO KEY UPDATE SKIP LOCKED))
           RETURNING id, account_id AS "account_id: AccountId", kind AS "kind: Kind", attempts, link"#,
        limit,
        CLAIM.as_secs_f64(),
        &Kind::ALL.map(|kind| kind.name().to_owned()) as &[String],
    );
    Ok(due.fetch_all(db).await?)
}

/// What an e-mail's text is made of, beside the page of its invoice or its payment.
#[derive(Clone, Debug)]
pub struct Content {
    /// The token of the invoice's page; `None` if it is about a payment.
    pub page_token: Option<String>,
    pub payment_id: Option<PaymentId>,
    pub customer_id: CustomerId,
    /// Why its last collection failed.
    pub decline_code: Option<String>,
    /// Whether there is a card that a collection charges.
    pub has_card: bool,
    /// Of the customer.
    pub email: String,
    /// Of the customer's default billing address.
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

/// What the text of an e-mail is made of; `None` if the event is past its retention, or the customer was deleted.
///
/// # Errors
/// Database errors only.
pub async fn content(db: &PgPool, due: &Due) -> Result<Option<Content>> {
    let object = sqlx::query_scalar!(
        "SELECT event_object_id(payload) FROM events WHERE account_id = $1 AND id = $2",
        due.account_id.uuid(),
        due.id,
    );
    let object = object.fetch_optional(db).await?.flatten();
    let payment = object.and_then(|id| id.parse::<PaymentId>().ok());
    let content = sqlx::query_as!(
        Content,
        r#"SELECT i.page_token AS "page_token?", p.id AS "payment_id?: PaymentId", c.id AS "customer_id!: CustomerId", c.email AS "email!", b.country AS "country?: Country", s.language, s.test_recipients,
               (SELECT decline_code FROM collection_attempts WHERE account_id = $1 AND invoice_id = i.id
                ORDER BY number DESC LIMIT 1) AS decline_code,
               coalesce(i.collect_payment_method_id, c.default_payment_method_id) IS NOT NULL AS "has_card!",
               (SELECT count(*) FROM (SELECT FROM mails WHERE account_id = $1 AND outcome = 'sent'
                AND kind <> 'invitation' AND ended_at > clock_timestamp() - interval '1 day' LIMIT $4) AS sent) >= $4 AS "is_test_limit_reached!",
               EXISTS (SELECT FROM receipt_refusals WHERE account_id = $1 AND customer_id = c.id) AS "refuses_receipts!",
               e.created_at < clock_timestamp() - make_interval(secs => $3) OR e.id < ANY (ARRAY (
                   SELECT n.id FROM events n WHERE n.account_id = $1 AND n.type = e.type
                       AND event_object_id(n.payload) = event_object_id(e.payload))) AS "is_out_of_date!"
           FROM events e
           LEFT JOIN invoices i ON i.page_token = substring(e.payload::jsonb #>> '{data,object,url}' FROM '[0-9a-f]+$')
           LEFT JOIN payments p ON p.account_id = $1 AND p.id = $5
           JOIN customers c ON c.account_id = $1 AND c.id = coalesce(i.customer_id, p.customer_id) AND c.deleted_at IS NULL
           JOIN mail_settings s ON s.account_id = $1
           LEFT JOIN addresses b ON b.account_id = $1 AND b.id = c.default_billing_address_id
           WHERE e.account_id = $1 AND e.id = $2"#,
        due.account_id.uuid(),
        due.id,
        TIMELY.as_secs_f64(),
        MAX_TEST_MAILS,
        payment.map(PaymentId::uuid),
    );
    Ok(content.fetch_optional(db).await?)
}

/// What came of an attempt.
#[derive(Clone, Debug)]
pub enum Attempted {
    Sent,
    /// It is not to be sent, for this reason.
    NotSent(&'static str),
    /// It cannot be sent yet, for this reason, and is to be tried again after this time.
    NotYet(&'static str, Duration),
    /// It failed for this reason, and the next attempt is due after this time; `None` if there is none.
    Failed(String, Option<Duration>),
}

/// Records what came of a claimed e-mail, unless another process has claimed it since.
///
/// # Errors
/// Database errors only.
pub async fn record(db: &PgPool, due: &Due, attempted: &Attempted) -> Result<()> {
    let (outcome, reason, retry) = match attempted {
        Attempted::Sent => (Some("sent"), None, None),
        Attempted::NotSent(reason) => (Some("not_sent"), Some(*reason), None),
        Attempted::NotYet(reason, wait) => (None, Some(*reason), Some(wait.as_secs_f64())),
        Attempted::Failed(reason, None) => (Some("failed"), Some(reason.as_str()), None),
        Attempted::Failed(reason, Some(wait)) => (None, Some(reason.as_str()), Some(wait.as_secs_f64())),
    };
    sqlx::query!(
        "UPDATE mails SET outcome = $3, reason = $4, due_at = clock_timestamp() + make_interval(secs => $5),
             ended_at = CASE WHEN $3::text IS NOT NULL THEN clock_timestamp() END,
             link = CASE WHEN $3::text IS NULL THEN link END
         WHERE id = $1 AND attempts = $2 AND outcome IS NULL",
        due.id,
        due.attempts,
        outcome,
        reason,
        retry,
    )
    .execute(db)
    .await?;
    Ok(())
}

/// How many seconds the oldest due e-mail waits; 0 without one.
///
/// # Errors
/// Database errors only.
pub async fn oldest_due_seconds(db: &PgPool) -> Result<f64> {
    let seconds = sqlx::query_scalar!(
        r#"SELECT greatest(extract(epoch FROM clock_timestamp() - min(due_at)), 0)::float8 AS "seconds"
           FROM mails WHERE due_at IS NOT NULL"#
    );
    Ok(seconds.fetch_one(db).await?.unwrap_or(0.0))
}

/// Deletes at most `limit` e-mails that ended long ago, and as many that no worker has claimed until it was too late to
/// send them. Returns how many.
///
/// # Errors
/// Database errors only.
pub async fn delete_ended(db: &PgPool, limit: i64) -> Result<u64> {
    let deleted = sqlx::query!(
        "DELETE FROM mails WHERE id = ANY (
             ARRAY(SELECT id FROM mails WHERE ended_at < clock_timestamp() - make_interval(secs => $1)
                   ORDER BY ended_at LIMIT $2 FOR UPDATE SKIP LOCKED)
             || ARRAY(SELECT id FROM mails WHERE due_at < clock_timestamp() - make_interval(secs => $3)
                      ORDER BY due_at LIMIT $2 FOR UPDATE SKIP LOCKED))",
        KEPT.as_secs_f64(),
        limit,
        TIMELY.as_secs_f64(),
    );
    Ok(deleted.execute(db).await?.rows_affected())
}
