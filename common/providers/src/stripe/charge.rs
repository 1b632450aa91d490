//! Charges: a PaymentIntent that is created and confirmed in one request.

use std::time::Duration;

use super::objects::{IntentStatus, List, PaymentIntent, REFERENCE, StripeError, time};
use super::wire::{self, Form, Reply, SendError, Session};
use super::{SavedCard, amount, decline};
use crate::{Action, DeclineCode, Found, ProviderError, ProviderResponse, Request, Source};
use foundation::money::Money;

/// Why we cancel a payment that Stripe has created and not attempted, because it failed in between.
const NOT_ATTEMPTED: &str = "requested_by_customer";
/// How long a cardholder has for a challenge.
pub(super) const CHALLENGE_LIFETIME: Duration = Duration::from_secs(15 * 60);

/// Executes a sale or an authorization.
pub(super) async fn charge(stripe: Session<'_>, request: &Request) -> Result<ProviderResponse, SendError> {
    let Action::Charge { source, money, capture } = &request.action else {
        return Err(ProviderError::unavailable("expected a charge").into());
    };
    let Some(amount) = amount::to_stripe(*money) else {
        return Ok(ProviderResponse::refused(format!("Stripe cannot charge exactly {money}")));
    };
    let (customer, payment_method, without_challenge) = match source {
        Source::Token(token) => (None, token.expose().clone(), "error_on_requires_action"),
        Source::Card(stored) => match SavedCard::parse(stored) {
            Some(card) => (Some(card.customer), card.payment_method, "off_session"),
            None => return Ok(ProviderResponse::refused("the card was not saved at Stripe")),
        },
    };
    let form = Form::new()
        .with("amount", &amount.to_string())
        .with("currency", &money.currency.code().to_lowercase())
        .with("payment_method_types[]", "card")
        .with("payment_method", &payment_method)
        .with_some("customer", customer.as_deref())
        .with("capture_method", if *capture { "automatic" } else { "manual" })
        .with("confirm", "true")
        // With a return URL, a challenge is a redirect; without one, it is a decline.
        .with_some("return_url", request.return_url.as_deref())
        .with_some(without_challenge, request.return_url.is_none().then_some("true"))
        .with_metadata(REFERENCE, &request.reference)
        .with("expand[]", "latest_charge");
    match stripe.post::<PaymentIntent>("/v1/payment_intents", &request.reference, form).await? {
        // The response repeats the state of then.
        Reply::Success { object, replayed: true } => {
            Ok(current(stripe, &object.id, request).await.map_err(SendError::after_effect)?)
        }
        Reply::Success { object, replayed: false } => Ok(response(&object, request)?),
        Reply::Refused(error) => Ok(refusal(&error)),
    }
}

/// The present outcome of a payment that an earlier request has created.
async fn current(stripe: Session<'_>, id: &str, request: &Request) -> Result<ProviderResponse, SendError> {
    let intent = end_abandoned(stripe, retrieve(stripe, id).await?, request).await?;
    Ok(response(&intent, request)?)
}

/// Cancels a payment that has waited for long for the cardholder, or that Stripe has not attempted: Stripe would let it
/// wait for ever.
async fn end_abandoned(
    stripe: Session<'_>,
    intent: PaymentIntent,
    request: &Request,
) -> Result<PaymentIntent, SendError> {
    let lasts_until = time(intent.created)?.plus(CHALLENGE_LIFETIME);
    let reason = match intent.status {
        IntentStatus::RequiresAction => "abandoned",
        IntentStatus::RequiresConfirmation => NOT_ATTEMPTED,
        IntentStatus::RequiresPaymentMethod if intent.last_payment_error.is_none() => NOT_ATTEMPTED,
        IntentStatus::RequiresPaymentMethod
        | IntentStatus::Processing
        | IntentStatus::RequiresCapture
        | IntentStatus::Canceled
        | IntentStatus::Succeeded
        | IntentStatus::Unknown => return Ok(intent),
    };
    if request.valid_until < lasts_until {
        return Ok(intent);
    }
    let form = Form::new().with("cancellation_reason", reason).with("expand[]", "latest_charge");
    let (path, key) = (format!("/v1/payment_intents/{}/cancel", intent.id), format!("{}-abandoned", request.reference));
    match stripe.post(&path, &key, form).await? {
        Reply::Success { object, .. } => Ok(object),
        // The cardholder has completed it just now.
        Reply::Refused(error) => Err(ProviderError::Unknown(error.reason()).into()),
    }
}

fn refusal(error: &StripeError) -> ProviderResponse {
    match decline::of_error(error) {
        Some(decline) => ProviderResponse::Declined { decline, card: error.card() },
        None => wire::refused(error),
    }
}

