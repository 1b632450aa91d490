//! A provider's statement of one day beside our books, both ways. Nothing is changed: that is `flows::reconcile`, which runs by
//! itself every minute.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use serde_json::{Value, json};
use sqlx::PgPool;

use crate::accounts::Mode;
use crate::calendar::{Date, TimeZone};
use crate::error::{Error, Result};
use crate::id::{AccountId, OperationId, PaymentId, ProviderAccountId};
use crate::operations::{Kind, PROVIDER_TIMEOUT, State};
use crate::providers::{Answer, Provider, ProviderKind, Providers, RecoveryClass, StatementLine};
use crate::time::Timestamp;

/// What was sent within the day may be booked so long after it, and the other way round.
const MARGIN: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);
/// Lines of one reading, and readings of one day.
const LINES: i64 = 1000;
const READINGS: usize = 500;
/// Operations of a provider account that are looked at, at most, and in one statement.
const OURS: usize = 500_000;
const PAGE: i64 = 10_000;

/// How the two sides differ about one reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Difference {
    /// The provider has it, and we know no such reference.
    MissingWithUs,
    /// We have it as done, and the provider's statement does not.
    MissingAtProvider,
    /// Both have it, with different amounts.
    Amount,
    /// The provider has done it, and we have another end of it or none, or under another name.
    Status,
}

impl Difference {
    /// As it is printed.
    pub const fn name(self) -> &'static str {
        match self {
            Self::MissingWithUs => "missing_with_us",
            Self::MissingAtProvider => "missing_at_provider",
            Self::Amount => "amount",
            Self::Status => "status",
        }
    }
}

/// One reference about which they differ.
#[derive(Debug)]
pub struct Disagreement {
    /// How.
    pub difference: Difference,
    /// Our name for it, or the one that it has there.
    pub reference: String,
    /// What the provider says.
    pub theirs: Value,
    /// What we say.
    pub ours: Value,
}

/// One provider account of the account, compared.
#[derive(Debug)]
pub struct Compared {
    /// Which.
    pub provider_account: ProviderAccountId,
    /// Who is there.
    pub provider: ProviderKind,
    /// Lines of the statement within the day.
    pub lines: usize,
    /// Our operations within the day that the statement tells of.
    pub operations: usize,
    /// Where they differ.
    pub disagreements: Vec<Disagreement>,
    /// Why it could not be compared, if so.
    pub not_compared: Option<String>,
}

struct Account {
    id: ProviderAccountId,
    provider: ProviderKind,
    mode: Mode,
}

/// Compares a day, of UTC, at each provider account of an account.
///
/// # Errors
/// [`Error::NotFound`] for an account that does not exist; the database's.
pub async fn compare_books(db: &PgPool, providers: &Providers, account: AccountId, day: Date) -> Result<Vec<Compared>> {
    let accounts = sqlx::query_as!(
        Account,
        "SELECT p.id, p.provider, a.mode FROM accounts a JOIN provider_accounts p ON p.account_id = a.id
         WHERE a.id = $1 ORDER BY p.account_id, p.id",
        account.uuid()
    );
    let accounts = accounts.fetch_all(db).await?;
    if accounts.is_empty() {
        return Err(Error::NotFound("account"));
    }
    let utc: TimeZone = "UTC".parse().map_err(|_| Error::internal("this machine does not know UTC"))?;
    let began = utc.beginning_of(day);
    let mut compared = Vec::new();
    for at in accounts {
        compared.push(compare(db, providers, &at, began).await?);
    }
    Ok(compared)
}

