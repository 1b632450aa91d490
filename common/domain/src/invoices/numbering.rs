//! Invoice numbers: consecutive per account, starting at 1, without gaps.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

use serde::Serialize;
use sqlx::PgConnection;
use utoipa::openapi::Object;

use foundation::db::column;
use foundation::error::Result;
use foundation::filter::FilterValue;
use foundation::id::AccountId;
use foundation::schema;

/// A number, displayed as `INV-000001`; at least six digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, sqlx::Type)]
#[sqlx(transparent)]
pub struct Number(i64);

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "INV-{:06}", self.0)
    }
}

impl Serialize for Number {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl FilterValue for Number {
    fn expected() -> Cow<'static, str> {
        "the number of an invoice, such as INV-000001".into()
    }

    fn parse(text: &str) -> Option<Self> {
        let number = Self(text.get(4..)?.parse().ok()?);
        number.to_string().eq_ignore_ascii_case(text).then_some(number)
    }

    fn schema() -> Object {
        schema::text("^INV-[0-9]{6,}$", "INV-000001")
    }
}

schema::schema_is!(Number, <Number as FilterValue>::schema());

/// The next numbers of these accounts, one for each element, in their order. Locks the counter of each account until the
/// commit, so that numbers have no gaps; in the lock order it comes after everything but webhook endpoints.
///
/// # Errors
/// Database errors only.
pub(super) async fn next_numbers(tx: &mut PgConnection, accounts: &[AccountId]) -> Result<Vec<Number>> {
    if accounts.is_empty() {
        return Ok(Vec::new());
    }
    let counters = sqlx::query!(
        "INSERT INTO invoice_numbers AS n (account_id, last)
         SELECT account_id, count(*) FROM unnest($1::uuid[]) AS i (account_id) GROUP BY account_id ORDER BY account_id
         ON CONFLICT (account_id) DO UPDATE SET last = n.last + excluded.last RETURNING account_id, last",
        &column(accounts, |account| account.uuid()),
    )
    .fetch_all(tx)
    .await?;
    let mut last: HashMap<_, _> = counters.into_iter().map(|counter| (counter.account_id, counter.last.0)).collect();
    let numbered = accounts.iter().rev().map(|account| {
        let last = last.entry(*account).or_default();
        *last -= 1;
        Number(*last + 1)
    });
    let mut numbers: Vec<_> = numbered.collect();
    numbers.reverse();
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_padded_and_never_truncated() {
        assert_eq!(Number(1).to_string(), "INV-000001");
        assert_eq!(Number(999_999).to_string(), "INV-999999");
        assert_eq!(Number(1_000_000).to_string(), "INV-1000000");
    }
}
