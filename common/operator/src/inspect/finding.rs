//! What a health check reports.

/// Maximum number of rows read from a small table, and of ids listed in a finding.
pub(super) const MAX_ROWS: i64 = 10_000;
pub(super) const MAX_NAMED: usize = 5;

/// Severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Grade {
    Ok,
    /// Check it during working hours.
    Warn,
    /// Act now.
    Bad,
}

impl Grade {
    /// Name in output.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Bad => "bad",
        }
    }
}

/// The result of a check.
#[derive(Debug)]
pub struct Finding {
    pub check: &'static str,
    pub grade: Grade,
    pub message: String,
    /// What to do about it; empty if nothing.
    pub advice: &'static str,
}

impl Finding {
    pub fn ok(check: &'static str, message: impl Into<String>) -> Self {
        Self { check, grade: Grade::Ok, message: message.into(), advice: "" }
    }

    pub fn of(check: &'static str, grade: Grade, message: impl Into<String>, advice: &'static str) -> Self {
        Self { check, grade, message: message.into(), advice }
    }
}
