//! A wake-up, and how it is written into a stream.

use std::str;

use redis::{FromRedisValue, ParsingError, Value, from_redis_value};
use uuid::Uuid;

/// Name of the field that holds the id, as hyphenated text: an operator reads it with `XRANGE`.
pub(crate) const ID: &str = "id";
/// Name of the field that holds the request id.
pub(crate) const REQUEST_ID: &str = "request_id";
/// A longer request id is cut when it is pushed: it is for logs, and others choose it.
const REQUEST_ID_MAX_CHARS: usize = 64;

/// What travels: an id, and the request that caused it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wake {
    /// The row to look at.
    pub id: Uuid,
    /// Id of the request that caused this, to join the logs of api and worker. At most 64 characters travel.
    pub request_id: Option<String>,
}

/// What no request has caused.
impl From<Uuid> for Wake {
    fn from(id: Uuid) -> Self {
        Self { id, request_id: None }
    }
}

impl Wake {
    /// The request id as it may travel.
    pub(crate) fn short_request_id(&self) -> Option<&str> {
        let text = self.request_id.as_deref()?;
        let end = text.char_indices().nth(REQUEST_ID_MAX_CHARS).map_or(text.len(), |(at, _)| at);
        Some(&text[..end])
    }
}

/// An entry as it came from Redis. Whoever can write to Redis can write anything, so all of it is bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Redis' own id, `<milliseconds>-<sequence>`.
    pub(crate) id: String,
    /// Names and values in turn.
    pub(crate) fields: Vec<Vec<u8>>,
}

impl Entry {
    /// The wake-up in this entry; `None` where it has no readable id. A strange request id is no reason to lose a
    /// wake-up.
    pub(crate) fn wake(&self) -> Option<Wake> {
        let text = |name| self.field(name).and_then(|value| str::from_utf8(value).ok());
        Some(Wake { id: Uuid::try_parse(text(ID)?).ok()?, request_id: text(REQUEST_ID).map(str::to_owned) })
    }

    /// Seconds from the push to `redis_now_ms`. Both are Redis' clock, so it is as good as that one clock is steady.
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

/// The milliseconds in the id of an entry: when Redis' clock stood there, it was pushed.
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
    fn an_entry_is_read_whatever_stands_beside_the_id() {
        let id = Uuid::from_u128(7);
        let text = id.to_string();
        let wake = |request_id: Option<&str>| Some(Wake { id, request_id: request_id.map(str::to_owned) });
        assert_eq!(entry(&[b"id", text.as_bytes()]).wake(), wake(None));
        assert_eq!(entry(&[b"x", b"y", b"id", text.as_bytes(), b"request_id", b"r1"]).wake(), wake(Some("r1")));
        assert_eq!(entry(&[b"id", text.as_bytes(), b"request_id", b"\xff"]).wake(), wake(None));
    }

    #[test]
    fn an_entry_without_a_readable_id_is_no_wake_up() {
        assert_eq!(entry(&[]).wake(), None);
        assert_eq!(entry(&[b"id"]).wake(), None);
        assert_eq!(entry(&[b"id", b"not a uuid"]).wake(), None);
        assert_eq!(entry(&[b"\xff\xfe", b"\x00"]).wake(), None);
    }

    #[test]
    fn a_request_id_is_cut_between_characters() {
        let wake = Wake { id: Uuid::nil(), request_id: Some("é".repeat(100)) };
        assert_eq!(wake.short_request_id(), Some("é".repeat(64).as_str()));
    }

    #[test]
    fn waiting_is_never_negative() {
        let entry = entry(&[]);
        assert_eq!(entry.waited_seconds(1_700_000_001_500), 1.5);
        assert_eq!(entry.waited_seconds(1), 0.0);
    }

    #[test]
    fn a_wake_up_is_read_as_it_was_pushed_whatever_stands_beside_it() {
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
    fn whatever_stands_in_a_stream_is_a_wake_up_or_none() {
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
    fn any_answer_of_redis_is_an_entry_or_an_error() {
        let leaf = prop_oneof![
            Just(Value::Nil),
            Just(Value::Okay),
            any::<i64>().prop_map(Value::Int),
            any::<f64>().prop_map(Value::Double),
            noise().prop_map(|bytes| Value::BulkString(bytes.0)),
            texts().prop_map(Value::SimpleString),
        ];
        let answers = leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                vec(inner.clone(), 0..4).prop_map(Value::Array),
                vec((inner.clone(), inner), 0..3).prop_map(Value::Map),
            ]
        });
        check(answers, |answer| {
            if let Ok(entry) = Entry::from_redis_value(answer) {
                entry.wake();
            }
        });
    }
}
