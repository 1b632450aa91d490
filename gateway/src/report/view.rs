//! A transaction in the report: all fields are strings, empty where there is no value.

use foundation::time::Timestamp;
use jiff::tz::TimeZone;
use serde::Serialize;

use super::store::Row;
use crate::accounts::Account;
use crate::amount::Amount;
use crate::transactions::outcome::reason_of;
use crate::transactions::{Details, State};

/// `YYYY-MM-DD HH:MM:SS`
const FORMAT: &str = "%Y-%m-%d %H:%M:%S";

/// A record with the contract's field names.
#[derive(Serialize)]
pub(super) struct Record {
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
    pub(super) fn new(row: Row, account: &Account) -> Self {
        let success = row.state == State::Approved;
        let reason = reason_of(row.state, row.reason);
        let Details { billing, email, .. } = row.details.0;
        let (avs, cvv) = (row.avs.unwrap_or_default(), row.cvv.unwrap_or_default());
        Self {
            transaction_id: row.id.to_string(),
            parent_transaction_id: row.parent_id.map(|id| id.to_string()).unwrap_or_default(),
            transaction_type: row.kind.name(),
            transaction_source: row.source.name(),
            initiated_by: account.username.clone(),
            transaction_status: if success { "SUCCESS" } else { "FAIL" },
            transaction_time: format_time(row.created_at, account.time_zone.name()),
            time_zone: account.time_zone.name().to_owned(),
            gmt_time: format_time(row.created_at, "UTC"),
            card_type: row.brand.name(),
            three_ds: if row.three_ds { "YES" } else { "NO" },
            credit_card_number: row.masked,
            card_expiry_date: row.expiry,
            auth_response_code: row.auth_code.unwrap_or_default(),
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
            error_response: if row.state == State::Failed { reason.clone() } else { String::new() },
            decline_reason: reason,
            currency: row.currency,
            total_amount: Amount::from_minor(row.amount).to_string(),
            amount: Amount::from_minor(row.amount - row.fee).to_string(),
            surcharge: Amount::from_minor(row.fee).to_string(),
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
            ip: row.client_ip.unwrap_or_default(),
            reference_id: row.reference_id.unwrap_or_default(),
            child_reference_id: row.child_reference_id.unwrap_or_default(),
        }
    }
}

/// Local time in the given zone.
pub(crate) fn format_time(instant: Timestamp, zone: &str) -> String {
    let zone = TimeZone::get(zone).unwrap_or(TimeZone::UTC);
    let instant = jiff::Timestamp::from_millisecond(instant.as_millisecond()).unwrap_or_default();
    instant.to_zoned(zone).strftime(FORMAT).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_local_to_the_zone() {
        let instant = Timestamp::parse("2026-07-01T02:03:04.999Z").expect("an instant");
        assert_eq!(format_time(instant, "UTC"), "2026-07-01 02:03:04");
        assert_eq!(format_time(instant, "America/New_York"), "2026-06-30 22:03:04");
    }
}
