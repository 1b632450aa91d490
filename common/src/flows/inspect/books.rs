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
/// Operations of a provider account that are compared at most.
const OURS: i64 = 500_000;

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
    let lines = match statement(provider, at.id, began).await {
        Ok(lines) => lines,
        Err(reason) => {
            compared.not_compared = Some(reason);
            return Ok(compared);
        }
    };
    let mut ours = ours(db, at, began).await?;
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
    for (reference, row) in &ours {
        let is_told = at.provider == ProviderKind::Mock || matches!(row.kind, Kind::Sale | Kind::Authorize);
        let is_done = row.state == State::Succeeded && row.kind != Kind::StoreCard;
        if is_told && is_done && row.first_sent_at.is_some_and(within) {
            compared.operations += 1;
            if !seen.contains(reference.as_str()) {
                compared.disagreements.push(Disagreement {
                    difference: Difference::MissingAtProvider,
                    reference: reference.clone(),
                    theirs: Value::Null,
                    ours: row.shown(),
                });
            }
        }
    }
    compared.disagreements.sort_by(|a, b| a.reference.cmp(&b.reference));
    Ok(compared)
}

/// The statement of the day with its margins, or why there is none.
async fn statement(
    provider: &dyn Provider,
    account: ProviderAccountId,
    began: Timestamp,
) -> std::result::Result<Vec<StatementLine>, String> {
    let class = provider.recovery(account, Kind::Sale).await.map_err(|fault| fault.to_string())?;
    if class == RecoveryClass::Neither {
        return Err("the provider keeps no references (class C): compare its own report by hand".to_owned());
    }
    let end = began.plus(DAY + MARGIN);
    let before = began.as_millisecond() - i64::try_from(MARGIN.as_millis()).unwrap_or_default();
    let mut since = Timestamp::from_millisecond(before).unwrap_or(began);
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
    Err("the statement of this day is too long".to_owned())
}

struct Row {
    id: OperationId,
    reference: String,
    kind: Kind,
    state: State,
    provider_ref: Option<String>,
    first_sent_at: Option<Timestamp>,
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
/// ahead, so all of its operations are looked at.
async fn ours(db: &PgPool, at: &Account, began: Timestamp) -> Result<HashMap<String, Row>> {
    let floor = |instant: Timestamp| {
        let text = OperationId::new(instant).to_string();
        // The ten characters of the time, after the prefix.
        text.get(..OperationId::PREFIX.len() + 10).unwrap_or_default().to_owned()
    };
    let day_before = began.as_millisecond() - i64::try_from(DAY.as_millis()).unwrap_or_default();
    let (from, to) = match at.mode {
        Mode::Live => (floor(Timestamp::from_millisecond(day_before).unwrap_or(began)), floor(began.plus(DAY * 2))),
        Mode::Test => (OperationId::PREFIX.to_owned(), format!("{}~", OperationId::PREFIX)),
    };
    let rows = sqlx::query_as!(
        Row,
        r#"SELECT o.id, o.reference, o.kind, o.state, o.provider_ref, o.first_sent_at, o.payment_id,
                  CASE WHEN o.kind IN ('sale', 'authorize') AND o.state = 'succeeded' THEN p.amount ELSE o.amount END AS amount
           FROM (SELECT * FROM operations WHERE provider_account_id = $1 AND reference >= $2 AND ($6 OR reference < $3)
                 ORDER BY provider_account_id, reference LIMIT $7) o
           LEFT JOIN payments p ON p.id = o.payment_id
           WHERE o.first_sent_at >= $4 AND o.first_sent_at < $5"#,
        at.id.uuid(),
        from,
        to,
        began,
        began.plus(DAY),
        at.mode == Mode::Test,
        OURS,
    );
    Ok(keyed(rows.fetch_all(db).await?))
}

async fn by_reference(db: &PgPool, at: ProviderAccountId, references: &[String]) -> Result<HashMap<String, Row>> {
    let rows = sqlx::query_as!(
        Row,
        r#"SELECT o.id, o.reference, o.kind, o.state, o.provider_ref, o.first_sent_at, o.payment_id,
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
