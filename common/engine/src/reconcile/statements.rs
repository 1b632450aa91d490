//! Reconciliation. Reads a provider's statement and records for each line the outcome that our books lack: this finds
//! responses that no process would request again, and transactions that belong to no operation. Then, in the other
//! direction, what our books recorded since the last run and is not in the statement is looked up at the provider:
//! operations that succeeded, and disputed money. Remaining differences are recorded for an operator.

use std::collections::HashSet;
use std::time::Duration;

use serde_json::Value;
use sqlx::PgPool;

use crate::charge::outcome::record_outcome;
use crate::charge::reversal::is_recorded;
use crate::reconcile::books::{
    Difference, LineMatch, LookUpResult, NewDifference, OurBooks, OurEntry, end_recorded_differences, listed_in,
    look_up_missing, provider_side, record_difference, request_difference, statement_between,
};
use domain::charges;
use domain::disputes::books as dispute_books;
use domain::operations::books::{self, RecordedOperation};
use domain::operations::{OperationKind, PROVIDER_TIMEOUT, State};
use domain::payments;
use foundation::clock::Clock;
use foundation::db::{self, Db};
use foundation::error::{Error, Result};
use foundation::failpoint;
use foundation::id::{AccountId, ProviderAccountId};
use foundation::time::Timestamp;
use providers::{
    Action, Entry, Provider, ProviderKind, ProviderResponse, Providers, RecoveryClass, Statement, StatementLine,
};

/// Interval between readings of a provider account's statement.
const RECONCILE_INTERVAL: Duration = Duration::from_secs(60);
/// Operations younger than this are left to the charge protocol, which is working on them; so are those that a worker
/// holds. Disputed money is left to inquiries for as long. Successive readings overlap by twice this, for lines that the
/// provider adds late.
const IN_PROGRESS_AGE: Duration = Duration::from_secs(120);
/// Provider accounts enqueued per batch.
const RECONCILIATION_BATCH: i64 = 200;
/// Lines per reading.
const LINES: i64 = 1000;
/// Maximum number of lines per reading, used if more than [`LINES`] were booked at one instant.
const MAX_LINES: i64 = LINES * 16;
/// A transaction that is in progress for longer makes a reading count as failed, which alerts: ours end within minutes.
const MAX_UNFINISHED: Duration = Duration::from_secs(15 * 60);
/// After so many failed lines the cause is probably not the lines, and the rest wait for the next reading.
const MAX_FAILURES: usize = 10;
/// Maximum number of operations, and of disputes, checked per reading.
const MAX_OPERATIONS: i64 = 5_000;
/// Maximum number of unlisted operations that are looked up individually; with more, the statement of their time is read
/// first.
const DIRECT_LOOK_UPS: usize = 20;
/// Maximum number of look-ups per reading. The rest follow at once in the next reading.
const MAX_LOOK_UPS: usize = 100;
/// Margin around the time at which an operation's outcome was recorded, within which its line is searched for in the
/// statement. An operation not found there is looked up, so the margin affects only cost.
const STATEMENT_MARGIN: Duration = Duration::from_secs(90);
/// Outcomes of a reading in metrics: compared, or failed.
pub const OK: &str = "ok";
pub const FAILED: &str = "failed";

#[derive(Debug)]
pub struct DueStatements {
    pub provider_accounts: Vec<ProviderAccountId>,
    /// Whether more may be due.
    pub more: bool,
}

/// Claims the provider accounts whose statement is due, and schedules their next reading. Accounts without credentials
/// are rescheduled too but not returned: their provider cannot be queried.
///
/// # Errors
/// Database errors only.
pub async fn take_due_reconciliations(db: &PgPool) -> Result<DueStatements> {
    let taken = sqlx::query!(
        r#"UPDATE provider_accounts SET reconcile_at = clock_timestamp() + make_interval(secs => $1)
         WHERE id = ANY (ARRAY(SELECT id FROM provider_accounts WHERE reconcile_at <= (SELECT clock_timestamp())
                      ORDER BY reconcile_at LIMIT $2 FOR NO KEY UPDATE SKIP LOCKED))
         RETURNING id, provider = 'mock' OR credentials IS NOT NULL AS "connected!""#,
        RECONCILE_INTERVAL.as_secs_f64(),
        RECONCILIATION_BATCH,
    )
    .fetch_all(db)
    .await?;
    let more = i64::try_from(taken.len()).is_ok_and(|n| n >= RECONCILIATION_BATCH);
    Ok(DueStatements {
        provider_accounts: taken.into_iter().filter(|row| row.connected).map(|row| row.id).collect(),
        more,
    })
}