async fn compare(db: &PgPool, providers: &Providers, at: &Account, began: Timestamp) -> Result<Compared> {
    let mut compared = Compared {
        provider_account: at.id,
        provider: at.provider,
        lines: 0,
        operations: 0,
        disagreements: vec![],
        not_compared: None,
    };
    let Some(provider) = providers.get(at.provider) else {
        compared.not_compared = Some("CARD_GATEWAY_URL is not set".to_owned());
        return Ok(compared);
    };
    let lines = match lines_of_day(provider, at.id, began).await {
        Ok(lines) => lines,
        Err(reason) => {
            compared.not_compared = Some(reason);
            return Ok(compared);
        }
    };
    let Some(mut ours) = ours(db, at, began).await? else {
        compared.not_compared = Some(format!("there are more than {OURS} operations of ours around that day"));
        return Ok(compared);
    };
    // What was sent on another day and booked on this one.
    let missing: Vec<_> =
        lines.iter().map(|line| &line.reference).filter(|reference| !ours.contains_key(*reference)).cloned().collect();
    ours.extend(by_reference(db, at.id, &missing).await?);
    let end = began.plus(DAY);
    let within = |instant: Timestamp| began <= instant && instant < end;
    let mut seen = HashSet::new();
    for line in &lines {
        let known = ours.get(&line.reference);
        seen.insert(line.reference.as_str());
        if within(line.occurred_at) {
            compared.lines += 1;
            compared.disagreements.extend(of_line(line, known));
        }
    }
    let mut untold = Vec::new();
    for (reference, row) in &ours {
        let is_told = at.provider == ProviderKind::Mock || matches!(row.kind, Kind::Sale | Kind::Authorize);
        let is_done = row.state == State::Succeeded && row.kind != Kind::StoreCard;
        if is_told && is_done && row.first_sent_at.is_some_and(within) {
            compared.operations += 1;
            if !seen.contains(reference.as_str()) {
                untold.push(row);
            }
        }
    }
    match missing_at_provider(provider, at.id, end, untold).await {
        Ok(missing) => compared.disagreements.extend(missing),
        Err(reason) => compared.not_compared = Some(reason),
    }
    compared.disagreements.sort_by(|a, b| a.reference.cmp(&b.reference));
    Ok(compared)
}

/// Those of ours that the statement does not tell of later either: what was sent within the day may have been booked when its
/// outcome was found, days later.
async fn missing_at_provider(
    provider: &dyn Provider,
    account: ProviderAccountId,
    end: Timestamp,
    mut untold: Vec<&Row>,
) -> std::result::Result<Vec<Disagreement>, String> {
    let latest = untold.iter().filter_map(|row| row.settled_at).max().map(|at| at.plus(MARGIN));
    if let Some(until) = latest.filter(|until| *until > end) {
        let later = statement(provider, account, end, until).await?;
        let told: HashSet<_> = later.iter().map(|line| line.reference.as_str()).collect();
        untold.retain(|row| !told.contains(row.reference.as_str()));
    }
    let missing = untold.into_iter().map(|row| Disagreement {
        difference: Difference::MissingAtProvider,
        reference: row.reference.clone(),
        theirs: Value::Null,
        ours: row.shown(),
    });
    Ok(missing.collect())
}

/// The statement of the day with its margins, or why there is none.
async fn lines_of_day(
    provider: &dyn Provider,
    account: ProviderAccountId,
    began: Timestamp,
) -> std::result::Result<Vec<StatementLine>, String> {
    let class = provider.recovery(account, Kind::Sale).await.map_err(|fault| fault.to_string())?;
    if class == RecoveryClass::Neither {
        return Err("the provider keeps no references (class C): compare its own report by hand".to_owned());
    }
    let before = began.as_millisecond() - i64::try_from(MARGIN.as_millis()).unwrap_or_default();
    let since = Timestamp::from_millisecond(before).unwrap_or(began);
    statement(provider, account, since, began.plus(DAY + MARGIN)).await
}

