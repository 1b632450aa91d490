//! Resolving: an operator enters what a provider has said of an operation that only a person can find out about, or that the
//! provider was asked about for long enough. It is written by the code that writes what a worker hears, under the same locks,
//! and in one transaction with its record in the audit log.

mod at_provider;

use std::time::Duration;

pub use at_provider::Sides;
use serde_json::{Value, json};

use super::late::Recorded;
use super::outcome::record_within;
use super::perform::Performed;
use crate::actor::Actor;
use crate::audit::{Act, Entry};
use crate::card_number::{has_card_number, is_card_number, runs_of_digits};
use crate::clock::Clock;
use crate::db::{self, Db};
use crate::error::{Error, Result};
use crate::id::{AuditId, OperationId};
use crate::operations::admin::{self, OperationRow};
use crate::operations::{self, Kind, State};
use crate::providers::{Answer, Decline, DeclineType, ProviderKind, Providers};

/// So long a provider is asked about an operation before a person may decide instead.
const ASKED_FOR: Duration = Duration::from_secs(3600);
/// The longest that we keep of what an operator types.
const MAX_TEXT: usize = 255;

/// What the provider has said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// It charged the card.
    Charged {
        /// Its name for the charge.
        provider_ref: String,
        /// How much, if less than all.
        amount: Option<i64>,
    },
    /// It did what followed a charge.
    Done {
        /// Its name for that.
        provider_ref: String,
    },
    /// The issuer said no.
    Declined {
        /// Our word for the reason.
        code: String,
        /// Soft or hard, where the code is none that we know.
        kind: Option<DeclineType>,
    },
    /// It certainly did nothing.
    Failed {
        /// How that is known.
        reason: String,
    },
}

/// How it is entered.
#[derive(Clone, Copy, Debug, Default)]
pub struct Entering {
    /// Everything is done and taken back.
    pub dry_run: bool,
    /// An operation that the provider is still asked about may be ended too.
    pub stop_asking: bool,
    /// It is entered although the provider cannot be asked whether it is so.
    pub unverified: bool,
}

/// What has come of it.
#[derive(Debug)]
pub struct Resolved {
    /// The operation, as it stood before.
    pub operation: OperationRow,
    /// The record, if something was written: not if the operation had ended so before, nor if it was only tried.
    pub record: Option<AuditId>,
    /// Whether the operation had ended so before.
    pub was_so: bool,
    /// Who waits for it.
    pub performed: Performed,
    /// What we asked for and what the provider has; none if the operation had ended so before.
    pub sides: Option<Sides>,
}

/// Enters it.
///
/// # Errors
/// [`Error::NotFound`]; [`Error::Invalid`] for what does not fit the operation; [`Error::Conflict`] if it does not wait for a
/// person, nor may be taken from those who ask; if it has ended otherwise, and if something else has the provider's name. What the
/// provider has otherwise is refused too, and what it cannot be asked about unless that is said.
pub async fn resolve(
    db: &Db,
    providers: &Providers,
    clock: &Clock,
    actor: &Actor,
    id: OperationId,
    resolution: &Resolution,
    entering: Entering,
) -> Result<Resolved> {
    let operation = admin::find(db, id).await?;
    let claimed = operations::read(db, id, clock.now()).await?;
    let performed = Performed { reply_to: claimed.origin.reply_to.clone(), reply_id: claimed.subject.reply_id() };
    if ended_so(db, &operation, resolution).await? {
        return Ok(Resolved { operation, record: None, was_so: true, performed, sides: None });
    }
    let stops_asking = !waits(&operation, entering.stop_asking)?;
    let answer = answer_of(&operation, resolution)?;
    is_free(db, &operation, resolution).await?;
    let sides = at_provider::compare(db, providers, &claimed, &operation, resolution, entering.unverified).await?;
    let mut act = Act::begin(db, actor).await?;
    let recorded = record_within(&mut act, &claimed, &answer, clock).await.map_err(taken)?;
    // A claim raises the fence, and whoever sends again renews the lease: nobody has had it since it was looked at.
    if recorded != (Recorded::Written { fence: operation.fence, held: false }) {
        act.rollback().await?;
        return Err(Error::conflict(format!(
            "{id} has come to an end meanwhile, or a worker has it; look at it again"
        )));
    }
    if entering.dry_run {
        act.rollback().await?;
        return Ok(Resolved { operation, record: None, was_so: false, performed, sides: Some(sides) });
    }
    let entry = Entry {
        action: "operations.resolve",
        account: Some(operation.account_id),
        object: Some(id.to_string()),
        detail: detail(&operation, resolution, stops_asking, &sides),
    };
    let record = act.commit(&entry).await.map_err(taken)?;
    Ok(Resolved { operation, record: Some(record), was_so: false, performed, sides: Some(sides) })
}

