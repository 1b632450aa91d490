//! `account_validation.php`: whether a name is the cardholder's.

use serde::Serialize;

use super::call::Call;
use super::card::{self, CardInputs};
use super::envelope::Reply;
use super::fields;
use crate::amount::Amount;
use crate::cards::Brand;
use crate::failure::{Code, Result};
use crate::name_inquiry::{Decision, decide, overall};

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

/// `account_validation.php`: 02 for a card that is not VISA, 03, 04, 07, 08, 10, 11, A1 and 21.
pub(super) async fn inquire(call: Call) -> Result<Reply> {
    let Call { app, account, form, .. } = &call;
    let today = account.time_zone.date_at(app.clock.now());
    let inputs = CardInputs { token: false, encrypted: true };
    let brand = card::number(&call, inputs).await?.0.brand();
    if brand != Brand::Visa {
        return Err(Code::Card.because("only VISA cards are supported"));
    }
    card::expiry(form, today)?;
    let (first, last) = (fields::name(form, "first_name", &None)?, fields::name(form, "last_name", &None)?);
    // Nothing is charged, so 0 is valid too.
    fields::amount(form, Amount::ZERO)?;
    fields::currency(account, form.get("currency"))?;
    fields::check_brand(account, brand)?;
    card::is_encrypted(form, inputs)?;
    card::security_code(form, false)?;
    let middle = form.text("middle_name")?;
    let (first, last) = (decide(&first.check()?), decide(&last.check()?));
    fields::check_profanity([&form.text("company_name")?])?;

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