struct Due {
    account_id: AccountId,
    provider: ProviderKind,
    since: Timestamp,
    /// A statement requested now contains everything booked before this instant.
    complete_until: Timestamp,
    /// What our books recorded since this instant is checked against the statement.
    books_since: Timestamp,
    /// What was recorded before this instant was booked before the statement was requested.
    books_until: Timestamp,
}

/// Compares what the provider has booked since the last reading with our books.
///
/// # Errors
/// The first error of a line. The other lines were still compared, unless the database connection was lost, and the
/// next reading starts at the failed line.
pub async fn reconcile(db: &Db, providers: &Providers, clock: &Clock, id: ProviderAccountId) -> Result<()> {
    // Read before the statement is requested: a delay afterwards must not skip lines that the statement does not
    // contain.
    let due = sqlx::query_as!(
        Due,
        r#"SELECT account_id, provider, coalesce(reconciled_until, created_at) AS "since!",
                  clock_timestamp() - make_interval(secs => $2) AS "complete_until!",
                  coalesce(books_until, reconciled_until, created_at) AS "books_since!",
                  clock_timestamp() - make_interval(secs => $3) AS "books_until!"
           FROM provider_accounts WHERE id = $1"#,
        id.uuid(),
        (IN_PROGRESS_AGE * 2).as_secs_f64(),
        IN_PROGRESS_AGE.as_secs_f64(),
    )
    .fetch_one(&**db)
    .await?;
    let Some(provider) = providers.get(due.provider) else { return Ok(()) };
    let page = match read_page(provider, id, due.since).await {
        Ok(page) => page,
        Err(reason) => {
            count(due.provider, FAILED);
            tracing::warn!(provider_account = %id, reason, "no statement; it will be requested again in a minute");
            return Ok(());
        }
    };
    failpoint!("reconcile.read");
    let comparison = Comparison { db, clock, id, due: &due };
    let compared = comparison.compare_page(provider, &page).await;
    let held_back = page.unfinished_since.filter(|since| *since < due.complete_until.minus(MAX_UNFINISHED));
    if let Some(since) = held_back {
        tracing::error!(
            provider_account = %id, %since,
            "a transaction is still in progress at the provider: nothing later is complete; an operator must investigate"
        );
    }
    count(due.provider, if compared.is_ok() && held_back.is_none() { OK } else { FAILED });
    compared
}

/// Requests a page, with a growing limit while the next reading could not start after its lines, because all of them were
/// booked at one instant, or follow a transaction in progress.
async fn read_page(
    provider: &dyn Provider,
    id: ProviderAccountId,
    since: Timestamp,
) -> std::result::Result<Statement, String> {
    let mut limit = LINES;
    loop {
        let response = tokio::time::timeout(PROVIDER_TIMEOUT, provider.statement(id, since, limit)).await;
        let page = response.map_err(|_| "the request timed out".to_owned())?.map_err(|error| error.to_string())?;
        match page.until.map(|until| page.unfinished_since.map_or(until, |unfinished| unfinished.min(until))) {
            Some(until) if until <= since && limit < MAX_LINES => limit *= 4,
            Some(until) if until <= since => {
                tracing::error!(
                    provider_account = %id, %since, lines = limit,
                    "the statement makes no progress: more lines were booked at one instant, or since a transaction in progress, than one reading can take; an operator must investigate"
                );
                return Err("it makes no progress".to_owned());
            }
            _ => return Ok(page),
        }
    }
}

/// The comparison of one provider account.
struct Comparison<'a> {
    db: &'a Db,
    clock: &'a Clock,
    id: ProviderAccountId,
    due: &'a Due,
}

fn count(provider: ProviderKind, outcome: &'static str) {
    metrics::counter!("payments_statements_total", "provider" => provider.name(), "outcome" => outcome).increment(1);
}

/// The result of comparing a line.
enum LineResult {
    Done,
    /// The charge protocol is working on it, or will be when its lease expires, or an inquiry may be about to record it.
    /// The next reading compares it again.
    UnderWay,
}

/// How far one side has been compared, and whether more can be compared now.
struct Progress {
    until: Timestamp,
    more: bool,
}

