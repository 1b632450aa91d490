//! The status of a charge. The report shows whether it was voided. Settlement and expiry are computed by the account's
//! clock, because a test account's clock may be ahead of the gateway's.

use std::time::Duration;

use super::report::{Record, State, Type};
use super::wire::Wire;
use super::{Credentials, report, statement};
use crate::{ChargeInquiry, ChargeReport, ChargeStatus, ProviderError, ProviderKind};
use foundation::calendar::TimeZone;
use foundation::time::Timestamp;

pub(super) async fn report(
    wire: &Wire,
    account: &Credentials,
    inquiry: &ChargeInquiry,
) -> Result<ChargeReport, ProviderError> {
    let records = report::by_reference(wire, account, &inquiry.reference).await?;
    let status = status(&records, inquiry)?;
    let lines = records.iter().filter_map(|record| statement::line(record).transpose());
    Ok(ChargeReport { status, lines: Some(lines.collect::<Result<_, _>>()?), disputes: vec![] })
}

fn status(records: &[Record], inquiry: &ChargeInquiry) -> Result<ChargeStatus, ProviderError> {
    let unknown = |why: &str| ProviderError::Unknown(format!("the charge {}: {why}", inquiry.charge));
    let charge = records.iter().find(|record| record.transaction_id == inquiry.charge);
    let charge = charge.ok_or_else(|| unknown("not in the report"))?;
    if charge.state()? != State::Done {
        return Err(unknown("not approved in the report"));
    }
    let has = |kind: Type| {
        let mut of_kind = records.iter().filter(|record| record.transaction_type == kind);
        let of_charge = |record: &Record| record.parent_transaction_id == charge.transaction_id;
        of_kind.try_fold(false, |has, record| {
            Ok::<_, ProviderError>(has || of_charge(record) && record.state()? == State::Done)
        })
    };
    if has(Type::Void)? {
        return Ok(ChargeStatus::Voided);
    }
    let captured = charge.transaction_type == Type::Sale || has(Type::Capture)?;
    if let Some(captured_at) = inquiry.captured_at.filter(|_| captured) {
        let zone = charge.time_zone.parse::<TimeZone>().map_err(|_| unknown("invalid time zone"))?;
        let end_of_day = zone.end_of(zone.date_at(captured_at));
        return Ok(ended_or_open(inquiry.now, end_of_day, ChargeStatus::Settled));
    }
    if captured {
        // Our own capture will be written shortly; a manual capture at the gateway is not in our books.
        return Ok(ChargeStatus::Open { until: None });
    }
    let hold: Duration = ProviderKind::CardGateway.authorization_lifetime();
    Ok(ended_or_open(inquiry.now, inquiry.created_at.plus(hold), ChargeStatus::Expired))
}

fn ended_or_open(now: Timestamp, end: Timestamp, ended: ChargeStatus) -> ChargeStatus {
    if now >= end { ended } else { ChargeStatus::Open { until: Some(end) } }
}
