//! The card to be charged, from one of the contract's inputs.

use foundation::calendar::Date;
use foundation::crypto::Secret;

use super::number::digits;
use super::{CardNumber, Expiry, Holder, MaskedCard, SecurityCode, TokenHash, ecb, vault};
use crate::accounts::Account;
use crate::app::App;
use crate::failure::{Code, Failure, Result};
use crate::http::Form;
use crate::proxy;

/// Where the card came from, as shown in the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, sqlx::Type)]
#[sqlx(type_name = "text", rename_all = "snake_case")]
pub enum Source {
    /// A card number: plain, encrypted, or a proxy number.
    Api,
    /// A vault token.
    CardToken,
    /// A capture field's token.
    CaptureField,
    /// A wallet token.
    Wallet,
}

impl Source {
    /// The name in the report.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Api => "API",
            Self::CardToken => "CARD TOKEN",
            Self::CaptureField => "CAPTURE FIELD",
            Self::Wallet => "WALLET",
        }
    }
}

/// A card that can be charged.
#[derive(Clone, Debug)]
pub struct Funding {
    pub number: CardNumber,
    pub masked_card: MaskedCard,
    pub security_code: Option<SecurityCode>,
    pub holder: Holder,
    pub source: Source,
    /// The capture field's token, which the charge uses up.
    pub field_token: Option<TokenHash>,
    /// The proxy number, which an approval binds to the account.
    pub proxy: Option<proxy::ProxyHash>,
}

/// The optional card inputs of an operation.
#[derive(Clone, Copy, Debug)]
pub struct CardInputs {
    /// `card_token`.
    pub token: bool,
    /// `use_secret_key`.
    pub encrypted: bool,
}

/// Reads the card of a form. An invalid `use_secret_key` is not reported here; see [`is_encrypted`].
///
/// # Errors
/// 02 and 03.
pub async fn from_form(app: &App, account: &Account, form: &Form, inputs: CardInputs, today: Date) -> Result<Funding> {
    if inputs.token
        && let Some(token) = form.get("card_token")
    {
        return from_token(app, account, token, today).await;
    }
    let (number, proxy) = number(app, account, form, inputs).await?;
    let masked_card = MaskedCard::of(&number, expiry(form, today)?);
    let (holder, source) = (Holder::default(), Source::Api);
    Ok(Funding { number, masked_card, security_code: None, holder, source, field_token: None, proxy })
}

/// Whether the form's card number is encrypted.
///
/// # Errors
/// A1 for an invalid `use_secret_key`. It is reported after the errors with codes of their own.
pub fn is_encrypted(form: &Form, inputs: CardInputs) -> Result<bool> {
    if inputs.encrypted { form.flag("use_secret_key") } else { Ok(false) }
}

/// The form's card number, and the proxy number that stood for it.
///
/// # Errors
/// 02
pub async fn number(
    app: &App,
    account: &Account,
    form: &Form,
    inputs: CardInputs,
) -> Result<(CardNumber, Option<proxy::ProxyHash>)> {
    let text = form.get("creditcard_number").ok_or(Code::Card.refuse())?;
    let number = match is_encrypted(form, inputs) {
        Ok(true) => decrypt(app, account, text).map(|number| (number, None)),
        Ok(false) => plain_or_proxy(app, account, text).await?,
        // `use_secret_key` is invalid, which is reported later; here a number that cannot be read either way is 02.
        Err(_) => match decrypt(app, account, text) {
            Some(number) => Some((number, None)),
            None => plain_or_proxy(app, account, text).await?,
        },
    };
    number.ok_or(Code::Card.refuse())
}

/// The form's expiration date.
///
/// # Errors
/// 03
pub fn expiry(form: &Form, today: Date) -> Result<Expiry> {
    let (month, year) = (form.get("expire_month").unwrap_or_default(), form.get("expire_year").unwrap_or_default());
    let expiry = Expiry::parse(month, year).filter(|expiry| expiry.is_valid_on(today));
    expiry.ok_or(Code::Expiry.refuse())
}

async fn from_token(app: &App, account: &Account, token: &str, today: Date) -> Result<Funding> {
    let card = vault::find(&app.db, &app.crypto.card_keys, account.id, token).await?;
    if !card.masked_card.expiry.is_valid_on(today) {
        return Err(Code::Expiry.refuse());
    }
    let is_field_token = token.starts_with(vault::FIELD_PREFIX);
    Ok(Funding {
        number: card.number,
        masked_card: card.masked_card,
        security_code: card.security_code,
        holder: card.holder,
        source: if is_field_token { Source::CaptureField } else { Source::CardToken },
        field_token: is_field_token.then(|| TokenHash::of(token)),
        proxy: None,
    })
}

fn decrypt(app: &App, account: &Account, text: &str) -> Option<CardNumber> {
    // Decryption under a wrong key does not yield a valid card number.
    let opened = |key: Secret<String>| CardNumber::parse(ecb::decrypt(&key, text)?.expose());
    account.secret_keys(&app.crypto.card_keys).find_map(opened)
}

/// A number with a wrong check digit may be a proxy number; those never have a valid one.
async fn plain_or_proxy(
    app: &App,
    account: &Account,
    text: &str,
) -> Result<Option<(CardNumber, Option<proxy::ProxyHash>)>> {
    if let Some(number) = CardNumber::parse(text) {
        return Ok(Some((number, None)));
    }
    let Some(digits) = digits(text) else { return Ok(None) };
    let resolved = proxy::resolve(&app.db, &app.crypto, account.id, &digits).await?;
    Ok(resolved.map(|(number, used)| (number, Some(used))))
}

/// The form's security code, if any.
///
/// # Errors
/// A1 if it is invalid, or missing although required.
pub fn security_code(form: &Form, required: bool) -> Result<Option<SecurityCode>> {
    match form.get("cvv") {
        Some(text) => match SecurityCode::parse(text) {
            Some(code) => Ok(Some(code)),
            None => Err(Failure::field("cvv", "must be three or four digits")),
        },
        None if required => Err(Failure::field("cvv", "is missing")),
        None => Ok(None),
    }
}
