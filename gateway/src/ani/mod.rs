//! Account name inquiry: whether a name is the cardholder's. The simulated issuer matches every name except two test
//! words.

use serde::Serialize;

use crate::amount::Amount;
use crate::cards::Brand;
use crate::cards::source::{self, CardInputs, security_code};
use crate::failure::{Code, Result};
use crate::http::{self, Call, Reply};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
enum Decision {
    Match,
    PartialMatch,
    NoMatch,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Inquired {
    code: &'static str,
    description: &'static str,
    name_match_decision: Decision,
    last_name_match_decision: Decision,
    first_name_match_decision: Decision,
    middle_name_match_decision: Decision,
}

/// `account_validation.php`
///
/// # Errors
/// 02 for a card that is not VISA, 03, 04, 07, 08, 10, 11, A1 and 21.
pub async fn inquire(call: Call) -> Result<Reply> {
    let Call { app, account, form, .. } = &call;
    let today = account.time_zone.date_at(app.clock.now());
    let inputs = CardInputs { token: false, encrypted: true };
    let brand = source::number(app, account, form, inputs).await?.0.brand();
    if brand != Brand::Visa {
        return Err(Code::Card.because("only VISA cards are supported"));
    }
    source::expiry(form, today)?;
    let (first, last) = (http::name(form, "first_name", &None)?, http::name(form, "last_name", &None)?);
    // Nothing is charged, so 0 is valid too.
    http::amount(form, Amount::ZERO)?;
    http::currency(account, form.get("currency"))?;
    http::check_brand(account, brand)?;
    source::is_encrypted(form, inputs)?;
    security_code(form, false)?;
    let middle = form.text("middle_name")?;
    let (first, last) = (decide(&first?), decide(&last?));
    http::check_profanity([&form.text("company_name")?])?;

    // A missing middle name counts as a match.
    let middle = middle.as_deref().map_or(Decision::Match, decide);
    Ok(Reply::new(&Inquired {
        code: "00",
        description: "Success",
        name_match_decision: overall(first, middle, last),
        last_name_match_decision: last,
        first_name_match_decision: first,
        middle_name_match_decision: middle,
    }))
}

fn decide(name: &str) -> Decision {
    match name.to_ascii_lowercase().as_str() {
        "nomatch" => Decision::NoMatch,
        "partial" => Decision::PartialMatch,
        _ => Decision::Match,
    }
}

/// A match if all parts match, no match if neither first nor last name does, otherwise a partial match.
fn overall(first: Decision, middle: Decision, last: Decision) -> Decision {
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
