//! The statement: all successful transactions of the report since an instant, oldest first. The report is paged and
//! newest first, so the first page to read is searched for, and reading continues to the newest page.

use std::collections::HashSet;

use super::Credentials;
use super::report::{self, Record, Status, Type};
use super::wire::Wire;
use crate::{Entry, Found, ParentCharge, ProviderError, ProviderKind, ProviderResponse, StatementLine};
use foundation::time::Timestamp;

/// The report selects by days in the account's time zone; one more day covers every offset.
const MARGIN_DAYS: i64 = 1;

pub(super) async fn read(
    wire: &Wire,
    account: &Credentials,
    since: Timestamp,
    limit: usize,
) -> Result<Vec<StatementLine>, ProviderError> {
    let reader = ReportReader { wire, account, from: day(since, -MARGIN_DAYS) };
    let mut number = reader.first_page_since(since).await?;
    let (mut lines, mut seen): (Vec<StatementLine>, HashSet<String>) = <_>::default();
    while number >= 1 && lines.len() < limit {
        let page = reader.page(number).await?;
        for record in page.transactions.iter().rev() {
            // New transactions shift others to the next page: some are read twice, none is missed.
            if is_since(record, since)? && seen.insert(record.transaction_id.clone()) {
                lines.extend(line(record)?);
            }
        }
        number -= 1;
    }
    lines.truncate(limit);
    Ok(lines)
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
    let own = if follows.is_some() { &record.child_reference_id } else { &record.reference_id };
    Ok(Some(StatementLine {
        entry,
        reference: own.clone(),
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

impl ReportReader<'_> {
    async fn page(&self, number: usize) -> Result<report::Page, ProviderError> {
        let filter = [("start_date", self.from.as_str()), ("end_date", "9999-12-31")];
        report::page(self.wire, self.account, &filter, u32::try_from(number).unwrap_or(u32::MAX)).await
    }

    /// Returns the page after the last one that contains transactions since `since`, because new transactions shift
    /// others to the next page. Most queries are for recent transactions, so the search starts at the newest page with
    /// growing steps.
    async fn first_page_since(&self, since: Timestamp) -> Result<usize, ProviderError> {
        let (mut newest, mut step) = (1, 1);
        let pages = usize::try_from(self.page(1).await?.total_pages).unwrap_or(usize::MAX).max(1);
        let mut oldest = pages;
        while newest < oldest {
            let next = if step == 0 { (newest + oldest).div_ceil(2) } else { (newest + step).min(oldest) };
            // The first record of a page is its newest.
            let page = self.page(next).await?;
            let reaches = page.transactions.first().map_or(Ok(false), |record| is_since(record, since))?;
            (newest, oldest) = if reaches { (next, oldest) } else { (newest, next - 1) };
            step = if reaches { step * 2 } else { 0 };
        }
        Ok((newest + 1).min(pages))
    }
}

/// Formats the day in UTC, shifted by `offset` days, as the report expects it.
fn day(at: Timestamp, offset: i64) -> String {
    let utc: foundation::calendar::TimeZone = "UTC".parse().expect("every system has UTC");
    let day = utc.date_at(at);
    day.plus_days(offset).unwrap_or(day).to_string()
}
