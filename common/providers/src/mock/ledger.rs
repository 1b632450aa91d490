//! The mock's ledger of charges, captures, voids and refunds.
//!
//! Follow-ups, expiry and settlement lock the charge first, which serializes them.

use std::collections::HashSet;

use sqlx::{PgConnection, PgPool};

use super::{AUTHORIZATION_LIFETIME, CardBehavior, SETTLES_AFTER, disputes};
use crate::{
    Action, Booked, BookedKind, BookedState, ChargeStatus, Found, ProviderError, ProviderResponse, RecoveryClass,
    ReportedDispute, Request, Source,
};
use foundation::crypto::random_hex;
use foundation::db::{self, column};
use foundation::id::ProviderAccountId;
use foundation::money::{Currency, Money};
use foundation::time::Timestamp;

/// A ledger entry to write.
struct Entry<'a> {
    kind: &'static str,
    parent: Option<&'a str>,
    amount: i64,
    currency: &'a str,
    behavior: CardBehavior,
    approved: bool,
}

/// Executes a request, or repeats the first response to its reference.
pub(super) async fn record(
    db: &PgPool,
    request: &Request,
    class: RecoveryClass,
) -> Result<ProviderResponse, ProviderError> {
    let (what, charge) = match &request.action {
        Action::Charge { source, money, capture } => {
            return charge(&mut *db.acquire().await?, request, class, source, *money, *capture).await;
        }
        Action::StoreCard { token } => return store(&mut *db.acquire().await?, request, token.expose()).await,
        Action::Capture { charge, money } => (Follow::Capture(money.minor), charge),
        Action::Refund { charge, money } => (Follow::Refund(money.minor), charge),
        Action::Void { charge } => (Follow::Void, charge),
    };
    let mut tx = db::begin(db).await?;
    let response = follow(&mut tx, request, class, what, charge).await?;
    tx.commit().await?;
    Ok(response)
}

async fn charge(
    db: &mut PgConnection,
    request: &Request,
    class: RecoveryClass,
    source: &Source,
    money: Money,
    capture: bool,
) -> Result<ProviderResponse, ProviderError> {
    let Some(behavior) = behavior_of(db, request.account, source).await? else {
        return Ok(ProviderResponse::refused("no such token or card"));
    };
    let approval = behavior.authorize(money.minor);
    let entry = Entry {
        kind: if capture { "sale" } else { "authorize" },
        parent: None,
        amount: *approval.as_ref().unwrap_or(&money.minor),
        currency: money.currency.code(),
        behavior,
        approved: approval.is_ok(),
    };
    write(db, request, class, entry).await
}

/// A charge by a token or a saved card that the mock approves.
#[derive(Debug)]
pub(super) struct ApprovedCharge {
    id: String,
    account: ProviderAccountId,
    /// The saved card, if it is one. It is approved only if it has the same behavior.
    card: Option<String>,
    kind: &'static str,
    reference: String,
    amount: i64,
    currency: Currency,
    behavior: CardBehavior,
    occurred_at: Timestamp,
}

impl ApprovedCharge {
    pub(super) fn of(request: &Request) -> Option<Self> {
        let Action::Charge { source, money, capture } = &request.action else { return None };
        let (behavior, card) = match source {
            Source::Token(token) => (CardBehavior::of_token(token.expose())?, None),
            Source::Card(card) => (CardBehavior::Approves, Some(card.clone())),
        };
        Some(Self {
            id: format!("mock_{}", random_hex(12)),
            account: request.account,
            card,
            kind: if *capture { "sale" } else { "authorize" },
            reference: request.reference.clone(),
            amount: behavior.authorize(money.minor).ok()?,
            currency: money.currency,
            behavior,
            occurred_at: request.now,
        })
    }
}

