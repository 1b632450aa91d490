//! Ids: ULIDs, kept as `uuid`. A transaction's is printed as its 26 characters; an account's is never printed.

use std::fmt;
use std::str::FromStr;

use common::time::Timestamp;
use ulid::Ulid;
use uuid::Uuid;

fn new_ulid(now: Timestamp) -> Uuid {
    let random = (0..4).fold(0u128, |all, _| (all << 32) | u128::from(common::crypto::random_u32()));
    Uuid::from_bytes(Ulid::from_parts(now.as_millisecond().unsigned_abs(), random).to_bytes())
}

/// A transaction, by the name that callers know it by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, sqlx::Type)]
#[sqlx(transparent)]
pub struct TransactionId(Uuid);

/// A merchant's account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, sqlx::Type)]
#[sqlx(transparent)]
pub struct AccountId(Uuid);

impl TransactionId {
    /// A new one, ordered by `now` to the millisecond and random below it.
    pub fn new(now: Timestamp) -> Self {
        Self(new_ulid(now))
    }

    /// As Postgres and the acquirer know it.
    pub const fn uuid(self) -> Uuid {
        self.0
    }
}

impl AccountId {
    /// A new one.
    pub fn new(now: Timestamp) -> Self {
        Self(new_ulid(now))
    }

    /// As Postgres knows it.
    pub const fn uuid(self) -> Uuid {
        self.0
    }
}

impl From<Uuid> for TransactionId {
    fn from(uuid: Uuid) -> Self {
        Self(uuid)
    }
}

impl From<Uuid> for AccountId {
    fn from(uuid: Uuid) -> Self {
        Self(uuid)
    }
}

impl fmt::Display for TransactionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&Ulid::from_bytes(self.0.into_bytes()).to_string())
    }
}

/// What was sent as a transaction's id is none.
#[derive(Debug)]
pub struct NotAnId;

impl FromStr for TransactionId {
    type Err = NotAnId;

    /// Only the form we print is one: a transaction has a single spelling.
    fn from_str(text: &str) -> Result<Self, NotAnId> {
        let ulid = Ulid::from_string(text).map_err(|_| NotAnId)?;
        if ulid.to_string() == text { Ok(Self(Uuid::from_bytes(ulid.to_bytes()))) } else { Err(NotAnId) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::fuzz::{check, mutated};

    #[test]
    fn a_transaction_has_one_spelling() {
        let now = Timestamp::from_millisecond(1_800_000_000_000).expect("in range");
        let id = TransactionId::new(now);
        let text = id.to_string();
        assert_eq!(text.len(), 26);
        assert_eq!(text.parse::<TransactionId>().expect("our own"), id);
        for bad in ["", "1", &text.to_lowercase(), &format!("{text}0"), &text.replace('0', "O")] {
            assert!(bad == text || bad.parse::<TransactionId>().is_err(), "{bad}");
        }
        assert_ne!(id, TransactionId::new(now));
    }

    #[test]
    fn no_changed_name_is_the_same_transaction() {
        let id = TransactionId::new(Timestamp::from_millisecond(1_800_000_000_000).expect("in range"));
        check(mutated(id.to_string()), |text| {
            if let Ok(read) = text.parse::<TransactionId>() {
                assert_eq!(read.to_string(), text);
                assert_eq!(read == id, text == id.to_string());
            }
        });
    }
}
