//! Typed ids: a ULID with a prefix per kind, stored as `uuid` in Postgres. Each kind is a separate type.

use std::fmt;
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

use ulid::Ulid;
use uuid::Uuid;

use crate::error::Error;
use crate::time::Timestamp;

/// A wrong prefix, or not a ULID of 26 characters.
#[derive(Debug, thiserror::Error)]
#[error("not an id of this kind")]
pub struct ParseIdError;

/// An id of any kind.
pub trait Id: Copy + FromStr + fmt::Display + utoipa::PartialSchema + Send + Sync + 'static {
    /// The representation in Postgres.
    fn as_uuid(self) -> Uuid;
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident = $prefix:literal, $noun:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, sqlx::Type)]
        #[sqlx(transparent)]
        pub struct $name(Uuid);

        impl $name {
            /// The prefix of this kind.
            pub const PREFIX: &'static str = $prefix;

            /// Parses an id from a request. A malformed id gets the same response as an unknown one.
            ///
            /// # Errors
            /// [`Error::NotFound`].
            pub fn from_request(text: &str) -> Result<Self, Error> {
                text.parse().map_err(|_| Error::no_such($noun, text))
            }

            /// A new id with `now` in milliseconds and random bits.
            pub fn new(now: Timestamp) -> Self {
                Self(new_ulid(now))
            }

            /// The time with which it was created; `None` if it is out of range.
            pub fn time(self) -> Option<Timestamp> {
                let milliseconds = Ulid::from_bytes(self.0.into_bytes()).timestamp_ms();
                Timestamp::from_millisecond(milliseconds.try_into().ok()?)
            }

            /// The representation in Postgres and the queue.
            pub const fn uuid(self) -> Uuid {
                self.0
            }

            /// The reverse of [`Self::uuid`].
            pub const fn from_uuid(uuid: Uuid) -> Self {
                Self(uuid)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}{}", $prefix, Ulid::from_bytes(self.0.into_bytes()).to_string())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = ParseIdError;

            fn from_str(text: &str) -> Result<Self, ParseIdError> {
                text.strip_prefix($prefix).and_then(parse_ulid).map(Self).ok_or(ParseIdError)
            }
        }

        impl Id for $name {
            fn as_uuid(self) -> Uuid {
                self.0
            }
        }

        crate::schema::schema_is!($name, crate::schema::id($prefix));

        impl crate::filter::FilterValue for $name {
            fn expected() -> std::borrow::Cow<'static, str> {
                concat!("the id of a ", $noun, ", such as ", $prefix, "01KAJ4M2V8Q0S5T7W9X1Y3Z5A7").into()
            }

            fn parse(text: &str) -> Option<Self> {
                text.parse().ok()
            }

            fn schema() -> utoipa::openapi::Object {
                crate::schema::id($prefix)
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
    )*};
}

ids! {
    /// A merchant, who owns a test and a live account.
    MerchantId = "mer_", "merchant";
    /// A person who signs in to the portal.
    UserId = "usr_", "user";
    /// An invitation to become a user.
    InvitationId = "uinv_", "invitation";
    /// A passkey of a user.
    PasskeyId = "upk_", "passkey";
    /// An account: a merchant in one mode. Every object belongs to one account.
    AccountId = "acct_", "account";
    /// An account at a provider, which settles the money.
    ProviderAccountId = "pacct_", "provider account";
    /// The logo of an account.
    LogoId = "lgo_", "logo";
    /// The public part of an API key.
    KeyId = "key_", "key";
    /// A customer.
    CustomerId = "cus_", "customer";
    /// A saved card.
    PaymentMethodId = "pm_", "payment method";
    /// A payment.
    PaymentId = "pay_", "payment";
    /// An invoice.
    InvoiceId = "inv_", "invoice";
    /// One attempt to collect an invoice.
    CollectionAttemptId = "att_", "attempt";
    /// A subscription.
    SubscriptionId = "sub_", "subscription";
    /// A recurring invoice.
    RecurringInvoiceId = "rinv_", "recurring invoice";
    /// A payment link.
    PaymentLinkId = "plink_", "payment link";
    /// An address.
    AddressId = "adr_", "address";
    /// A plan.
    PlanId = "plan_", "plan";
    /// A refund.
    RefundId = "ref_", "refund";
    /// A dispute.
    DisputeId = "dp_", "dispute";
    /// One request to a provider that can move money.
    OperationId = "op_", "operation";
    /// An anomalous charge.
    AnomalyId = "anom_", "anomaly";
    /// A difference between a provider's books and ours.
    DifferenceId = "diff_", "difference";
    /// An idempotency key of a request that creates an object.
    CreationKeyId = "idem_", "idempotency key";
    /// An event.
    EventId = "evt_", "event";
    /// A webhook endpoint.
    WebhookEndpointId = "we_", "webhook endpoint";
    /// One attempt to deliver an event to an endpoint.
    WebhookDeliveryId = "whd_", "webhook delivery";
    /// An audit record of an operator's action.
    AuditId = "aud_", "record";
    /// A request to the API, as shown in `Request-Id` and log lines.
    RequestId = "req_", "request";
}

/// The latest id of an event of this process.
static LATEST_EVENT: Mutex<Ulid> = Mutex::new(Ulid::nil());
/// A clock that was set back further is followed: the ids contain the time by which the tables are partitioned.
const MAX_STEP_BACK_MS: u64 = 1_000;

