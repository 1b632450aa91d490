//! Maps the gateway's reasons to our decline codes and types.

use super::wire::Refusal;
use crate::{Decline, DeclineCode};

/// The decline for a `decline_reason` of the report (docs/gateway.md, Report); `None` for an unknown reason.
pub(super) fn of_reason(reason: &str) -> Option<Decline> {
    let code = match reason {
        "declined" => DeclineCode::Declined,
        "insufficient funds" => DeclineCode::InsufficientFunds,
        "lost card" => DeclineCode::LostCard,
        "stolen card" => DeclineCode::StolenCard,
        "expired card" => DeclineCode::ExpiredCard,
        "incorrect cvv" => DeclineCode::IncorrectCvc,
        "authentication required" | "card not authenticated" => DeclineCode::AuthenticationRequired,
        "cardholder authentication refused" | "cardholder authentication expired" => DeclineCode::AuthenticationFailed,
        _ => return None,
    };
    Some(code.into())
}

/// The decline for a code other than `00`, `F` and `26`; `None` if it is not a decline. The gateway created no
/// transaction. Only a permanent limitation of this card is a hard decline: a fault of the account or the request must
/// not count against the card.
pub(super) fn of_refusal(refusal: &Refusal) -> Option<Decline> {
    let code = match refusal.code.as_str() {
        // Our amounts are always valid, so code 07 means more digits than the gateway's form accepts.
        "07" | "17" => DeclineCode::SaleLimitExceeded,
        "18" => DeclineCode::MonthlyLimitExceeded,
        "19" => DeclineCode::TransactionLimitExceeded,
        "20" => DeclineCode::IpLimitExceeded,
        "03" => DeclineCode::ExpiredCard,
        // No processor accepts the brand for this account: another card may work, this one never will.
        "11" => DeclineCode::CardNotSupported,
        // The issuer requires a challenge, and no cardholder is present.
        "A1" if refusal.description.contains("3ds_redirect_url") => DeclineCode::AuthenticationRequired,
        _ => return None,
    };
    Some(code.into())
}