/// Writes charges of accounts without configured faults in one statement. `None` for a charge that was not written,
/// because its account has faults, its reference was used before, or its card is not approved.
///
/// Written in one order, because a statement waits for a concurrent one that writes the same reference.
pub(super) async fn write_approved(
    db: &mut PgConnection,
    charges: &[ApprovedCharge],
) -> sqlx::Result<Vec<Option<ProviderResponse>>> {
    let written = sqlx::query_scalar!(
        "INSERT INTO mock.transactions (id, account, kind, reference, approved, amount, currency, nature, occurred_at, unique_reference)
         SELECT c.id, c.account, c.kind, c.reference, true, c.amount, c.currency, c.nature, c.occurred_at, c.reference
         FROM unnest($1::text[], $2::uuid[], $3::text[], $4::text[], $5::bigint[], $6::text[], $7::text[], $8::timestamptz[], $9::text[])
             AS c (id, account, kind, reference, amount, currency, nature, occurred_at, card)
         WHERE NOT EXISTS (SELECT 1 FROM mock.accounts a WHERE a.id = c.account
                           AND (latency_ms > 0 OR lose_answers > 0 OR refuse OR recovery_class <> 'A'))
           AND (c.card IS NULL OR EXISTS (SELECT 1 FROM mock.cards k WHERE k.id = c.card AND k.account = c.account AND k.nature = c.nature))
         ORDER BY c.account, c.reference
         ON CONFLICT (account, unique_reference) DO NOTHING
         RETURNING id",
        &column(charges, |charge| charge.id.as_str()) as _,
        &column(charges, |charge| charge.account.uuid()),
        &column(charges, |charge| charge.kind) as _,
        &column(charges, |charge| charge.reference.as_str()) as _,
        &column(charges, |charge| charge.amount),
        &column(charges, |charge| charge.currency.code()) as _,
        &column(charges, |charge| charge.behavior.token()) as _,
        &column(charges, |charge| charge.occurred_at) as &[Timestamp],
        &column(charges, |charge| charge.card.as_deref()) as _,
    )
    .fetch_all(db)
    .await?;
    let written: HashSet<_> = written.into_iter().collect();
    Ok(column(charges, |charge| {
        let written = written.contains(&charge.id);
        written.then(|| response(charge.id.clone(), charge.kind, true, charge.amount, charge.behavior))
    }))
}

async fn behavior_of(
    tx: &mut PgConnection,
    account: ProviderAccountId,
    source: &Source,
) -> Result<Option<CardBehavior>, ProviderError> {
    match source {
        Source::Token(token) => Ok(CardBehavior::of_token(token.expose())),
        Source::Card(card) => {
            let token = sqlx::query_scalar!(
                "SELECT nature FROM mock.cards WHERE id = $1 AND account = $2",
                card,
                account.uuid()
            )
            .fetch_optional(tx)
            .await?;
            Ok(token.and_then(|token| CardBehavior::of_token(&token)))
        }
    }
}

/// A follow-up of a charge, with its amount in minor units.
#[derive(Clone, Copy)]
enum Follow {
    Capture(i64),
    Refund(i64),
    Void,
}

/// A locked charge with the totals of its follow-ups.
struct Charge {
    kind: String,
    amount: i64,
    currency: Currency,
    behavior: String,
    occurred_at: Timestamp,
    settled: bool,
    expired: bool,
    voided: bool,
    captured: i64,
    captured_at: Option<Timestamp>,
    refunded: i64,
    disputes: Vec<ReportedDispute>,
}

async fn lock(
    tx: &mut PgConnection,
    account: ProviderAccountId,
    charge: &str,
    now: Timestamp,
) -> Result<Option<Charge>, ProviderError> {
    let row = sqlx::query!(
        r#"SELECT kind, amount, currency, nature, occurred_at, settled_at IS NOT NULL AS "settled!",
                  expired_at IS NOT NULL AS "expired!", voided_at IS NOT NULL AS "voided!"
           FROM mock.transactions
           WHERE id = $1 AND account = $2 AND approved AND kind IN ('sale', 'authorize') FOR NO KEY UPDATE"#,
        charge,
        account.uuid()
    )
    .fetch_optional(&mut *tx)
    .await?;
    let Some(row) = row else { return Ok(None) };
    // Read after the lock is taken, so no further follow-up can be added.
    let follows = sqlx::query!(
        r#"SELECT coalesce(sum(amount) FILTER (WHERE kind = 'capture'), 0)::bigint AS "captured!",
                  min(occurred_at) FILTER (WHERE kind = 'capture') AS captured_at,
                  coalesce(sum(amount) FILTER (WHERE kind = 'refund'), 0)::bigint AS "refunded!"
           FROM mock.transactions WHERE parent = $1"#,
        charge
    )
    .fetch_one(&mut *tx)
    .await?;
    let disputes = disputes::of_charge(tx, charge, now).await?;
    let sale = row.kind == "sale";
    Ok(Some(Charge {
        amount: row.amount,
        currency: row
            .currency
            .parse()
            .map_err(|_| ProviderError::Unknown("the mock's ledger contains an unknown currency".into()))?,
        behavior: row.nature,
        occurred_at: row.occurred_at,
        settled: row.settled,
        expired: row.expired,
        voided: row.voided,
        captured: if sale { row.amount } else { follows.captured },
        captured_at: if sale { Some(row.occurred_at) } else { follows.captured_at },
        refunded: follows.refunded,
        disputes,
        kind: row.kind,
    }))
}

const OPEN: ChargeStatus = ChargeStatus::Open { until: None };

impl Charge {
    /// The status at `now`, whether it has been written yet or not.
    fn status(&self, now: Timestamp) -> ChargeStatus {
        if self.voided {
            ChargeStatus::Voided
        } else if self.settled || self.captured_at.is_some_and(|at| at.plus(SETTLES_AFTER) <= now) {
            ChargeStatus::Settled
        } else if self.expired || (self.captured == 0 && self.occurred_at.plus(AUTHORIZATION_LIFETIME) <= now) {
            ChargeStatus::Expired
        } else {
            OPEN
        }
    }

