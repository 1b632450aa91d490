//! Compares output with the expected output on a page.
//!
//! Each expected field must be present with that value; there may be others. Values that differ between runs are
//! compared by shape: an id by its prefix, timestamps and dates by their format, and `…` matches anything. A list has
//! exactly the expected items, or more if the last expected one is `"…"`.

use anyhow::{Context, Result, ensure};
use serde_json::{Deserializer, Value};

/// The length of an id after its prefix.
const ID_LENGTH: usize = 26;

/// Checks that a program printed a single JSON value like the expected one.
pub(crate) fn json(expected: &str, printed: &str) -> Result<()> {
    let expected: Value = serde_json::from_str(expected).context("the expected output is not JSON")?;
    let printed = Deserializer::from_str(printed).into_iter().collect::<Result<Vec<Value>, _>>();
    let printed = printed.context("the output is not JSON")?;
    ensure!(printed.len() == 1, "{} values were printed instead of one", printed.len());
    same(&expected, &printed[0], "the output")
}

/// Checks that a program printed lines like the expected ones. A line `…` matches any number of lines.
pub(crate) fn text(expected: &str, printed: &str) -> Result<()> {
    let (expected, printed): (Vec<&str>, Vec<&str>) = (expected.lines().collect(), printed.lines().collect());
    ensure!(lines(&expected, &printed), "the printed lines differ from the expected ones");
    Ok(())
}

fn lines(expected: &[&str], printed: &[&str]) -> bool {
    match expected.split_first() {
        None => printed.is_empty(),
        Some((&"…", rest)) => (0..=printed.len()).any(|from| lines(rest, &printed[from..])),
        Some((line, rest)) => {
            printed.split_first().is_some_and(|(first, others)| is_like(line, first) && lines(rest, others))
        }
    }
}

fn same(expected: &Value, printed: &Value, place: &str) -> Result<()> {
    match (expected, printed) {
        (Value::Object(fields), Value::Object(actual)) => fields.iter().try_for_each(|(name, expected)| {
            let place = format!("{place}, {name}");
            same(expected, actual.get(name).with_context(|| format!("{place}: missing"))?, &place)
        }),
        (Value::Array(expected), Value::Array(actual)) => {
            let (expected, or_more) = match expected.split_last() {
                Some((last, rest)) if *last == "…" => (rest, true),
                _ => (expected.as_slice(), false),
            };
            let fits = if or_more { actual.len() >= expected.len() } else { actual.len() == expected.len() };
            ensure!(fits, "{place}: {} items instead of {}", actual.len(), expected.len());
            let mut pairs = expected.iter().zip(actual).enumerate();
            pairs.try_for_each(|(index, (expected, actual))| same(expected, actual, &format!("{place}, {index}")))
        }
        (Value::String(expected), Value::String(actual)) => {
            ensure!(is_like(expected, actual), "{place}: {actual:?} instead of {expected:?}");
            Ok(())
        }
        _ => {
            ensure!(expected == printed, "{place}: {printed} instead of {expected}");
            Ok(())
        }
    }
}

/// Whether a text matches the expected one, with ids, timestamps and dates compared by shape.
fn is_like(expected: &str, printed: &str) -> bool {
    let (expected, printed) = (masked(expected), masked(printed));
    let mut parts = expected.split('…');
    let Some(mut rest) = parts.next().and_then(|first| printed.strip_prefix(first)) else { return false };
    let mut parts = parts.peekable();
    while let Some(part) = parts.next() {
        // The last part must end the text, any other is searched for; each `…` matches at least one character.
        let at = if parts.peek().is_none() {
            rest.ends_with(part).then(|| rest.len() - part.len())
        } else {
            rest.find(part)
        };
        match at {
            Some(at) if at > 0 => rest = &rest[at + part.len()..],
            _ => return false,
        }
    }
    rest.is_empty()
}

