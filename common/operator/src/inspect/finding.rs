//! What a health check reports.

/// Maximum number of rows read from a small table, and of ids listed in a finding.
pub(super) const MAX_ROWS: i64 = 10_000;
pub(super) const MAX_NAMED: usize = 5;

/// Severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    Ok,
    /// Check it during working hours.
    Warn,
    /// Act now.
    Bad,
}

impl Severity {
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
    pub severity: Severity,
    pub message: String,
    /// What to do about it; empty if nothing.
    pub advice: &'static str,
}

impl Finding {
    pub fn ok(check: &'static str, message: impl Into<String>) -> Self {
        Self { check, severity: Severity::Ok, message: message.into(), advice: "" }
    }

    pub fn of(check: &'static str, severity: Severity, message: impl Into<String>, advice: &'static str) -> Self {
        Self { check, severity, message: message.into(), advice }
    }
}
