//! Reads a form's card.

use foundation::calendar::Date;

use super::call::Call;
use super::form::Form;
use crate::card_input::{self, Encoding};
use crate::cards::funding::{Funding, Source};
use crate::cards::{CardNumber, Cardholder, Expiry, MaskedCard, ProxyHash, SecurityCode, vault};
use crate::failure::{Code, Failure, Result};

/// The optional card inputs of an operation.
#[derive(Clone, Copy, Debug)]
pub(super) struct CardInputs {
    /// `card_token`.
    pub(super) token: bool,
    /// `use_secret_key`.
    pub(super) encrypted: bool,
}

/// The card of a form: 02 and 03. An invalid `use_secret_key` is not reported here; see [`is_encrypted`].
pub(super) async fn funding(call: &Call, inputs: CardInputs, today: Date) -> Result<Funding> {
    let Call { app, account, form, .. } = call;
    if inputs.token
        && let Some(token) = form.get("card_token")
    {
        return vault::find(&app.db, &app.crypto.card_keys, account.id, token, today).await;
    }
    let (number, proxy) = number(call, inputs).await?;
    let masked_card = MaskedCard::of(&number, expiry(form, today)?);
    let (holder, source) = (Cardholder::default(), Source::Api);
    Ok(Funding { number, masked_card, security_code: None, holder, source, field_token: None, proxy })
}

/// The form's card number, and the proxy number that stood for it: 02.
pub(super) async fn number(call: &Call, inputs: CardInputs) -> Result<(CardNumber, Option<ProxyHash>)> {
    let Call { app, account, form, .. } = call;
    let text = form.get("creditcard_number").ok_or(Code::Card.refuse())?;
    let encoding = match is_encrypted(form, inputs) {
        Ok(true) => Encoding::Encrypted,
        Ok(false) => Encoding::Plain,
        Err(_) => Encoding::Unknown,
    };
    card_input::number(&app.db, &app.crypto, account, text, encoding).await
}

/// Whether the form's card number is encrypted: A1 for an invalid `use_secret_key`, which is reported after the errors
/// with codes of their own.
pub(super) fn is_encrypted(form: &Form, inputs: CardInputs) -> Result<bool> {
    if inputs.encrypted { form.flag("use_secret_key") } else { Ok(false) }
}

/// A card number that can only be plain: 02.
pub(super) fn plain_number(form: &Form) -> Result<CardNumber> {
    form.get("creditcard_number").and_then(CardNumber::parse).ok_or(Code::Card.refuse())
}

/// The form's expiration date: 03.
pub(super) fn expiry(form: &Form, today: Date) -> Result<Expiry> {
    let (month, year) = (form.get("expire_month").unwrap_or_default(), form.get("expire_year").unwrap_or_default());
    let expiry = Expiry::parse(month, year).filter(|expiry| expiry.is_valid_on(today));
    expiry.ok_or(Code::Expiry.refuse())
}

/// The form's security code, if any: A1 if it is invalid, or missing although required.
pub(super) fn security_code(form: &Form, required: bool) -> Result<Option<SecurityCode>> {
    match form.get("cvv") {
        Some(text) => match SecurityCode::parse(text) {
            Some(code) => Ok(Some(code)),
            None => Err(Failure::field("cvv", "must be three or four digits")),
        },
        None if required => Err(Failure::field("cvv", "is missing")),
        None => Ok(None),
    }
}
