//! Parses the selectors of a PromQL expression and the labels that it groups by. Prometheus has no API for that.

use std::collections::BTreeSet;

/// Keywords before a list of labels.
const GROUPING: [&str; 6] = ["by", "without", "on", "ignoring", "group_left", "group_right"];
/// Keywords between expressions, and numbers.
const KEYWORDS: [&str; 6] = ["and", "or", "unless", "offset", "bool", "inf"];

/// What an expression refers to.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct References {
    /// For example `up{job="api"}`.
    pub(crate) selectors: BTreeSet<String>,
    /// Labels that it groups or matches by.
    pub(crate) labels: BTreeSet<String>,
}

pub(crate) fn references(expression: &str) -> References {
    let mut references = References::default();
    let mut rest = expression;
    while let Some(begin) = rest.find(|c: char| !c.is_whitespace()) {
        rest = &rest[begin..];
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        let next = after.trim_start();
        if word.is_empty() || word.starts_with(|c: char| c.is_ascii_digit()) {
            // An operator, a number with its unit, or a range such as [5m].
            let skipped = if rest.starts_with('[') { rest.find(']').unwrap_or(0) + 1 } else { end.max(1) };
            rest = &rest[skipped..];
        } else if GROUPING.contains(&word) && next.starts_with('(') {
            let close = next.find(')').unwrap_or(next.len() - 1);
            references.labels.extend(next[1..close].split(',').map(|label| label.trim().to_owned()));
            rest = &next[close + 1..];
        } else if is_called(next) || KEYWORDS.contains(&word) || GROUPING.contains(&word) {
            rest = after;
        } else if after.starts_with('{') {
            let close = closing(after);
            references.selectors.insert(format!("{word}{}", &after[..close]));
            rest = &after[close..];
        } else {
            references.selectors.insert(word.to_owned());
            rest = after;
        }
    }
    references.labels.remove("");
    references
}

/// Whether the word before this is a function or an aggregation.
fn is_called(next: &str) -> bool {
    ["(", "by ", "by(", "without ", "without("].iter().any(|begin| next.starts_with(begin))
}

/// The end of the braces at the start of a text. Quoted strings may contain braces.
fn closing(text: &str) -> usize {
    let mut quoted = false;
    for (at, c) in text.char_indices() {
        match c {
            '"' => quoted = !quoted,
            '}' if !quoted => return at + 1,
            _ => {}
        }
    }
    text.len()
}

#[test]
fn expressions_are_parsed_in_every_form() {
    let set = |texts: &[&str]| texts.iter().map(ToString::to_string).collect::<BTreeSet<_>>();
    let parsed = references(
        r#"histogram_quantile(0.95, sum by (le, route) (rate(a_bucket{route="/v1/{id}",x=~"1|2"}[5m]))) > 14.4 * 0.001
           and sum(increase(b_total[1h] offset 10m)) / ignoring (state) group_left c unless absent(up{job="api"}) or d == 0"#,
    );
    let selectors = set(&[r#"a_bucket{route="/v1/{id}",x=~"1|2"}"#, "b_total", "c", r#"up{job="api"}"#, "d"]);
    assert_eq!(parsed, References { selectors, labels: set(&["le", "route", "state"]) });
}