fn taken(error: Error) -> Error {
    if let Error::Database(said) = &error
        && db::violated(said) == Some("payments_provider_ref")
    {
        return Error::conflict("that charge of the provider's pays for another payment");
    }
    error
}

/// Whether it waits for a person. If not, `stop_asking` takes it from those who ask: what one of them hears later is as late as
/// after any other end.
fn waits(operation: &OperationRow, stop_asking: bool) -> Result<bool> {
    let id = operation.id;
    if operation.waits_for_a_person() {
        return Ok(true);
    }
    if operation.state.is_final() {
        let said = operation.provider_ref.as_deref().or(operation.failure.as_deref()).unwrap_or_default();
        return Err(Error::conflict(format!("{id} has ended otherwise: {} {said}", operation.state.name())));
    }
    let next = operation.next_push_at.map(|at| format!(", at {at} at the latest")).unwrap_or_default();
    let state = operation.state.name();
    if !stop_asking || operation.state != State::Unknown {
        return Err(Error::conflict(format!(
            "{id} does not wait for a person: it is {state} and goes on by itself{next}"
        )));
    }
    if operation.is_held {
        return Err(Error::conflict(format!("a worker has {id} at this moment; try again in half a minute")));
    }
    if operation.sent_for_seconds < ASKED_FOR.as_secs_f64() {
        return Err(Error::conflict(format!(
            "{id} was first sent less than an hour ago: until then the provider is asked and nobody else decides"
        )));
    }
    Ok(false)
}

/// Whether it has come to this very end before.
async fn ended_so(db: &Db, operation: &OperationRow, resolution: &Resolution) -> Result<bool> {
    let (state, failure, named) = (operation.state, operation.failure.as_ref(), operation.provider_ref.as_ref());
    Ok(match resolution {
        Resolution::Charged { provider_ref, amount } => {
            let same = state == State::Succeeded && named == Some(provider_ref);
            same && charged(db, operation).await? == amount.or(operation.amount)
        }
        Resolution::Done { provider_ref } => state == State::Succeeded && named == Some(provider_ref),
        Resolution::Declined { code, .. } => state == State::Declined && failure == Some(code),
        Resolution::Failed { reason } => state == State::Failed && failure == Some(reason),
    })
}

/// How much of a payment was approved.
async fn charged(db: &Db, operation: &OperationRow) -> Result<Option<i64>> {
    let Some(payment) = operation.payment_id else { return Ok(None) };
    Ok(Some(crate::payments::retrieve(db, operation.account_id, payment).await?.amount))
}

/// What the provider would have answered, if that fits what was asked.
fn answer_of(operation: &OperationRow, resolution: &Resolution) -> Result<Answer> {
    let kind = operation.kind;
    let is_charge = matches!(kind, Kind::Sale | Kind::Authorize);
    let misfit = |outcome: &str, fits: &str| {
        let (id, name) = (operation.id, kind.name());
        Error::invalid("outcome", format!("{outcome} is no outcome of {id}, a {name}; give {fits}"))
    };
    match resolution {
        Resolution::Charged { .. } if kind == Kind::StoreCard => Err(misfit("charged", "failed")),
        Resolution::Charged { .. } if !is_charge => Err(misfit("charged", "done or failed")),
        Resolution::Charged { provider_ref, amount } => {
            let asked = operation.amount.unwrap_or_default();
            let amount = amount.unwrap_or(asked);
            if !(1..=asked).contains(&amount) {
                return Err(Error::invalid("amount", format!("amount is from 1 to {asked}, in minor units")));
            }
            Ok(Answer::Charged { provider_ref: name(operation.provider, provider_ref)?, amount, card: None })
        }
        Resolution::Done { .. } if is_charge => Err(misfit("done", "charged, declined or failed")),
        Resolution::Done { .. } if kind == Kind::StoreCard => Err(misfit("done", "failed")),
        Resolution::Done { provider_ref } => Ok(Answer::Done { provider_ref: name(operation.provider, provider_ref)? }),
        Resolution::Declined { .. } if !is_charge => Err(misfit("declined", "done or failed")),
        Resolution::Declined { code, kind } => {
            nothing_may_arrive(operation)?;
            Ok(Answer::Declined { decline: decline(code, *kind)?, card: None })
        }
        Resolution::Failed { reason } => {
            nothing_may_arrive(operation)?;
            Ok(Answer::refused(typed("reason", reason)?))
        }
    }
}

/// "It did nothing" is true only when nothing can arrive any more.
fn nothing_may_arrive(operation: &OperationRow) -> Result<()> {
    if operation.last_request_is_dead {
        return Ok(());
    }
    Err(Error::conflict("the last request may still arrive; ask the provider again in half a minute"))
}

