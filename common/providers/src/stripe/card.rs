//! Saving cards: a Customer, and a SetupIntent that attaches the card to it for charges without the cardholder.

use super::decline;
use super::objects::{Customer, REFERENCE, SetupIntent};
use super::wire::{self, Form, Reply, SendError, Session};
use crate::{DeclineCode, ProviderError, ProviderResponse, Request};
use foundation::crypto::Secret;

/// Our reference of a saved card: the customer that it is attached to, and the card. Stripe requires both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SavedCard {
    pub(super) customer: String,
    pub(super) payment_method: String,
}

impl SavedCard {
    /// Parses `cus_…/pm_…`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (customer, payment_method) = text.split_once('/')?;
        let valid = wire::is_id("cus_", customer) && wire::is_id("pm_", payment_method);
        valid.then(|| Self { customer: customer.to_owned(), payment_method: payment_method.to_owned() })
    }

    fn reference(&self) -> String {
        format!("{}/{}", self.customer, self.payment_method)
    }
}

/// Saves a card. Both requests have keys of their own, so a repetition changes nothing.
pub(super) async fn store(
    stripe: Session<'_>,
    request: &Request,
    token: &Secret<String>,
) -> Result<ProviderResponse, SendError> {
    let token = token.expose();
    if !super::is_token(token) {
        return Ok(ProviderResponse::refused("not a PaymentMethod of Stripe"));
    }
    let form = Form::new().with_metadata(REFERENCE, &request.reference);
    let key = format!("{}-customer", request.reference);
    let customer = match stripe.post::<Customer>("/v1/customers", &key, form).await? {
        Reply::Success { object, .. } => object.id,
        Reply::Refused(error) => return Ok(wire::refused(&error)),
    };
    let form = Form::new()
        .with("customer", &customer)
        .with("payment_method", token)
        .with("payment_method_types[]", "card")
        .with("usage", "off_session")
        .with("confirm", "true")
        .with_metadata(REFERENCE, &request.reference)
        .with("expand[]", "payment_method");
    let intent = match stripe.post::<SetupIntent>("/v1/setup_intents", &request.reference, form).await? {
        Reply::Success { object, .. } => object,
        Reply::Refused(error) => {
            return Ok(match decline::of_error(&error) {
                Some(decline) => ProviderResponse::Declined { decline, card: error.card() },
                None => wire::refused(&error),
            });
        }
    };
    match intent.status.as_str() {
        "succeeded" => {
            let method = intent.payment_method.as_ref().and_then(|method| method.object());
            let saved = method.and_then(|method| Some((method.id.clone(), method.card.as_ref()?.card()?)));
            let (payment_method, card) =
                saved.ok_or_else(|| ProviderError::Unknown("the saved card has invalid details".to_owned()))?;
            let saved = SavedCard { customer, payment_method };
            Ok(ProviderResponse::Stored { provider_ref: saved.reference(), card })
        }
        // The issuer requires a challenge, and cards are saved without the cardholder.
        "requires_action" => {
            Ok(ProviderResponse::Declined { decline: DeclineCode::AuthenticationRequired.into(), card: None })
        }
        "requires_payment_method" => Ok(match intent.last_setup_error.as_ref().and_then(decline::of_error) {
            Some(decline) => ProviderResponse::Declined { decline, card: None },
            None => ProviderResponse::refused("the card was not saved"),
        }),
        status => Err(ProviderError::Unknown(format!("the card is {status}")).into()),
    }
}
