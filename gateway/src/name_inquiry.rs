//! Account name inquiry: whether a name is the cardholder's. The simulated issuer matches every name except two test
//! words.

use serde::Serialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Decision {
    Match,
    PartialMatch,
    NoMatch,
}

/// The issuer's decision about a name.
pub fn decide(name: &str) -> Decision {
    match name.to_ascii_lowercase().as_str() {
        "nomatch" => Decision::NoMatch,
        "partial" => Decision::PartialMatch,
        _ => Decision::Match,
    }
}

/// A match if all parts match, no match if neither first nor last name does, otherwise a partial match.
pub fn overall(first: Decision, middle: Decision, last: Decision) -> Decision {
    match (first, middle, last) {
        (Decision::Match, Decision::Match, Decision::Match) => Decision::Match,
        (Decision::NoMatch, _, Decision::NoMatch) => Decision::NoMatch,
        (_, _, _) => Decision::PartialMatch,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_overall_decision_depends_on_the_parts() {
        let (yes, half, no) = (decide("Jane"), decide("PARTIAL"), decide("NoMatch"));
        assert_eq!((yes, half, no), (Decision::Match, Decision::PartialMatch, Decision::NoMatch));
        assert_eq!(overall(yes, yes, yes), yes);
        for parts in [(no, yes, yes), (yes, no, yes), (yes, yes, no), (half, half, half), (no, no, half)] {
            assert_eq!(overall(parts.0, parts.1, parts.2), half, "{parts:?}");
        }
        assert_eq!(overall(no, yes, no), no);
    }
}
