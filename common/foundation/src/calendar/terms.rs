//! Payment terms: the time from the issue of an invoice to its due date.

use super::TimeZone;
use crate::time::Timestamp;

/// Payment terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, sqlx::Type)]
#[sqlx(type_name = "payment_terms", rename_all = "snake_case")]
pub enum PaymentTerms {
    DueOnReceipt,
    #[sqlx(rename = "net_7")]
    Net7,
    #[sqlx(rename = "net_15")]
    Net15,
    #[sqlx(rename = "net_30")]
    Net30,
    #[sqlx(rename = "net_60")]
    Net60,
}

crate::schema::schema_is!(PaymentTerms, crate::schema::enumeration(Self::ALL.map(Self::name)));

impl PaymentTerms {
    /// All values, shortest first.
    pub const ALL: [Self; 5] = [Self::DueOnReceipt, Self::Net7, Self::Net15, Self::Net30, Self::Net60];

    /// The name in the API.
    pub const fn name(self) -> &'static str {
        match self {
            Self::DueOnReceipt => "due_on_receipt",
            Self::Net7 => "net_7",
            Self::Net15 => "net_15",
            Self::Net30 => "net_30",
            Self::Net60 => "net_60",
        }
    }

    const fn days(self) -> u32 {
        match self {
            Self::DueOnReceipt => 0,
            Self::Net7 => 7,
            Self::Net15 => 15,
            Self::Net30 => 30,
            Self::Net60 => 60,
        }
    }

    /// Returns when an invoice issued at `issued` is due: at the same local time, this many calendar days later,
    /// whatever the length of those days.
    pub fn due(self, issued: Timestamp, zone: &TimeZone) -> Timestamp {
        zone.days_later(issued, self.days())
    }
}