/// All lines between two instants.
async fn statement(
    provider: &dyn Provider,
    account: ProviderAccountId,
    mut since: Timestamp,
    end: Timestamp,
) -> std::result::Result<Vec<StatementLine>, String> {
    let (mut lines, mut seen): (Vec<StatementLine>, HashSet<String>) = <_>::default();
    for _ in 0..READINGS {
        let asked = tokio::time::timeout(PROVIDER_TIMEOUT * 6, provider.statement(account, since, LINES)).await;
        let page = asked.map_err(|_| "no statement in time".to_owned())?.map_err(|fault| fault.to_string())?;
        let full = i64::try_from(page.len()).is_ok_and(|count| count >= LINES);
        let last = page.last().map(|line| line.occurred_at);
        let before = lines.len();
        lines.extend(page.into_iter().filter(|line| line.occurred_at < end && seen.insert(line.reference.clone())));
        match last {
            Some(last) if full && last < end && lines.len() > before => since = last,
            Some(last) if full && last < end => return Err(format!("the statement stands still at {last}")),
            _ => return Ok(lines),
        }
    }
    Err(format!("the statement up to {end} is too long"))
}

struct Row {
    id: OperationId,
    reference: String,
    kind: Kind,
    state: State,
    provider_ref: Option<String>,
    first_sent_at: Option<Timestamp>,
    /// When it was sent last, or its outcome was written, whichever is later.
    settled_at: Option<Timestamp>,
    payment_id: Option<PaymentId>,
    /// What was approved, of a charge; what was asked for, of others.
    amount: Option<i64>,
}

impl Row {
    fn shown(&self) -> Value {
        json!({
            "operation": self.id, "kind": self.kind.name(), "state": self.state.name(), "provider_ref": self.provider_ref,
            "payment": self.payment_id, "amount": self.amount,
        })
    }
}

fn keyed(rows: Vec<Row>) -> HashMap<String, Row> {
    rows.into_iter().map(|row| (row.reference.clone(), row)).collect()
}

/// Our operations that were sent within the day. References are ids and begin with their time; that of a test account may be
/// ahead, so all of its operations are looked at. None if there are too many to be looked at.
async fn ours(db: &PgPool, at: &Account, began: Timestamp) -> Result<Option<HashMap<String, Row>>> {
    let floor = |instant: Timestamp| {
        let text = OperationId::new(instant).to_string();
        // The ten characters of the time, after the prefix.
        text.get(..OperationId::PREFIX.len() + 10).unwrap_or_default().to_owned()
    };
    let day_before = began.as_millisecond() - i64::try_from(DAY.as_millis()).unwrap_or_default();
    let (mut after, before) = match at.mode {
        Mode::Live => (floor(Timestamp::from_millisecond(day_before).unwrap_or(began)), floor(began.plus(DAY * 2))),
        // A ULID begins with 7 at the most.
        Mode::Test => (OperationId::PREFIX.to_owned(), format!("{}8", OperationId::PREFIX)),
    };
    let (mut found, mut looked_at) = (HashMap::new(), 0);
    loop {
        let page = page(db, at.id, &after, &before).await?;
        let is_full = i64::try_from(page.len()).is_ok_and(|len| len >= PAGE);
        looked_at += page.len();
        let Some(last) = page.last().map(|row| row.reference.clone()) else { return Ok(Some(found)) };
        let of_day = |row: &Row| row.first_sent_at.is_some_and(|at| began <= at && at < began.plus(DAY));
        found.extend(keyed(page.into_iter().filter(of_day).collect()));
        if !is_full {
            return Ok(Some(found));
        }
        if looked_at >= OURS {
            return Ok(None);
        }
        after = last;
    }
}

