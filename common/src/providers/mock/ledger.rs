//! The mock's books: what it charged, captured, voided and refunded, as its own statement would show it.
//!
//! Whatever follows a charge locks the charge first, so that of a capture, a void, an expiry and a settlement one is first.

use sqlx::{PgConnection, PgPool};

use super::{AUTHORIZATION_LIFETIME, Nature, SETTLES_AFTER};
use crate::crypto::random_hex;
use crate::db;
use crate::id::ProviderAccountId;
use crate::money::{Currency, Money};
use crate::providers::{
    Action, Answer, Booked, BookedKind, BookedState, Fault, Found, RecoveryClass, Request, Source, Standing,
};
use crate::time::Timestamp;

/// A line about to be written.
struct Entry<'a> {
    kind: &'static str,
    parent: Option<&'a str>,
    amount: i64,
    currency: &'a str,
    nature: Nature,
    approved: bool,
}

/// Writes what a request asks for, or repeats what was answered to its reference before.
pub(super) async fn record(db: &PgPool, request: &Request, class: RecoveryClass) -> Result<Answer, Fault> {
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
    let answer = follow(&mut tx, request, class, what, charge).await?;
    tx.commit().await?;
    Ok(answer)
}

async fn charge(
    db: &mut PgConnection,
    request: &Request,
    class: RecoveryClass,
    source: &Source,
    money: Money,
    capture: bool,
) -> Result<Answer, Fault> {
    let Some(nature) = nature_of(db, request.account, source).await? else {
        return Ok(refused("no such token or card"));
    };
    let approval = nature.authorize(money.minor);
    let entry = Entry {
        kind: if capture { "sale" } else { "authorize" },
        parent: None,
        amount: *approval.as_ref().unwrap_or(&money.minor),
        currency: money.currency.code(),
        nature,
        approved: approval.is_ok(),
    };
    write(db, request, class, entry).await
}

/// A charge by token of an account for which no faults were ordered: one statement, which looks for faults and writes the
/// books. `None`: nothing was written, and the request goes the long way.
pub(super) async fn charge_at_once(db: &PgPool, request: &Request) -> Result<Option<Answer>, Fault> {
    let Action::Charge { source: Source::Token(token), money, capture } = &request.action else { return Ok(None) };
    let Some(nature) = Nature::of_token(token.expose()) else { return Ok(None) };
    let Ok(amount) = nature.authorize(money.minor) else { return Ok(None) };
    let (id, kind) = (format!("mock_{}", random_hex(12)), if *capture { "sale" } else { "authorize" });
    let done = sqlx::query!(
        "INSERT INTO mock.transactions (id, account, kind, reference, approved, amount, currency, nature, occurred_at, unique_reference)
         SELECT $1, $2, $3, $4, true, $5, $6, $7, $8, $4
         WHERE NOT EXISTS (SELECT 1 FROM mock.accounts WHERE id = $2
                           AND (latency_ms > 0 OR lose_answers > 0 OR refuse OR recovery_class <> 'A'))
         ON CONFLICT (account, unique_reference) DO NOTHING",
        id,
        request.account.uuid(),
        kind,
        request.reference,
        amount,
        money.currency.code(),
        nature.token(),
        request.now,
    )
    .execute(db)
    .await?;
    Ok((done.rows_affected() == 1).then(|| answer(id, kind, true, amount, nature)))
}

fn refused(reason: &str) -> Answer {
    Answer::refused(reason)
}

async fn nature_of(
    tx: &mut PgConnection,
    account: ProviderAccountId,
    source: &Source,
) -> Result<Option<Nature>, Fault> {
    match source {
        Source::Token(token) => Ok(Nature::of_token(token.expose())),
        Source::Card(card) => {
            let token = sqlx::query_scalar!(
                "SELECT nature FROM mock.cards WHERE id = $1 AND account = $2",
                card,
                account.uuid()
            )
            .fetch_optional(tx)
            .await?;
            Ok(token.and_then(|token| Nature::of_token(&token)))
        }
    }
}

/// What may follow a charge, with its amount in minor units.
#[derive(Clone, Copy)]
enum Follow {
    Capture(i64),
    Refund(i64),
    Void,
}

