//! Resolves an operation manually: an operator enters the outcome that the provider reported, if the operation needs
//! manual review or the provider has been queried long enough. It is recorded by the same code and under the same locks
//! as a worker's outcome, in one transaction with its audit record.

mod at_provider;

use std::time::Duration;

pub use at_provider::Comparison;
use serde_json::{Value, json};

use domain::audit::{AuditedTx, Entry};
use domain::charges;
use domain::operations::admin::{self, OperationRow};
use domain::operations::{OperationKind, State};
use engine::charge::attempt::perform::Performed;
use engine::charge::outcome::record_outcome_in;
use engine::charge::outcome::stale::Recorded;
use foundation::actor::Actor;
use foundation::card_number::{has_card_number, is_card_number, runs_of_digits};
use foundation::clock::Clock;
use foundation::db::{self, Db};
use foundation::error::{Error, Result};
use foundation::id::{AuditId, OperationId};
use providers::{Decline, DeclineCode, DeclineType, ProviderKind, ProviderResponse, Providers};

/// How long a provider is queried about an operation before an operator may decide instead.
const MIN_RECOVERY_TIME: Duration = Duration::from_secs(3600);
/// Maximum length of operator input, in bytes.
const MAX_TEXT: usize = 255;

/// The outcome that the provider reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// The card was charged.
    Charged {
        /// The provider's reference for the charge.
        provider_ref: String,
        /// The approved amount, if partial.
        amount: Option<i64>,
    },
    /// A follow-up operation was executed.
    Done {
        /// The provider's reference for it.
        provider_ref: String,
    },
    /// The issuer declined it.
    Declined {
        /// Our decline code.
        code: String,
        /// Required if we do not know the code.
        kind: Option<DeclineType>,
    },
    /// It certainly had no effect.
    Failed { reason: String },
}

/// Options of a manual resolution.
#[derive(Clone, Copy, Debug, Default)]
pub struct ResolveOptions {
    /// Execute everything and roll back.
    pub dry_run: bool,
    /// Allow ending an operation that the provider is still being queried about.
    pub stop_asking: bool,
    /// Accept the outcome although it cannot be verified at the provider.
    pub unverified: bool,
}

/// The result of a manual resolution.
#[derive(Debug)]
pub struct Resolved {
    /// The operation before the resolution.
    pub operation: OperationRow,
    /// The audit record; `None` if the operation had already ended with this outcome, or in a dry run.
    pub record: Option<AuditId>,
    /// Whether the operation had already ended with this outcome.
    pub already_resolved: bool,
    /// The process to notify; `None` if nothing was written.
    pub performed: Option<Performed>,
    /// Our request and the provider's record; `None` if the operation had already ended with this outcome.
    pub comparison: Option<Comparison>,
}

/// Records the outcome of an operation as entered by an operator.
///
/// # Errors
/// [`Error::NotFound`]; [`Error::Invalid`] if the outcome does not fit the operation or the provider's record;
/// [`Error::Conflict`] if the operation neither needs manual review nor may be taken from recovery, has ended
/// otherwise, or cannot be verified at the provider without `unverified`, and if the provider reference belongs to
/// something else.
pub async fn resolve(
    db: &Db,
    providers: &Providers,
    clock: &Clock,
    actor: &Actor,
    id: OperationId,
    resolution: &Resolution,
    options: ResolveOptions,
) -> Result<Resolved> {
    let operation = admin::find(db, id).await?;
    let claimed = charges::read(db, id, clock.now()).await?;
    if has_this_outcome(db, &operation, resolution).await? {
        return Ok(Resolved { operation, record: None, already_resolved: true, performed: None, comparison: None });
    }
    let stops_asking = !require_resolvable(&operation, options.stop_asking)?;
    let response = to_response(&operation, resolution)?;
    require_unused_ref(db, &operation, resolution).await?;
    let comparison = at_provider::compare(db, providers, &claimed, &operation, resolution, options.unverified).await?;
    let mut act = AuditedTx::begin(db, actor).await?;
    let (recorded, ended) = record_outcome_in(&mut act, &claimed, &response, clock).await.map_err(map_duplicate_ref)?;
    // A claim increases the fencing token, and sending again renews the lease, so no worker has had it since it was
    // read.
    if recorded != (Recorded::Written { fence: operation.fence, held: false }) {
        act.rollback().await?;
        return Err(Error::conflict(format!("{id} has ended since, or a worker has it; check its state again")));
    }
    if options.dry_run {
        act.rollback().await?;
        return Ok(Resolved {
            operation,
            record: None,
            already_resolved: false,
            performed: None,
            comparison: Some(comparison),
        });
    }
    let entry = Entry {
        action: "operations.resolve",
        account: Some(operation.account_id),
        object: Some(id.to_string()),
        detail: audit_detail(&operation, resolution, stops_asking, &comparison),
    };
    let record = act.commit(&entry).await.map_err(map_duplicate_ref)?;
    let performed = Some(Performed { reply_to: claimed.origin.reply_to, reply_id: ended.reply_id() });
    Ok(Resolved { operation, record: Some(record), already_resolved: false, performed, comparison: Some(comparison) })
}

