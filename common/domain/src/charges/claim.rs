//! Claims: a worker takes an operation until its lease ends, and sends its request.

use std::collections::HashMap;
use std::time::Duration;

use sqlx::{PgConnection, PgPool};

use crate::accounts::{AccountTime, Mode};
use crate::operations::{LEASE, Origin, REQUEST_LIFETIME, STOPPED_AFTER, Subject};
use crate::payments::{Payment, Status};
use foundation::crypto::Secret;
use foundation::db::column;
use foundation::error::{Error, Result};
use foundation::id::{
    AccountId, CustomerId, InvoiceId, OperationId, PaymentId, PaymentLinkId, PaymentMethodId, ProviderAccountId,
    RefundId,
};
use foundation::merchant_data::{ExternalId, Metadata};
use foundation::money::{Currency, Money};
use foundation::public_url;
use foundation::time::Timestamp;
use providers::{Action, OperationKind, PROVIDER_TIMEOUT, Payer, ProviderKind, Request, Source};

/// An operation that this worker holds until its lease ends.
#[derive(Debug)]
pub struct Claimed {
    pub id: OperationId,
    pub account_id: AccountId,
    pub mode: Mode,
    pub time: AccountTime,
    pub provider_account_id: ProviderAccountId,
    pub provider: ProviderKind,
    pub subject: Subject,
    /// The payment that it charges, as it was then, if it awaited an outcome.
    pub payment: Option<Payment>,
    pub refund_id: Option<RefundId>,
    pub kind: OperationKind,
    /// The request to send, identical at every attempt.
    pub request: Request,
    /// The token in our URL of a challenge; `None` if no cardholder is present.
    pub action_token: Option<String>,
    pub origin: Origin,
    /// The fencing token of this claim.
    pub fence: i64,
    /// Whether a request may already have been sent: if so, the provider's recovery class decides how to continue.
    pub sent_before: bool,
    /// Number of look-ups that found nothing, counting only those made when no earlier request could still arrive.
    pub not_found: i32,
    /// Whether the last request sent can no longer have an effect.
    pub last_request_expired: bool,
    /// Whether no client waits for it.
    pub background: bool,
    /// Whether the system itself created it.
    pub by_system: bool,
    /// How often in a row it was not processed.
    pub not_processed: i32,
    /// Time since it was inserted.
    pub age: Duration,
    /// Time since a request that may have had an effect was first sent.
    pub sent_for: Duration,
    /// Whether the provider account has a breaker row, because requests were recently not processed.
    pub has_breaker: bool,
    /// Whether it charges a saved card, and no first request may be sent any more: its collection was stopped, or the card
    /// detached.
    pub is_stopped: bool,
}

impl Claimed {
    /// The payment that it charges; `None` for any other operation.
    pub fn charged_payment(&self) -> Option<PaymentId> {
        self.subject.payment().filter(|_| matches!(self.kind, OperationKind::Sale | OperationKind::Authorize))
    }
}

/// A claimed row, before it is converted to a request. No column may fail to be decoded: all rows of the statement are
/// claimed by then, and would be leased to nobody. What another release may write differently is text here.
pub(super) struct ClaimedRow {
    id: OperationId,
    account_id: AccountId,
    mode: String,
    payment_id: Option<PaymentId>,
    payment_method_id: Option<PaymentMethodId>,
    refund_id: Option<RefundId>,
    provider_account_id: ProviderAccountId,
    provider: ProviderKind,
    kind: OperationKind,
    reference: String,
    amount: Option<i64>,
    currency: Option<String>,
    upstream_token: Option<String>,
    card_ref: Option<String>,
    target_ref: Option<String>,
    reply_to: Option<String>,
    request_id: Option<String>,
    payer_address: Option<String>,
    action_token: Option<String>,
    fence: i64,
    not_found: i32,
    sent_before: bool,
    last_request_expired: bool,
    has_clock: bool,
    valid_until: Timestamp,
    now: Timestamp,
    background: bool,
    by_system: bool,
    not_processed: i32,
    age_seconds: f64,
    sent_for_seconds: f64,
    has_breaker: bool,
    is_stopped: bool,
    // The payment that it charges. All are NULL if it awaits no outcome, and of any other operation.
    p_version: Option<i64>,
    p_status: Option<Status>,
    p_capture: Option<bool>,
    p_created_at: Option<Timestamp>,
    p_customer_id: Option<CustomerId>,
    p_payment_method_id: Option<PaymentMethodId>,
    p_invoice_id: Option<InvoiceId>,
    p_payment_link_id: Option<PaymentLinkId>,
    p_amount_requested: Option<i64>,
    p_amount: Option<i64>,
    p_amount_base: Option<i64>,
    p_amount_surcharge: Option<i64>,
    p_amount_tax: Option<i64>,
    p_amount_tip: Option<i64>,
    p_card_brand: Option<String>,
    p_card_last4: Option<String>,
    p_card_exp_month: Option<i16>,
    p_card_exp_year: Option<i16>,
    p_inquiry_at: Option<Timestamp>,
    p_action_token: Option<String>,
    p_challenge_url: Option<String>,
    p_description: Option<String>,
    p_metadata: Option<String>,
    p_external_id: Option<ExternalId>,
}

