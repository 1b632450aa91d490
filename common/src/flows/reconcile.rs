//! Reconciling: reading a provider's statement, and giving each line that our books lack the outcome it tells of. This finds
//! an answer that nobody would ask for again, and money that moved under no operation of ours.

use std::collections::HashMap;
use std::time::Duration;

use sqlx::PgPool;

use super::record_outcome;
use crate::clock::Clock;
use crate::db::{self, Db};
use crate::error::{Error, Result};
use crate::id::{AccountId, ProviderAccountId};
use crate::operations::{self, Known, PROVIDER_TIMEOUT, State};
use crate::proof::failpoint;
use crate::providers::{Action, Answer, Provider, ProviderKind, Providers, StatementLine};
use crate::time::Timestamp;

/// How often a provider account's statement is read.
const RECONCILE_EVERY: Duration = Duration::from_secs(60);
/// Lines younger than this are left to the charge protocol, which is at work on them; so is what came late before that, and
/// what a worker has at this moment.
const UNDER_WAY: Duration = Duration::from_secs(120);
/// Provider accounts that are handed out together.
const RECONCILIATION_BATCH: i64 = 200;
/// Lines of one reading.
const LINES: i64 = 1000;
/// Lines of one reading at most, where more than that were booked at one instant.
const MOST_LINES: i64 = LINES * 16;
/// Where so many lines fail it is hardly their own fault, and the others wait for the next reading.
const MOST_FAILURES: usize = 10;
/// What came of a reading, as it is counted: read and compared, or not told.
pub(super) const OK: &str = "ok";
pub(super) const FAILED: &str = "failed";

/// Provider accounts whose statement is due.
#[derive(Debug)]
pub struct DueStatements {
    /// Whose it is.
    pub of: Vec<ProviderAccountId>,
    /// Whether there may be more.
    pub more: bool,
}

/// Takes the provider accounts whose statement is due, and moves their next turn on. Those that are not connected have theirs too,
/// and are not handed out: there is nothing by which they could ask.
///
/// # Errors
/// Only the database's.
pub async fn take_due_reconciliations(db: &PgPool) -> Result<DueStatements> {
    let taken = sqlx::query!(
        r#"UPDATE provider_accounts SET reconcile_at = clock_timestamp() + make_interval(secs => $1)
         WHERE id IN (SELECT id FROM provider_accounts WHERE reconcile_at <= (SELECT clock_timestamp())
                      ORDER BY reconcile_at LIMIT $2 FOR NO KEY UPDATE SKIP LOCKED)
         RETURNING id, provider = 'mock' OR credentials IS NOT NULL AS "connected!""#,
        RECONCILE_EVERY.as_secs_f64(),
        RECONCILIATION_BATCH,
    )
    .fetch_all(db)
    .await?;
    let more = i64::try_from(taken.len()).is_ok_and(|n| n >= RECONCILIATION_BATCH);
    Ok(DueStatements { of: taken.into_iter().filter(|row| row.connected).map(|row| row.id).collect(), more })
}

struct Due {
    account_id: AccountId,
    provider: ProviderKind,
    since: Timestamp,
    /// What was booked before this is in a statement that is asked for now.
    told_until: Timestamp,
}

/// Compares what the provider has booked since the last time.
///
/// # Errors
/// The first that a line met. The others were compared all the same, unless the database was lost, and the reading goes on from that
/// line at the next turn.
pub async fn reconcile(db: &Db, providers: &Providers, clock: &Clock, id: ProviderAccountId) -> Result<()> {
    // The instant is taken before the statement is asked for: whoever is held up afterwards must not pass over what it does not tell.
    let due = sqlx::query_as!(
        Due,
        r#"SELECT account_id, provider, coalesce(reconciled_until, created_at) AS "since!",
                  clock_timestamp() - make_interval(secs => $2) AS "told_until!"
           FROM provider_accounts WHERE id = $1"#,
        id.uuid(),
        (UNDER_WAY * 2).as_secs_f64(),
    )
    .fetch_one(&**db)
    .await?;
    let Some(provider) = providers.get(due.provider) else { return Ok(()) };
    let page = match page(provider, id, due.since).await {
        Ok(page) => page,
        Err(reason) => {
            count(due.provider, FAILED);
            tracing::warn!(provider_account = %id, reason, "no statement; it is asked for again in a minute");
            return Ok(());
        }
    };
    failpoint("reconcile.read").await?;
    let compared = compare_page(db, clock, id, &due, &page).await;
    count(due.provider, if compared.is_ok() { OK } else { FAILED });
    compared
}

