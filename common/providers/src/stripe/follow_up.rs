//! Captures, voids and refunds of a charge.
//!
//! A captured charge cannot be cancelled at Stripe, so its void is a refund of the whole amount.

use super::amount;
use super::charge;
use super::objects::{
    Charge, FOLLOW_UP, IntentStatus, List, PaymentIntent, REFERENCE, Refund, RefundStatus, VOID, reference,
};
use super::wire::{self, Form, Reply, SendError, Session};
use crate::{Found, ProviderError, ProviderResponse, Request};
use foundation::money::Money;

/// Refunds on a page: the most that Stripe returns.
const PAGE: &str = "100";
/// The most pages of refunds that are read, so that a request ends before its time limit. The outcome of a refund of a
/// charge with more cannot be looked up, nor the status of the charge.
const PAGES: usize = 10;

/// The reference of a capture or a cancellation, which has no id of its own at Stripe.
fn reference_of(charge: &str, what: &str) -> String {
    format!("{charge}:{what}")
}

pub(super) async fn capture(
    stripe: Session<'_>,
    request: &Request,
    charge: &str,
    money: Money,
) -> Result<ProviderResponse, SendError> {
    let Some(amount) = amount::to_stripe(money) else {
        return Ok(ProviderResponse::refused(format!("Stripe cannot capture exactly {money}")));
    };
    let form = Form::new().with("amount_to_capture", &amount.to_string()).with_metadata(FOLLOW_UP, &request.reference);
    if !wire::is_id("pi_", charge) {
        return Ok(ProviderResponse::refused("not a charge of Stripe"));
    }
    let path = format!("/v1/payment_intents/{charge}/capture");
    match stripe.post::<PaymentIntent>(&path, &request.reference, form).await? {
        Reply::Success { object, .. } => Ok(captured(&object, request, money)?),
        Reply::Refused(error) => Ok(wire::refused(&error)),
    }
}

fn captured(intent: &PaymentIntent, request: &Request, money: Money) -> Result<ProviderResponse, ProviderError> {
    let received = intent.money(intent.amount_received)?;
    if intent.status == IntentStatus::Succeeded && received == money && intent.follow_up() == Some(&request.reference) {
        return Ok(ProviderResponse::Done { provider_ref: reference_of(&intent.id, "capture") });
    }
    Err(ProviderError::Unknown(format!("{}: {received} was captured instead of {money}", intent.id)))
}

/// Cancels an authorization, or refunds a captured charge whose money is not available yet.
pub(super) async fn void(stripe: Session<'_>, request: &Request, charge: &str) -> Result<ProviderResponse, SendError> {
    let Some(intent) = charge::find(stripe, charge).await? else {
        return Ok(ProviderResponse::refused("Stripe does not know the charge"));
    };
    if intent.status == IntentStatus::Succeeded {
        return void_captured(stripe, request, charge, &intent).await;
    }
    let path = format!("/v1/payment_intents/{charge}/cancel");
    match stripe.post::<PaymentIntent>(&path, &request.reference, Form::new()).await? {
        Reply::Success { object, .. } if object.status == IntentStatus::Canceled => {
            Ok(ProviderResponse::Done { provider_ref: reference_of(charge, "void") })
        }
        Reply::Success { .. } => Err(ProviderError::Unknown(format!("{charge}: not cancelled")).into()),
        Reply::Refused(error) => Ok(wire::refused(&error)),
    }
}

/// Refunds a captured charge whose money is not available yet. The key is that of a cancellation, as in the previous release,
/// so that workers of both repeat each other's requests. If a cancellation has used it, because the charge was captured only
/// then, no refund can, and the refund has a key of its own.
async fn void_captured(
    stripe: Session<'_>,
    request: &Request,
    charge: &str,
    intent: &PaymentIntent,
) -> Result<ProviderResponse, SendError> {
    if intent.charge().and_then(Charge::transaction).is_some_and(|transaction| transaction.is_available()) {
        // Unless it was voided before, by a request whose answer was lost.
        return Ok(match look_up_refund(stripe, request, charge, None).await? {
            Found::Response(response) => response,
            Found::Pending | Found::Nothing => ProviderResponse::refused("the charge has settled"),
        });
    }
    let all = intent.money(intent.amount_received)?;
    match give_back(stripe, request, &request.reference, (charge, all), GiveBack::Void).await {
        Err(SendError::KeyUsed(_)) => {}
        given => return given,
    }
    let after_effect = |error| SendError::Provider(error).after_effect();
    match look_up_refund(stripe, request, charge, None).await.map_err(after_effect)? {
        Found::Response(response) => Ok(response),
        Found::Pending | Found::Nothing => {
            let key = format!("{}-refund", request.reference);
            give_back(stripe, request, &key, (charge, all), GiveBack::Void).await
        }
    }
}

