//! The gateway's reasons in our words, and whether a retry may clear them.

use super::wire::Refusal;
use crate::providers::{Decline, DeclineType};

/// Why a charge was declined, by the report's `decline_reason` (docs/gateway.md, Report); none for any other word.
pub(super) fn of_reason(reason: &str) -> Option<Decline> {
    use DeclineType::{Hard, Soft};
    let (code, kind) = match reason {
        "declined" => ("declined", Soft),
        "insufficient funds" => ("insufficient_funds", Soft),
        "lost card" => ("lost_card", Hard),
        "stolen card" => ("stolen_card", Hard),
        "expired card" => ("expired_card", Hard),
        "incorrect cvv" => ("incorrect_cvc", Hard),
        "authentication required" | "card not authenticated" => ("authentication_required", Hard),
        "cardholder authentication refused" | "cardholder authentication expired" => ("authentication_failed", Soft),
        _ => return None,
    };
    Some(Decline { code: code.to_owned(), kind })
}

/// What a code other than `00`, `F` and `26` means as a decline; none if it is none. Nothing was entered. Only what this card can
/// never do is a hard decline: what is wrong with the account or the request must not count against the card.
pub(super) fn of_refusal(refusal: &Refusal) -> Option<Decline> {
    use DeclineType::{Hard, Soft};
    let (code, kind) = match refusal.code.as_str() {
        // Every amount of ours is one; the gateway's forms take fewer digits.
        "07" | "17" => ("sale_limit_exceeded", Soft),
        "18" => ("monthly_limit_exceeded", Soft),
        "19" => ("transaction_limit_exceeded", Soft),
        "20" => ("ip_limit_exceeded", Soft),
        "03" => ("expired_card", Hard),
        // No processor takes the brand for this account: another card may do, and this one never will.
        "11" => ("card_not_supported", Hard),
        // The card's bank wants to ask, and nobody is there to be asked.
        "A1" if refusal.description.contains("3ds_redirect_url") => ("authentication_required", Hard),
        _ => return None,
    };
    Some(Decline { code: code.to_owned(), kind })
}