/// The text with its ids, timestamps and dates replaced by placeholders.
fn masked(text: &str) -> String {
    let mut masked = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let after_word = masked.ends_with(|c: char| c.is_ascii_alphanumeric());
        let shapes = [(timestamp(rest), "<timestamp>"), (date(rest), "<date>"), (id(rest), "<id>")];
        match shapes.into_iter().find_map(|(length, shape)| Some((length?, shape))) {
            Some((length, shape)) if !after_word => {
                masked.push_str(shape);
                rest = &rest[length..];
            }
            _ => {
                masked.push(first);
                rest = &rest[first.len_utf8()..];
            }
        }
    }
    masked
}

/// The length of `pattern` if the text starts with it, as a whole word. `0` in the pattern matches any digit.
fn pattern(text: &str, pattern: &str) -> Option<usize> {
    let head = text.get(..pattern.len())?;
    let fits = head.bytes().zip(pattern.bytes()).all(|(c, p)| if p == b'0' { c.is_ascii_digit() } else { c == p });
    let ends = !text[pattern.len()..].starts_with(|c: char| c.is_ascii_alphanumeric());
    (fits && ends).then_some(pattern.len())
}

fn timestamp(text: &str) -> Option<usize> {
    pattern(text, "0000-00-00T00:00:00.000Z")
}

fn date(text: &str) -> Option<usize> {
    pattern(text, "0000-00-00")
}

fn id(text: &str) -> Option<usize> {
    let length = text.bytes().take_while(|c| c.is_ascii_digit() || c.is_ascii_uppercase()).count();
    let ends = !text[length..].starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
    (length == ID_LENGTH && ends).then_some(ID_LENGTH)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAYMENT: &str = r#"{"id": "pay_01KAJ4M2V8Q0S5T7W9X1Y3Z5A7", "createdAt": "2026-11-21T09:30:00.123Z", "amount": 1250,
        "period": "2026-11-21/2026-12-20", "refunds": [], "url": "http://127.0.0.1:8080/pay/l/abc"}"#;

    #[test]
    fn matching_output_is_accepted() {
        for expected in [
            PAYMENT,
            r#"{"id": "pay_01KAJ4M2V8Q0S5T7W9X1Y3Z5B8", "createdAt": "2027-01-02T03:04:05.678Z", "refunds": []}"#,
            r#"{"id": "pay_…", "createdAt": "…", "period": "2020-01-01/2020-02-01", "url": "http://…/pay/l/…"}"#,
            "{}",
        ] {
            json(expected, PAYMENT).expect(expected);
        }
        json(r#"[{"a": 1}, "…"]"#, r#"[{"a": 1, "b": 2}, 3, 4]"#).expect("a longer list");
        text("a …\n…\nb 2026-11-21\n", "a word\n1\n2\nb 2027-01-01\n").expect("lines");
    }

    #[test]
    fn other_output_is_rejected() {
        for expected in [
            r#"{"id": "ref_01KAJ4M2V8Q0S5T7W9X1Y3Z5A7"}"#,
            r#"{"id": "pay_01KAJ"}"#,
            r#"{"createdAt": "2026-11-21"}"#,
            r#"{"amount": 1251}"#,
            r#"{"amount": "1250"}"#,
            r#"{"status": "settled"}"#,
            r#"{"refunds": ["…", 1]}"#,
            r#"{"refunds": {}}"#,
            r#"{"url": "http://…/pay/i/…"}"#,
            r#"{"url": "http://127.0.0.1:8080/pay/l/abc…"}"#,
            "[]",
            "",
        ] {
            assert!(json(expected, PAYMENT).is_err(), "{expected}");
        }
        assert!(json("[1]", "[1, 2]").is_err(), "a list must not have more items");
        assert!(json("1", "1 1").is_err(), "a second value is an error");
        for (expected, printed) in [("a\n", ""), ("a\n", "a\nb\n"), ("…\nb\n", "a\n"), ("a …\n", "a \n"), ("", "a\n")]
        {
            assert!(text(expected, printed).is_err(), "{expected:?} {printed:?}");
        }
    }
}
