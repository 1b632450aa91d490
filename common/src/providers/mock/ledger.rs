//! The mock's books: what it charged, captured, voided and refunded, as its own statement would show it.

use sqlx::PgPool;

use super::card::declined;
use super::{Nature, SETTLES_AFTER};
use crate::crypto::random_hex;
use crate::id::ProviderAccountId;
use crate::providers::{Action, Answer, Fault, Found, RecoveryClass, Request, Source};
use crate::time::Timestamp;

/// A line about to be written.
struct Entry {
    kind: &'static str,
    parent: Option<String>,
    amount: i64,
    currency: &'static str,
    nature: Nature,
    approved: bool,
}

/// Writes what a request asks for, or repeats what was answered to its reference before.
pub(super) async fn record(db: &PgPool, request: &Request, class: RecoveryClass) -> Result<Answer, Fault> {
    match &request.action {
        Action::Charge { source, money, capture } => {
            let Some(nature) = nature_of(db, request.account, source).await? else {
                return Ok(Answer::Refused { reason: "no such token or card".into() });
            };
            let (amount, approved) =
                nature.authorize(money.minor).map_or((money.minor, false), |approved| (approved, true));
            let kind = if *capture { "sale" } else { "authorize" };
            let entry = Entry { kind, parent: None, amount, currency: money.currency.code(), nature, approved };
            write(db, request, class, entry).await
        }
        Action::Capture { charge, money } => follow(db, request, class, "capture", charge, Some(money.minor)).await,
        Action::Refund { charge, money } => follow(db, request, class, "refund", charge, Some(money.minor)).await,
        Action::Void { charge } => follow(db, request, class, "void", charge, None).await,
        Action::StoreCard { token } => store(db, request, token.expose()).await,
    }
}

async fn nature_of(db: &PgPool, account: ProviderAccountId, source: &Source) -> Result<Option<Nature>, Fault> {
    match source {
        Source::Token(token) => Ok(Nature::of_token(token.expose())),
        Source::Card(card) => {
            let token = sqlx::query_scalar!(
                "SELECT nature FROM mock.cards WHERE id = $1 AND account = $2",
                card,
                account.uuid()
            )
            .fetch_optional(db)
            .await?;
            Ok(token.and_then(|token| Nature::of_token(&token)))
        }
    }
}

/// A capture, void or refund of a charge in these books.
async fn follow(
    db: &PgPool,
    request: &Request,
    class: RecoveryClass,
    kind: &'static str,
    charge: &str,
    amount: Option<i64>,
) -> Result<Answer, Fault> {
    let parent = sqlx::query!(
        "SELECT nature, amount, currency FROM mock.transactions WHERE id = $1 AND account = $2 AND approved",
        charge,
        request.account.uuid()
    )
    .fetch_optional(db)
    .await?;
    let Some(parent) = parent else { return Ok(Answer::Refused { reason: "no such charge".into() }) };
    let currency = parent.currency.parse::<crate::money::Currency>().map_err(|e| Fault::NotSent(e.to_string()))?;
    let nature = Nature::of_token(&parent.nature).unwrap_or(Nature::Approves);
    let amount = amount.unwrap_or(parent.amount);
    let entry =
        Entry { kind, parent: Some(charge.to_owned()), amount, currency: currency.code(), nature, approved: true };
    write(db, request, class, entry).await
}

async fn write(db: &PgPool, request: &Request, class: RecoveryClass, entry: Entry) -> Result<Answer, Fault> {
    let id = format!("mock_{}", random_hex(12));
    let unique_reference = match class {
        RecoveryClass::Idempotent | RecoveryClass::Lookup => Some(request.reference.as_str()),
        RecoveryClass::Neither => None,
    };
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
        (!entry.approved).then_some("insufficient_funds"),
        entry.amount,
        entry.currency,
        entry.nature.token(),
        request.now,
        unique_reference,
    )
    .execute(db)
    .await?;
    if done.rows_affected() == 1 {
        return Ok(answer(id, entry.kind, entry.approved, entry.amount, entry.nature));
    }
    match (class, find(db, request).await?) {
        (RecoveryClass::Idempotent, Found::Answer(first)) => Ok(first),
        _ => Err(Fault::Unknown("the mock has seen this reference before".into())),
    }
}

fn answer(id: String, kind: &str, approved: bool, amount: i64, nature: Nature) -> Answer {
    if !approved {
        return Answer::Declined { decline: declined(), card: Some(nature.card()) };
    }
    match kind {
        "sale" | "authorize" => Answer::Charged { provider_ref: id, amount, card: nature.card() },
        _ => Answer::Done { provider_ref: id },
    }
}

/// What the books say of a reference.
pub(super) async fn find(db: &PgPool, request: &Request) -> Result<Found, Fault> {
    if let Action::StoreCard { .. } = request.action {
        let card = sqlx::query!(
            "SELECT id, nature FROM mock.cards WHERE account = $1 AND reference = $2",
            request.account.uuid(),
            request.reference
        )
        .fetch_optional(db)
        .await?;
        return Ok(card.map_or(Found::Nothing, |row| Found::Answer(stored(row.id, &row.nature))));
    }
    let row = sqlx::query!(
        "SELECT id, kind, approved, amount, nature FROM mock.transactions WHERE account = $1 AND unique_reference = $2",
        request.account.uuid(),
        request.reference
    )
    .fetch_optional(db)
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
async fn store(db: &PgPool, request: &Request, token: &str) -> Result<Answer, Fault> {
    let Some(nature) = Nature::of_token(token) else {
        return Ok(Answer::Refused { reason: "no such token".into() });
    };
    let id = format!("mockcard_{}", random_hex(12));
    let row = sqlx::query!(
        "INSERT INTO mock.cards AS c (id, account, reference, nature) VALUES ($1, $2, $3, $4)
         ON CONFLICT (account, reference) DO UPDATE SET reference = c.reference RETURNING id, nature",
        id,
        request.account.uuid(),
        request.reference,
        nature.token(),
    )
    .fetch_one(db)
    .await?;
    Ok(stored(row.id, &row.nature))
}

/// Captured, not voided, and old enough.
pub(super) async fn is_settled(
    db: &PgPool,
    account: ProviderAccountId,
    charge: &str,
    now: Timestamp,
) -> Result<bool, Fault> {
    let row = sqlx::query!(
        r#"SELECT min(occurred_at) FILTER (WHERE kind IN ('sale', 'capture')) AS captured_at,
                  bool_or(kind = 'void') AS "voided!"
           FROM mock.transactions WHERE account = $1 AND approved AND (id = $2 OR parent = $2) HAVING count(*) > 0"#,
        account.uuid(),
        charge,
    )
    .fetch_optional(db)
    .await?;
    Ok(row.is_some_and(|row| !row.voided && row.captured_at.is_some_and(|at| at.plus(SETTLES_AFTER) <= now)))
}