/// The columns shared by claim and read. They are listed, because a column that is added later could have the name of a
/// computed one. The payment's columns are only those that may change while it awaits an outcome.
macro_rules! select_claimed {
    ($claimed:literal, $computed:literal, $($arg:expr),* $(,)?) => {
        sqlx::query_as!(
            ClaimedRow,
            $claimed + r#" o.id, o.account_id, o.payment_id, o.payment_method_id, o.refund_id, o.provider_account_id, o.kind,
               o.reference, o.amount, o.currency, o.card_ref, o.target_ref, o.reply_to, o.request_id, o.payer_address,
               o.action_token, o.fence, o.not_found, o.background, o.by_system, o.not_processed, o.created_at,
               o.first_sent_at, "# + $computed + r#"
           SELECT o.id AS "id!: OperationId", o.account_id AS "account_id!: AccountId",
               (SELECT a.mode::text FROM accounts a WHERE a.id = o.account_id) AS "mode!",
               o.payment_id AS "payment_id?: PaymentId", o.payment_method_id AS "payment_method_id?: PaymentMethodId",
               o.refund_id AS "refund_id?: RefundId", o.provider_account_id AS "provider_account_id!: ProviderAccountId",
               o.provider AS "provider!", o.kind AS "kind!", o.reference AS "reference!", o.amount AS "amount?",
               o.currency AS "currency?: String", o.token AS "upstream_token?", o.card_ref AS "card_ref?",
               o.target_ref AS "target_ref?", o.reply_to AS "reply_to?", o.request_id AS "request_id?",
               o.payer_address AS "payer_address?", o.action_token AS "action_token?", o.fence AS "fence!",
               o.not_found AS "not_found!", o.sent_before AS "sent_before!", o.last_request_expired AS "last_request_expired!",
               o.valid_until AS "valid_until!", o.account_time AS "now!", o.background AS "background!", o.by_system AS "by_system!",
               EXISTS (SELECT 1 FROM test_clocks t WHERE t.account_id = o.account_id) AS "has_clock!",
               o.not_processed AS "not_processed!",
               extract(epoch FROM clock_timestamp() - o.created_at)::float8 AS "age_seconds!",
               coalesce(extract(epoch FROM clock_timestamp() - o.first_sent_at), 0)::float8 AS "sent_for_seconds!",
               o.has_breaker AS "has_breaker!", o.is_stopped AS "is_stopped!",
               p.version AS "p_version?", p.status AS "p_status?", p.capture AS "p_capture?", p.created_at AS "p_created_at?",
               p.customer_id AS "p_customer_id?: CustomerId", p.payment_method_id AS "p_payment_method_id?: PaymentMethodId",
               p.invoice_id AS "p_invoice_id?: InvoiceId", p.payment_link_id AS "p_payment_link_id?: PaymentLinkId",
               p.amount_requested AS "p_amount_requested?", p.amount AS "p_amount?", p.amount_base AS "p_amount_base?",
               p.amount_surcharge AS "p_amount_surcharge?", p.amount_tax AS "p_amount_tax?", p.amount_tip AS "p_amount_tip?",
               p.card_brand AS "p_card_brand?", p.card_last4 AS "p_card_last4?", p.card_exp_month AS "p_card_exp_month?",
               p.card_exp_year AS "p_card_exp_year?", p.inquiry_at AS "p_inquiry_at?", p.action_token AS "p_action_token?",
               p.challenge_url AS "p_challenge_url?", p.description AS "p_description?", p.metadata::text AS "p_metadata?",
               p.external_id AS "p_external_id?: ExternalId"
           FROM claimed o
           LEFT JOIN LATERAL (
               SELECT * FROM payments y
               WHERE y.account_id = o.account_id AND y.id = o.payment_id AND o.kind IN ('sale', 'authorize')
                 AND y.status IN ('processing', 'requires_action') LIMIT 1) p ON true"#,
            $($arg),*
        )
    };
}

