//! Ids: ULIDs stored as `uuid`. A transaction id is printed in its 26 characters; an account id is never printed.

use std::fmt;
use std::str::FromStr;

use foundation::time::Timestamp;
use ulid::Ulid;
use uuid::Uuid;

fn new_ulid(now: Timestamp) -> Uuid {
    let random = (0..4).fold(0u128, |all, _| (all << 32) | u128::from(foundation::crypto::random_u32()));
    Uuid::from_bytes(Ulid::from_parts(now.as_millisecond().unsigned_abs(), random).to_bytes())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, sqlx::Type)]
#[sqlx(transparent)]
pub struct TransactionId(Uuid);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, sqlx::Type)]
#[sqlx(transparent)]
pub struct AccountId(Uuid);

impl TransactionId {
    /// Ordered by `now` to the millisecond, random below that.
    pub fn new(now: Timestamp) -> Self {
        Self(new_ulid(now))
    }

    /// As stored in Postgres and sent to the acquirer.
    pub const fn uuid(self) -> Uuid {
        self.0
    }
}

impl AccountId {
    pub fn new(now: Timestamp) -> Self {
        Self(new_ulid(now))
    }

    /// As stored in Postgres.
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

/// The text is not a transaction id.
#[derive(Debug)]
pub struct InvalidId;

impl FromStr for TransactionId {
    type Err = InvalidId;

    /// Accepts only the printed form, so that a transaction id has a single spelling.
    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let ulid = Ulid::from_string(text).map_err(|_| InvalidId)?;
        if ulid.to_string() == text { Ok(Self(Uuid::from_bytes(ulid.to_bytes()))) } else { Err(InvalidId) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::fuzz::{check, mutated};

    #[test]
    fn a_transaction_id_has_one_spelling() {
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
    fn a_changed_text_is_never_the_same_transaction_id() {
        let id = TransactionId::new(Timestamp::from_millisecond(1_800_000_000_000).expect("in range"));
        check(mutated(id.to_string()), |text| {
            if let Ok(read) = text.parse::<TransactionId>() {
                assert_eq!(read.to_string(), text);
                assert_eq!(read == id, text == id.to_string());
            }
        });
    }
}
