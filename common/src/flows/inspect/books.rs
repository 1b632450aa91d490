//! A provider's statement of one day beside our books, both ways. Nothing is changed: that is `flows::reconcile`, which runs by
//! itself every minute.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use sqlx::PgPool;

use crate::accounts::Mode;
use crate::calendar::{Date, TimeZone};
use crate::error::{Error, Result};
use crate::flows::books::{About, Difference, Ours, between, differs, look_up, ours as shown, theirs, told_by};
use crate::id::{AccountId, OperationId, ProviderAccountId};
use crate::money::Money;
use crate::operations::books::{self, Known};
use crate::operations::{Kind, State};
use crate::providers::{Entry, Provider, ProviderKind, Providers, RecoveryClass, StatementLine};
use crate::time::Timestamp;

/// What was sent within the day may be booked so long after it, and the other way round.
const MARGIN: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);
/// Operations that are looked up one by one, at most.
const LOOK_UPS: usize = 1_000;
/// Operations of a provider account that are looked at, at most, and in one statement.
const OURS: usize = 500_000;
const PAGE: i64 = 10_000;

/// One line or operation about which they differ.
#[derive(Debug)]
pub struct Disagreement {
    /// How.
    pub difference: Difference,
    /// About what.
    pub entry: Entry,
    /// Our name for it, or the one that it has there; empty if it has none.
    pub reference: String,
    /// What the provider says.
    pub theirs: Value,
    /// What we say.
    pub ours: Value,
}

/// What was done of one kind in one currency, by each side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Total {
    /// Lines of the provider's, and their sum.
    pub theirs: (u64, i64),
    /// Operations of ours that these are about, or that the provider lacks, and their sum.
    pub ours: (u64, i64),
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
    /// By what was done and the currency, such as `("refund", "USD")`.
    pub totals: BTreeMap<(&'static str, &'static str), Total>,
    /// Why it could not be compared, if so.
    pub not_compared: Option<String>,
}

struct Account {
    id: ProviderAccountId,
    account_id: AccountId,
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
        "SELECT p.id, p.account_id, p.provider, a.mode FROM accounts a JOIN provider_accounts p ON p.account_id = a.id
         WHERE a.id = $1 ORDER BY p.account_id, p.id",
        account.uuid()
    );
    let accounts = accounts.fetch_all(db).await?;
    if accounts.is_empty() {
        return Err(Error::no_such("account", account));
    }
    let utc: TimeZone = "UTC".parse().map_err(|_| Error::internal("this machine does not know UTC"))?;
    let began = utc.beginning_of(day);
    let mut compared = Vec::new();
    for at in accounts {
        compared.push(compare(db, providers, &at, began).await?);
    }
    Ok(compared)
}

impl Compared {
    fn add(&mut self, entry: Entry, money: Money, add: impl FnOnce(&mut Total, i64)) {
        // A void's sum is that of its charge, which is there already.
        let minor = if entry == Entry::Void { 0 } else { money.minor };
        add(self.totals.entry((entry.name(), money.currency.code())).or_default(), minor);
    }

    fn add_theirs(&mut self, line: &StatementLine) {
        self.add(line.entry, line.money, |total, minor| total.theirs = (total.theirs.0 + 1, total.theirs.1 + minor));
    }

    fn add_ours(&mut self, known: &Known) {
        let (Some(entry), Some(money)) = (known.entry(), known.money()) else { return };
        if known.state == State::Succeeded {
            self.add(entry, money, |total, minor| total.ours = (total.ours.0 + 1, total.ours.1 + minor));
        }
    }
}

