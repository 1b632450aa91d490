//! Where a ciphertext is stored.

use std::fmt;

/// The column, owner and row of a ciphertext, which opens nowhere else.
#[derive(Clone, Debug)]
pub struct Place {
    /// All of them.
    pub(super) bound: String,
    /// The context of former versions: the row alone.
    pub(super) row: String,
}

impl Place {
    /// `column` is `table.column`, `owner` the id of the account or the merchant, `row` the prefixed id of the row.
    pub fn new(column: &str, owner: impl fmt::Display, row: impl fmt::Display) -> Self {
        Self { bound: format!("{column} {owner} {row}"), row: row.to_string() }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.bound)
    }
}