impl Comparison<'_> {
    /// Compares all lines and saves the progress, which stops before lines left to the charge protocol, before failed
    /// lines, and before transactions in progress, which become lines of an earlier time when they end.
    async fn compare_page(&self, provider: &dyn Provider, page: &Statement) -> Result<()> {
        let our_books = OurBooks::load(self.db, self.due.account_id, self.id, &page.lines).await?;
        let read_until = page.until.unwrap_or(self.due.complete_until);
        let (mut until, mut failures) = (page.unfinished_since.unwrap_or(read_until).min(read_until), Vec::new());
        for line in &page.lines {
            match self.compare(line, &our_books).await {
                Ok(LineResult::Done) => {}
                Ok(LineResult::UnderWay) => until = until.min(line.occurred_at),
                // Not caused by this line: the next one would fail in the same way.
                Err(Error::Database(lost)) if db::lost_connection(&lost) => return Err(lost.into()),
                Err(error) => {
                    tracing::error!(
                        provider_account = %self.id, reference = line.reference, %error,
                        "a line of the statement was not compared; the next reading starts with it in a minute"
                    );
                    until = until.min(line.occurred_at);
                    failures.push(error);
                }
            }
            if failures.len() >= MAX_FAILURES {
                break;
            }
        }
        // There is more, and it does not start at the lines just read.
        let lines = Progress { until, more: page.until.is_some() && until > self.due.since };
        // Until the statement is read to its end, an operation that is not in it need not be looked up.
        let books = match page.until {
            Some(_) => Progress { until: self.due.books_since, more: false },
            None => self.check_our_books(provider, &page.lines).await?,
        };
        end_recorded_differences(self.db, self.due.account_id, self.id).await?;
        self.save_progress(&lines, &books).await?;
        failures.into_iter().next().map_or(Ok(()), Err)
    }

    async fn compare(&self, line: &StatementLine, our_books: &OurBooks) -> Result<LineResult> {
        match our_books.match_line(line) {
            LineMatch::Unmatched { .. } if line.entry == Entry::Charge => self.record_orphan(line).await?,
            // Recovery of that operation finds it by a look-up, or sends the request again.
            LineMatch::Unmatched { candidate: Some(_), .. } => {}
            LineMatch::Unmatched { payment, candidate: None } => {
                if let Some(charge) = line.follows.as_ref().filter(|_| line.entry.is_dispute()) {
                    // An inquiry records the dispute; after settlement, nothing else would cause one.
                    payments::inquire_soon(self.db, self.id, &charge.provider_ref, self.clock.now()).await?;
                }
                // What is read late counts as missing at once, so that no reading waits for an inquiry that may fail.
                if line.entry.is_dispute() && line.occurred_at >= self.due.books_until {
                    return Ok(LineResult::UnderWay);
                }
                let new = self.differs(Difference::MissingWithUs, Some(line), None);
                record_difference(self.db, &NewDifference { payment, ..new }).await?;
            }
            LineMatch::Operation(recorded) if is_done(recorded, line) => {
                self.compare_entry(line, recorded.into()).await?
            }
            LineMatch::Movement(movement) => self.compare_entry(line, movement.into()).await?,
            LineMatch::Operation(recorded) if recorded.is_under_way(IN_PROGRESS_AGE) => {
                return Ok(LineResult::UnderWay);
            }
            LineMatch::Operation(recorded) => self.record(line, recorded).await?,
        }
        Ok(LineResult::Done)
    }

    async fn compare_entry(&self, line: &StatementLine, recorded: OurEntry<'_>) -> Result<()> {
        if let Some(difference) = recorded.difference(line) {
            record_difference(self.db, &self.differs(difference, Some(line), Some(recorded))).await?;
        }
        Ok(())
    }

    /// Records an outcome that our books lack, or a difference if it cannot be the operation's outcome.
    async fn record(&self, line: &StatementLine, recorded: &RecordedOperation) -> Result<()> {
        // Every reading that covers its time shows a charge that belongs to no payment.
        if line.entry == Entry::Charge && is_recorded(&**self.db, recorded.id, &line.provider_ref).await? {
            return Ok(());
        }
        let operation = charges::read(self.db, recorded.id, self.clock.now()).await?;
        let fits_request = match line.entry {
            Entry::Charge => is_possible_outcome(operation.provider, &operation.request.action, &line.response),
            Entry::Capture
            | Entry::Void
            | Entry::Refund
            | Entry::Credit
            | Entry::DisputeWithdrawn
            | Entry::DisputeReinstated => request_difference(recorded, line).is_none(),
        };
        if !fits_request && !recorded.state.is_final() {
            let difference = request_difference(recorded, line).unwrap_or(Difference::Amount);
            record_difference(self.db, &self.differs(difference, Some(line), Some(recorded.into()))).await?;
            return Ok(());
        }
        // A second charge is reversed and recorded as an anomaly. A follow-up operation cannot be undone, so a
        // difference is recorded for an operator.
        let is_new = line.entry == Entry::Charge
            || !recorded.state.is_final()
            || record_difference(self.db, &self.differs(Difference::Status, Some(line), Some(recorded.into()))).await?;
        if !is_new {
            return Ok(());
        }
        tracing::warn!(
            operation = %recorded.id, state = recorded.state.name(), provider_ref = line.provider_ref,
            "the provider's statement has an outcome that our books lack; recording it"
        );
        metrics::counter!("payments_reconciled_total").increment(1);
        record_outcome(self.db, &operation, &line.response, self.clock).await?;
        failpoint!("reconcile.recorded");
        Ok(())
    }

    /// Checks what our books have recorded since the last reading. Returns how far it got.
    async fn check_our_books(&self, provider: &dyn Provider, lines: &[StatementLine]) -> Result<Progress> {
        let Due { books_since, books_until, .. } = *self.due;
        let class = provider.recovery(self.id, OperationKind::Sale).await;
        if matches!(class, Ok(RecoveryClass::Neither) | Err(_)) || books_since >= books_until {
            // Recovery class C supports no look-ups.
            let until = if class.is_ok() { books_until.max(books_since) } else { books_since };
            return Ok(Progress { until, more: false });
        }
        let operations = self.check_our_operations(provider, lines).await?;
        let disputes = self.check_our_disputes(provider, lines, operations.until).await?;
        let until = disputes.until.min(operations.until);
        Ok(Progress { until, more: (operations.more || disputes.more) && until > books_since })
    }

    /// Checks the disputed money recorded before `until`: first against the lines just read; what is not among them is
    /// looked up individually.
    async fn check_our_disputes(
        &self,
        provider: &dyn Provider,
        lines: &[StatementLine],
        until: Timestamp,
    ) -> Result<Progress> {
        let written = dispute_books::written(self.db, self.id, self.due.books_since, until, MAX_OPERATIONS).await?;
        let full = i64::try_from(written.len()).is_ok_and(|count| count >= MAX_OPERATIONS);
        let reached = written.last().and_then(|movement| movement.written_at).filter(|_| full).unwrap_or(until);
        let listed: HashSet<_> = lines.iter().map(|line| &line.provider_ref).collect();
        let unlisted = written.into_iter().filter(|movement| !listed.contains(&movement.provider_ref)).collect();
        let looked_up = look_up_missing(provider, self.id, unlisted, MAX_LOOK_UPS).await;
        self.record_missing(looked_up, Progress { until: reached, more: full }, |movement| movement.written_at).await
    }

    /// Checks the operations that succeeded in our books since the last reading: first against the lines just read;
    /// then, if these do not cover their time, against the statement of that time; those in neither are looked up
    /// individually.
    async fn check_our_operations(&self, provider: &dyn Provider, lines: &[StatementLine]) -> Result<Progress> {
        let Due { books_since, books_until, .. } = *self.due;
        let done = books::succeeded(self.db, self.id, books_since, books_until, MAX_OPERATIONS).await?;
        let full = i64::try_from(done.len()).is_ok_and(|count| count >= MAX_OPERATIONS);
        let reached = done.last().and_then(|recorded| recorded.finished_at).filter(|_| full).unwrap_or(books_until);
        let mut unlisted: Vec<_> =
            done.into_iter().filter(|recorded| recorded.kind != OperationKind::StoreCard).collect();
        let is_listed = listed_in(lines);
        unlisted.retain(|recorded| !is_listed(recorded));
        if unlisted.len() > DIRECT_LOOK_UPS {
            let ends = unlisted.iter().filter_map(|recorded| recorded.finished_at);
            let (from, to) = (ends.clone().min().unwrap_or(books_since), ends.max().unwrap_or(books_until));
            match statement_between(provider, self.id, from.minus(STATEMENT_MARGIN), to.plus(STATEMENT_MARGIN)).await {
                Ok(lines) => {
                    let is_listed = listed_in(&lines);
                    unlisted.retain(|recorded| !is_listed(recorded));
                }
                Err(reason) => {
                    tracing::warn!(provider_account = %self.id, reason, "no statement of an earlier time; it will be requested again in a minute");
                    return Ok(Progress { until: books_since, more: false });
                }
            }
        }
        let looked_up = look_up_missing(provider, self.id, unlisted, MAX_LOOK_UPS).await;
        self.record_missing(looked_up, Progress { until: reached, more: full }, |recorded| recorded.finished_at).await
    }

    /// Records the differences that look-ups found. Returns how far they got: to the entry at which they stopped, or to
    /// where they ended.
    async fn record_missing<T>(
        &self,
        looked_up: LookUpResult<T>,
        end: Progress,
        time_of: fn(&T) -> Option<Timestamp>,
    ) -> Result<Progress>
    where
        for<'e> OurEntry<'e>: From<&'e T>,
    {
        for (entry, difference, line) in &looked_up.differ {
            record_difference(self.db, &self.differs(*difference, line.as_ref(), Some(entry.into()))).await?;
        }
        let Some((entry, why)) = looked_up.stopped else { return Ok(end) };
        if let Some(reason) = &why {
            let provider_ref = OurEntry::from(&entry).provider_ref();
            tracing::warn!(provider_account = %self.id, provider_ref, reason, "the look-up failed; the provider will be queried again in a minute");
        }
        Ok(Progress { until: time_of(&entry).unwrap_or(self.due.books_since), more: why.is_none() })
    }

    fn differs<'d>(
        &self,
        difference: Difference,
        line: Option<&'d StatementLine>,
        recorded: Option<OurEntry<'d>>,
    ) -> NewDifference<'d> {
        let entry = line.map(|line| line.entry).or_else(|| recorded.and_then(OurEntry::entry));
        NewDifference {
            account: self.due.account_id,
            provider_account: self.id,
            provider: self.due.provider,
            difference,
            entry: entry.unwrap_or(Entry::Charge),
            line,
            recorded,
            payment: None,
            theirs: line.map_or(Value::Null, provider_side),
            ours: recorded.map_or(Value::Null, OurEntry::side),
        }
    }

    async fn record_orphan(&self, line: &StatementLine) -> Result<()> {
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
                "the provider charged a card under a reference that matches no operation: an operator must find out where it comes from"
            );
            metrics::counter!("payments_orphans_total").increment(1);
        }
        Ok(())
    }

    /// Saves where the next reading starts. It runs at once if there is more to read and an operator has not stopped
    /// it, otherwise when scheduled.
    async fn save_progress(&self, lines: &Progress, books: &Progress) -> Result<()> {
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

/// Whether our books have the operation as succeeded with this provider reference.
fn is_done(recorded: &RecordedOperation, line: &StatementLine) -> bool {
    recorded.state == State::Succeeded && recorded.provider_ref.as_ref() == Some(&line.provider_ref)
}

/// Whether this can be the outcome of the requested charge. An approval of another amount cannot, and must not stop the
/// reading.
fn is_possible_outcome(provider: ProviderKind, action: &Action, response: &ProviderResponse) -> bool {
    match (action, response) {
        (Action::Charge { money, .. }, ProviderResponse::Charged { amount, .. }) => {
            *amount == money.minor || (provider.may_approve_part() && (1..money.minor).contains(amount))
        }
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use foundation::money::Money;
    use providers::Source;

    #[test]
    fn partial_approvals_are_accepted_only_from_providers_that_make_them() {
        let money = Money { minor: 1200, currency: "USD".parse().expect("a currency") };
        let action = Action::Charge { source: Source::Card("card_1".to_owned()), money, capture: true };
        let approval = |amount| ProviderResponse::Charged { provider_ref: "charge_1".to_owned(), amount, card: None };
        for (amount, mock, gateway) in
            [(1200, true, true), (1199, true, false), (1201, false, false), (0, false, false)]
        {
            assert_eq!(is_possible_outcome(ProviderKind::Mock, &action, &approval(amount)), mock, "{amount}");
            assert_eq!(is_possible_outcome(ProviderKind::CardGateway, &action, &approval(amount)), gateway, "{amount}");
        }
    }
}
