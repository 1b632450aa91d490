//! Compares what an operator enters with the provider's record, displays both, and rejects a mismatch. Querying
//! the provider changes nothing.

use std::time::Duration;

use serde_json::{Value, json};
use sqlx::PgPool;

use super::Resolution;
use domain::charges::Claimed;
use domain::operations::admin::OperationRow;
use domain::operations::{OperationKind, PROVIDER_TIMEOUT};
use engine::charge::renewal_card;
use foundation::error::{Error, Result};
use foundation::money::{Currency, Money};
use providers::{
    Action, Booked, BookedKind, BookedState, Found, Provider, ProviderError, ProviderResponse, Providers,
    RecoveryClass, Request,
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
/// [`Error::Conflict`], unless `unverified`, if "no effect" is entered and the provider has executed it or the charge that
/// follows it, or if the provider cannot be queried; database errors.
pub(super) async fn compare(
    db: &PgPool,
    providers: &Providers,
    claimed: &Claimed,
    operation: &OperationRow,
    resolution: &Resolution,
    unverified: bool,
) -> Result<Comparison> {
    let awaited = renewal_card::awaited_charge(db, claimed).await?;
    let requested = requested(claimed, operation, awaited.as_ref());
    // The class of the charge decides, if there is one: a card can be saved again in any.
    let kind = awaited.as_ref().map_or(claimed.kind, |_| OperationKind::Sale);
    let response = match provider(providers, claimed, kind).await {
        Ok(provider) => query_provider(provider, claimed, awaited, resolution).await,
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
        ProviderRecord::ByReference(found, what) => match contradiction(&found, what) {
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
    /// The look-up of one of our references, if no provider reference was entered.
    ByReference(Found, Reference),
}

/// What has the reference that was looked up.
#[derive(Clone, Copy)]
enum Reference {
    Operation,
    /// The charge that follows once the card is saved.
    AwaitedCharge,
}

impl ProviderRecord {
    fn to_json(&self) -> Value {
        match self {
            Self::ByProviderRef(None) | Self::ByReference(Found::Nothing, _) => Value::Null,
            Self::ByProviderRef(Some(booked)) => json!({
                "kind": booked.kind.name(),
                "state": booked.state.name(),
                "amount": booked.money.map(|money| money.minor),
                "currency": booked.money.map(|money| money.currency.code()),
                "reference": booked.reference,
                "charge": booked.charge,
            }),
            Self::ByReference(Found::Pending, _) => json!({"state": BookedState::Pending.name()}),
            Self::ByReference(Found::Response(response), _) => match response {
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

fn requested(claimed: &Claimed, operation: &OperationRow, awaited: Option<&Request>) -> Value {
    json!({
        "kind": operation.kind.name(),
        "amount": operation.amount,
        "currency": operation.currency.map(Currency::code),
        "reference": operation.reference,
        "charge": charge(claimed),
        "awaited_charge": awaited.map(|charge| &charge.reference),
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
async fn provider<'a>(
    providers: &'a Providers,
    claimed: &Claimed,
    kind: OperationKind,
) -> std::result::Result<&'a dyn Provider, String> {
    let provider = providers.get(claimed.provider).ok_or("CARD_GATEWAY_URL is not set")?;
    match with_timeout(provider.recovery(claimed.provider_account_id, kind)).await? {
        RecoveryClass::Idempotent | RecoveryClass::IdempotentFor(_) | RecoveryClass::Lookup => Ok(provider),
        RecoveryClass::Neither => Err("its recovery class is C".to_owned()),
    }
}

/// Returns the provider's response, or why there is none.
async fn query_provider(
    provider: &dyn Provider,
    claimed: &Claimed,
    awaited: Option<Request>,
    resolution: &Resolution,
) -> std::result::Result<ProviderRecord, String> {
    match resolution {
        Resolution::Charged { provider_ref, .. } | Resolution::Done { provider_ref } => {
            with_timeout(provider.booked(claimed.provider_account_id, provider_ref))
                .await
                .map(ProviderRecord::ByProviderRef)
        }
        Resolution::Declined { .. } | Resolution::Failed { .. } => {
            if let Some(charge) = awaited {
                let found = with_timeout(provider.look_up(charge)).await?;
                if contradiction(&found, Reference::AwaitedCharge).is_some() {
                    return Ok(ProviderRecord::ByReference(found, Reference::AwaitedCharge));
                }
            }
            let found = with_timeout(provider.look_up(claimed.request.clone())).await?;
            Ok(ProviderRecord::ByReference(found, Reference::Operation))
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
        // A reversal too late for a void is a refund.
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
fn contradiction(found: &Found, what: Reference) -> Option<&'static str> {
    let (executed, not_finished) = match what {
        Reference::Operation => ("the provider has executed it", "the provider has not finished it"),
        Reference::AwaitedCharge => {
            ("the provider has charged its payment", "the provider has not finished the charge of its payment")
        }
    };
    match found {
        Found::Response(
            ProviderResponse::Charged { .. }
            | ProviderResponse::Mismatched { .. }
            | ProviderResponse::Done { .. }
            | ProviderResponse::Stored { .. },
        ) => Some(executed),
        Found::Response(ProviderResponse::Challenged { .. }) | Found::Pending => Some(not_finished),
        Found::Response(ProviderResponse::Declined { .. } | ProviderResponse::Refused { .. }) | Found::Nothing => None,
    }
}