async fn page(db: &PgPool, at: ProviderAccountId, after: &str, before: &str) -> Result<Vec<Row>> {
    let rows = sqlx::query_as!(
        Row,
        r#"SELECT o.id AS "id!", o.reference AS "reference!", o.kind AS "kind!: Kind", o.state AS "state!: State", o.provider_ref AS "provider_ref?",
                  o.first_sent_at AS "first_sent_at?", greatest(o.last_sent_at, o.finished_at) AS settled_at, o.payment_id AS "payment_id?",
                  CASE WHEN o.kind IN ('sale', 'authorize') AND o.state = 'succeeded' THEN p.amount ELSE o.amount END AS amount
           FROM (SELECT * FROM operations WHERE provider_account_id = $1 AND reference > $2 AND reference < $3
                 ORDER BY provider_account_id, reference LIMIT $4) o
           LEFT JOIN payments p ON p.id = o.payment_id"#,
        at.uuid(),
        after,
        before,
        PAGE,
    );
    let mut rows = rows.fetch_all(db).await?;
    rows.sort_by(|a, b| a.reference.cmp(&b.reference));
    Ok(rows)
}

async fn by_reference(db: &PgPool, at: ProviderAccountId, references: &[String]) -> Result<HashMap<String, Row>> {
    let rows = sqlx::query_as!(
        Row,
        r#"SELECT o.id, o.reference, o.kind, o.state, o.provider_ref, o.first_sent_at,
                  greatest(o.last_sent_at, o.finished_at) AS settled_at, o.payment_id,
                  CASE WHEN o.kind IN ('sale', 'authorize') AND o.state = 'succeeded' THEN p.amount ELSE o.amount END AS amount
           FROM operations o LEFT JOIN payments p ON p.id = o.payment_id
           WHERE o.provider_account_id = $1 AND o.reference = ANY ($2)"#,
        at.uuid(),
        references,
    );
    Ok(keyed(rows.fetch_all(db).await?))
}

fn of_line(line: &StatementLine, known: Option<&Row>) -> Option<Disagreement> {
    let (named, amount) = match &line.answer {
        Answer::Charged { provider_ref, amount, .. } => (provider_ref, Some(*amount)),
        Answer::Done { provider_ref } => (provider_ref, None),
        Answer::Mismatched { provider_ref, total } => (provider_ref, Some(*total)),
        Answer::Challenged { .. } | Answer::Declined { .. } | Answer::Refused { .. } | Answer::Stored { .. } => {
            return None;
        }
    };
    let difference = match known {
        None => Difference::MissingWithUs,
        Some(row) if row.state != State::Succeeded || row.provider_ref.as_ref() != Some(named) => Difference::Status,
        Some(row) if amount.is_some() && row.amount != amount => Difference::Amount,
        Some(_) => return None,
    };
    Some(Disagreement {
        difference,
        reference: line.reference.clone(),
        theirs: json!({"provider_ref": named, "amount": amount, "occurred_at": line.occurred_at}),
        ours: known.map_or(Value::Null, Row::shown),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(amount: i64) -> StatementLine {
        let occurred_at = Timestamp::from_millisecond(1_800_000_000_000).expect("in range");
        let answer = Answer::Charged { provider_ref: "ch_1".into(), amount, card: None };
        StatementLine { reference: "op_1".into(), answer, occurred_at }
    }

    fn row(state: State, provider_ref: &str) -> Row {
        Row {
            id: OperationId::new(line(1).occurred_at),
            reference: "op_1".into(),
            kind: Kind::Sale,
            state,
            provider_ref: Some(provider_ref.into()),
            first_sent_at: None,
            settled_at: None,
            payment_id: None,
            amount: Some(500),
        }
    }

    #[test]
    fn each_way_to_differ_has_its_name() {
        let told = |line, known: Option<&Row>| of_line(&line, known).map(|found| found.difference);
        let done = row(State::Succeeded, "ch_1");
        assert_eq!(told(line(500), Some(&done)), None);
        assert_eq!(told(line(500), None), Some(Difference::MissingWithUs));
        assert_eq!(told(line(499), Some(&done)), Some(Difference::Amount));
        assert_eq!(told(line(500), Some(&row(State::Failed, "ch_1"))), Some(Difference::Status));
        assert_eq!(told(line(500), Some(&row(State::Succeeded, "ch_2"))), Some(Difference::Status));
    }
}
