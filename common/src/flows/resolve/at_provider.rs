//! What the provider has of what an operator enters: both sides are shown, and where they differ it is refused. Asking changes
//! nothing anywhere.

use std::time::Duration;

use serde_json::{Value, json};
use sqlx::PgPool;

use super::Resolution;
use crate::error::{Error, Result};
use crate::money::{Currency, Money};
use crate::operations::admin::OperationRow;
use crate::operations::{self, Claimed, Kind, PROVIDER_TIMEOUT, Subject};
use crate::providers::{
    Action, Answer, Booked, BookedKind, BookedState, Fault, Found, Provider, Providers, RecoveryClass,
};

/// A report may take more than one request.
const TIMEOUT: Duration = PROVIDER_TIMEOUT.saturating_mul(3);

/// What we asked for, and what the provider has of it.
#[derive(Clone, Debug)]
pub struct Sides {
    /// Our side.
    pub asked: Value,
    /// Theirs; null if it has nothing, or was not asked.
    pub provider_has: Value,
    /// Why the provider could not be asked, if so: what was entered is unverified.
    pub unverified: Option<String>,
}

/// Compares what is entered with what the provider has.
///
/// # Errors
/// [`Error::Invalid`] naming `provider-ref` for a transaction that the provider does not have, or has otherwise;
/// [`Error::Conflict`] where it says that something was done and nothing is entered, or cannot be asked, unless `unverified`.
pub(super) async fn compare(
    db: &PgPool,
    providers: &Providers,
    claimed: &Claimed,
    operation: &OperationRow,
    resolution: &Resolution,
    unverified: bool,
) -> Result<Sides> {
    let asked = asked(claimed, operation);
    let answer = match provider(providers, claimed).await {
        Ok(provider) => ask(db, provider, claimed, resolution).await?,
        Err(why) => Err(why),
    };
    let known = match answer {
        Ok(known) => known,
        Err(why) if unverified => return Ok(Sides { asked, provider_has: Value::Null, unverified: Some(why) }),
        Err(why) => {
            return Err(Error::conflict(format!(
                "the provider cannot be asked ({why}); if you have seen there what you enter, give --unverified"
            )));
        }
    };
    let provider_has = known.shown();
    let sides = || format!("we asked for {asked}; the provider has {provider_has}");
    match known {
        Known::Named(None) => {
            Err(Error::invalid("provider-ref", format!("the provider has no such transaction; {}", sides())))
        }
        Known::Named(Some(booked)) => {
            let differences = differences(claimed, operation, resolution, &booked);
            if differences.is_empty() {
                return Ok(Sides { asked, provider_has, unverified: None });
            }
            let differ = differences.join(", ");
            Err(Error::invalid("provider-ref", format!("the provider has it otherwise: {differ}; {}", sides())))
        }
        Known::Referred(found) => match contradiction(&found) {
            None => Ok(Sides { asked, provider_has, unverified: None }),
            Some(why) if unverified => Ok(Sides { asked, provider_has, unverified: Some(why.to_owned()) }),
            Some(why) => {
                Err(Error::conflict(format!("{why}; {}; to enter it all the same, give --unverified", sides())))
            }
        },
    }
}

/// What the provider has told.
enum Known {
    /// Under the name that was entered.
    Named(Option<Booked>),
    /// Under our reference, where no name was entered.
    Referred(Found),
}

impl Known {
    fn shown(&self) -> Value {
        match self {
            Self::Named(None) | Self::Referred(Found::Nothing) => Value::Null,
            Self::Named(Some(booked)) => json!({
                "kind": booked.kind.name(),
                "state": booked.state.name(),
                "amount": booked.money.map(|money| money.minor),
                "currency": booked.money.map(|money| money.currency.code()),
                "reference": booked.reference,
                "charge": booked.charge,
            }),
            Self::Referred(Found::Pending) => json!({"state": BookedState::Pending.name()}),
            Self::Referred(Found::Answer(answer)) => match answer {
                Answer::Charged { provider_ref, amount, .. } => {
                    json!({"state": BookedState::Approved.name(), "provider_ref": provider_ref, "amount": amount})
                }
                Answer::Done { provider_ref } | Answer::Stored { provider_ref, .. } => {
                    json!({"state": BookedState::Approved.name(), "provider_ref": provider_ref})
                }
                Answer::Declined { decline, .. } => json!({"state": "declined", "code": decline.code}),
                Answer::Mismatched { provider_ref, total } => {
                    json!({"state": BookedState::Approved.name(), "provider_ref": provider_ref, "amount": total})
                }
                Answer::Refused { reason, .. } => json!({"state": BookedState::Failed.name(), "reason": reason}),
                Answer::Challenged { .. } => json!({"state": BookedState::Pending.name()}),
            },
        }
    }
}