fn map_duplicate_ref(error: Error) -> Error {
    if let Error::Database(error) = &error
        && db::violated_constraint(error) == Some("payments_provider_ref")
    {
        return Error::conflict("that charge belongs to another payment");
    }
    error
}

/// Fails if the operation must not be resolved manually now. Returns whether it needs manual review; if not,
/// `stop_asking` takes it from recovery, and a response that recovery still receives is a late one.
fn require_resolvable(operation: &OperationRow, stop_asking: bool) -> Result<bool> {
    let id = operation.id;
    if operation.needs_manual_review() {
        return Ok(true);
    }
    if operation.state.is_final() {
        let detail = operation.provider_ref.as_deref().or(operation.failure.as_deref()).unwrap_or_default();
        return Err(Error::conflict(format!("{id} has ended otherwise: {} {detail}", operation.state.name())));
    }
    let next = operation.next_push_at.map(|at| format!(", at {at} at the latest")).unwrap_or_default();
    let state = operation.state.name();
    if !stop_asking || operation.state != State::Unknown {
        return Err(Error::conflict(format!(
            "{id} does not need manual review: it is {state} and continues automatically{next}"
        )));
    }
    if operation.is_held {
        return Err(Error::conflict(format!("a worker currently has {id}; try again in half a minute")));
    }
    if operation.sent_for_seconds < MIN_RECOVERY_TIME.as_secs_f64() {
        return Err(Error::conflict(format!(
            "{id} was first sent less than an hour ago; until then only the provider decides its outcome"
        )));
    }
    Ok(false)
}

/// Whether the operation has already ended with exactly this outcome.
async fn has_this_outcome(db: &Db, operation: &OperationRow, resolution: &Resolution) -> Result<bool> {
    let (state, failure, recorded_ref) = (operation.state, operation.failure.as_ref(), operation.provider_ref.as_ref());
    Ok(match resolution {
        Resolution::Charged { provider_ref, amount } => {
            let same = state == State::Succeeded && recorded_ref == Some(provider_ref);
            same && charged(db, operation).await? == amount.or(operation.amount)
        }
        Resolution::Done { provider_ref } => state == State::Succeeded && recorded_ref == Some(provider_ref),
        Resolution::Declined { code, .. } => state == State::Declined && failure == Some(code),
        Resolution::Failed { reason } => state == State::Failed && failure == Some(reason),
    })
}

/// Returns the approved amount of the operation's payment.
async fn charged(db: &Db, operation: &OperationRow) -> Result<Option<i64>> {
    let Some(payment) = operation.payment_id else { return Ok(None) };
    Ok(Some(domain::payments::retrieve(db, operation.account_id, payment).await?.amount))
}

/// Converts the resolution to the equivalent provider response, if it fits the operation's kind.
fn to_response(operation: &OperationRow, resolution: &Resolution) -> Result<ProviderResponse> {
    let kind = operation.kind;
    let is_charge = matches!(kind, OperationKind::Sale | OperationKind::Authorize);
    let wrong_outcome = |outcome: &str, fits: &str| {
        let (id, name) = (operation.id, kind.name());
        Error::invalid("outcome", format!("{outcome} is not a possible outcome of {id}, a {name}; use {fits}"))
    };
    match resolution {
        Resolution::Charged { .. } if kind == OperationKind::StoreCard => Err(wrong_outcome("charged", "failed")),
        Resolution::Charged { .. } if !is_charge => Err(wrong_outcome("charged", "done or failed")),
        Resolution::Charged { provider_ref, amount } => {
            let requested = operation.amount.unwrap_or_default();
            let amount = amount.unwrap_or(requested);
            if !(1..=requested).contains(&amount) {
                return Err(Error::invalid("amount", format!("amount must be from 1 to {requested}, in minor units")));
            }
            Ok(ProviderResponse::Charged {
                provider_ref: check_provider_ref(operation.provider, provider_ref)?,
                amount,
                card: None,
            })
        }
        Resolution::Done { .. } if is_charge => Err(wrong_outcome("done", "charged, declined or failed")),
        Resolution::Done { .. } if kind == OperationKind::StoreCard => Err(wrong_outcome("done", "failed")),
        Resolution::Done { provider_ref } => {
            Ok(ProviderResponse::Done { provider_ref: check_provider_ref(operation.provider, provider_ref)? })
        }
        Resolution::Declined { .. } if !is_charge => Err(wrong_outcome("declined", "done or failed")),
        Resolution::Declined { code, kind } => {
            require_no_request_in_flight(operation)?;
            Ok(ProviderResponse::Declined { decline: decline(code, *kind)?, card: None })
        }
        Resolution::Failed { reason } => {
            require_no_request_in_flight(operation)?;
            Ok(ProviderResponse::refused(operator_text("reason", reason)?))
        }
    }
}

/// "No effect" is certain only when no request can arrive any more.
fn require_no_request_in_flight(operation: &OperationRow) -> Result<()> {
    if operation.last_request_expired {
        return Ok(());
    }
    Err(Error::conflict("the last request may still arrive; ask the provider again in half a minute"))
}

