//! Reconciling: reading a provider's statement, and giving each line that our books lack the outcome it tells of. This finds
//! an answer that nobody would ask for again, and money that moved under no operation of ours. Then the other way: what our books
//! have as done since the last reading and the statement does not show is looked up at the provider. Whatever differs in the end is
//! recorded for a person.

use std::time::Duration;

use serde_json::Value;
use sqlx::PgPool;

use super::books::{
    About, Difference, NewDifference, Ours, as_asked, between, look_up, note, ours as ours_shown, theirs, told_by,
};
use super::record_outcome;
use crate::clock::Clock;
use crate::db::{self, Db};
use crate::error::{Error, Result};
use crate::id::{AccountId, ProviderAccountId};
use crate::operations::books::{self, Known};
use crate::operations::{self, Kind, PROVIDER_TIMEOUT, State};
use crate::proof::failpoint;
use crate::providers::{Action, Answer, Entry, Provider, ProviderKind, Providers, RecoveryClass, StatementLine};
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
/// Operations that are looked for in one reading, and how many that the reading does not show are looked up one by one before the
/// statement of their time is read instead.
const SUCCEEDED: i64 = 5_000;
const LOOK_UPS: usize = 20;
/// Look-ups of one reading at most. The others follow at once.
const MOST_LOOK_UPS: usize = 100;
/// So long before and after its outcome was written an operation's line is looked for in the statement. One that is not found there is
/// looked up, so that this is a matter of cost alone.
const BESIDE: Duration = Duration::from_secs(90);
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
    /// From when on what our books have as done is looked for.
    books_since: Timestamp,
    /// What was written before this had been booked before the statement was asked for.
    books_until: Timestamp,
}