impl EventId {
    /// A new id that is greater than the earlier ones of this process: lists are ordered by ids, and a transaction may write
    /// several events of an object within a millisecond.
    pub fn in_order(now: Timestamp) -> Self {
        let new = Ulid::from_bytes(new_ulid(now).into_bytes());
        let mut latest = LATEST_EVENT.lock().unwrap_or_else(PoisonError::into_inner);
        *latest = following(*latest, new);
        Self(Uuid::from_bytes(latest.to_bytes()))
    }
}

/// `new`, or the one that follows `latest` if that is greater and at most a second newer.
fn following(latest: Ulid, new: Ulid) -> Ulid {
    if new > latest || latest.timestamp_ms() - new.timestamp_ms() > MAX_STEP_BACK_MS {
        return new;
    }
    // If all random bits are set, it is the first one of the next millisecond.
    latest.increment().unwrap_or_else(|next| next)
}

/// A ULID: 48 bits of milliseconds and 80 random bits.
fn new_ulid(now: Timestamp) -> Uuid {
    let mut random = [0u8; 16];
    getrandom::fill(&mut random[6..]).expect("the operating system provides random bytes");
    let ulid = Ulid::from_parts(now.as_millisecond().unsigned_abs(), u128::from_be_bytes(random));
    Uuid::from_bytes(ulid.to_bytes())
}

/// The smallest ULID of an instant, of which a fraction of a millisecond is rounded up: smaller ones are older.
pub fn first_id(at: Timestamp) -> Uuid {
    let ms = u64::try_from(at.as_millisecond_rounded_up()).unwrap_or(0);
    Uuid::from_bytes(Ulid::from_parts(ms, 0).to_bytes())
}

/// Parses a ULID. Accepts only the canonical form, so that an id has a single spelling.
fn parse_ulid(text: &str) -> Option<Uuid> {
    let ulid = Ulid::from_string(text).ok()?;
    (ulid.to_string() == text).then(|| Uuid::from_bytes(ulid.to_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use testkit::fuzz::{check, mutated, texts};

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_millisecond(ms).expect("in range")
    }

    #[test]
    fn an_id_round_trips() {
        let id = PaymentId::new(at(1_800_000_000_000));
        let text = id.to_string();
        assert!(text.starts_with("pay_"));
        assert_eq!(text.len(), 4 + 26);
        assert_eq!(text.parse::<PaymentId>().expect("our own"), id);
    }

    #[test]
    fn other_kinds_lower_case_and_malformed_ids_are_refused() {
        let text = PaymentId::new(at(1_800_000_000_000)).to_string();
        assert!(text.parse::<CustomerId>().is_err());
        assert!(text.to_lowercase().parse::<PaymentId>().is_err());
        for bad in ["", "pay_", "pay_1", "pay_8ZZZZZZZZZZZZZZZZZZZZZZZZZ", "pay_ééééééééééééé"] {
            assert!(bad.parse::<PaymentId>().is_err(), "{bad}");
        }
    }

    #[test]
    fn ids_are_ordered_by_time() {
        assert!(PaymentId::new(at(1)) < PaymentId::new(at(2)));
    }

    #[test]
    fn ids_of_events_within_a_millisecond_are_in_order() {
        let ids: Vec<_> = (0..100).map(|_| EventId::in_order(at(1_800_000_000_000))).collect();
        assert!(ids.is_sorted_by(|one, next| one < next), "{ids:?}");
        assert!(ids.iter().all(|id| id.time() == Some(at(1_800_000_000_000))));
    }

    #[test]
    fn an_id_follows_the_latest_unless_the_clock_was_set_back_by_more_than_a_second() {
        let latest = Ulid::from_parts(5_000, 7);
        for (new, follows) in [
            (Ulid::from_parts(5_000, 9), Ulid::from_parts(5_000, 9)),
            (Ulid::from_parts(5_000, 7), Ulid::from_parts(5_000, 8)),
            (Ulid::from_parts(5_000, 1), Ulid::from_parts(5_000, 8)),
            (Ulid::from_parts(4_000, 9), Ulid::from_parts(5_000, 8)),
            (Ulid::from_parts(3_999, 9), Ulid::from_parts(3_999, 9)),
            (Ulid::from_parts(5_001, 1), Ulid::from_parts(5_001, 1)),
        ] {
            assert_eq!(following(latest, new), follows);
        }
        let last = Ulid::from_parts(5_000, u128::MAX >> 48);
        assert_eq!(following(last, latest), Ulid::from_parts(5_001, 0));
    }

    #[test]
    fn any_id_round_trips() {
        check(any::<u128>(), |bits| {
            let uuid = Uuid::from_u128(bits);
            assert_eq!(CustomerId::from_uuid(uuid).to_string().parse::<CustomerId>().expect("ours").uuid(), uuid);
        });
    }

    #[test]
    fn a_changed_id_is_invalid_or_different() {
        let id = PaymentId::new(at(1_800_000_000_000)).to_string();
        let original = id.clone();
        check(prop_oneof![mutated(original), texts()], |text| {
            if let Ok(parsed) = text.parse::<PaymentId>() {
                assert_eq!(parsed.to_string(), text, "an id has one spelling");
                assert_eq!(parsed.to_string() == id, text == id);
            }
            assert!(text.parse::<CustomerId>().is_err() || text.starts_with("cus_"));
        });
    }
}