fn decline(code: &str, kind: Option<DeclineType>) -> Result<Decline> {
    let is_word = !code.is_empty() && code.len() <= 64 && code.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
    if !is_word {
        return Err(Error::invalid("code", "code must be a word such as insufficient_funds"));
    }
    let kind = decline_type(code, kind).ok_or_else(|| {
        Error::invalid("decline-type", format!("{code} is not one of our codes: specify soft or hard"))
    })?;
    Ok(Decline { code: code.to_owned(), kind })
}

/// The type entered, or the one that our code implies.
fn decline_type(code: &str, given: Option<DeclineType>) -> Option<DeclineType> {
    given.or_else(|| DeclineCode::of_name(code).map(DeclineCode::kind))
}

/// Validates a provider reference. A reference in the provider's own format is accepted. In any other, each run of
/// digits is checked as a whole for a card number, which an operator may have copied by mistake.
fn check_provider_ref(provider: ProviderKind, provider_ref: &str) -> Result<String> {
    let param = "provider-ref";
    if !provider_ref.chars().all(|c| c.is_ascii_graphic()) {
        return Err(Error::invalid(param, "provider-ref must be one word"));
    }
    let fits = check_length(param, provider_ref)?;
    if !provider.is_reference(provider_ref) && runs_of_digits(provider_ref).iter().any(|run| is_card_number(run)) {
        return Err(card_number(param));
    }
    Ok(fits)
}

/// Validates operator input, which is stored and displayed: it must be short, and must not contain a card number,
/// whatever other digits are next to it.
///
/// # Errors
/// 422 naming `param`.
pub fn operator_text(param: &'static str, text: &str) -> Result<String> {
    let fits = check_length(param, text)?;
    if has_card_number(text) {
        return Err(card_number(param));
    }
    Ok(fits)
}

fn check_length(param: &'static str, text: &str) -> Result<String> {
    if text.trim().is_empty() || text.len() > MAX_TEXT || text.contains(char::is_control) {
        return Err(Error::invalid(param, format!("{param} must be 1 to {MAX_TEXT} bytes on one line")));
    }
    Ok(text.to_owned())
}

fn card_number(param: &'static str) -> Error {
    let message =
        format!("{param} contains what may be a card number, which must not be stored; put words between other digits");
    Error::invalid(param, message)
}

/// Fails if another operation or charge has the provider reference.
async fn require_unused_ref(db: &Db, operation: &OperationRow, resolution: &Resolution) -> Result<()> {
    let provider_ref = match resolution {
        Resolution::Charged { provider_ref, .. } | Resolution::Done { provider_ref } => provider_ref,
        Resolution::Declined { .. } | Resolution::Failed { .. } => return Ok(()),
    };
    match admin::owner_of_reference(db, operation, provider_ref).await? {
        None => Ok(()),
        Some(other) => {
            Err(Error::conflict(format!("{provider_ref} is {other}, so it cannot also be {}", operation.id)))
        }
    }
}

fn audit_detail(
    operation: &OperationRow,
    resolution: &Resolution,
    stops_asking: bool,
    comparison: &Comparison,
) -> Value {
    let mut detail = match resolution {
        Resolution::Charged { provider_ref, amount } => {
            json!({"outcome": "charged", "provider_ref": provider_ref, "amount": amount.or(operation.amount)})
        }
        Resolution::Done { provider_ref } => json!({"outcome": "done", "provider_ref": provider_ref}),
        Resolution::Declined { code, kind } => {
            json!({"outcome": "declined", "code": code, "decline_type": decline_type(code, *kind)})
        }
        Resolution::Failed { reason } => json!({"outcome": "failed", "reason": reason}),
    };
    detail["kind"] = json!(operation.kind.name());
    detail["reference"] = json!(operation.reference);
    if let Some(payment) = operation.payment() {
        detail["payment"] = json!(payment);
    }
    detail["verified"] = json!(comparison.unverified.is_none());
    if let Some(why) = &comparison.unverified {
        detail["unverified"] = json!(why);
    }
    if stops_asking {
        detail["stopped_asking"] = json!(true);
    }
    detail
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn provider_references_are_not_taken_for_card_numbers() {
        let accepted = |provider, named| check_provider_ref(provider, named).is_ok();
        use ProviderKind::{CardGateway, Mock};
        assert!(accepted(Mock, "mock_4242424242424242abcdef01") && accepted(CardGateway, "01KAM4242424242424242XYZ01"));
        assert!(accepted(CardGateway, "4242424242424241") && accepted(CardGateway, "42424242"));
        assert!(!accepted(CardGateway, "4242424242424242") && !accepted(Mock, "mock_4242424242424242"));
    }

    #[test]
    fn declines_need_a_known_code_or_a_type() {
        assert_eq!(decline("lost_card", None).expect("known").kind, DeclineType::Hard);
        assert_eq!(decline("velocity", Some(DeclineType::Soft)).expect("given").kind, DeclineType::Soft);
        decline("velocity", None).expect_err("neither known nor given");
        decline("No Such", Some(DeclineType::Soft)).expect_err("not a word");
    }
}
