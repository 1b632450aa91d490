//! The response: status, `Retry-After`, and the beginning of the body.

use std::time::Duration;

use http_body_util::BodyExt;
use hyper::HeaderMap;
use hyper::body::{Body, Incoming};
use hyper::header::RETRY_AFTER;

use foundation::clock::Clock;

/// Bytes of the body that are stored.
const STORED_BYTES: usize = 4 * 1024;
/// Bodies up to this size are read to the end, so that the connection can be reused. With a longer body the connection
/// is closed.
const MAX_READ_BYTES: usize = 64 * 1024;
/// An upper bound for `Retry-After`.
const MAX_WAIT: Duration = Duration::from_secs(24 * 3600);

/// A response with any status; redirects are not followed.
#[derive(Debug)]
pub struct TruncatedResponse {
    pub status: u16,
    /// `Retry-After`, at most a day.
    pub retry_after: Option<Duration>,
    /// The first 4 KiB of the body.
    pub body: Vec<u8>,
    /// From the call until the body was read.
    pub duration: Duration,
}

/// Reads the body up to the limit, and returns its beginning.
///
/// # Errors
/// The body is incomplete or malformed.
pub(super) async fn read(mut body: Incoming) -> Result<Vec<u8>, hyper::Error> {
    let expected = body.size_hint().lower().min(STORED_BYTES as u64);
    let mut stored = Vec::with_capacity(usize::try_from(expected).unwrap_or(STORED_BYTES));
    let mut read = 0;
    while let Some(frame) = body.frame().await {
        // Trailers are ignored.
        let Ok(data) = frame?.into_data() else { continue };
        stored.extend_from_slice(&data[..data.len().min(STORED_BYTES - stored.len())]);
        read += data.len();
        if read > MAX_READ_BYTES {
            break;
        }
    }
    Ok(stored)
}

/// `Retry-After` (RFC 9110, 10.2.3) in seconds or as a date; `None` if it is neither.
pub(super) fn retry_after(headers: &HeaderMap, clock: &Clock) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let wait = if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        // A number too large to parse exceeds the maximum.
        text.parse().map_or(MAX_WAIT, Duration::from_secs)
    } else {
        let until = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(text).ok()?;
        let ahead = until.as_millisecond().saturating_sub(clock.now().as_millisecond());
        Duration::from_millis(u64::try_from(ahead).unwrap_or(0))
    };
    Some(wait.min(MAX_WAIT))
}

#[cfg(test)]
mod tests {
    use super::*;
    use foundation::time::Timestamp;
    use hyper::header::HeaderValue;
    use proptest::prelude::*;
    use testkit::fuzz::{Bytes, check, mutated_bytes, noise};

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        // Friday, 15 January 2027, 08:00:00 UTC.
        let clock = Clock::fixed(Timestamp::from_millisecond(1_800_000_000_000).unwrap());
        let parse = |text: &str| {
            let headers = HeaderMap::from_iter([(RETRY_AFTER, text.parse().unwrap())]);
            retry_after(&headers, &clock).map(|wait| wait.as_secs())
        };
        for (text, seconds) in [
            ("0", Some(0)),
            ("120", Some(120)),
            (" 5 ", Some(5)),
            ("86401", Some(86_400)),
            ("99999999999999999999999999", Some(86_400)),
            ("Fri, 15 Jan 2027 08:01:30 GMT", Some(90)),
            ("Fri, 15 Jan 2027 07:00:00 GMT", Some(0)),
            ("Sat, 15 Jan 2028 08:00:00 GMT", Some(86_400)),
            ("", None),
            ("-1", None),
            ("+1", None),
            ("1.5", None),
            ("soon", None),
            ("2027-01-15T08:01:30Z", None),
        ] {
            assert_eq!(parse(text), seconds, "{text:?}");
        }
        assert_eq!(retry_after(&HeaderMap::new(), &clock), None);
    }

    #[test]
    fn retry_after_is_at_most_a_day() {
        let clock = Clock::fixed(Timestamp::from_millisecond(1_800_000_000_000).unwrap());
        let values = prop_oneof![
            mutated_bytes("120"),
            mutated_bytes("Fri, 15 Jan 2027 08:01:30 GMT"),
            mutated_bytes("Thu, 01 Jan -9999 00:00:00 +9999"),
            any::<u128>().prop_map(|number| Bytes(number.to_string().into_bytes())),
            noise(),
        ];
        check(values, |bytes| {
            // hyper rejects invalid header values before they get here.
            let Ok(value) = HeaderValue::from_bytes(&bytes) else { return };
            let wait = retry_after(&HeaderMap::from_iter([(RETRY_AFTER, value)]), &clock);
            assert!(wait.is_none_or(|wait| wait <= MAX_WAIT), "{wait:?}");
            let digits = !bytes.is_empty() && bytes.iter().all(u8::is_ascii_digit);
            assert!(!digits || wait.is_some(), "a number of seconds is accepted");
        });
    }
}
