//! Compares a provider's statement of one day with our books, in both directions, without changing anything. The
//! comparison that records outcomes is `engine::reconcile`, which runs every minute.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use serde_json::Value;
use sqlx::PgPool;

use domain::accounts::Mode;
use domain::disputes::books as dispute_books;
use domain::operations::books::{self, RecordedOperation};
use domain::operations::{OperationKind, State};
use engine::reconcile::books::{
    Difference, LineMatch, OurBooks, OurEntry, find_difference, listed_in, look_up_missing, provider_side,
    statement_between,
};
use foundation::calendar::{Date, TimeZone};
use foundation::error::{Error, Result};
use foundation::id::{AccountId, OperationId, ProviderAccountId};
use foundation::money::Money;
use foundation::time::Timestamp;
use providers::{Entry, Provider, ProviderKind, Providers, RecoveryClass, StatementLine};

/// Maximum difference between sending an operation and its booking, in either direction.
const MARGIN: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);
/// Maximum number of operations, and of movements of disputed money, looked up individually.
const MAX_LOOK_UPS: usize = 1_000;
/// Maximum number of operations read per provider account, and per query.
const MAX_OPERATIONS: usize = 500_000;
const PAGE: i64 = 10_000;

/// A line or operation that differs.
#[derive(Debug)]
pub struct BookMismatch {
    pub difference: Difference,
    pub entry: Entry,
    /// Our reference, or the one in the statement; empty if it has none.
    pub reference: String,
    pub theirs: Value,
    pub ours: Value,
}

/// The totals of one kind in one currency, by side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Total {
    /// Number and sum of the provider's lines.
    pub theirs: (u64, i128),
    /// Number and sum of our operations that match these lines, or that the provider lacks.
    pub ours: (u64, i128),
}

/// The comparison of one provider account.
#[derive(Debug)]
pub struct AccountComparison {
    pub provider_account: ProviderAccountId,
    pub provider: ProviderKind,
    /// Number of lines of the statement within the day.
    pub lines: usize,
    /// Number of our succeeded operations sent within the day.
    pub operations: usize,
    pub mismatches: Vec<BookMismatch>,
    /// By kind and currency, such as `("refund", "USD")`.
    pub totals: BTreeMap<(&'static str, &'static str), Total>,
    /// Why it could not be compared; `None` if it was.
    pub not_compared: Option<String>,
}

struct Account {
    id: ProviderAccountId,
    account_id: AccountId,
    provider: ProviderKind,
    mode: Mode,
}

/// Compares a UTC day at each provider account of an account.
///
/// # Errors
/// [`Error::NotFound`] for an unknown account; database errors.
pub async fn compare_books(
    db: &PgPool,
    providers: &Providers,
    account: AccountId,
    day: Date,
) -> Result<Vec<AccountComparison>> {
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
    let utc: TimeZone = "UTC".parse().map_err(|_| Error::internal("this machine has no time zone data for UTC"))?;
    let start = utc.beginning_of(day);
    let mut compared = Vec::new();
    for at in accounts {
        compared.push(compare(db, providers, &at, start).await?);
    }
    Ok(compared)
}

impl AccountComparison {
    fn add(&mut self, entry: Entry, money: Money, add: impl FnOnce(&mut Total, i128)) {
        // A void's amount is its charge's, which is already counted.
        let minor = if entry == Entry::Void { 0 } else { money.minor.into() };
        add(self.totals.entry((entry.name(), money.currency.code())).or_default(), minor);
    }

    fn add_theirs(&mut self, line: &StatementLine) {
        self.add(line.entry, line.money, |total, minor| total.theirs = (total.theirs.0 + 1, total.theirs.1 + minor));
    }

    fn add_ours(&mut self, recorded: OurEntry<'_>) {
        let money = match recorded {
            OurEntry::Operation(recorded) => recorded.money().filter(|_| recorded.state == State::Succeeded),
            OurEntry::Movement(movement) => Some(movement.money),
        };
        if let (Some(entry), Some(money)) = (recorded.entry(), money) {
            self.add(entry, money, |total, minor| total.ours = (total.ours.0 + 1, total.ours.1 + minor));
        }
    }

