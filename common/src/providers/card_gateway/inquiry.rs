//! How a charge stands. The report says whether it was voided; when it settles and when a hold ends go by the account's clock,
//! since a test account's may be ahead of the gateway's.

use std::time::Duration;

use super::report::{Record, State, Type};
use super::wire::Wire;
use super::{Credentials, report, statement};
use crate::calendar::TimeZone;
use crate::providers::{ChargeReport, Fault, Inquired, ProviderKind, Standing};
use crate::time::Timestamp;

pub(super) async fn report(wire: &Wire, account: &Credentials, inquired: &Inquired) -> Result<ChargeReport, Fault> {
    let family = report::by_reference(wire, account, &inquired.reference).await?;
    let standing = standing(&family, inquired)?;
    let lines = family.iter().filter_map(|record| statement::line(record).transpose());
    Ok(ChargeReport { standing, lines: Some(lines.collect::<Result<_, _>>()?) })
}

fn standing(family: &[Record], inquired: &Inquired) -> Result<Standing, Fault> {
    let unknown = |why: &str| Fault::Unknown(format!("the charge {}: {why}", inquired.charge));
    let charge = family.iter().find(|record| record.transaction_id == inquired.charge);
    let charge = charge.ok_or_else(|| unknown("the report has none"))?;
    if charge.state()? != State::Done {
        return Err(unknown("the report has no success"));
    }
    let has = |kind: Type| {
        let mut of_kind = family.iter().filter(|record| record.transaction_type == kind);
        let of_charge = |record: &Record| record.parent_transaction_id == charge.transaction_id;
        of_kind
            .try_fold(false, |has, record| Ok::<_, Fault>(has || of_charge(record) && record.state()? == State::Done))
    };
    if has(Type::Void)? {
        return Ok(Standing::Voided);
    }
    let captured = charge.transaction_type == Type::Sale || has(Type::Capture)?;
    if let Some(taken) = inquired.captured_at.filter(|_| captured) {
        let zone = charge.time_zone.parse::<TimeZone>().map_err(|_| unknown("its time zone is none"))?;
        return Ok(by(inquired.now, end_of_day(&zone, taken), Standing::Settled));
    }
    if captured {
        // Ours is on its way to our books; of another's they know nothing.
        return Ok(Standing::Open { until: None });
    }
    let hold: Duration = ProviderKind::CardGateway.authorization_lifetime();
    Ok(by(inquired.now, inquired.created_at.plus(hold), Standing::Expired))
}

fn by(now: Timestamp, end: Timestamp, then: Standing) -> Standing {
    if now >= end { then } else { Standing::Open { until: Some(end) } }
}

/// When the day of an instant ends; the calendar's own end has none.
fn end_of_day(zone: &TimeZone, instant: Timestamp) -> Timestamp {
    zone.date_at(instant).plus_days(1).map_or(instant, |next| zone.beginning_of(next))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_ends_where_the_account_is() {
        let at = |text| Timestamp::parse(text).expect("an instant");
        let ends = |zone: &str, text| end_of_day(&zone.parse().expect("a zone"), at(text));
        assert_eq!(ends("UTC", "2026-03-01T23:59:59.999Z"), at("2026-03-02T00:00:00Z"));
        assert_eq!(ends("UTC", "2026-03-02T00:00:00Z"), at("2026-03-03T00:00:00Z"));
        assert_eq!(ends("America/New_York", "2026-03-01T23:00:00Z"), at("2026-03-02T05:00:00Z"));
    }
}