async fn compare(db: &PgPool, providers: &Providers, at: &Account, began: Timestamp) -> Result<Compared> {
    let mut compared = Compared {
        provider_account: at.id,
        provider: at.provider,
        lines: 0,
        operations: 0,
        disagreements: vec![],
        totals: BTreeMap::new(),
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
    let Some(sent) = sent_within(db, at, began).await? else {
        compared.not_compared = Some(format!("there are more than {OURS} operations of ours around that day"));
        return Ok(compared);
    };
    let end = began.plus(DAY);
    let ours = Ours::about(db, at.account_id, at.id, &lines).await?;
    for line in lines.iter().filter(|line| began <= line.occurred_at && line.occurred_at < end) {
        compared.lines += 1;
        compared.add_theirs(line);
        let about = ours.of(line);
        if let About::Ours(known) = &about {
            compared.add_ours(known);
        }
        compared.disagreements.extend(of_line(line, &about));
    }
    let done: Vec<_> =
        sent.into_iter().filter(|known| known.state == State::Succeeded && known.kind != Kind::StoreCard).collect();
    compared.operations = done.len();
    let is_told = told_by(&lines);
    let untold = done.into_iter().filter(|known| !is_told(known)).collect();
    match missing_at_provider(provider, at.id, end, untold).await {
        Ok(missing) => {
            for (known, difference, line) in missing {
                compared.add_ours(&known);
                compared.disagreements.push(Disagreement {
                    difference,
                    entry: known.entry().unwrap_or(Entry::Charge),
                    reference: known.reference.clone(),
                    theirs: line.as_ref().map_or(Value::Null, theirs),
                    ours: shown(&known),
                });
            }
        }
        Err(reason) => compared.not_compared = Some(reason),
    }
    compared.disagreements.sort_by(|a, b| a.reference.cmp(&b.reference));
    Ok(compared)
}

/// Those of ours that the provider does not have: neither in a later statement, for what was sent within the day may have been booked
/// when its outcome was found, days later, nor by its own name for them.
async fn missing_at_provider(
    provider: &dyn Provider,
    account: ProviderAccountId,
    end: Timestamp,
    mut untold: Vec<Known>,
) -> std::result::Result<Vec<(Known, Difference, Option<StatementLine>)>, String> {
    let latest = untold.iter().filter_map(|known| known.settled_at).max().map(|at| at.plus(MARGIN));
    if let Some(until) = latest.filter(|until| *until > end) {
        let later = between(provider, account, end, until).await?;
        let is_told = told_by(&later);
        untold.retain(|known| !is_told(known));
    }
    let looked_up = look_up(provider, account, untold, LOOK_UPS).await;
    match looked_up.stopped {
        None => Ok(looked_up.differ),
        Some((known, Some(why))) => Err(format!("the provider did not say whether it has {}: {why}", known.reference)),
        Some((_, None)) => Err(format!("more than {LOOK_UPS} operations of ours are not in the statement")),
    }
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
    between(provider, account, began.minus(MARGIN), began.plus(DAY + MARGIN)).await
}

/// Our operations that were sent within the day. References are ids and begin with their time; that of a test account may be
/// ahead, so all of its operations are looked at. None if there are too many to be looked at.
async fn sent_within(db: &PgPool, at: &Account, began: Timestamp) -> Result<Option<Vec<Known>>> {
    let floor = |instant: Timestamp| {
        let text = OperationId::new(instant).to_string();
        // The ten characters of the time, after the prefix.
        text.get(..OperationId::PREFIX.len() + 10).unwrap_or_default().to_owned()
    };
    let (mut after, before) = match at.mode {
        Mode::Live => (floor(began.minus(DAY)), floor(began.plus(DAY * 2))),
        // A ULID begins with 7 at the most.
        Mode::Test => (OperationId::PREFIX.to_owned(), format!("{}8", OperationId::PREFIX)),
    };
    let (mut found, mut looked_at) = (Vec::new(), 0);
    loop {
        let page = books::page(db, at.id, &after, &before, PAGE).await?;
        let is_full = i64::try_from(page.len()).is_ok_and(|len| len >= PAGE);
        looked_at += page.len();
        let Some(last) = page.last().map(|known| known.reference.clone()) else { return Ok(Some(found)) };
        let of_day = |known: &Known| known.first_sent_at.is_some_and(|at| began <= at && at < began.plus(DAY));
        found.extend(page.into_iter().filter(of_day));
        if !is_full {
            return Ok(Some(found));
        }
        if looked_at >= OURS {
            return Ok(None);
        }
        after = last;
    }
}

fn of_line(line: &StatementLine, about: &About<'_>) -> Option<Disagreement> {
    let (difference, known) = match about {
        About::Ours(known) => (differs(known, line)?, Some(*known)),
        // What is under way at this moment.
        About::Nobody { may_be: Some(known), .. } => (Difference::Status, Some(*known)),
        About::Nobody { may_be: None, .. } => (Difference::MissingWithUs, None),
    };
    Some(Disagreement {
        difference,
        entry: line.entry,
        reference: line.reference.clone(),
        theirs: theirs(line),
        ours: known.map_or(Value::Null, shown),
    })
}
