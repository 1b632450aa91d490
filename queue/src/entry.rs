//! A wake-up, and its encoding as a stream entry.

use std::str;

use redis::{FromRedisValue, ParsingError, Value, from_redis_value};
use uuid::Uuid;

/// The field of the id, as hyphenated text so that operators can read it with `XRANGE`.
pub(crate) const ID: &str = "id";
/// The field of the request id.
pub(crate) const REQUEST_ID: &str = "request_id";
/// Clients choose request ids, and they are only logged; longer ones are truncated.
const REQUEST_ID_MAX_CHARS: usize = 64;

/// A wake-up: the id of a row, and of the request that caused it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wake {
    /// The id of the row to process.
    pub id: Uuid,
    /// The id of the request that caused this, to correlate the logs of api and worker. Truncated to 64 characters.
    pub request_id: Option<String>,
}

impl From<Uuid> for Wake {
    /// A wake-up without a request.
    fn from(id: Uuid) -> Self {
        Self { id, request_id: None }
    }
}

impl Wake {
    /// The request id, truncated.
    pub(crate) fn short_request_id(&self) -> Option<&str> {
        let text = self.request_id.as_deref()?;
        let end = text.char_indices().nth(REQUEST_ID_MAX_CHARS).map_or(text.len(), |(at, _)| at);
        Some(&text[..end])
    }
}

/// An entry as read from Redis. Its content is untrusted: any client of Redis can write any bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Redis' id, `<milliseconds>-<sequence>`.
    pub(crate) id: String,
    /// Alternating names and values.
    pub(crate) fields: Vec<Vec<u8>>,
}

impl Entry {
    /// The wake-up in this entry; `None` without a valid id. An invalid request id is ignored.
    pub(crate) fn wake(&self) -> Option<Wake> {
        let text = |name| self.field(name).and_then(|value| str::from_utf8(value).ok());
        Some(Wake { id: Uuid::try_parse(text(ID)?).ok()?, request_id: text(REQUEST_ID).map(str::to_owned) })
    }

    /// Seconds from the push to `redis_now_ms`, both by Redis' clock.
    pub(crate) fn waited_seconds(&self, redis_now_ms: u64) -> f64 {
        let pushed_ms = millis(&self.id).unwrap_or(redis_now_ms);
        redis_now_ms.saturating_sub(pushed_ms) as f64 / 1_000.0
    }

    fn field(&self, name: &str) -> Option<&[u8]> {
        let (pairs, _) = self.fields.as_chunks::<2>();
        pairs.iter().find(|[key, _]| key == name.as_bytes()).map(|[_, value]| value.as_slice())
    }
}

impl FromRedisValue for Entry {
    fn from_redis_value(value: Value) -> Result<Self, ParsingError> {
        let (id, fields) = from_redis_value(value)?;
        Ok(Self { id, fields })
    }
}

/// The time of the push, in milliseconds, by Redis' clock.
pub(crate) fn millis(entry_id: &str) -> Option<u64> {
    entry_id.split_once('-')?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use testkit::fuzz::{check, mutated, mutated_bytes, noise, texts};

    fn entry(fields: &[&[u8]]) -> Entry {
        Entry { id: "1700000000000-3".to_owned(), fields: fields.iter().map(|field| field.to_vec()).collect() }
    }

    #[test]
    fn other_fields_of_an_entry_are_ignored() {
        let id = Uuid::from_u128(7);
        let text = id.to_string();
        let wake = |request_id: Option<&str>| Some(Wake { id, request_id: request_id.map(str::to_owned) });
        assert_eq!(entry(&[b"id", text.as_bytes()]).wake(), wake(None));
        assert_eq!(entry(&[b"x", b"y", b"id", text.as_bytes(), b"request_id", b"r1"]).wake(), wake(Some("r1")));
        assert_eq!(entry(&[b"id", text.as_bytes(), b"request_id", b"\xff"]).wake(), wake(None));
    }

    #[test]
    fn entries_without_a_valid_id_are_not_wake_ups() {
        assert_eq!(entry(&[]).wake(), None);
        assert_eq!(entry(&[b"id"]).wake(), None);
        assert_eq!(entry(&[b"id", b"not a uuid"]).wake(), None);
        assert_eq!(entry(&[b"\xff\xfe", b"\x00"]).wake(), None);
    }

    #[test]
    fn request_ids_are_truncated_at_character_boundaries() {
        let wake = Wake { id: Uuid::nil(), request_id: Some("é".repeat(100)) };
        assert_eq!(wake.short_request_id(), Some("é".repeat(64).as_str()));
    }

    #[test]
    fn waiting_time_is_never_negative() {
        let entry = entry(&[]);
        assert_eq!(entry.waited_seconds(1_700_000_001_500), 1.5);
        assert_eq!(entry.waited_seconds(1), 0.0);
    }

    #[test]
    fn wake_ups_round_trip_with_any_other_fields() {
        check((any::<u128>(), proptest::option::of(texts()), vec(noise(), 0..4)), |(id, request_id, others)| {
            let wake = Wake { id: Uuid::from_u128(id), request_id };
            let (text, short) = (wake.id.to_string(), wake.short_request_id());
            assert!(short.is_none_or(|short| short.chars().count() <= REQUEST_ID_MAX_CHARS));
            let mut fields = vec![ID.as_bytes(), text.as_bytes()];
            fields.extend(short.map(|short| [REQUEST_ID.as_bytes(), short.as_bytes()]).into_iter().flatten());
            fields.extend(others.iter().map(|bytes| &**bytes));
            let read = entry(&fields).wake().expect("it has an id");
            assert_eq!(read.id, wake.id);
            assert!(short.is_none() || read.request_id.as_deref() == short);
        });
    }

    #[test]
    fn arbitrary_entries_are_wake_ups_or_none() {
        let id = Uuid::from_u128(7);
        let bytes =
            || prop_oneof![mutated_bytes("id"), mutated_bytes("request_id"), mutated_bytes(id.to_string()), noise()];
        check((mutated("1700000000000-3"), vec(bytes(), 0..6), any::<u64>()), |(redis_id, fields, now)| {
            let entry = Entry { id: redis_id, fields: fields.iter().map(|field| field.0.clone()).collect() };
            if let Some(wake) = entry.wake() {
                assert!(fields.chunks(2).any(|pair| pair.len() == 2 && &*pair[0] == b"id"), "{wake:?}");
            }
            assert!(entry.waited_seconds(now) >= 0.0);
        });
    }

    #[test]
    fn arbitrary_responses_are_entries_or_errors() {
        let leaf = prop_oneof![
            Just(Value::Nil),
            Just(Value::Okay),
            any::<i64>().prop_map(Value::Int),
            any::<f64>().prop_map(Value::Double),
            noise().prop_map(|bytes| Value::BulkString(bytes.0)),
            texts().prop_map(Value::SimpleString),
        ];
        let responses = leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                vec(inner.clone(), 0..4).prop_map(Value::Array),
                vec((inner.clone(), inner), 0..3).prop_map(Value::Map),
            ]
        });
        check(responses, |response| {
            if let Ok(entry) = Entry::from_redis_value(response) {
                entry.wake();
            }
        });
    }
}