/// Lines of a statement, and how far it is known by them.
struct Page {
    lines: Vec<StatementLine>,
    /// Of a full one, which may be followed by more.
    until: Option<Timestamp>,
}

/// Asks for lines, for so many more at a time while all that is told was booked at one instant: there would be no going on from there.
async fn page(provider: &dyn Provider, id: ProviderAccountId, since: Timestamp) -> std::result::Result<Page, String> {
    let mut limit = LINES;
    loop {
        let asked = tokio::time::timeout(PROVIDER_TIMEOUT, provider.statement(id, since, limit)).await;
        let lines = asked.map_err(|_| "it did not come in time".to_owned())?.map_err(|fault| fault.to_string())?;
        let full = i64::try_from(lines.len()).is_ok_and(|n| n >= limit);
        let until = lines.last().filter(|_| full).map(|line| line.occurred_at);
        match until {
            Some(until) if until <= since && limit < MOST_LINES => limit *= 4,
            Some(until) if until <= since => {
                tracing::error!(
                    provider_account = %id, %since, lines = limit,
                    "the statement stands still: more was booked at one instant than one reading takes; a person must look into it"
                );
                return Err("it stands still".to_owned());
            }
            until => return Ok(Page { lines, until }),
        }
    }
}

/// Compares all lines, and moves on: not past what was left to the charge protocol, nor past what failed.
async fn compare_page(db: &Db, clock: &Clock, id: ProviderAccountId, due: &Due, page: &Page) -> Result<()> {
    let references: Vec<_> = page.lines.iter().map(|line| line.reference.clone()).collect();
    let known: HashMap<_, _> = operations::by_reference(db, id, &references).await?;
    let (mut until, mut failures) = (page.until.unwrap_or(due.told_until), Vec::new());
    for line in &page.lines {
        match compare(db, clock, id, due.account_id, line, known.get(&line.reference)).await {
            Ok(Compared::Done) => {}
            Ok(Compared::UnderWay) => until = until.min(line.occurred_at),
            // It says nothing of this line: the next one would fail in the same way.
            Err(Error::Database(lost)) if db::lost_connection(&lost) => return Err(lost.into()),
            Err(error) => {
                tracing::error!(
                    provider_account = %id, reference = line.reference, %error,
                    "a line of the statement was not compared; the reading begins with it again in a minute"
                );
                until = until.min(line.occurred_at);
                failures.push(error);
            }
        }
        if failures.len() >= MOST_FAILURES {
            break;
        }
    }
    // There is more, and it does not begin with what was read just now.
    let at_once = page.until.is_some() && until > due.since;
    move_on(db, id, until, at_once).await?;
    failures.into_iter().next().map_or(Ok(()), Err)
}

fn count(provider: ProviderKind, outcome: &'static str) {
    metrics::counter!("payments_statements_total", "provider" => provider.name(), "outcome" => outcome).increment(1);
}

/// What came of a line.
enum Compared {
    Done,
    /// The charge protocol is at work on it, or will be when its lease ends. It is looked at again.
    UnderWay,
}

