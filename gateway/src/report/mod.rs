//! The report: an account's transactions, newest first, 100 per page.

mod store;
mod view;

use foundation::calendar::Date;
use foundation::time::Timestamp;
use serde::Serialize;

use crate::failure::{Code, Result};
use crate::http::{Call, Reply};
use crate::id::TransactionId;
use crate::transactions::TransactionKind;
use view::Record;

pub(crate) use view::format_time;

/// Records per page.
const PAGE_SIZE: i64 = 100;

/// The filter of a report request.
struct Filter {
    from: Timestamp,
    /// Exclusive.
    to: Timestamp,
    id: Option<TransactionId>,
    reference_id: Option<String>,
    kind: Option<TransactionKind>,
    /// Only successes, or only the others.
    success: Option<bool>,
    page: i64,
}

#[derive(Serialize)]
struct Report {
    code: &'static str,
    description: &'static str,
    no_of_transactions: String,
    total_pages: i64,
    current_page: String,
    transactions: Vec<Record>,
}

/// `report.php`
///
/// # Errors
/// 12, 23, 24, 25, P1
pub async fn report(call: Call) -> Result<Reply> {
    let filter = filter(&call)?;
    let Call { app, account, .. } = &call;
    let (count, rows) = store::read(&app.db, account.id, &filter).await?;
    let pages = (count + PAGE_SIZE - 1) / PAGE_SIZE;
    if filter.page > pages.max(1) {
        return Err(Code::Page.refuse());
    }
    Ok(Reply::new(&Report {
        code: "00",
        description: "Success",
        no_of_transactions: count.to_string(),
        total_pages: pages,
        current_page: filter.page.to_string(),
        transactions: rows.into_iter().map(|row| Record::new(row, account)).collect(),
    }))
}

fn filter(call: &Call) -> Result<Filter> {
    let Call { account, form, .. } = call;
    let id = match form.get("transaction_id") {
        Some(text) => Some(text.parse().map_err(|_| Code::TransactionId.refuse())?),
        None => None,
    };
    let date = |name| form.get(name).and_then(|text| text.parse::<Date>().ok()).ok_or(Code::Date.refuse());
    let (start, end) = (date("start_date")?, date("end_date")?);
    if start > end {
        return Err(Code::Date.because("start_date is after end_date"));
    }
    let kind = match form.get("transaction_type") {
        Some(name) => {
            let kind = TransactionKind::ALL.into_iter().find(|kind| kind.name() == name);
            Some(kind.ok_or(Code::TransactionType.refuse())?)
        }
        None => None,
    };
    let success = match form.get("transaction_status") {
        None => None,
        Some("SUCCESS") => Some(true),
        Some("FAIL") => Some(false),
        Some(_) => return Err(Code::TransactionStatus.refuse()),
    };
    let page = match form.get("page_no") {
        Some(text) if text.bytes().all(|byte| byte.is_ascii_digit()) => text.parse().unwrap_or(i64::from(i32::MAX)),
        Some(_) => 0,
        None => 1,
    };
    if page < 1 {
        return Err(Code::Page.refuse());
    }
    let zone = &account.time_zone;
    let to = end.plus_days(1).map_or(Timestamp::MAX, |day| zone.beginning_of(day));
    let page = page.min(i64::from(i32::MAX));
    Ok(Filter { from: zone.beginning_of(start), to, id, reference_id: form.text("reference_id")?, kind, success, page })
}