impl ClaimedRow {
    /// The payment that it charges, which has the operation's account, provider account and currency. `None` also if this
    /// release cannot read its metadata: then a transaction writes the outcome.
    fn take_payment(&mut self, mode: Mode, currency: Currency) -> Option<Payment> {
        let metadata = match self.p_metadata.take() {
            Some(text) => Some(Metadata::from_json(&text)?),
            None => None,
        };
        Some(Payment {
            id: self.payment_id?,
            account_id: self.account_id,
            mode,
            provider_account_id: self.provider_account_id,
            customer_id: self.p_customer_id,
            payment_method_id: self.p_payment_method_id,
            invoice_id: self.p_invoice_id,
            payment_link_id: self.p_payment_link_id,
            status: self.p_status?,
            settled: false,
            capture: self.p_capture?,
            currency,
            amount_requested: self.p_amount_requested?,
            amount: self.p_amount?,
            amount_captured: 0,
            amount_refunded: 0,
            amount_refund_pending: 0,
            amount_disputed: 0,
            amount_base: self.p_amount_base,
            amount_surcharge: self.p_amount_surcharge,
            amount_tax: self.p_amount_tax,
            amount_tip: self.p_amount_tip,
            card_brand: self.p_card_brand.take(),
            card_last4: self.p_card_last4.take(),
            card_exp_month: self.p_card_exp_month,
            card_exp_year: self.p_card_exp_year,
            decline_code: None,
            decline_type: None,
            provider_ref: None,
            created_at: self.p_created_at?,
            captured_at: None,
            inquiry_at: self.p_inquiry_at,
            inquiry_requests: 0,
            pending_operation: None,
            has_refunds: false,
            action_token: self.p_action_token.take(),
            challenge_url: self.p_challenge_url.take(),
            failure_code: None,
            charge_return: None,
            description: self.p_description.take(),
            metadata,
            external_id: self.p_external_id.take(),
            version: self.p_version?,
        })
    }

    pub(super) fn into_claimed(mut self) -> Result<Claimed> {
        let subject = match (self.payment_id, self.payment_method_id) {
            (Some(id), None) => Subject::Payment(id),
            (None, Some(id)) => Subject::PaymentMethod(id),
            _ => return Err(Error::internal(format!("{} has no payment and no payment method", self.id))),
        };
        let money = match self.amount.zip(self.currency.take()) {
            Some((amount, currency)) => {
                let unknown = |_| Error::internal(format!("{} has the unknown currency {currency}", self.id));
                Some((amount, currency.parse().map_err(unknown)?))
            }
            None => None,
        };
        let mode = Mode::ALL.into_iter().find(|mode| mode.name() == self.mode);
        let mode = mode.ok_or_else(|| Error::internal(format!("the account of {} has an unknown mode", self.id)))?;
        let payment = money.and_then(|(_, currency)| self.take_payment(mode, currency));
        let action = action(self.kind, money, self.upstream_token, self.card_ref, self.target_ref)
            .ok_or_else(|| Error::internal(format!("{} lacks a column that its kind requires", self.id)))?;
        let request = Request {
            account: self.provider_account_id,
            reference: self.reference,
            action,
            now: self.now,
            return_url: self.action_token.as_deref().map(return_url),
            payer: None,
            payer_address: self.payer_address,
            valid_until: self.valid_until,
        };
        Ok(Claimed {
            id: self.id,
            account_id: self.account_id,
            mode,
            time: AccountTime::new(self.account_id, self.has_clock),
            provider_account_id: self.provider_account_id,
            provider: self.provider,
            subject,
            payment,
            refund_id: self.refund_id,
            kind: self.kind,
            request,
            action_token: self.action_token,
            origin: Origin { reply_to: self.reply_to, request_id: self.request_id, ..Origin::default() },
            fence: self.fence,
            sent_before: self.sent_before,
            not_found: self.not_found,
            last_request_expired: self.last_request_expired,
            background: self.background,
            by_system: self.by_system,
            not_processed: self.not_processed,
            age: Duration::from_secs_f64(self.age_seconds.max(0.0)),
            sent_for: Duration::from_secs_f64(self.sent_for_seconds.max(0.0)),
            has_breaker: self.has_breaker,
            is_stopped: self.is_stopped,
        })
    }
}

