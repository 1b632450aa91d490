//! Compares what an operator enters with the provider's record, displays both, and rejects a mismatch. Querying
//! the provider changes nothing.

use std::time::Duration;

use serde_json::{Value, json};

use super::Resolution;
use domain::operations::admin::OperationRow;
use domain::operations::{Claimed, OperationKind, PROVIDER_TIMEOUT};
use foundation::error::{Error, Result};
use foundation::money::{Currency, Money};
use providers::{
    Action, Booked, BookedKind, BookedState, Found, Provider, ProviderError, ProviderResponse, Providers, RecoveryClass,
};

/// The provider's report may take several requests.
const TIMEOUT: Duration = PROVIDER_TIMEOUT.saturating_mul(3);

/// Our request and the provider's record of it.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// Our request.
    pub requested: Value,
    /// The provider's record; null if it has none, or was not queried.
    pub at_provider: Value,
    /// Why the outcome could not be verified at the provider; `None` if it was.
    pub unverified: Option<String>,
}

/// Compares what was entered with the provider's record.
///
/// # Errors
/// [`Error::Invalid`] naming `provider-ref` if the provider has no such transaction, or a different one;
/// [`Error::Conflict`], unless `unverified`, if "no effect" is entered and the provider has executed it, or if the
/// provider cannot be queried.
pub(super) async fn compare(
    providers: &Providers,
    claimed: &Claimed,
    operation: &OperationRow,
    resolution: &Resolution,
    unverified: bool,
) -> Result<Comparison> {
    let requested = requested(claimed, operation);
    let response = match provider(providers, claimed).await {
        Ok(provider) => query_provider(provider, claimed, resolution).await,
        Err(why) => Err(why),
    };
    let record = match response {
        Ok(record) => record,
        Err(why) if unverified => {
            return Ok(Comparison { requested, at_provider: Value::Null, unverified: Some(why) });
        }
        Err(why) => {
            return Err(Error::conflict(format!(
                "the provider cannot be queried ({why}); if you have verified the outcome at the provider yourself, add --unverified"
            )));
        }
    };
    let at_provider = record.to_json();
    let both = || format!("we requested {requested}; the provider has {at_provider}");
    match record {
        ProviderRecord::ByProviderRef(None) => {
            Err(Error::invalid("provider-ref", format!("the provider has no such transaction; {}", both())))
        }
        ProviderRecord::ByProviderRef(Some(booked)) => {
            let differences = differences(claimed, operation, resolution, &booked);
            if differences.is_empty() {
                return Ok(Comparison { requested, at_provider, unverified: None });
            }
            let differ = differences.join(", ");
            Err(Error::invalid("provider-ref", format!("the provider's record differs: {differ}; {}", both())))
        }
        ProviderRecord::ByReference(found) => match contradiction(&found) {
            None => Ok(Comparison { requested, at_provider, unverified: None }),
            Some(why) if unverified => Ok(Comparison { requested, at_provider, unverified: Some(why.to_owned()) }),
            Some(why) => Err(Error::conflict(format!("{why}; {}; to enter it anyway, add --unverified", both()))),
        },
    }
}

/// The provider's response.
enum ProviderRecord {
    /// The transaction with the entered provider reference.
    ByProviderRef(Option<Booked>),
    /// The look-up of our reference, if no provider reference was entered.
    ByReference(Found),
}

impl ProviderRecord {
    fn to_json(&self) -> Value {
        match self {
            Self::ByProviderRef(None) | Self::ByReference(Found::Nothing) => Value::Null,
            Self::ByProviderRef(Some(booked)) => json!({
                "kind": booked.kind.name(),
                "state": booked.state.name(),
                "amount": booked.money.map(|money| money.minor),
                "currency": booked.money.map(|money| money.currency.code()),
                "reference": booked.reference,
                "charge": booked.charge,
            }),
            Self::ByReference(Found::Pending) => json!({"state": BookedState::Pending.name()}),
            Self::ByReference(Found::Response(response)) => match response {
                ProviderResponse::Charged { provider_ref, amount, .. } => {
                    json!({"state": BookedState::Approved.name(), "provider_ref": provider_ref, "amount": amount})
                }
                ProviderResponse::Done { provider_ref } | ProviderResponse::Stored { provider_ref, .. } => {
                    json!({"state": BookedState::Approved.name(), "provider_ref": provider_ref})
                }
                ProviderResponse::Declined { decline, .. } => json!({"state": "declined", "code": decline.code}),
                ProviderResponse::Mismatched { provider_ref, total } => {
                    json!({"state": BookedState::Approved.name(), "provider_ref": provider_ref, "amount": total})
                }
                ProviderResponse::Refused { reason, .. } => {
                    json!({"state": BookedState::Failed.name(), "reason": reason})
                }
                ProviderResponse::Challenged { .. } => json!({"state": BookedState::Pending.name()}),
            },
        }
    }
}

