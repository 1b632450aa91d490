//! The statement: everything that the report has as a success since an instant, oldest first. The report is newest first and in
//! pages, so the page to begin with is searched for, and the reading goes from there to the newest.

use std::collections::HashSet;

use super::Credentials;
use super::report::{self, Record, Status, Type};
use super::wire::Wire;
use crate::providers::{Answer, Entry, Fault, Followed, Found, ProviderKind, StatementLine};
use crate::time::Timestamp;

/// A day more on either side than any zone is off, since the report takes days of its account's zone.
const MARGIN_DAYS: i64 = 1;

pub(super) async fn read(
    wire: &Wire,
    account: &Credentials,
    since: Timestamp,
    limit: usize,
) -> Result<Vec<StatementLine>, Fault> {
    let reading = Reading { wire, account, from: day(since, -MARGIN_DAYS) };
    let mut number = reading.first_page_since(since).await?;
    let (mut lines, mut seen): (Vec<StatementLine>, HashSet<String>) = <_>::default();
    while number >= 1 && lines.len() < limit {
        let page = reading.page(number).await?;
        for record in page.transactions.iter().rev() {
            // Rows that were entered meanwhile push others onto the next page: some are seen twice, none is missed.
            if is_since(record, since)? && seen.insert(record.transaction_id.clone()) {
                lines.extend(line(record)?);
            }
        }
        number -= 1;
    }
    lines.truncate(limit);
    Ok(lines)
}

/// Times are told in seconds, so the whole second is read again.
fn is_since(record: &Record, since: Timestamp) -> Result<bool, Fault> {
    Ok(record.at()?.as_millisecond() + 1000 > since.as_millisecond())
}

/// What is booked under a transaction's id.
pub(super) async fn booked(
    wire: &Wire,
    account: &Credentials,
    provider_ref: &str,
) -> Result<Option<StatementLine>, Fault> {
    // Nothing of the gateway's is called so, and it would refuse the question.
    if !ProviderKind::CardGateway.names(provider_ref) {
        return Ok(None);
    }
    report::by_id(wire, account, provider_ref).await?.map_or(Ok(None), |record| line(&record))
}

/// A transaction that is a success. One that cannot be read is not left out: there would be no telling that money moved.
pub(super) fn line(record: &Record) -> Result<Option<StatementLine>, Fault> {
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
    let Found::Answer(answer) = record.found()? else { return Ok(None) };
    let follows = (!record.parent_transaction_id.is_empty()).then(|| Followed {
        provider_ref: record.parent_transaction_id.clone(),
        reference: record.reference_id.clone(),
    });
    let own = if follows.is_some() { &record.child_reference_id } else { &record.reference_id };
    Ok(Some(StatementLine {
        entry,
        reference: own.clone(),
        provider_ref: record.transaction_id.clone(),
        money: record.total()?,
        answer: if entry == Entry::Charge {
            answer
        } else {
            Answer::Done { provider_ref: record.transaction_id.clone() }
        },
        follows,
        occurred_at: record.at()?,
    }))
}

struct Reading<'a> {
    wire: &'a Wire,
    account: &'a Credentials,
    from: String,
}

impl Reading<'_> {
    async fn page(&self, number: usize) -> Result<report::Page, Fault> {
        let narrow = [("start_date", self.from.as_str()), ("end_date", "9999-12-31")];
        report::page(self.wire, self.account, &narrow, u32::try_from(number).unwrap_or(u32::MAX)).await
    }

    /// The page to begin with: the one after the last that has anything since then, for rows that come meanwhile push others onto
    /// it. What is wanted is mostly near the newest, so the way leads in leaps from there.
    async fn first_page_since(&self, since: Timestamp) -> Result<usize, Fault> {
        let (mut newest, mut leap) = (1, 1);
        let pages = usize::try_from(self.page(1).await?.total_pages).unwrap_or(usize::MAX).max(1);
        let mut oldest = pages;
        while newest < oldest {
            let next = if leap == 0 { (newest + oldest).div_ceil(2) } else { (newest + leap).min(oldest) };
            // Its first row is its newest.
            let page = self.page(next).await?;
            let reaches = page.transactions.first().map_or(Ok(false), |record| is_since(record, since))?;
            (newest, oldest) = if reaches { (next, oldest) } else { (newest, next - 1) };
            leap = if reaches { leap * 2 } else { 0 };
        }
        Ok((newest + 1).min(pages))
    }
}

/// A day of UTC, so many days off, as the report wants it.
fn day(at: Timestamp, off: i64) -> String {
    let utc: crate::calendar::TimeZone = "UTC".parse().expect("every system has UTC");
    let day = utc.date_at(at);
    day.plus_days(off).unwrap_or(day).to_string()
}
