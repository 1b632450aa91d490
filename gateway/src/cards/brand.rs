//! Card brands, by the first digits of the number.

use std::fmt;

/// A card brand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, sqlx::Type)]
#[sqlx(type_name = "text", rename_all = "snake_case")]
pub enum Brand {
    /// 4…
    Visa,
    /// 51–55, 2221–2720
    Mastercard,
    /// 34, 37
    Amex,
    /// 6011, 644–649, 65
    Discover,
    /// 36, 38, 39, 300–305
    Diners,
    /// 3528–3589
    Jcb,
    /// 62
    Unionpay,
    Other,
}

impl Brand {
    pub const ALL: [Self; 8] = [
        Self::Visa,
        Self::Mastercard,
        Self::Amex,
        Self::Discover,
        Self::Diners,
        Self::Jcb,
        Self::Unionpay,
        Self::Other,
    ];

    /// By the first six digits.
    pub(super) const fn of(first_six: u32) -> Self {
        match first_six {
            400_000..=499_999 => Self::Visa,
            510_000..=559_999 | 222_100..=272_099 => Self::Mastercard,
            340_000..=349_999 | 370_000..=379_999 => Self::Amex,
            601_100..=601_199 | 644_000..=659_999 => Self::Discover,
            360_000..=369_999 | 380_000..=399_999 | 300_000..=305_999 => Self::Diners,
            352_800..=358_999 => Self::Jcb,
            620_000..=629_999 => Self::Unionpay,
            _ => Self::Other,
        }
    }

    /// The name in the report.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Visa => "VISA",
            Self::Mastercard => "MASTERCARD",
            Self::Amex => "AMEX",
            Self::Discover => "DISCOVER",
            Self::Diners => "DINERS",
            Self::Jcb => "JCB",
            Self::Unionpay => "UNIONPAY",
            Self::Other => "OTHER",
        }
    }

    /// Case-insensitive.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|brand| brand.name().eq_ignore_ascii_case(name))
    }
}

impl fmt::Display for Brand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