async fn compare(
    db: &Db,
    clock: &Clock,
    provider_account: ProviderAccountId,
    account: AccountId,
    line: &StatementLine,
    known: Option<&Known>,
) -> Result<Compared> {
    let told = match &line.answer {
        Answer::Charged { provider_ref, .. }
        | Answer::Mismatched { provider_ref, .. }
        | Answer::Done { provider_ref }
        | Answer::Stored { provider_ref, .. } => provider_ref,
        Answer::Challenged { .. } | Answer::Declined { .. } | Answer::Refused { .. } => return Ok(Compared::Done),
    };
    match known {
        None => note_orphan(db, provider_account, account, line, told).await?,
        Some(known) if known.state == State::Succeeded && known.provider_ref.as_ref() == Some(told) => {}
        Some(known) if known.is_under_way(UNDER_WAY) => return Ok(Compared::UnderWay),
        Some(known) => {
            let operation = operations::read(db, known.id, clock.now()).await?;
            if !known.state.is_final() && !is_asked(operation.provider, &operation.request.action, &line.answer) {
                tracing::error!(
                    operation = %known.id, provider_ref = told,
                    "the provider's statement tells of another amount than was asked: a person must look into it"
                );
                return Ok(Compared::Done);
            }
            tracing::warn!(
                operation = %known.id, state = known.state.name(), provider_ref = told,
                "the provider's statement tells of an outcome that our books lack; recording it"
            );
            metrics::counter!("payments_reconciled_total").increment(1);
            record_outcome(db, &operation, &line.answer, clock).await?;
            failpoint("reconcile.recorded").await?;
        }
    }
    Ok(Compared::Done)
}

/// Whether a charge may have been approved like that. Another amount is no outcome of what was asked, and stops no reading.
fn is_asked(provider: ProviderKind, action: &Action, answer: &Answer) -> bool {
    match (action, answer) {
        (Action::Charge { money, .. }, Answer::Charged { amount, .. }) => {
            *amount == money.minor || (provider.may_approve_part() && (1..money.minor).contains(amount))
        }
        _ => true,
    }
}

async fn note_orphan(
    db: &PgPool,
    provider_account: ProviderAccountId,
    account: AccountId,
    line: &StatementLine,
    provider_ref: &str,
) -> Result<()> {
    let done = sqlx::query!(
        "INSERT INTO orphans (provider_account_id, provider_ref, account_id, reference, occurred_at)
         VALUES ($1, $2, $3, $4, $5) ON CONFLICT (provider_account_id, provider_ref) DO NOTHING",
        provider_account.uuid(),
        provider_ref,
        account.uuid(),
        line.reference,
        line.occurred_at,
    )
    .execute(db)
    .await?;
    if done.rows_affected() == 1 {
        tracing::error!(
            %provider_account, provider_ref, reference = line.reference,
            "money moved at the provider under a reference that we do not know: a person must find out whose it is"
        );
        metrics::counter!("payments_orphans_total").increment(1);
    }
    Ok(())
}

/// The next reading begins there: at once if there is more to read and an operator has not ended it, and otherwise at its turn.
async fn move_on(db: &PgPool, id: ProviderAccountId, until: Timestamp, at_once: bool) -> Result<()> {
    sqlx::query!(
        "UPDATE provider_accounts SET reconciled_until = greatest(created_at, $2),
            reconcile_at = CASE WHEN $3 AND reconcile_at < 'infinity' THEN clock_timestamp() ELSE reconcile_at END
         WHERE id = $1",
        id.uuid(),
        until,
        at_once,
    )
    .execute(db)
    .await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::money::Money;
    use crate::providers::Source;

    #[test]
    fn only_a_provider_that_approves_parts_is_believed_one() {
        let money = Money { minor: 1200, currency: "USD".parse().expect("a currency") };
        let action = Action::Charge { source: Source::Card("card_1".to_owned()), money, capture: true };
        let of = |amount| Answer::Charged { provider_ref: "charge_1".to_owned(), amount, card: None };
        for (amount, mock, gateway) in
            [(1200, true, true), (1199, true, false), (1201, false, false), (0, false, false)]
        {
            assert_eq!(is_asked(ProviderKind::Mock, &action, &of(amount)), mock, "{amount}");
            assert_eq!(is_asked(ProviderKind::CardGateway, &action, &of(amount)), gateway, "{amount}");
        }
    }
}