/// Our URL to which the cardholder returns after a challenge.
pub fn return_url(action_token: &str) -> String {
    public_url::of(format_args!("/pay/a/{action_token}/return"))
}

/// Claims the rows of these kinds that are not finished, leased, or locked by another transaction. Leaves out those of a
/// provider that this build does not know, and changes of a payment that already has one in progress. `now` is the
/// system's time; each request carries its account's.
///
/// A stopped charge stays `ready`: if its worker dies, the next claim finds it stopped again, and nothing sent.
///
/// Rows are claimed in the order of their payments, because of `operations_one_in_flight`: two statements that claim
/// refunds of the same payments must not wait for each other.
pub(super) async fn claim_rows(
    db: &mut PgConnection,
    ids: &[OperationId],
    kinds: &[OperationKind],
    now: Timestamp,
) -> sqlx::Result<Vec<Option<ClaimedRow>>> {
    let rows = select_claimed!(
        r#"WITH candidate AS (
               SELECT o.id, o.state IN ('sending', 'unknown') AS sent_before,
                      coalesce(o.last_sent_at + make_interval(secs => $3) < clock_timestamp(), true) AS last_request_expired,
                      p.provider,
                      o.kind IN ('sale', 'authorize') AND o.card_ref IS NOT NULL AND EXISTS (
                          SELECT FROM payments y JOIN payment_methods m ON m.id = y.payment_method_id LEFT JOIN invoices i ON i.id = y.invoice_id
                          WHERE y.id = o.payment_id AND (m.detached_at IS NOT NULL OR o.background AND i.series_failures >= $8)) AS is_stopped
               FROM operations o JOIN provider_accounts p ON p.id = o.provider_account_id
               WHERE o.id = ANY ($1) AND o.finished_at IS NULL
                 AND (o.lease_until IS NULL OR o.lease_until < clock_timestamp())
                 AND o.kind = ANY ($6) AND p.provider = ANY ($7)
                 AND NOT (o.kind IN ('capture', 'void', 'refund') AND EXISTS (
                     SELECT FROM operations b
                     WHERE b.account_id = o.account_id AND b.payment_id = o.payment_id AND b.id <> o.id
                       AND b.kind IN ('capture', 'void', 'refund')
                       AND (b.state IN ('sending', 'unknown')
                            OR (o.state = 'ready' AND b.state = 'ready' AND b.id = ANY ($1) AND b.id < o.id))))
               ORDER BY o.payment_id
               FOR NO KEY UPDATE OF o SKIP LOCKED),
           claimed AS (
               UPDATE operations o SET
                   state = CASE WHEN c.sent_before THEN 'unknown' WHEN c.is_stopped THEN 'ready' ELSE 'sending' END::operation_state,
                   fence = o.fence + 1,
                   lease_until = clock_timestamp() + make_interval(secs => $2),
                   next_push_at = clock_timestamp() + make_interval(secs => $2 + 1),
                   first_sent_at = CASE WHEN c.sent_before THEN coalesce(o.first_sent_at, clock_timestamp())
                                        WHEN c.is_stopped THEN o.first_sent_at ELSE clock_timestamp() END,
                   last_sent_at = CASE WHEN c.sent_before OR c.is_stopped THEN o.last_sent_at ELSE clock_timestamp() END
               FROM candidate c
               WHERE o.id = c.id
               RETURNING"#,
        r#"o.upstream_token AS token, c.provider, c.sent_before, c.last_request_expired, c.is_stopped,
                   clock_timestamp() + make_interval(secs => $5) AS valid_until, account_now(o.account_id, $4) AS account_time,
                   EXISTS (SELECT 1 FROM provider_breakers b WHERE b.provider_account_id = o.provider_account_id) AS has_breaker)"#,
        &column(ids, |id| id.uuid()),
        LEASE.as_secs_f64(),
        (PROVIDER_TIMEOUT + REQUEST_LIFETIME).as_secs_f64(),
        now,
        PROVIDER_TIMEOUT.as_secs_f64(),
        kinds as &[OperationKind],
        &ProviderKind::ALL as &[ProviderKind],
        STOPPED_AFTER,
    )
    .fetch_all(db)
    .await?;
    // If two callers have the same id, the first gets the row.
    let mut rows: HashMap<_, _> = rows.into_iter().map(|row| (row.id, row)).collect();
    Ok(ids.iter().map(|id| rows.remove(id)).collect())
}