    /// Adds what the provider lacks or has otherwise.
    fn add_looked_up<T>(&mut self, looked_up: std::result::Result<Vec<LookedUp<T>>, String>)
    where
        for<'e> OurEntry<'e>: From<&'e T>,
    {
        let differ = match looked_up {
            Ok(differ) => differ,
            Err(reason) => {
                self.not_compared = Some(reason);
                return;
            }
        };
        for (recorded, difference, line) in &differ {
            let recorded = OurEntry::from(recorded);
            self.add_ours(recorded);
            self.mismatches.push(BookMismatch {
                difference: *difference,
                entry: recorded.entry().unwrap_or(Entry::Charge),
                reference: recorded.reference().to_owned(),
                theirs: line.as_ref().map_or(Value::Null, provider_side),
                ours: recorded.side(),
            });
        }
    }
}

async fn compare(db: &PgPool, providers: &Providers, at: &Account, start: Timestamp) -> Result<AccountComparison> {
    let mut compared = AccountComparison {
        provider_account: at.id,
        provider: at.provider,
        lines: 0,
        operations: 0,
        mismatches: vec![],
        totals: BTreeMap::new(),
        not_compared: None,
    };
    let Some(provider) = providers.get(at.provider) else {
        compared.not_compared = Some("CARD_GATEWAY_URL is not set".to_owned());
        return Ok(compared);
    };
    let lines = match lines_of_day(provider, at.id, start).await {
        Ok(lines) => lines,
        Err(reason) => {
            compared.not_compared = Some(reason);
            return Ok(compared);
        }
    };
    let Some(sent) = sent_within(db, at, start).await? else {
        compared.not_compared = Some(format!("our books have more than {MAX_OPERATIONS} operations around that day"));
        return Ok(compared);
    };
    let end = start.plus(DAY);
    let our_books = OurBooks::load(db, at.account_id, at.id, &lines).await?;
    for line in lines.iter().filter(|line| start <= line.occurred_at && line.occurred_at < end) {
        compared.lines += 1;
        compared.add_theirs(line);
        let line_match = our_books.match_line(line);
        match &line_match {
            LineMatch::Operation(recorded) => compared.add_ours((*recorded).into()),
            LineMatch::Movement(movement) => compared.add_ours((*movement).into()),
            LineMatch::Unmatched { .. } => {}
        }
        compared.mismatches.extend(line_mismatch(line, &line_match));
    }
    let done: Vec<_> = sent
        .into_iter()
        .filter(|recorded| recorded.state == State::Succeeded && recorded.kind != OperationKind::StoreCard)
        .collect();
    compared.operations = done.len();
    let is_listed = listed_in(&lines);
    let unlisted = done.into_iter().filter(|recorded| !is_listed(recorded)).collect();
    compared.add_looked_up(missing_at_provider(provider, at.id, end, unlisted).await);
    let written = dispute_books::written(db, at.id, start, end, PAGE).await?;
    if i64::try_from(written.len()).is_ok_and(|count| count >= PAGE) {
        compared.not_compared = Some(format!("our books have more than {} disputes of that day", PAGE / 2));
    }
    let listed: HashSet<_> = lines.iter().map(|line| &line.provider_ref).collect();
    let unlisted = written.into_iter().filter(|movement| !listed.contains(&movement.provider_ref)).collect();
    compared.add_looked_up(look_up_all(provider, at.id, unlisted).await);
    compared.mismatches.sort_by(|a, b| a.reference.cmp(&b.reference));
    Ok(compared)
}

/// Returns our operations that the provider does not have: neither in a later statement, since an operation sent within
/// the day may be booked when its outcome is found days later, nor by a look-up.
async fn missing_at_provider(
    provider: &dyn Provider,
    account: ProviderAccountId,
    end: Timestamp,
    mut unlisted: Vec<RecordedOperation>,
) -> std::result::Result<Vec<LookedUp<RecordedOperation>>, String> {
    let latest = unlisted.iter().filter_map(|recorded| recorded.settled_at).max().map(|at| at.plus(MARGIN));
    if let Some(until) = latest.filter(|until| *until > end) {
        let later = statement_between(provider, account, end, until).await?;
        let is_listed = listed_in(&later);
        unlisted.retain(|recorded| !is_listed(recorded));
    }
    look_up_all(provider, account, unlisted).await
}