fn decline(code: &str, kind: Option<DeclineType>) -> Result<Decline> {
    let is_word = !code.is_empty() && code.len() <= 64 && code.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
    if !is_word {
        return Err(Error::invalid("code", "code is a word such as insufficient_funds"));
    }
    let kind = decline_type(code, kind).ok_or_else(|| {
        Error::invalid("decline-type", format!("{code} is none of our codes: say whether it is soft or hard"))
    })?;
    Ok(Decline { code: code.to_owned(), kind })
}

/// What is said, or else what our code means.
fn decline_type(code: &str, said: Option<DeclineType>) -> Option<DeclineType> {
    said.or(match code {
        "declined" | "insufficient_funds" | "authentication_failed" => Some(DeclineType::Soft),
        "lost_card"
        | "stolen_card"
        | "expired_card"
        | "incorrect_cvc"
        | "authentication_required"
        | "card_not_supported"
        | "currency_not_supported" => Some(DeclineType::Hard),
        _ => None,
    })
}

/// What a provider names its own way is taken as it is. Of another name each run of digits is looked at as a whole: an operator may
/// have taken the wrong number from a screen.
fn name(provider: ProviderKind, provider_ref: &str) -> Result<String> {
    let param = "provider-ref";
    if !provider_ref.chars().all(|c| c.is_ascii_graphic()) {
        return Err(Error::invalid(param, "provider-ref is one word"));
    }
    let fits = short(param, provider_ref)?;
    if !provider.names(provider_ref) && runs_of_digits(provider_ref).iter().any(|run| is_card_number(run)) {
        return Err(card_number(param));
    }
    Ok(fits)
}

/// What an operator types is kept and shown, so it is short, and no card number stands in it, whatever digits stand beside it.
///
/// # Errors
/// 422 naming `param`.
pub fn typed(param: &'static str, text: &str) -> Result<String> {
    let fits = short(param, text)?;
    if has_card_number(text) {
        return Err(card_number(param));
    }
    Ok(fits)
}

fn short(param: &'static str, text: &str) -> Result<String> {
    if text.trim().is_empty() || text.len() > MAX_TEXT || text.contains(char::is_control) {
        return Err(Error::invalid(param, format!("{param} is 1 to {MAX_TEXT} bytes on one line")));
    }
    Ok(text.to_owned())
}

fn card_number(param: &'static str) -> Error {
    let message =
        format!("{param} holds what may be a card number, which must not be kept; put words between other digits");
    Error::invalid(param, message)
}

/// The provider's name is nobody else's.
async fn is_free(db: &Db, operation: &OperationRow, resolution: &Resolution) -> Result<()> {
    let provider_ref = match resolution {
        Resolution::Charged { provider_ref, .. } | Resolution::Done { provider_ref } => provider_ref,
        Resolution::Declined { .. } | Resolution::Failed { .. } => return Ok(()),
    };
    match admin::known_by(db, operation, provider_ref).await? {
        None => Ok(()),
        Some(other) => Err(Error::conflict(format!("{provider_ref} is {other}, and cannot be {} too", operation.id))),
    }
}

fn detail(operation: &OperationRow, resolution: &Resolution, stops_asking: bool, sides: &Sides) -> Value {
    let said = match resolution {
        Resolution::Charged { provider_ref, amount } => {
            json!({"outcome": "charged", "provider_ref": provider_ref, "amount": amount.or(operation.amount)})
        }
        Resolution::Done { provider_ref } => json!({"outcome": "done", "provider_ref": provider_ref}),
        Resolution::Declined { code, kind } => {
            json!({"outcome": "declined", "code": code, "decline_type": decline_type(code, *kind)})
        }
        Resolution::Failed { reason } => json!({"outcome": "failed", "reason": reason}),
    };
    let mut detail = said;
    detail["kind"] = json!(operation.kind.name());
    detail["reference"] = json!(operation.reference);
    if let Some(payment) = operation.payment_id {
        detail["payment"] = json!(payment);
    }
    detail["verified"] = json!(sides.unverified.is_none());
    if let Some(why) = &sides.unverified {
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
    fn what_a_provider_names_its_own_way_is_no_card_number() {
        let taken = |provider, named| name(provider, named).is_ok();
        use ProviderKind::{CardGateway, Mock};
        assert!(taken(Mock, "mock_4242424242424242abcdef01") && taken(CardGateway, "01KAM4242424242424242XYZ01"));
        assert!(taken(CardGateway, "4242424242424241") && taken(CardGateway, "42424242"));
        assert!(!taken(CardGateway, "4242424242424242") && !taken(Mock, "mock_4242424242424242"));
    }

    #[test]
    fn a_decline_has_a_type() {
        assert_eq!(decline("lost_card", None).expect("known").kind, DeclineType::Hard);
        assert_eq!(decline("velocity", Some(DeclineType::Soft)).expect("said").kind, DeclineType::Soft);
        decline("velocity", None).expect_err("neither known nor said");
        decline("No Such", Some(DeclineType::Soft)).expect_err("no word");
    }
}
