//! The statement: all successful transactions of the report since an instant, oldest first. The report is paged and
//! newest first, so that new transactions shift the others to later pages while it is read. Each page therefore counts
//! all transactions: counted from the oldest, a transaction keeps its position, also while it is in progress.

use super::Credentials;
use super::report::{self, Record, State, Status, Type};
use super::wire::Wire;
use crate::{Entry, Found, ParentCharge, ProviderError, ProviderKind, ProviderResponse, Statement, StatementLine};
use foundation::time::Timestamp;

/// The report selects by days in the account's time zone; one more day covers every offset.
const MARGIN_DAYS: i64 = 1;
/// Transactions on a page of the report.
const PAGE_SIZE: u64 = 100;

pub(super) async fn read(
    wire: &Wire,
    account: &Credentials,
    since: Timestamp,
    limit: usize,
) -> Result<Statement, ProviderError> {
    let reader = ReportReader { wire, account, from: day(since, -MARGIN_DAYS) };
    let (mut position, mut count) = reader.first_since(since).await?;
    let (mut lines, mut unfinished_since) = (Vec::new(), None);
    while position < count && lines.len() < limit {
        let page = reader.page((count - 1 - position) / PAGE_SIZE + 1).await?;
        count = page.count;
        // Where the page ends, and how many of its newest transactions have not been read.
        let end = count.saturating_sub((page.number - 1) * PAGE_SIZE);
        let unread = usize::try_from(end.saturating_sub(position)).unwrap_or(usize::MAX);
        if unread > page.transactions.len() {
            // So many have been added that the next one is now on a later page.
            continue;
        }
        for record in page.transactions[..unread].iter().rev() {
            if !is_since(record, since)? {
                continue;
            }
            lines.extend(line(record)?);
            // The oldest comes first.
            if unfinished_since.is_none() && matches!(record.state(), Ok(State::Pending)) {
                unfinished_since = Some(record.at()?);
            }
        }
        position = end;
    }
    lines.truncate(limit);
    Ok(Statement { unfinished_since, ..Statement::limited(lines, limit) })
}

/// The report's times have a resolution of one second, so the whole second is read again.
fn is_since(record: &Record, since: Timestamp) -> Result<bool, ProviderError> {
    Ok(record.at()?.as_millisecond() + 1000 > since.as_millisecond())
}

/// Returns the statement line of a transaction id.
pub(super) async fn booked(
    wire: &Wire,
    account: &Credentials,
    provider_ref: &str,
) -> Result<Option<StatementLine>, ProviderError> {
    // Not an id of the gateway, which would refuse the query.
    if !ProviderKind::CardGateway.is_reference(provider_ref) {
        return Ok(None);
    }
    report::by_id(wire, account, provider_ref).await?.map_or(Ok(None), |record| line(&record))
}

/// The statement line of a successful transaction. One that cannot be parsed is an error, because otherwise money that
/// moved would go unnoticed.
pub(super) fn line(record: &Record) -> Result<Option<StatementLine>, ProviderError> {
    if record.transaction_status == Status::Fail {
        return Ok(None);
    }
    let entry = match record.transaction_type {
        Type::Sale | Type::Authorize => Entry::Charge,
        Type::Capture => Entry::Capture,
        Type::Void => Entry::Void,
        Type::Refund => Entry::Refund,
        Type::Credit => Entry::Credit,
    };
    let Found::Response(response) = record.found()? else { return Ok(None) };
    let follows = (!record.parent_transaction_id.is_empty()).then(|| ParentCharge {
        provider_ref: record.parent_transaction_id.clone(),
        reference: record.reference_id.clone(),
    });
    let own = if follows.is_some() { record.child_reference_id.as_ref() } else { Some(&record.reference_id) };
    Ok(Some(StatementLine {
        entry,
        reference: own.cloned().unwrap_or_default(),
        provider_ref: record.transaction_id.clone(),
        money: record.total()?,
        response: if entry == Entry::Charge {
            response
        } else {
            ProviderResponse::Done { provider_ref: record.transaction_id.clone() }
        },
        follows,
        occurred_at: record.at()?,
    }))
}

struct ReportReader<'a> {
    wire: &'a Wire,
    account: &'a Credentials,
    from: String,
}

/// A page of the report.
struct Page {
    /// From 1, the newest.
    number: u64,
    /// The number of transactions on all pages.
    count: u64,
    /// The newest first.
    transactions: Vec<Record>,
}

impl ReportReader<'_> {
    async fn page(&self, number: u64) -> Result<Page, ProviderError> {
        let filter = [("start_date", self.from.as_str()), ("end_date", "9999-12-31")];
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        let page = report::page(self.wire, self.account, &filter, number).await?;
        let count = page.no_of_transactions;
        // A page that is neither the last one nor full would leave others out.
        let expected = count.saturating_sub((u64::from(number) - 1) * PAGE_SIZE).min(PAGE_SIZE);
        if page.transactions.len() as u64 != expected {
            return Err(ProviderError::Unknown(format!("the report: page {number} is incomplete")));
        }
        Ok(Page { number: number.into(), count, transactions: page.transactions })
    }

    /// Returns a position, counted from the oldest transaction, before which there is none since `since`, and the number
    /// of all transactions. Most queries are for recent transactions, so the search starts at the newest page with
    /// growing steps.
    async fn first_since(&self, since: Timestamp) -> Result<(u64, u64), ProviderError> {
        let (mut first, mut number, mut step) = (0, 1, 1);
        let mut count = self.page(1).await?.count;
        // The pages that may contain the first transaction: this one and later ones, up to that of `first`.
        while first < count && number < (count - 1 - first) / PAGE_SIZE + 1 {
            let last = (count - 1 - first) / PAGE_SIZE + 1;
            let next = if step == 0 { (number + last).div_ceil(2) } else { (number + step).min(last) };
            let page = self.page(next).await?;
            count = page.count;
            // The first record of a page is its newest.
            if page.transactions.first().map_or(Ok(false), |record| is_since(record, since))? {
                (number, step) = (next, step * 2);
            } else {
                first = first.max(count.saturating_sub((next - 1) * PAGE_SIZE));
                step = 0;
            }
        }
        Ok((first, count))
    }
}

/// Formats the day in UTC, shifted by `offset` days, as the report expects it.
fn day(at: Timestamp, offset: i64) -> String {
    let utc: foundation::calendar::TimeZone = "UTC".parse().expect("every system has UTC");
    let day = utc.date_at(at);
    day.plus_days(offset).unwrap_or(day).to_string()
}
