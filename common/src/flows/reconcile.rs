//! Reconciling: reading a provider's statement, and giving each line that our books lack the outcome it tells of. This finds
//! an answer that nobody would ask for again, and money that moved under no operation of ours.

use std::collections::HashMap;
use std::time::Duration;

use sqlx::PgPool;

use super::record_outcome;
use crate::clock::Clock;
use crate::db::Db;
use crate::error::Result;
use crate::id::{AccountId, ProviderAccountId};
use crate::operations::{self, Known, PROVIDER_TIMEOUT, State};
use crate::proof::failpoint;
use crate::providers::{Action, Answer, ProviderKind, Providers, StatementLine};
use crate::time::Timestamp;

/// How often a provider account's statement is read.
const RECONCILE_EVERY: Duration = Duration::from_secs(60);
/// Lines younger than this are left to the charge protocol, which is at work on them; so is what came late before that.
const UNDER_WAY: Duration = Duration::from_secs(120);
/// Provider accounts that are handed out together.
pub const RECONCILIATION_BATCH: i64 = 200;
/// Lines of one reading.
const LINES: i64 = 1000;
/// What came of a reading, as it is counted: read and compared, or not told.
pub(super) const OK: &str = "ok";
pub(super) const FAILED: &str = "failed";

/// Takes the provider accounts whose statement is due, and moves their next turn on.
///
/// # Errors
/// Only the database's.
pub async fn take_due_reconciliations(db: &PgPool) -> Result<Vec<ProviderAccountId>> {
    let rows = sqlx::query_scalar!(
        "UPDATE provider_accounts SET reconcile_at = clock_timestamp() + make_interval(secs => $1)
         WHERE id IN (SELECT id FROM provider_accounts WHERE reconcile_at <= (SELECT clock_timestamp())
                      ORDER BY reconcile_at LIMIT $2 FOR NO KEY UPDATE SKIP LOCKED)
         RETURNING id",
        RECONCILE_EVERY.as_secs_f64(),
        RECONCILIATION_BATCH,
    )
    .fetch_all(db)
    .await?;
    Ok(rows)
}

struct Due {
    account_id: AccountId,
    provider: ProviderKind,
    since: Timestamp,
}

/// Compares what the provider has booked since the last time.
///
/// # Errors
/// The database's; the same lines are read again at the next turn.
pub async fn reconcile(db: &Db, providers: &Providers, clock: &Clock, id: ProviderAccountId) -> Result<()> {
    let due = sqlx::query_as!(
        Due,
        r#"SELECT account_id, provider, coalesce(reconciled_until, created_at) AS "since!"
           FROM provider_accounts WHERE id = $1"#,
        id.uuid()
    )
    .fetch_one(&**db)
    .await?;
    let Some(provider) = providers.get(due.provider) else { return Ok(()) };
    let asked = provider.statement(id, due.since, LINES);
    let lines = match tokio::time::timeout(PROVIDER_TIMEOUT, asked).await {
        Ok(Ok(lines)) => lines,
        Ok(Err(error)) => {
            count(due.provider, FAILED);
            tracing::warn!(provider_account = %id, %error, "no statement; it is asked for again in a minute");
            return Ok(());
        }
        Err(_) => {
            count(due.provider, FAILED);
            tracing::warn!(provider_account = %id, "no statement in time; it is asked for again in a minute");
            return Ok(());
        }
    };
    failpoint("reconcile.read").await?;
    let references: Vec<_> = lines.iter().map(|line| line.reference.clone()).collect();
    let known: HashMap<_, _> = operations::by_reference(db, id, &references).await?;
    let full = i64::try_from(lines.len()).is_ok_and(|n| n >= LINES);
    let until = lines.last().filter(|_| full).map(|line| line.occurred_at);
    for line in &lines {
        compare(db, clock, id, due.account_id, line, known.get(&line.reference)).await?;
    }
    move_on(db, id, until).await?;
    count(due.provider, OK);
    Ok(())
}

fn count(provider: ProviderKind, outcome: &'static str) {
    metrics::counter!("payments_statements_total", "provider" => provider.name(), "outcome" => outcome).increment(1);
}

async fn compare(
    db: &Db,
    clock: &Clock,
    provider_account: ProviderAccountId,
    account: AccountId,
    line: &StatementLine,
    known: Option<&Known>,
) -> Result<()> {
    let told = match &line.answer {
        Answer::Charged { provider_ref, .. } | Answer::Done { provider_ref } | Answer::Stored { provider_ref, .. } => {
            provider_ref
        }
        Answer::Challenged { .. } | Answer::Declined { .. } | Answer::Refused { .. } => return Ok(()),
    };
    match known {
        None => note_orphan(db, provider_account, account, line, told).await,
        Some(known) if known.state == State::Succeeded && known.provider_ref.as_ref() == Some(told) => Ok(()),
        // The charge protocol is at work on it, or will be when its lease ends.
        Some(known) if !known.state.is_final() && known.is_young(UNDER_WAY) => Ok(()),
        Some(known) => {
            let operation = operations::read(db, known.id, clock.now()).await?;
            if !known.state.is_final() && !is_asked(operation.provider, &operation.request.action, &line.answer) {
                tracing::error!(
                    operation = %known.id, provider_ref = told,
                    "the provider's statement tells of another amount than was asked: a person must look into it"
                );
                return Ok(());
            }
            tracing::warn!(
                operation = %known.id, state = known.state.name(), provider_ref = told,
                "the provider's statement tells of an outcome that our books lack; recording it"
            );
            metrics::counter!("payments_reconciled_total").increment(1);
            record_outcome(db, &operation, &line.answer, clock).await?;
            failpoint("reconcile.recorded").await
        }
    }
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

/// A full reading goes on where it ended; any other leaves the last minutes to be read again, for what was late.
async fn move_on(db: &PgPool, id: ProviderAccountId, until: Option<Timestamp>) -> Result<()> {
    sqlx::query!(
        "UPDATE provider_accounts SET
            reconciled_until = greatest(created_at, coalesce($2, clock_timestamp() - make_interval(secs => $3))),
            reconcile_at = CASE WHEN $2::timestamptz IS NULL THEN reconcile_at ELSE clock_timestamp() END
         WHERE id = $1",
        id.uuid(),
        until,
        (UNDER_WAY * 2).as_secs_f64(),
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
