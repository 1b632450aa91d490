//! Whether an answer is the one that a page shows.
//!
//! Each field that is shown has to be there with that value; there may be others. What differs from run to run is compared by its
//! shape: an id has the prefix that is shown, an instant and a day are written as such, and `…` stands for whatever is there.
//! A list has as many items as are shown, or more if the last one is `"…"`.

use anyhow::{Context, Result, ensure};
use serde_json::{Deserializer, Value};

/// The characters of an id behind its prefix.
const ID: usize = 26;

/// Whether a program printed the one JSON value that is shown.
pub(crate) fn json(shown: &str, printed: &str) -> Result<()> {
    let shown: Value = serde_json::from_str(shown).context("what is shown is no JSON")?;
    let printed = Deserializer::from_str(printed).into_iter().collect::<Result<Vec<Value>, _>>();
    let printed = printed.context("what was printed is no JSON")?;
    ensure!(printed.len() == 1, "{} values were printed instead of one", printed.len());
    same(&shown, &printed[0], "the answer")
}

/// Whether a program printed the lines that are shown. A line that is only `…` stands for any number of them.
pub(crate) fn text(shown: &str, printed: &str) -> Result<()> {
    let (shown, printed): (Vec<&str>, Vec<&str>) = (shown.lines().collect(), printed.lines().collect());
    ensure!(lines(&shown, &printed), "other lines were printed than are shown");
    Ok(())
}

fn lines(shown: &[&str], printed: &[&str]) -> bool {
    match shown.split_first() {
        None => printed.is_empty(),
        Some((&"…", rest)) => (0..=printed.len()).any(|from| lines(rest, &printed[from..])),
        Some((line, rest)) => {
            printed.split_first().is_some_and(|(first, others)| is_like(line, first) && lines(rest, others))
        }
    }
}

fn same(shown: &Value, printed: &Value, place: &str) -> Result<()> {
    match (shown, printed) {
        (Value::Object(fields), Value::Object(there)) => fields.iter().try_for_each(|(name, shown)| {
            let place = format!("{place}, {name}");
            same(shown, there.get(name).with_context(|| format!("{place}: it is not there"))?, &place)
        }),
        (Value::Array(shown), Value::Array(there)) => {
            let (shown, or_more) = match shown.split_last() {
                Some((last, rest)) if *last == "…" => (rest, true),
                _ => (shown.as_slice(), false),
            };
            let fits = if or_more { there.len() >= shown.len() } else { there.len() == shown.len() };
            ensure!(fits, "{place}: {} items instead of {}", there.len(), shown.len());
            let mut pairs = shown.iter().zip(there).enumerate();
            pairs.try_for_each(|(index, (shown, there))| same(shown, there, &format!("{place}, {index}")))
        }
        (Value::String(shown), Value::String(there)) => {
            ensure!(is_like(shown, there), "{place}: {there:?} instead of {shown:?}");
            Ok(())
        }
        _ => {
            ensure!(shown == printed, "{place}: {printed} instead of {shown}");
            Ok(())
        }
    }
}

/// Whether a text is the one shown, but for ids, instants, days and what `…` stands for.
fn is_like(shown: &str, printed: &str) -> bool {
    let (shown, printed) = (masked(shown), masked(printed));
    let mut parts = shown.split('…');
    let Some(mut rest) = parts.next().and_then(|first| printed.strip_prefix(first)) else { return false };
    let mut parts = parts.peekable();
    while let Some(part) = parts.next() {
        // The last part ends the text; any other is looked for, and what is left out is something.
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

/// The text with the shapes of its ids, instants and days in their place.
fn masked(text: &str) -> String {
    let mut masked = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let after_a_word = masked.ends_with(|c: char| c.is_ascii_alphanumeric());
        let shapes = [(instant(rest), "<instant>"), (day(rest), "<day>"), (id(rest), "<id>")];
        match shapes.into_iter().find_map(|(length, shape)| Some((length?, shape))) {
            Some((length, shape)) if !after_a_word => {
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

/// The length of what the text begins with, if it is of this pattern, in which `0` stands for any digit.
fn pattern(text: &str, pattern: &str) -> Option<usize> {
    let head = text.get(..pattern.len())?;
    let fits = head.bytes().zip(pattern.bytes()).all(|(c, p)| if p == b'0' { c.is_ascii_digit() } else { c == p });
    let ends = !text[pattern.len()..].starts_with(|c: char| c.is_ascii_alphanumeric());
    (fits && ends).then_some(pattern.len())
}

fn instant(text: &str) -> Option<usize> {
    pattern(text, "0000-00-00T00:00:00.000Z")
}

fn day(text: &str) -> Option<usize> {
    pattern(text, "0000-00-00")
}

fn id(text: &str) -> Option<usize> {
    let length = text.bytes().take_while(|c| c.is_ascii_digit() || c.is_ascii_uppercase()).count();
    let ends = !text[length..].starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
    (length == ID && ends).then_some(ID)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAYMENT: &str = r#"{"id": "pay_01KAJ4M2V8Q0S5T7W9X1Y3Z5A7", "createdAt": "2026-11-21T09:30:00.123Z", "amount": 1250,
        "period": "2026-11-21/2026-12-20", "refunds": [], "url": "http://127.0.0.1:8080/pay/l/abc"}"#;

    #[test]
    fn an_answer_like_the_one_shown_is_accepted() {
        for shown in [
            PAYMENT,
            r#"{"id": "pay_01KAJ4M2V8Q0S5T7W9X1Y3Z5B8", "createdAt": "2027-01-02T03:04:05.678Z", "refunds": []}"#,
            r#"{"id": "pay_…", "createdAt": "…", "period": "2020-01-01/2020-02-01", "url": "http://…/pay/l/…"}"#,
            "{}",
        ] {
            json(shown, PAYMENT).expect(shown);
        }
        json(r#"[{"a": 1}, "…"]"#, r#"[{"a": 1, "b": 2}, 3, 4]"#).expect("a list that goes on");
        text("a …\n…\nb 2026-11-21\n", "a word\n1\n2\nb 2027-01-01\n").expect("lines");
    }

    #[test]
    fn any_other_answer_is_refused() {
        for shown in [
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
            assert!(json(shown, PAYMENT).is_err(), "{shown}");
        }
        assert!(json("[1]", "[1, 2]").is_err(), "a list ends where it is shown to end");
        assert!(json("1", "1 1").is_err(), "two answers are not one");
        for (shown, printed) in [("a\n", ""), ("a\n", "a\nb\n"), ("…\nb\n", "a\n"), ("a …\n", "a \n"), ("", "a\n")]
        {
            assert!(text(shown, printed).is_err(), "{shown:?} {printed:?}");
        }
    }
}
