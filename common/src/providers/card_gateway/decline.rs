//! The gateway's reasons in our words, and whether a retry may clear them.

use super::wire::Refusal;
use crate::providers::{Answer, Decline, DeclineType};

/// Why a charge was declined, by the report's `decline_reason`; none for one that says that nothing was done.
pub(super) fn of_reason(reason: &str) -> Option<Decline> {
    use DeclineType::{Hard, Soft};
    let (code, kind) = match reason {
        "not processed" => return None,
        "insufficient funds" => ("insufficient_funds", Soft),
        "lost card" => ("lost_card", Hard),
        "stolen card" => ("stolen_card", Hard),
        "expired card" => ("expired_card", Hard),
        "incorrect cvv" => ("incorrect_cvc", Hard),
        "authentication required" | "card not authenticated" => ("authentication_required", Hard),
        "cardholder authentication refused" | "cardholder authentication expired" => ("authentication_failed", Soft),
        _ => ("declined", Soft),
    };
    Some(Decline { code: code.to_owned(), kind })
}

/// What a code other than `00`, `F`, `26` and `UN` means for a charge. Nothing was entered.
pub(super) fn of_refusal(refusal: &Refusal) -> Answer {
    use DeclineType::{Hard, Soft};
    let (code, kind) = match refusal.code.as_str() {
        // Every amount of ours is one; the gateway's forms take fewer digits.
        "07" | "17" => ("sale_limit_exceeded", Soft),
        "18" => ("monthly_limit_exceeded", Soft),
        "19" => ("transaction_limit_exceeded", Soft),
        "20" => ("ip_limit_exceeded", Soft),
        "03" => ("expired_card", Hard),
        "10" => ("currency_not_supported", Hard),
        "11" => ("card_not_supported", Hard),
        _ if wants_the_cardholder(refusal) => ("authentication_required", Hard),
        _ => return Answer::Refused { reason: refusal.reason() },
    };
    Answer::Declined { decline: Decline { code: code.to_owned(), kind }, card: None }
}

/// The card's bank wants to ask, and nobody is there to be asked.
pub(super) fn wants_the_cardholder(refusal: &Refusal) -> bool {
    refusal.code == "A1" && refusal.description.contains("3ds_redirect_url")
}
