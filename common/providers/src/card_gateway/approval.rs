//! What an approval of the gateway means, in its response and in the report.

use crate::{Card, ProviderError, ProviderResponse};
use foundation::money::Money;
use foundation::rule_enabled;

/// The response for an approval: charged if the total is the requested amount, otherwise mismatched.
///
/// # Errors
/// [`ProviderError::Unknown`] if the total is not an amount: it is then read from the report.
pub(super) fn approved(
    provider_ref: String,
    requested: Money,
    total: Option<&str>,
    card: Option<Card>,
) -> Result<ProviderResponse, ProviderError> {
    let total = match total {
        Some(text) => Money::from_decimal(text, requested.currency).map(|money| money.minor),
        None => Some(requested.minor),
    };
    match total {
        Some(total) if total == requested.minor || !rule_enabled!(Total) => {
            Ok(ProviderResponse::Charged { provider_ref, amount: requested.minor, card })
        }
        Some(total) => Ok(ProviderResponse::Mismatched { provider_ref, total }),
        None => Err(ProviderError::Unknown("the total is not an amount".to_owned())),
    }
}
