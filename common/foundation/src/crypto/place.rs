//! Where a ciphertext is stored.

use std::fmt;

use crate::id::AccountId;

/// The column, account and row of a ciphertext, which opens nowhere else.
#[derive(Clone, Debug)]
pub struct Place {
    /// All of them.
    pub(super) bound: String,
    /// The context of former versions: the row alone.
    pub(super) row: String,
}

impl Place {
    /// `column` is `table.column`, `row` the prefixed id of the row.
    pub fn new(column: &str, account: AccountId, row: impl fmt::Display) -> Self {
        Self { bound: format!("{column} {account} {row}"), row: row.to_string() }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.bound)
    }
}