    /// The amount that can still be refunded.
    fn left(&self) -> i64 {
        let disputed: i64 = self.disputes.iter().map(ReportedDispute::withdrawn).sum();
        self.captured - self.refunded - disputed
    }

    /// Why the mock refuses the follow-up; `None` if it does not.
    fn refuses(&self, follow: Follow, now: Timestamp) -> Option<&'static str> {
        let status = self.status(now);
        match follow {
            Follow::Capture(_) if self.kind == "sale" || self.captured > 0 => Some("already captured"),
            Follow::Capture(_) if status != OPEN => Some("the authorization has ended"),
            Follow::Capture(amount) if amount > self.amount => Some("exceeds the authorized amount"),
            Follow::Void if status != OPEN => Some("too late to void"),
            Follow::Void if self.refunded > 0 => Some("already refunded"),
            Follow::Refund(_) if status == ChargeStatus::Voided => Some("voided"),
            Follow::Refund(amount) if amount > self.left() => Some("exceeds what is left of the captured amount"),
            Follow::Capture(_) | Follow::Void | Follow::Refund(_) => None,
        }
    }
}

async fn follow(
    tx: &mut PgConnection,
    request: &Request,
    class: RecoveryClass,
    follow: Follow,
    charge_id: &str,
) -> Result<ProviderResponse, ProviderError> {
    let Some(charge) = lock(tx, request.account, charge_id, request.now).await? else {
        return Ok(ProviderResponse::refused("no such charge"));
    };
    // A repeated reference returns the first response, before the rules are evaluated.
    if class != RecoveryClass::Neither
        && let Found::Response(first) = find(tx, request).await?
    {
        return repeated(class, first);
    }
    if let Some(reason) = charge.refuses(follow, request.now) {
        return Ok(ProviderResponse::refused(reason));
    }
    let (kind, amount) = match follow {
        Follow::Capture(amount) => ("capture", amount),
        Follow::Refund(amount) => ("refund", amount),
        Follow::Void => ("void", charge.amount),
    };
    if matches!(follow, Follow::Void) {
        sqlx::query!("UPDATE mock.transactions SET voided_at = $2 WHERE id = $1", charge_id, request.now)
            .execute(&mut *tx)
            .await?;
    }
    let behavior = CardBehavior::of_token(&charge.behavior).unwrap_or(CardBehavior::Approves);
    let entry =
        Entry { kind, parent: Some(charge_id), amount, currency: charge.currency.code(), behavior, approved: true };
    write(tx, request, class, entry).await
}

async fn write(
    tx: &mut PgConnection,
    request: &Request,
    class: RecoveryClass,
    entry: Entry<'_>,
) -> Result<ProviderResponse, ProviderError> {
    let id = format!("mock_{}", random_hex(12));
    let unique_reference = (class != RecoveryClass::Neither).then_some(request.reference.as_str());
    let done = sqlx::query!(
        "INSERT INTO mock.transactions
            (id, account, kind, parent, reference, approved, decline_code, amount, currency, nature, occurred_at, unique_reference)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
         ON CONFLICT (account, unique_reference) DO NOTHING",
        id,
        request.account.uuid(),
        entry.kind,
        entry.parent,
        request.reference,
        entry.approved,
        (!entry.approved).then(|| entry.behavior.decline().code),
        entry.amount,
        entry.currency,
        entry.behavior.token(),
        request.now,
        unique_reference,
    )
    .execute(&mut *tx)
    .await?;
    if done.rows_affected() == 1 {
        return Ok(response(id, entry.kind, entry.approved, entry.amount, entry.behavior));
    }
    match find(tx, request).await? {
        Found::Response(first) => repeated(class, first),
        Found::Pending | Found::Nothing => Err(ProviderError::Unknown("the mock's ledger is inconsistent".into())),
    }
}

fn repeated(class: RecoveryClass, first: ProviderResponse) -> Result<ProviderResponse, ProviderError> {
    match class {
        RecoveryClass::Idempotent | RecoveryClass::IdempotentFor(_) => Ok(first),
        RecoveryClass::Lookup | RecoveryClass::Neither => {
            Err(ProviderError::Unknown("the reference was used before".into()))
        }
    }
}

pub(super) fn response(
    id: String,
    kind: &str,
    approved: bool,
    amount: i64,
    behavior: CardBehavior,
) -> ProviderResponse {
    match kind {
        _ if !approved => ProviderResponse::Declined { decline: behavior.decline(), card: Some(behavior.card()) },
        "sale" | "authorize" => ProviderResponse::Charged { provider_ref: id, amount, card: Some(behavior.card()) },
        _ => ProviderResponse::Done { provider_ref: id },
    }
}