/// Reads an operation without claiming it, for an outcome that did not come from a request of a worker. The single-use
/// token is deleted when the operation ends, so this may return an empty token: the request is never sent again.
///
/// # Errors
/// Database errors only.
pub async fn read(db: &PgPool, id: OperationId, now: Timestamp) -> Result<Claimed> {
    select_claimed!(
        "WITH claimed AS (SELECT",
        r#"CASE WHEN o.card_ref IS NULL THEN coalesce(o.upstream_token, '') END AS token, p.provider,
                   true AS sent_before, true AS last_request_expired, false AS is_stopped,
                   clock_timestamp() AS valid_until, account_now(o.account_id, $2) AS account_time, false AS has_breaker
               FROM operations o JOIN provider_accounts p ON p.id = o.provider_account_id WHERE o.id = $1)"#,
        id.uuid(),
        now,
    )
    .fetch_one(db)
    .await?
    .into_claimed()
}

/// Records that the request is about to be sent again, extends the lease, and renews the time until which the provider
/// may start it. As long as the fence matches, no other worker has claimed the operation, so the lease may be extended.
///
/// # Errors
/// [`Error::Conflict`] if the claim was lost.
pub async fn sending_again(db: &PgPool, claimed: &mut Claimed) -> Result<()> {
    let held = sqlx::query_scalar!(
        r#"UPDATE operations SET last_sent_at = clock_timestamp(), lease_until = clock_timestamp() + make_interval(secs => $3),
                next_push_at = clock_timestamp() + make_interval(secs => $3 + 1), not_found = 0
           WHERE id = $1 AND fence = $2 AND finished_at IS NULL
           RETURNING clock_timestamp() + make_interval(secs => $4) AS "valid_until!""#,
        claimed.id.uuid(),
        claimed.fence,
        LEASE.as_secs_f64(),
        PROVIDER_TIMEOUT.as_secs_f64(),
    )
    .fetch_optional(db)
    .await?;
    claimed.request.valid_until = held.ok_or_else(|| Error::conflict("the lease was lost"))?;
    Ok(())
}

/// Returns the payer of a payment: its customer, with the account's data for missing fields.
///
/// # Errors
/// Database errors only.
pub async fn payer(db: &PgPool, payment: PaymentId) -> Result<Payer> {
    Ok(sqlx::query_as!(
        Payer,
        r#"SELECT coalesce(c.email, a.email, 'unknown@payer.invalid') AS "email!", coalesce(c.name, a.name) AS "name!"
           FROM payments p JOIN accounts a ON a.id = p.account_id
           LEFT JOIN customers c
               ON c.account_id = p.account_id AND c.id = p.customer_id AND c.deleted_at IS NULL
           WHERE p.id = $1"#,
        payment.uuid()
    )
    .fetch_one(db)
    .await?)
}

/// Builds the provider request of an operation.
fn action(
    kind: OperationKind,
    money: Option<(i64, Currency)>,
    upstream_token: Option<String>,
    card_ref: Option<String>,
    target_ref: Option<String>,
) -> Option<Action> {
    let money = money.map(|(minor, currency)| Money { minor, currency });
    let token = upstream_token.map(Secret::new);
    Some(match kind {
        OperationKind::Sale | OperationKind::Authorize => {
            let source = match (token, card_ref) {
                (Some(token), None) => Source::Token(token),
                (None, Some(card)) => Source::Card(card),
                _ => return None,
            };
            Action::Charge { source, money: money?, capture: kind == OperationKind::Sale }
        }
        OperationKind::Capture => Action::Capture { charge: target_ref?, money: money? },
        OperationKind::Refund | OperationKind::ReverseByRefund => Action::Refund { charge: target_ref?, money: money? },
        OperationKind::Void | OperationKind::Reverse => Action::Void { charge: target_ref? },
        OperationKind::StoreCard => Action::StoreCard { token: token? },
    })
}
