//! What came back: the status, when to come again, and the beginning of the body.

use std::time::Duration;

use http_body_util::BodyExt;
use hyper::HeaderMap;
use hyper::body::{Body, Incoming};
use hyper::header::RETRY_AFTER;

use crate::clock::Clock;

/// Bytes of the body that are kept.
const KEPT: usize = 4 * 1024;
/// Bytes of the body that are read, so that the connection can be used again. Of a longer body the rest is left unread and
/// the connection closed.
const READ: usize = 64 * 1024;
/// The longest wait that a receiver can ask for.
const LONGEST_WAIT: Duration = Duration::from_secs(24 * 3600);

/// An answer, whatever its status: redirects are not followed.
#[derive(Debug)]
pub struct Received {
    /// The status code.
    pub status: u16,
    /// How long the receiver asks to be left alone (`Retry-After`), a day at most.
    pub retry_after: Option<Duration>,
    /// The first 4 KiB of the body as it came.
    pub body: Vec<u8>,
    /// From the call to the end of the body, or of what was read of it.
    pub duration: Duration,
}

/// Reads the body to its end or to the limit, and answers its beginning.
///
/// # Errors
/// The body broke off, or was not sent by the rules of HTTP.
pub(super) async fn read(mut body: Incoming) -> Result<Vec<u8>, hyper::Error> {
    let expected = body.size_hint().lower().min(KEPT as u64);
    let mut kept = Vec::with_capacity(usize::try_from(expected).unwrap_or(KEPT));
    let mut read = 0;
    while let Some(frame) = body.frame().await {
        // Trailers are nobody's concern here.
        let Ok(data) = frame?.into_data() else { continue };
        kept.extend_from_slice(&data[..data.len().min(KEPT - kept.len())]);
        read += data.len();
        if read > READ {
            break;
        }
    }
    Ok(kept)
}

/// `Retry-After` (RFC 9110, 10.2.3), in seconds or as a date; none if it is neither.
pub(super) fn retry_after(headers: &HeaderMap, clock: &Clock) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let wait = if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        // What has too many digits to be read is long enough.
        text.parse().map_or(LONGEST_WAIT, Duration::from_secs)
    } else {
        let until = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(text).ok()?;
        let ahead = until.as_millisecond().saturating_sub(clock.now().as_millisecond());
        Duration::from_millis(u64::try_from(ahead).unwrap_or(0))
    };
    Some(wait.min(LONGEST_WAIT))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Timestamp;
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
    fn whatever_a_receiver_asks_for_is_a_day_at_most() {
        let clock = Clock::fixed(Timestamp::from_millisecond(1_800_000_000_000).unwrap());
        let asked = prop_oneof![
            mutated_bytes("120"),
            mutated_bytes("Fri, 15 Jan 2027 08:01:30 GMT"),
            mutated_bytes("Thu, 01 Jan -9999 00:00:00 +9999"),
            any::<u128>().prop_map(|number| Bytes(number.to_string().into_bytes())),
            noise(),
        ];
        check(asked, |bytes| {
            // What is no value of a header never comes here.
            let Ok(value) = HeaderValue::from_bytes(&bytes) else { return };
            let wait = retry_after(&HeaderMap::from_iter([(RETRY_AFTER, value)]), &clock);
            assert!(wait.is_none_or(|wait| wait <= LONGEST_WAIT), "{wait:?}");
            let digits = !bytes.is_empty() && bytes.iter().all(u8::is_ascii_digit);
            assert!(!digits || wait.is_some(), "a number of seconds is understood");
        });
    }
}