/// Looks up a reference in the ledger.
pub(super) async fn find(tx: &mut PgConnection, request: &Request) -> Result<Found, ProviderError> {
    if let Action::StoreCard { .. } = request.action {
        let card = sqlx::query!(
            "SELECT id, nature FROM mock.cards WHERE account = $1 AND reference = $2",
            request.account.uuid(),
            request.reference
        )
        .fetch_optional(tx)
        .await?;
        return Ok(card.map_or(Found::Nothing, |row| Found::Response(stored(row.id, &row.nature))));
    }
    let row = sqlx::query!(
        "SELECT id, kind, approved, amount, nature FROM mock.transactions WHERE account = $1 AND unique_reference = $2",
        request.account.uuid(),
        request.reference
    )
    .fetch_optional(tx)
    .await?;
    Ok(row.map_or(Found::Nothing, |row| {
        let behavior = CardBehavior::of_token(&row.nature).unwrap_or(CardBehavior::Approves);
        Found::Response(response(row.id, &row.kind, row.approved, row.amount, behavior))
    }))
}

fn stored(id: String, behavior: &str) -> ProviderResponse {
    let behavior = CardBehavior::of_token(behavior).unwrap_or(CardBehavior::Approves);
    ProviderResponse::Stored { provider_ref: id, card: behavior.card() }
}

/// Saves a card. No money moves, so this is idempotent in every class.
async fn store(tx: &mut PgConnection, request: &Request, token: &str) -> Result<ProviderResponse, ProviderError> {
    let Some(behavior) = CardBehavior::of_token(token) else { return Ok(ProviderResponse::refused("no such token")) };
    let id = format!("mockcard_{}", random_hex(12));
    let row = sqlx::query!(
        "INSERT INTO mock.cards AS c (id, account, reference, nature) VALUES ($1, $2, $3, $4)
         ON CONFLICT (account, reference) DO UPDATE SET reference = c.reference RETURNING id, nature",
        id,
        request.account.uuid(),
        request.reference,
        behavior.token(),
    )
    .fetch_one(tx)
    .await?;
    Ok(stored(row.id, &row.nature))
}

/// Returns the status of a charge. A settlement, expiry or won dispute is written under the lock of the charge, so no
/// follow-up can undo it.
pub(super) async fn status(
    db: &PgPool,
    account: ProviderAccountId,
    charge_id: &str,
    now: Timestamp,
) -> Result<ChargeStatus, ProviderError> {
    let mut tx = db::begin(db).await?;
    let Some(charge) = lock(&mut tx, account, charge_id, now).await? else {
        return Err(ProviderError::Unknown("the mock has no such charge".into()));
    };
    let status = charge.status(now);
    let (settled, expired) = (status == ChargeStatus::Settled, status == ChargeStatus::Expired);
    if (settled && !charge.settled) || (expired && !charge.expired) {
        sqlx::query!(
            "UPDATE mock.transactions SET settled_at = CASE WHEN $2 THEN $4::timestamptz END,
                    expired_at = CASE WHEN $3 THEN $4::timestamptz END WHERE id = $1",
            charge_id,
            settled,
            expired,
            now
        )
        .execute(&mut *tx)
        .await?;
    }
    if settled && !charge.settled {
        disputes::open(&mut tx, account, charge_id, &charge.behavior, charge.captured - charge.refunded, now).await?;
    }
    disputes::reinstate(&mut tx, &charge.disputes).await?;
    tx.commit().await?;
    Ok(status)
}

/// Looks up a transaction by its id.
pub(super) async fn booked(
    db: &PgPool,
    account: ProviderAccountId,
    provider_ref: &str,
) -> Result<Option<Booked>, ProviderError> {
    let row = sqlx::query!(
        "SELECT kind, parent, reference, approved, amount, currency FROM mock.transactions WHERE id = $1 AND account = $2",
        provider_ref,
        account.uuid()
    )
    .fetch_optional(db)
    .await?;
    let Some(row) = row else { return Ok(None) };
    let currency: Currency = row
        .currency
        .parse()
        .map_err(|_| ProviderError::Unknown("the mock's ledger contains an unknown currency".into()))?;
    let kind = match row.kind.as_str() {
        "sale" => BookedKind::Sale,
        "authorize" => BookedKind::Authorize,
        "capture" => BookedKind::Capture,
        "void" => BookedKind::Void,
        "refund" => BookedKind::Refund,
        _ => BookedKind::Other,
    };
    Ok(Some(Booked {
        kind,
        state: if row.approved { BookedState::Approved } else { BookedState::Failed },
        money: (kind != BookedKind::Void).then_some(Money { minor: row.amount, currency }),
        reference: Some(row.reference),
        charge: row.parent,
    }))
}