fn asked(claimed: &Claimed, operation: &OperationRow) -> Value {
    json!({
        "kind": operation.kind.name(),
        "amount": operation.amount,
        "currency": operation.currency.map(Currency::code),
        "reference": operation.reference,
        "charge": charge(claimed),
    })
}

/// The provider's name for the charge that the operation follows.
fn charge(claimed: &Claimed) -> Option<&str> {
    match &claimed.request.action {
        Action::Capture { charge, .. } | Action::Void { charge } | Action::Refund { charge, .. } => Some(charge),
        Action::Charge { .. } | Action::StoreCard { .. } => None,
    }
}

/// The provider, if it can be asked; or why it cannot.
async fn provider<'a>(providers: &'a Providers, claimed: &Claimed) -> std::result::Result<&'a dyn Provider, String> {
    let provider = providers.get(claimed.provider).ok_or("CARD_GATEWAY_URL is not set")?;
    match in_time(provider.recovery(claimed.provider_account_id, claimed.kind)).await? {
        RecoveryClass::Idempotent | RecoveryClass::Lookup => Ok(provider),
        RecoveryClass::Neither => Err("its recovery class is C".to_owned()),
    }
}

/// What the provider says; or why it says nothing.
async fn ask(
    db: &PgPool,
    provider: &dyn Provider,
    claimed: &Claimed,
    resolution: &Resolution,
) -> Result<std::result::Result<Known, String>> {
    match resolution {
        Resolution::Charged { provider_ref, .. } | Resolution::Done { provider_ref } => {
            Ok(in_time(provider.booked(claimed.provider_account_id, provider_ref)).await.map(Known::Named))
        }
        Resolution::Declined { .. } | Resolution::Failed { .. } => {
            let mut request = claimed.request.clone();
            if let (Kind::Refund, Subject::Payment(payment)) = (claimed.kind, claimed.subject) {
                request.recorded = operations::recorded_refunds(db, claimed.account_id, payment).await?;
            }
            Ok(in_time(provider.look_up(request)).await.map(Known::Referred))
        }
    }
}

async fn in_time<T>(asked: impl Future<Output = std::result::Result<T, Fault>>) -> std::result::Result<T, String> {
    match tokio::time::timeout(TIMEOUT, asked).await {
        Ok(answer) => answer.map_err(|fault| fault.to_string()),
        Err(_) => Err("no answer in time".to_owned()),
    }
}

/// How the provider's transaction is another than the one that is entered.
fn differences(claimed: &Claimed, operation: &OperationRow, resolution: &Resolution, booked: &Booked) -> Vec<String> {
    let mut differences = Vec::new();
    let mut differ = |what: &str, ours: &str, theirs: &str| {
        if ours != theirs {
            differences.push(format!("{what} {theirs} instead of {ours}"));
        }
    };
    let kind = match operation.kind {
        Kind::Sale => BookedKind::Sale,
        Kind::Authorize => BookedKind::Authorize,
        Kind::Capture => BookedKind::Capture,
        Kind::Refund => BookedKind::Refund,
        // What was too late to be voided is given back by a refund.
        Kind::Reverse if booked.kind == BookedKind::Refund => BookedKind::Refund,
        Kind::Void | Kind::Reverse | Kind::StoreCard => BookedKind::Void,
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

/// Why it cannot be entered that nothing was done.
fn contradiction(found: &Found) -> Option<&'static str> {
    match found {
        Found::Answer(
            Answer::Charged { .. } | Answer::Mismatched { .. } | Answer::Done { .. } | Answer::Stored { .. },
        ) => Some("the provider has done it"),
        Found::Answer(Answer::Challenged { .. }) | Found::Pending => Some("the provider has not come to an end of it"),
        Found::Answer(Answer::Declined { .. } | Answer::Refused { .. }) | Found::Nothing => None,
    }
}