/// An entry of ours that differs, and the provider's line, if there is one.
type LookedUp<T> = (T, Difference, Option<StatementLine>);

async fn look_up_all<T>(
    provider: &dyn Provider,
    account: ProviderAccountId,
    unlisted: Vec<T>,
) -> std::result::Result<Vec<LookedUp<T>>, String>
where
    for<'e> OurEntry<'e>: From<&'e T>,
{
    let looked_up = look_up_missing(provider, account, unlisted, MAX_LOOK_UPS).await;
    match looked_up.stopped {
        None => Ok(looked_up.differ),
        Some((recorded, Some(why))) => {
            let provider_ref = OurEntry::from(&recorded).provider_ref().unwrap_or_default();
            Err(format!("the look-up of {provider_ref} failed: {why}"))
        }
        Some((_, None)) => Err(format!("more than {MAX_LOOK_UPS} of our entries are not in the statement")),
    }
}

/// Returns the statement of the day with its margins, or why it could not be read.
async fn lines_of_day(
    provider: &dyn Provider,
    account: ProviderAccountId,
    start: Timestamp,
) -> std::result::Result<Vec<StatementLine>, String> {
    let class = provider.recovery(account, OperationKind::Sale).await.map_err(|error| error.to_string())?;
    if class == RecoveryClass::Neither {
        return Err("the provider does not support references (class C): compare its own report manually".to_owned());
    }
    statement_between(provider, account, start.minus(MARGIN), start.plus(DAY + MARGIN)).await
}

/// Returns our operations sent within the day. References are ids, which begin with their time; in a test account that
/// time may be ahead, so all its operations are read. `None` if there are too many.
async fn sent_within(db: &PgPool, at: &Account, start: Timestamp) -> Result<Option<Vec<RecordedOperation>>> {
    let floor = |instant: Timestamp| {
        let text = OperationId::new(instant).to_string();
        // The prefix and the ten characters of the time.
        text.get(..OperationId::PREFIX.len() + 10).unwrap_or_default().to_owned()
    };
    let (mut after, before) = match at.mode {
        Mode::Live => (floor(start.minus(DAY)), floor(start.plus(DAY * 2))),
        // A ULID's first character is at most 7.
        Mode::Test => (OperationId::PREFIX.to_owned(), format!("{}8", OperationId::PREFIX)),
    };
    let (mut found, mut read) = (Vec::new(), 0);
    loop {
        let page = books::page(db, at.id, &after, &before, PAGE).await?;
        let is_full = i64::try_from(page.len()).is_ok_and(|len| len >= PAGE);
        read += page.len();
        let Some(last) = page.last().map(|recorded| recorded.reference.clone()) else { return Ok(Some(found)) };
        let of_day =
            |recorded: &RecordedOperation| recorded.first_sent_at.is_some_and(|at| start <= at && at < start.plus(DAY));
        found.extend(page.into_iter().filter(of_day));
        if !is_full {
            return Ok(Some(found));
        }
        if read >= MAX_OPERATIONS {
            return Ok(None);
        }
        after = last;
    }
}

fn line_mismatch(line: &StatementLine, line_match: &LineMatch<'_>) -> Option<BookMismatch> {
    let (difference, recorded) = match line_match {
        LineMatch::Operation(recorded) => (find_difference(recorded, line)?, Some(OurEntry::from(*recorded))),
        LineMatch::Movement(movement) => (OurEntry::from(*movement).difference(line)?, Some((*movement).into())),
        // It is in progress.
        LineMatch::Unmatched { candidate: Some(recorded), .. } => (Difference::Status, Some((*recorded).into())),
        LineMatch::Unmatched { candidate: None, .. } => (Difference::MissingWithUs, None),
    };
    Some(BookMismatch {
        difference,
        entry: line.entry,
        reference: line.reference.clone(),
        theirs: provider_side(line),
        ours: recorded.map_or(Value::Null, OurEntry::side),
    })
}