fn requested(claimed: &Claimed, operation: &OperationRow) -> Value {
    json!({
        "kind": operation.kind.name(),
        "amount": operation.amount,
        "currency": operation.currency.map(Currency::code),
        "reference": operation.reference,
        "charge": charge(claimed),
    })
}

/// The provider's reference for the charge that the operation follows.
fn charge(claimed: &Claimed) -> Option<&str> {
    match &claimed.request.action {
        Action::Capture { charge, .. } | Action::Void { charge } | Action::Refund { charge, .. } => Some(charge),
        Action::Charge { .. } | Action::StoreCard { .. } => None,
    }
}

/// Returns the provider, or why it cannot be queried.
async fn provider<'a>(providers: &'a Providers, claimed: &Claimed) -> std::result::Result<&'a dyn Provider, String> {
    let provider = providers.get(claimed.provider).ok_or("CARD_GATEWAY_URL is not set")?;
    match with_timeout(provider.recovery(claimed.provider_account_id, claimed.kind)).await? {
        RecoveryClass::Idempotent | RecoveryClass::IdempotentFor(_) | RecoveryClass::Lookup => Ok(provider),
        RecoveryClass::Neither => Err("its recovery class is C".to_owned()),
    }
}

/// Returns the provider's response, or why there is none.
async fn query_provider(
    provider: &dyn Provider,
    claimed: &Claimed,
    resolution: &Resolution,
) -> std::result::Result<ProviderRecord, String> {
    match resolution {
        Resolution::Charged { provider_ref, .. } | Resolution::Done { provider_ref } => {
            with_timeout(provider.booked(claimed.provider_account_id, provider_ref))
                .await
                .map(ProviderRecord::ByProviderRef)
        }
        Resolution::Declined { .. } | Resolution::Failed { .. } => {
            with_timeout(provider.look_up(claimed.request.clone())).await.map(ProviderRecord::ByReference)
        }
    }
}

async fn with_timeout<T>(
    request: impl Future<Output = std::result::Result<T, ProviderError>>,
) -> std::result::Result<T, String> {
    match tokio::time::timeout(TIMEOUT, request).await {
        Ok(response) => response.map_err(|error| error.to_string()),
        Err(_) => Err("the request timed out".to_owned()),
    }
}

/// Returns how the provider's transaction differs from the one entered.
fn differences(claimed: &Claimed, operation: &OperationRow, resolution: &Resolution, booked: &Booked) -> Vec<String> {
    let mut differences = Vec::new();
    let mut differ = |what: &str, ours: &str, theirs: &str| {
        if ours != theirs {
            differences.push(format!("{what} {theirs} instead of {ours}"));
        }
    };
    let kind = match operation.kind {
        OperationKind::Sale => BookedKind::Sale,
        OperationKind::Authorize => BookedKind::Authorize,
        OperationKind::Capture => BookedKind::Capture,
        OperationKind::Refund | OperationKind::ReverseByRefund => BookedKind::Refund,
        // A reversal too late for a void is made by a refund.
        OperationKind::Reverse if booked.kind == BookedKind::Refund => BookedKind::Refund,
        OperationKind::Void | OperationKind::Reverse | OperationKind::StoreCard => BookedKind::Void,
    };
    differ("kind", kind.name(), booked.kind.name());
    differ("state", BookedState::Approved.name(), booked.state.name());
    let entered = match resolution {
        Resolution::Charged { amount, .. } => amount.or(operation.amount),
        Resolution::Done { .. } | Resolution::Declined { .. } | Resolution::Failed { .. } => operation.amount,
    };
    let entered = entered.zip(operation.currency).map(|(minor, currency)| Money { minor, currency });
    if let (Some(entered), Some(theirs)) = (entered, booked.money) {
        differ("amount", &entered.minor.to_string(), &theirs.minor.to_string());
        differ("currency", entered.currency.code(), theirs.currency.code());
    }
    if let Some(reference) = &booked.reference {
        differ("reference", &operation.reference, reference);
    }
    if let Some(of) = charge(claimed) {
        differ("charge", of, booked.charge.as_deref().unwrap_or("none"));
    }
    differences
}

/// Returns why "no effect" contradicts the provider's record.
fn contradiction(found: &Found) -> Option<&'static str> {
    match found {
        Found::Response(
            ProviderResponse::Charged { .. }
            | ProviderResponse::Mismatched { .. }
            | ProviderResponse::Done { .. }
            | ProviderResponse::Stored { .. },
        ) => Some("the provider has executed it"),
        Found::Response(ProviderResponse::Challenged { .. }) | Found::Pending => {
            Some("the provider has not finished it")
        }
        Found::Response(ProviderResponse::Declined { .. } | ProviderResponse::Refused { .. }) | Found::Nothing => None,
    }
}
