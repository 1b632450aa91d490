//! Terms of payment: how long after its issue an invoice is due.

use super::TimeZone;
use crate::time::Timestamp;

/// When an invoice is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, sqlx::Type)]
#[sqlx(type_name = "payment_terms", rename_all = "snake_case")]
pub enum PaymentTerms {
    /// At the instant of its issue.
    DueOnReceipt,
    /// 7 days later.
    #[sqlx(rename = "net_7")]
    Net7,
    /// 15 days later.
    #[sqlx(rename = "net_15")]
    Net15,
    /// 30 days later.
    #[sqlx(rename = "net_30")]
    Net30,
    /// 60 days later.
    #[sqlx(rename = "net_60")]
    Net60,
}

impl PaymentTerms {
    /// Every one, from the shortest to the longest.
    pub const ALL: [Self; 5] = [Self::DueOnReceipt, Self::Net7, Self::Net15, Self::Net30, Self::Net60];

    /// As the API reads and prints it.
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

    /// When an invoice of this instant is due: at the same time by the clocks of the zone, so many days of the calendar later,
    /// however many hours these have.
    pub fn due(self, issued: Timestamp, zone: &TimeZone) -> Timestamp {
        zone.days_later(issued, self.days())
    }
}
