//! What pays: the card that a form names, in one of the contract's four ways.

use common::calendar::Date;
use common::crypto::Secret;

use super::number::digits;
use super::{Expiry, Face, Holder, Number, SecurityCode, TokenHash, ecb, vault};
use crate::accounts::Account;
use crate::app::App;
use crate::failure::{Code, Failure, Result};
use crate::http::Form;
use crate::proxy;

/// How the card came here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, sqlx::Type)]
#[sqlx(type_name = "text", rename_all = "snake_case")]
pub enum Source {
    /// As a number, plain, encrypted or by proxy.
    Api,
    /// By a token of the vault.
    CardToken,
    /// By a token of a capture field.
    CaptureField,
    /// By a wallet's token.
    Wallet,
}

impl Source {
    /// As the report names it.
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
    /// Its number.
    pub number: Number,
    /// What may be shown of it.
    pub face: Face,
    /// Its security code, where it is known.
    pub security_code: Option<SecurityCode>,
    /// Who holds it, where it is known with the card.
    pub holder: Holder,
    /// How it came here.
    pub source: Source,
    /// The token of a capture field that is spent by using it.
    pub spends: Option<TokenHash>,
    /// The proxy number that becomes the account's by an approval.
    pub proxy: Option<proxy::Used>,
}

/// Which of the ways an operation knows.
#[derive(Clone, Copy, Debug)]
pub struct Ways {
    /// `card_token`.
    pub token: bool,
    /// `use_secret_key`.
    pub encrypted: bool,
}

/// The card of a form. What is wrong with [`encrypted`] is left for later.
///
/// # Errors
/// 02 and 03.
pub async fn of_form(app: &App, account: &Account, form: &Form, ways: Ways, today: Date) -> Result<Funding> {
    if ways.token
        && let Some(token) = form.get("card_token")
    {
        return of_token(app, account, token, today).await;
    }
    let (number, proxy) = number(app, account, form, ways).await?;
    let face = Face::of(&number, expiry(form, today)?);
    let (holder, source) = (Holder::default(), Source::Api);
    Ok(Funding { number, face, security_code: None, holder, source, spends: None, proxy })
}

/// Whether a form says that its number is encrypted, where the operation knows that.
///
/// # Errors
/// A1 for a `use_secret_key` that is neither Y nor N. It has its turn after the faults with codes of their own.
pub fn encrypted(form: &Form, ways: Ways) -> Result<bool> {
    if ways.encrypted { form.yes("use_secret_key") } else { Ok(false) }
}

/// The number of a form: plain, by proxy, or encrypted. And by which proxy number.
///
/// # Errors
/// 02
pub async fn number(app: &App, account: &Account, form: &Form, ways: Ways) -> Result<(Number, Option<proxy::Used>)> {
    let text = form.get("creditcard_number").ok_or(Code::Card.refuse())?;
    let number = match encrypted(form, ways) {
        Ok(true) => decrypted(app, account, text).map(|number| (number, None)),
        Ok(false) => plain_or_proxy(app, account, text).await?,
        // Nobody can tell which it is. It is refused for that, unless it is neither.
        Err(_) => match decrypted(app, account, text) {
            Some(number) => Some((number, None)),
            None => plain_or_proxy(app, account, text).await?,
        },
    };
    number.ok_or(Code::Card.refuse())
}

/// When the card of a form ends.
///
/// # Errors
/// 03
pub fn expiry(form: &Form, today: Date) -> Result<Expiry> {
    let (month, year) = (form.get("expire_month").unwrap_or_default(), form.get("expire_year").unwrap_or_default());
    let expiry = Expiry::parse(month, year).filter(|expiry| expiry.is_good_on(today));
    expiry.ok_or(Code::Expiry.refuse())
}

async fn of_token(app: &App, account: &Account, token: &str, today: Date) -> Result<Funding> {
    let found = vault::find(&app.db, &app.vaulting.card_keys, account.id, token).await?;
    if !found.face.expiry.is_good_on(today) {
        return Err(Code::Expiry.refuse());
    }
    let of_field = token.starts_with(vault::FIELD_PREFIX);
    Ok(Funding {
        number: found.number,
        face: found.face,
        security_code: found.security_code,
        holder: found.holder,
        source: if of_field { Source::CaptureField } else { Source::CardToken },
        spends: of_field.then(|| TokenHash::of(token)),
        proxy: None,
    })
}

fn decrypted(app: &App, account: &Account, text: &str) -> Option<Number> {
    // Under a wrong key nothing comes out that is a card number.
    let opened = |key: Secret<String>| Number::parse(ecb::decrypt(&key, text)?.expose());
    account.secret_keys(&app.vaulting.card_keys).find_map(opened)
}

/// A number with a wrong check digit may be a proxy number: none of those has a right one.
async fn plain_or_proxy(app: &App, account: &Account, text: &str) -> Result<Option<(Number, Option<proxy::Used>)>> {
    if let Some(number) = Number::parse(text) {
        return Ok(Some((number, None)));
    }
    let Some(digits) = digits(text) else { return Ok(None) };
    let resolved = proxy::resolve(&app.db, &app.vaulting, account.id, &digits).await?;
    Ok(resolved.map(|(number, used)| (number, Some(used))))
}

/// The security code that a form brings, if any.
///
/// # Errors
/// A1 for one that is none, or for none where one is required.
pub fn security_code(form: &Form, required: bool) -> Result<Option<SecurityCode>> {
    match form.get("cvv") {
        Some(text) => match SecurityCode::parse(text) {
            Some(code) => Ok(Some(code)),
            None => Err(Failure::field("cvv", "is not three or four digits")),
        },
        None if required => Err(Failure::field("cvv", "is missing")),
        None => Ok(None),
    }
}