/// Reads a payment with its latest charge.
///
/// # Errors
/// [`ProviderError::Unknown`] if there is none.
pub(super) async fn retrieve(stripe: Session<'_>, id: &str) -> Result<PaymentIntent, ProviderError> {
    let found = find(stripe, id).await?;
    found.ok_or_else(|| ProviderError::Unknown(format!("Stripe does not know the payment {id}")))
}

/// As [`retrieve`], `None` if there is none.
pub(super) async fn find(stripe: Session<'_>, id: &str) -> Result<Option<PaymentIntent>, ProviderError> {
    if !wire::is_id("pi_", id) {
        return Ok(None);
    }
    let expand = [("expand[]", "latest_charge.balance_transaction")];
    stripe.get(&wire::query(&format!("/v1/payment_intents/{id}"), &expand)).await
}

/// Looks up a charge by our reference in its metadata, which Stripe usually finds within a minute.
pub(super) async fn look_up(stripe: Session<'_>, request: &Request) -> Result<Found, ProviderError> {
    let query = format!("metadata['{REFERENCE}']:'{}'", request.reference);
    let search = wire::query("/v1/payment_intents/search", &[("query", &query), ("expand[]", "data.latest_charge")]);
    let found: Option<List<PaymentIntent>> = stripe.get(&search).await?;
    match found.map(|list| list.data).unwrap_or_default().as_slice() {
        [] => Ok(Found::Nothing),
        [found] => {
            let intent = end_abandoned(stripe, found.clone(), request).await?;
            match response(&intent, request) {
                Ok(ProviderResponse::Challenged { .. }) => Ok(Found::Pending),
                Ok(response) => Ok(Found::Response(response)),
                Err(ProviderError::Unknown(_)) if intent.status == IntentStatus::Processing => Ok(Found::Pending),
                Err(error) => Err(error),
            }
        }
        some => Err(ProviderError::Unknown(format!("Stripe has {} payments under one reference", some.len()))),
    }
}

/// The outcome that a payment at Stripe shows. Reference, currency and amount are compared with what was requested.
pub(super) fn response(intent: &PaymentIntent, request: &Request) -> Result<ProviderResponse, ProviderError> {
    let Action::Charge { money, capture, .. } = &request.action else {
        return Err(ProviderError::unavailable("expected a charge"));
    };
    let unknown = |why: &str| ProviderError::Unknown(format!("{}: {why}", intent.id));
    let requested = intent.money(intent.amount)?;
    if intent.reference() != request.reference || requested != *money || intent.is_sale() != *capture {
        tracing::error!(
            operation = request.reference, provider_ref = intent.id, at_provider = %requested, requested = %money,
            "Stripe has a different charge than requested; the outcome stays unknown and needs manual review"
        );
        return Err(unknown("a different charge than requested"));
    }
    match intent.status {
        IntentStatus::Succeeded => approved(intent, *money, intent.amount_received),
        IntentStatus::RequiresCapture => approved(intent, *money, intent.amount_capturable),
        IntentStatus::RequiresAction => {
            let redirect = intent.next_action.as_ref().and_then(|action| action.redirect_to_url.as_ref());
            match redirect.and_then(|redirect| redirect.url.clone()) {
                Some(url) if request.return_url.is_some() => Ok(ProviderResponse::Challenged { url }),
                _ => Err(unknown("a challenge that is no redirect")),
            }
        }
        IntentStatus::RequiresPaymentMethod => match &intent.last_payment_error {
            Some(error) => Ok(refusal(error)),
            None => Err(unknown("not attempted")),
        },
        // Voided, or the authorization has expired since.
        IntentStatus::Canceled if intent.was_approved() => approved(intent, *money, intent.amount),
        IntentStatus::Canceled if intent.cancellation_reason.as_deref() == Some(NOT_ATTEMPTED) => {
            Ok(ProviderResponse::never_processed("Stripe did not attempt the payment"))
        }
        // The cardholder did not complete the challenge.
        IntentStatus::Canceled => match &intent.last_payment_error {
            Some(error) => Ok(refusal(error)),
            None => {
                let decline = DeclineCode::AuthenticationFailed.into();
                Ok(ProviderResponse::Declined { decline, card: intent.card() })
            }
        },
        IntentStatus::Processing => Err(unknown("not finished")),
        IntentStatus::RequiresConfirmation | IntentStatus::Unknown => Err(unknown("an unexpected status")),
    }
}

fn approved(intent: &PaymentIntent, requested: Money, amount: i64) -> Result<ProviderResponse, ProviderError> {
    let provider_ref = intent.id.clone();
    // After a partial capture less was received; the approval itself was in full.
    let total = if intent.follow_up().is_some() { requested } else { intent.money(amount)? };
    if total == requested {
        Ok(ProviderResponse::Charged { provider_ref, amount: total.minor, card: intent.card() })
    } else {
        Ok(ProviderResponse::Mismatched { provider_ref, total: total.minor })
    }
}