/// Compares what the provider has booked since the last time, and what we have.
///
/// # Errors
/// The first that a line met. The others were compared all the same, unless the database was lost, and the reading goes on from that
/// line at the next turn.
pub async fn reconcile(db: &Db, providers: &Providers, clock: &Clock, id: ProviderAccountId) -> Result<()> {
    // The instant is taken before the statement is asked for: whoever is held up afterwards must not pass over what it does not tell.
    let due = sqlx::query_as!(
        Due,
        r#"SELECT account_id, provider, coalesce(reconciled_until, created_at) AS "since!",
                  clock_timestamp() - make_interval(secs => $2) AS "told_until!",
                  coalesce(books_until, reconciled_until, created_at) AS "books_since!",
                  clock_timestamp() - make_interval(secs => $3) AS "books_until!"
           FROM provider_accounts WHERE id = $1"#,
        id.uuid(),
        (UNDER_WAY * 2).as_secs_f64(),
        UNDER_WAY.as_secs_f64(),
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
    let at = At { db, clock, id, due: &due };
    let compared = at.compare_page(provider, &page).await;
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

/// A provider account whose books are compared.
struct At<'a> {
    db: &'a Db,
    clock: &'a Clock,
    id: ProviderAccountId,
    due: &'a Due,
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

/// How far a side has been compared, and whether there is more of it now.
struct Reached {
    until: Timestamp,
    more: bool,
}

impl At<'_> {
    /// Compares all lines, and moves on: not past what was left to the charge protocol, nor past what failed.
    async fn compare_page(&self, provider: &dyn Provider, page: &Page) -> Result<()> {
        let ours = Ours::about(self.db, self.due.account_id, self.id, &page.lines).await?;
        let (mut until, mut failures) = (page.until.unwrap_or(self.due.told_until), Vec::new());
        for line in &page.lines {
            match self.compare(line, &ours).await {
                Ok(Compared::Done) => {}
                Ok(Compared::UnderWay) => until = until.min(line.occurred_at),
                // It says nothing of this line: the next one would fail in the same way.
                Err(Error::Database(lost)) if db::lost_connection(&lost) => return Err(lost.into()),
                Err(error) => {
                    tracing::error!(
                        provider_account = %self.id, reference = line.reference, %error,
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
        let lines = Reached { until, more: page.until.is_some() && until > self.due.since };
        // While the statement is not read to its end, what it does not show yet is no reason to ask.
        let books = match page.until {
            Some(_) => Reached { until: self.due.books_since, more: false },
            None => self.look_for_ours(provider, &page.lines).await?,
        };
        self.move_on(&lines, &books).await?;
        failures.into_iter().next().map_or(Ok(()), Err)
    }

    async fn compare(&self, line: &StatementLine, ours: &Ours) -> Result<Compared> {
        match ours.of(line) {
            About::Nobody { .. } if line.entry == Entry::Charge => self.note_orphan(line).await?,
            // A look-up takes it for what that operation has done, or sends the request again.
            About::Nobody { may_be: Some(_), .. } => {}
            About::Nobody { payment, may_be: None } => {
                let new = self.differs(Difference::MissingWithUs, Some(line), None);
                note(self.db, &NewDifference { payment, ..new }).await?;
            }
            About::Ours(known) if is_done(known, line) => {
                if let Some(difference) = as_asked(known, line) {
                    note(self.db, &self.differs(difference, Some(line), Some(known))).await?;
                }
            }
            About::Ours(known) if known.is_under_way(UNDER_WAY) => return Ok(Compared::UnderWay),
            About::Ours(known) => self.record(line, known).await?,
        }
        Ok(Compared::Done)
    }

    /// Records an outcome that our books lack, or that it cannot be one.
    async fn record(&self, line: &StatementLine, known: &Known) -> Result<()> {
        let operation = operations::read(self.db, known.id, self.clock.now()).await?;
        let is_asked_for = match line.entry {
            Entry::Charge => is_asked(operation.provider, &operation.request.action, &line.answer),
            Entry::Capture | Entry::Void | Entry::Refund | Entry::Credit => as_asked(known, line).is_none(),
        };
        if !is_asked_for && !known.state.is_final() {
            let difference = as_asked(known, line).unwrap_or(Difference::Amount);
            note(self.db, &self.differs(difference, Some(line), Some(known))).await?;
            return Ok(());
        }
        // A second charge is reversed and has a record of its own. What followed a charge cannot be taken back, so a person must know.
        let is_news = line.entry == Entry::Charge
            || !known.state.is_final()
            || note(self.db, &self.differs(Difference::Status, Some(line), Some(known))).await?;
        if !is_news {
            return Ok(());
        }
        tracing::warn!(
            operation = %known.id, state = known.state.name(), provider_ref = line.provider_ref,
            "the provider's statement tells of an outcome that our books lack; recording it"
        );
        metrics::counter!("payments_reconciled_total").increment(1);
        record_outcome(self.db, &operation, &line.answer, self.clock).await?;
        failpoint("reconcile.recorded").await
    }

    /// Looks for what our books have as done since the last time: in the lines that were read, then, where those are of a shorter time,
    /// in the statement of that time, and what is in neither by its name. Says how far it has come.
    async fn look_for_ours(&self, provider: &dyn Provider, lines: &[StatementLine]) -> Result<Reached> {
        let Due { books_since, books_until, .. } = *self.due;
        let stays = |until| Ok(Reached { until, more: false });
        let class = provider.recovery(self.id, Kind::Sale).await;
        if !matches!(class, Ok(RecoveryClass::Idempotent | RecoveryClass::Lookup)) || books_since >= books_until {
            // Class C has nothing to be looked for in.
            return stays(if class.is_ok() { books_until.max(books_since) } else { books_since });
        }
        let done = books::succeeded(self.db, self.id, books_since, books_until, SUCCEEDED).await?;
        let full = i64::try_from(done.len()).is_ok_and(|count| count >= SUCCEEDED);
        let reached = done.last().and_then(|known| known.finished_at).filter(|_| full).unwrap_or(books_until);
        let mut unseen: Vec<_> = done.into_iter().filter(|known| known.kind != Kind::StoreCard).collect();
        let is_told = told_by(lines);
        unseen.retain(|known| !is_told(known));
        if unseen.len() > LOOK_UPS {
            let ends = unseen.iter().filter_map(|known| known.finished_at);
            let (from, to) = (ends.clone().min().unwrap_or(books_since), ends.max().unwrap_or(books_until));
            match between(provider, self.id, from.minus(BESIDE), to.plus(BESIDE)).await {
                Ok(lines) => {
                    let is_told = told_by(&lines);
                    unseen.retain(|known| !is_told(known));
                }
                Err(reason) => {
                    tracing::warn!(provider_account = %self.id, reason, "no statement of an earlier time; asked again in a minute");
                    return stays(books_since);
                }
            }
        }
        let looked_up = look_up(provider, self.id, unseen, MOST_LOOK_UPS).await;
        for (known, difference, line) in &looked_up.differ {
            note(self.db, &self.differs(*difference, line.as_ref(), Some(known))).await?;
        }
        Ok(match looked_up.stopped {
            None => Reached { until: reached, more: full && reached > books_since },
            Some((known, why)) => {
                if let Some(reason) = &why {
                    tracing::warn!(operation = %known.id, reason, "the provider did not say whether it has this; asked again in a minute");
                }
                let until = known.finished_at.unwrap_or(books_since);
                Reached { until, more: why.is_none() && until > books_since }
            }
        })
    }

    fn differs<'d>(
        &self,
        difference: Difference,
        line: Option<&'d StatementLine>,
        known: Option<&'d Known>,
    ) -> NewDifference<'d> {
        let entry = line.map(|line| line.entry).or_else(|| known.and_then(Known::entry));
        NewDifference {
            account: self.due.account_id,
            provider_account: self.id,
            provider: self.due.provider,
            difference,
            entry: entry.unwrap_or(Entry::Charge),
            line,
            known,
            payment: None,
            theirs: line.map_or(Value::Null, theirs),
            ours: known.map_or(Value::Null, ours_shown),
        }
    }

    async fn note_orphan(&self, line: &StatementLine) -> Result<()> {
        let done = sqlx::query!(
            "INSERT INTO orphans (provider_account_id, provider_ref, account_id, reference, occurred_at)
             VALUES ($1, $2, $3, $4, $5) ON CONFLICT (provider_account_id, provider_ref) DO NOTHING",
            self.id.uuid(),
            line.provider_ref,
            self.due.account_id.uuid(),
            line.reference,
            line.occurred_at,
        )
        .execute(&**self.db)
        .await?;
        if done.rows_affected() == 1 {
            tracing::error!(
                provider_account = %self.id, provider_ref = line.provider_ref, reference = line.reference,
                "money moved at the provider under a reference that we do not know: a person must find out whose it is"
            );
            metrics::counter!("payments_orphans_total").increment(1);
        }
        Ok(())
    }

    /// The next reading begins there: at once if there is more to read and an operator has not ended it, and otherwise at its turn.
    async fn move_on(&self, lines: &Reached, books: &Reached) -> Result<()> {
        sqlx::query!(
            "UPDATE provider_accounts SET reconciled_until = greatest(created_at, $2), books_until = $3,
                reconcile_at = CASE WHEN $4 AND reconcile_at < 'infinity' THEN clock_timestamp() ELSE reconcile_at END
             WHERE id = $1",
            self.id.uuid(),
            lines.until,
            books.until,
            lines.more || books.more,
        )
        .execute(&**self.db)
        .await?;
        Ok(())
    }
}

/// Whether our books have done it under this name.
fn is_done(known: &Known, line: &StatementLine) -> bool {
    known.state == State::Succeeded && known.provider_ref.as_ref() == Some(&line.provider_ref)
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