/// A charge in these books, locked, with what has become of it.
struct Charge {
    kind: String,
    amount: i64,
    currency: Currency,
    nature: String,
    occurred_at: Timestamp,
    settled: bool,
    expired: bool,
    voided: bool,
    captured: i64,
    captured_at: Option<Timestamp>,
    refunded: i64,
}

async fn lock(tx: &mut PgConnection, account: ProviderAccountId, charge: &str) -> Result<Option<Charge>, Fault> {
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
    // Read after the lock: what followed the charge is complete and stays so.
    let follows = sqlx::query!(
        r#"SELECT coalesce(sum(amount) FILTER (WHERE kind = 'capture'), 0)::bigint AS "captured!",
                  min(occurred_at) FILTER (WHERE kind = 'capture') AS captured_at,
                  coalesce(sum(amount) FILTER (WHERE kind = 'refund'), 0)::bigint AS "refunded!"
           FROM mock.transactions WHERE parent = $1"#,
        charge
    )
    .fetch_one(tx)
    .await?;
    let sale = row.kind == "sale";
    Ok(Some(Charge {
        amount: row.amount,
        currency: row.currency.parse().map_err(|_| Fault::Unknown("the mock's books hold no such currency".into()))?,
        nature: row.nature,
        occurred_at: row.occurred_at,
        settled: row.settled,
        expired: row.expired,
        voided: row.voided,
        captured: if sale { row.amount } else { follows.captured },
        captured_at: if sale { Some(row.occurred_at) } else { follows.captured_at },
        refunded: follows.refunded,
        kind: row.kind,
    }))
}

const OPEN: Standing = Standing::Open { until: None };

impl Charge {
    /// How it stands by `now`, whether that is written yet or not.
    fn standing(&self, now: Timestamp) -> Standing {
        if self.voided {
            Standing::Voided
        } else if self.settled || self.captured_at.is_some_and(|at| at.plus(SETTLES_AFTER) <= now) {
            Standing::Settled
        } else if self.expired || (self.captured == 0 && self.occurred_at.plus(AUTHORIZATION_LIFETIME) <= now) {
            Standing::Expired
        } else {
            OPEN
        }
    }

