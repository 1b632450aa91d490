//! Maps the gateway's reasons to our decline codes and types.

use super::wire::Refusal;
use crate::{Decline, DeclineType};

/// The decline for a `decline_reason` of the report (docs/gateway.md, Report); `None` for an unknown reason.
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

/// The decline for a code other than `00`, `F` and `26`; `None` if it is not a decline. The gateway created no
/// transaction. Only a permanent limitation of this card is a hard decline: a fault of the account or the request must
/// not count against the card.
pub(super) fn of_refusal(refusal: &Refusal) -> Option<Decline> {
    use DeclineType::{Hard, Soft};
    let (code, kind) = match refusal.code.as_str() {
        // Our amounts are always valid, so code 07 means more digits than the gateway's form accepts.
        "07" | "17" => ("sale_limit_exceeded", Soft),
        "18" => ("monthly_limit_exceeded", Soft),
        "19" => ("transaction_limit_exceeded", Soft),
        "20" => ("ip_limit_exceeded", Soft),
        "03" => ("expired_card", Hard),
        // No processor accepts the brand for this account: another card may work, this one never will.
        "11" => ("card_not_supported", Hard),
        // The issuer requires a challenge, and no cardholder is present.
        "A1" if refusal.description.contains("3ds_redirect_url") => ("authentication_required", Hard),
        _ => return None,
    };
    Some(Decline { code: code.to_owned(), kind })
}
