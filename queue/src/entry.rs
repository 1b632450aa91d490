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
}
