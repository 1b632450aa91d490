//! `report.php`: all fields of a transaction are strings, empty where there is no value.

use foundation::calendar::Date;
use serde::Serialize;

use super::call::Call;
use super::envelope::Reply;
use crate::accounts::Account;
use crate::amount::Amount;
use crate::failure::{Code, Result};
use crate::local_time::format_time;
use crate::report::{self, Filter, ReportedTransaction};
use crate::transactions::{Details, State, TransactionKind};

#[derive(Serialize)]
struct Report {
    code: &'static str,
    description: &'static str,
    no_of_transactions: String,
    total_pages: i64,
    current_page: String,
    transactions: Vec<Record>,
}

/// `report.php`: 12, 23, 24, 25 and P1.
pub(super) async fn show(call: Call) -> Result<Reply> {
    let filter = filter(&call)?;
    let Call { app, account, .. } = &call;
    let permit = app.processor.connections.acquire_for_report(account.id).await?;
    let page = report::read(&app.db, account.id, &filter).await?;
    drop(permit);
    Ok(Reply::new(&Report {
        code: "00",
        description: "Success",
        no_of_transactions: page.count.to_string(),
        total_pages: page.pages,
        current_page: filter.page.to_string(),
        transactions: page.transactions.into_iter().map(|reported| Record::new(reported, account)).collect(),
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
    let to = zone.end_of(end);
    let page = page.min(i64::from(i32::MAX));
    Ok(Filter { from: zone.beginning_of(start), to, id, reference_id: form.text("reference_id")?, kind, success, page })
}

/// A record with the contract's field names.
#[derive(Serialize)]
struct Record {
    transaction_id: String,
    parent_transaction_id: String,
    transaction_type: &'static str,
    transaction_source: &'static str,
    initiated_by: String,
    transaction_status: &'static str,
    decline_reason: String,
    transaction_time: String,
    time_zone: String,
    gmt_time: String,
    card_type: &'static str,
    #[serde(rename = "3d_secure_transaction")]
    three_ds: &'static str,
    credit_card_number: String,
    card_expiry_date: String,
    auth_response_code: String,
    avs_response_code: String,
    avs_response: &'static str,
    cvv_response_code: String,
    cvv_response: &'static str,
    error_response: String,
    currency: String,
    total_amount: String,
    amount: String,
    surcharge: String,
    tax: String,
    tip: String,
    first_name: String,
    last_name: String,
    company_name: String,
    address_1: String,
    address_2: String,
    city: String,
    state: String,
    zip_code: String,
    email: String,
    phone_no: String,
    subscription_id: String,
    is_risk_hold: &'static str,
    #[serde(rename = "IP")]
    ip: String,
    reference_id: String,
    child_reference_id: String,
}

impl Record {
    /// With times in the account's time zone.
    fn new(reported: ReportedTransaction, account: &Account) -> Self {
        let success = reported.state == State::Approved;
        let reason = reported.state.decline_reason(reported.reason);
        let Details { billing, email, .. } = reported.details.0;
        let (avs, cvv) = (reported.avs.unwrap_or_default(), reported.cvv.unwrap_or_default());
        Self {
            transaction_id: reported.id.to_string(),
            parent_transaction_id: reported.parent_id.map(|id| id.to_string()).unwrap_or_default(),
            transaction_type: reported.kind.name(),
            transaction_source: reported.source.name(),
            initiated_by: account.username.clone(),
            transaction_status: if success { "SUCCESS" } else { "FAIL" },
            transaction_time: format_time(reported.created_at, account.time_zone.name()),
            time_zone: account.time_zone.name().to_owned(),
            gmt_time: format_time(reported.created_at, "UTC"),
            card_type: reported.brand.name(),
            three_ds: if reported.three_ds { "YES" } else { "NO" },
            credit_card_number: reported.masked,
            card_expiry_date: reported.expiry,
            auth_response_code: reported.auth_code.unwrap_or_default(),
            avs_response: match avs.as_str() {
                "Y" => "Match",
                "N" => "No match",
                _ => "",
            },
            avs_response_code: avs,
            cvv_response: match cvv.as_str() {
                "M" => "Match",
                "N" => "No match",
                _ => "",
            },
            cvv_response_code: cvv,
            error_response: if reported.state == State::Failed { reason.clone() } else { String::new() },
            decline_reason: reason,
            currency: reported.currency,
            total_amount: Amount::from_minor(reported.amount).to_string(),
            amount: Amount::from_minor(reported.amount - reported.fee).to_string(),
            surcharge: Amount::from_minor(reported.fee).to_string(),
            tax: Amount::ZERO.to_string(),
            tip: Amount::ZERO.to_string(),
            first_name: billing.first_name,
            last_name: billing.last_name,
            company_name: billing.company_name.unwrap_or_default(),
            address_1: billing.address.unwrap_or_default(),
            address_2: String::new(),
            city: billing.city.unwrap_or_default(),
            state: billing.state.unwrap_or_default(),
            zip_code: billing.zip_code,
            email,
            phone_no: billing.phone_number.unwrap_or_default(),
            subscription_id: String::new(),
            is_risk_hold: "NO",
            ip: reported.client_ip.unwrap_or_default(),
            reference_id: reported.reference_id.unwrap_or_default(),
            child_reference_id: reported.child_reference_id.unwrap_or_default(),
        }
    }
}