pub(super) async fn refund(
    stripe: Session<'_>,
    request: &Request,
    charge: &str,
    money: Money,
) -> Result<ProviderResponse, SendError> {
    give_back(stripe, request, &request.reference, (charge, money), GiveBack::Refund).await
}

/// What a refund at Stripe is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum GiveBack {
    Refund,
    /// A captured charge cannot be cancelled.
    Void,
}

/// Refunds so much of a charge, under this idempotency key.
async fn give_back(
    stripe: Session<'_>,
    request: &Request,
    key: &str,
    (charge, money): (&str, Money),
    what: GiveBack,
) -> Result<ProviderResponse, SendError> {
    let Some(amount) = amount::to_stripe(money) else {
        return Ok(ProviderResponse::refused(format!("Stripe cannot refund exactly {money}")));
    };
    let mut form = Form::new()
        .with("payment_intent", charge)
        .with("amount", &amount.to_string())
        .with_metadata(REFERENCE, &request.reference);
    if what == GiveBack::Void {
        form = form.with_metadata(VOID, "true");
    }
    match stripe.post::<Refund>("/v1/refunds", key, form).await? {
        Reply::Success { object, .. } => Ok(refunded(&object, Some(money))?),
        Reply::Refused(error) => Ok(wire::refused(&error)),
    }
}

/// The outcome of a refund; of this amount, if it is known.
fn refunded(refund: &Refund, money: Option<Money>) -> Result<ProviderResponse, ProviderError> {
    let unknown = |why: &str| ProviderError::Unknown(format!("{}: {why}", refund.id));
    let at_stripe = super::objects::money(&refund.id, refund.amount, &refund.currency)?;
    if money.is_some_and(|money| money != at_stripe) {
        return Err(unknown("a different amount than requested"));
    }
    match refund.status {
        // A pending refund is on its way to the card.
        Some(RefundStatus::Succeeded | RefundStatus::Pending) => {
            Ok(ProviderResponse::Done { provider_ref: refund.id.clone() })
        }
        Some(RefundStatus::Failed | RefundStatus::Canceled) => Ok(ProviderResponse::refused(
            refund.failure_reason.clone().unwrap_or_else(|| "the refund failed".to_owned()),
        )),
        Some(RefundStatus::RequiresAction | RefundStatus::Unknown) | None => Err(unknown("an unexpected status")),
    }
}

/// Looks up a capture in its payment.
pub(super) async fn look_up_capture(
    stripe: Session<'_>,
    request: &Request,
    charge: &str,
    money: Money,
) -> Result<Found, ProviderError> {
    let intent = charge::retrieve(stripe, charge).await?;
    match intent.follow_up() {
        Some(own) if own == request.reference => captured(&intent, request, money).map(Found::Response),
        _ => Ok(Found::Nothing),
    }
}

/// Looks up a void: the payment was cancelled, or refunded under our reference.
pub(super) async fn look_up_void(stripe: Session<'_>, request: &Request, charge: &str) -> Result<Found, ProviderError> {
    let intent = charge::retrieve(stripe, charge).await?;
    if intent.status == IntentStatus::Canceled {
        let done = ProviderResponse::Done { provider_ref: reference_of(charge, "void") };
        return Ok(Found::Response(done));
    }
    look_up_refund(stripe, request, charge, None).await
}

/// Looks up a refund by our reference.
pub(super) async fn look_up_refund(
    stripe: Session<'_>,
    request: &Request,
    charge: &str,
    money: Option<Money>,
) -> Result<Found, ProviderError> {
    let list = refunds_of(stripe, charge).await?;
    let mut own = list.iter().filter(|refund| reference(&refund.metadata) == request.reference);
    match (own.next(), own.next()) {
        (None, _) => Ok(Found::Nothing),
        (Some(refund), None) => refunded(refund, money).map(Found::Response),
        (Some(_), Some(_)) => Err(ProviderError::Unknown(format!("{charge} has two refunds under one reference"))),
    }
}

/// All refunds of a charge, the newest first.
///
/// # Errors
/// [`ProviderError::Unknown`] if there are too many to be read.
pub(super) async fn refunds_of(stripe: Session<'_>, charge: &str) -> Result<Vec<Refund>, ProviderError> {
    let mut all: Vec<Refund> = Vec::new();
    for _ in 0..PAGES {
        let after = all.last().map(|refund| refund.id.clone());
        let mut parameters = vec![("payment_intent", charge), ("limit", PAGE)];
        parameters.extend(after.as_deref().map(|after| ("starting_after", after)));
        let page: Option<List<Refund>> = stripe.get(&wire::query("/v1/refunds", &parameters)).await?;
        let page = page.ok_or_else(|| ProviderError::Unknown(format!("{charge} is not known")))?;
        all.extend(page.data);
        if !page.has_more {
            return Ok(all);
        }
    }
    Err(ProviderError::Unknown(format!("{charge} has more than {} refunds", all.len())))
}