    /// Whether the mock would do this, and why not.
    fn refuses(&self, follow: Follow, now: Timestamp) -> Option<&'static str> {
        let standing = self.standing(now);
        match follow {
            Follow::Capture(_) if self.kind == "sale" || self.captured > 0 => Some("captured before"),
            Follow::Capture(_) if standing != OPEN => Some("the authorization is over"),
            Follow::Capture(amount) if amount > self.amount => Some("more than was authorized"),
            Follow::Void if standing != OPEN => Some("too late to void"),
            Follow::Void if self.refunded > 0 => Some("refunded"),
            Follow::Refund(_) if standing == Standing::Voided => Some("voided"),
            Follow::Refund(amount) if amount > self.captured - self.refunded => Some("more than was captured"),
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
) -> Result<Answer, Fault> {
    let Some(charge) = lock(tx, request.account, charge_id).await? else { return Ok(refused("no such charge")) };
    // A repeated reference is told what it was told first, before the rules are asked anew.
    if class != RecoveryClass::Neither
        && let Found::Answer(first) = find(tx, request).await?
    {
        return repeated(class, first);
    }
    if let Some(reason) = charge.refuses(follow, request.now) {
        return Ok(refused(reason));
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
    let nature = Nature::of_token(&charge.nature).unwrap_or(Nature::Approves);
    let entry =
        Entry { kind, parent: Some(charge_id), amount, currency: charge.currency.code(), nature, approved: true };
    write(tx, request, class, entry).await
}

async fn write(
    tx: &mut PgConnection,
    request: &Request,
    class: RecoveryClass,
    entry: Entry<'_>,
) -> Result<Answer, Fault> {
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
        (!entry.approved).then(|| entry.nature.decline().code),
        entry.amount,
        entry.currency,
        entry.nature.token(),
        request.now,
        unique_reference,
    )
    .execute(&mut *tx)
    .await?;
    if done.rows_affected() == 1 {
        return Ok(answer(id, entry.kind, entry.approved, entry.amount, entry.nature));
    }
    match find(tx, request).await? {
        Found::Answer(first) => repeated(class, first),
        Found::Pending | Found::Nothing => Err(Fault::Unknown("the mock's books are at odds with themselves".into())),
    }
}

fn repeated(class: RecoveryClass, first: Answer) -> Result<Answer, Fault> {
    match class {
        RecoveryClass::Idempotent => Ok(first),
        RecoveryClass::Lookup | RecoveryClass::Neither => {
            Err(Fault::Unknown("the mock has seen this reference before".into()))
        }
    }
}

pub(super) fn answer(id: String, kind: &str, approved: bool, amount: i64, nature: Nature) -> Answer {
    match kind {
        _ if !approved => Answer::Declined { decline: nature.decline(), card: Some(nature.card()) },
        "sale" | "authorize" => Answer::Charged { provider_ref: id, amount, card: Some(nature.card()) },
        _ => Answer::Done { provider_ref: id },
    }
}

/// What the books say of a reference.
pub(super) async fn find(tx: &mut PgConnection, request: &Request) -> Result<Found, Fault> {
    if let Action::StoreCard { .. } = request.action {
        let card = sqlx::query!(
            "SELECT id, nature FROM mock.cards WHERE account = $1 AND reference = $2",
            request.account.uuid(),
            request.reference
        )
        .fetch_optional(tx)
        .await?;
        return Ok(card.map_or(Found::Nothing, |row| Found::Answer(stored(row.id, &row.nature))));
    }
    let row = sqlx::query!(
        "SELECT id, kind, approved, amount, nature FROM mock.transactions WHERE account = $1 AND unique_reference = $2",
        request.account.uuid(),
        request.reference
    )
    .fetch_optional(tx)
    .await?;
    Ok(row.map_or(Found::Nothing, |row| {
        let nature = Nature::of_token(&row.nature).unwrap_or(Nature::Approves);
        Found::Answer(answer(row.id, &row.kind, row.approved, row.amount, nature))
    }))
}

fn stored(id: String, nature: &str) -> Answer {
    let nature = Nature::of_token(nature).unwrap_or(Nature::Approves);
    Answer::Stored { provider_ref: id, card: nature.card() }
}

/// Keeps a card. Saving moves no money, so the mock is idempotent here whatever its class.
async fn store(tx: &mut PgConnection, request: &Request, token: &str) -> Result<Answer, Fault> {
    let Some(nature) = Nature::of_token(token) else { return Ok(refused("no such token")) };
    let id = format!("mockcard_{}", random_hex(12));
    let row = sqlx::query!(
        "INSERT INTO mock.cards AS c (id, account, reference, nature) VALUES ($1, $2, $3, $4)
         ON CONFLICT (account, reference) DO UPDATE SET reference = c.reference RETURNING id, nature",
        id,
        request.account.uuid(),
        request.reference,
        nature.token(),
    )
    .fetch_one(tx)
    .await?;
    Ok(stored(row.id, &row.nature))
}

/// How a charge stands. What has come to pass is written under its lock, so that nothing that follows can undo it.
pub(super) async fn standing(
    db: &PgPool,
    account: ProviderAccountId,
    charge_id: &str,
    now: Timestamp,
) -> Result<Standing, Fault> {
    let mut tx = db::begin(db).await?;
    let Some(charge) = lock(&mut tx, account, charge_id).await? else {
        return Err(Fault::Unknown("the mock knows no such charge".into()));
    };
    let standing = charge.standing(now);
    let (settled, expired) = (standing == Standing::Settled, standing == Standing::Expired);
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
    tx.commit().await?;
    Ok(standing)
}

/// What the books have under a name of theirs.
pub(super) async fn booked(
    db: &PgPool,
    account: ProviderAccountId,
    provider_ref: &str,
) -> Result<Option<Booked>, Fault> {
    let row = sqlx::query!(
        "SELECT kind, parent, reference, approved, amount, currency FROM mock.transactions WHERE id = $1 AND account = $2",
        provider_ref,
        account.uuid()
    )
    .fetch_optional(db)
    .await?;
    let Some(row) = row else { return Ok(None) };
    let currency: Currency =
        row.currency.parse().map_err(|_| Fault::Unknown("the mock's books hold no such currency".into()))?;
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
