//! The fields of a recurring invoice's schedule.

use domain::recurring_invoices::IssueMode;
use foundation::calendar::{Cadence, MAX_INTERVAL, Unit};
use foundation::schema::{self, schema_is};
use serde::de::{Deserialize, Deserializer};

use super::strict::strict;

/// The unit of the interval between two invoices.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CadenceUnit(pub(crate) Unit);

impl<'de> Deserialize<'de> for CadenceUnit {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        strict(from, "one of daily, weekly, monthly, yearly", |value| {
            let name = value.as_str()?;
            Unit::ALL.into_iter().find(|unit| Cadence::unit_name(*unit) == name).map(Self)
        })
    }
}

schema_is!(CadenceUnit, schema::enumeration(Unit::ALL.map(Cadence::unit_name)));

/// The number of units between two invoices.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CadenceInterval(pub(crate) i64);

impl<'de> Deserialize<'de> for CadenceInterval {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let range = 1..=i64::from(MAX_INTERVAL);
        strict(from, "a whole number from 1 to 36", |value| value.as_i64().filter(|n| range.contains(n)).map(Self))
    }
}

schema_is!(CadenceInterval, schema::integer(1, MAX_INTERVAL.into()));

#[derive(Clone, Copy, Debug)]
pub(crate) struct DayOfMonth(pub(crate) i64);

impl<'de> Deserialize<'de> for DayOfMonth {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        strict(from, "a whole number from 1 to 31", |value| value.as_i64().filter(|n| (1..=31).contains(n)).map(Self))
    }
}

schema_is!(DayOfMonth, schema::integer(1, 31));

/// Whether each invoice is issued or stays a draft.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InvoiceMode(pub(crate) IssueMode);

impl<'de> Deserialize<'de> for InvoiceMode {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        strict(from, "one of auto_send, draft_for_review", |value| {
            let name = value.as_str()?;
            IssueMode::ALL.into_iter().find(|mode| mode.name() == name).map(Self)
        })
    }
}

schema_is!(InvoiceMode, schema::enumeration(IssueMode::ALL.map(IssueMode::name)));
