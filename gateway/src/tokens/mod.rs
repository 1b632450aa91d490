//! Capture fields' tokens: a browser sends a card and gets a single-use token. The security code is stored only with
//! the token, and only until it is used or expires.

mod sign;
mod store;

use std::time::Duration;

use foundation::country::Country;
use serde::Serialize;

use crate::accounts;
use crate::app::App;
use crate::cards::source::{expiry, security_code};
use crate::cards::{CardNumber, Holder, MaskedCard, TokenHash, vault};
use crate::failure::{Code, Failure, Result};
use crate::http::envelope::SUCCESS;
use crate::http::{Form, Reply};

/// As long as a capture field's session.
const LIFETIME: Duration = Duration::from_secs(30 * 60);

#[derive(Serialize)]
struct Created {
    code: &'static str,
    description: &'static str,
    card_token: String,
    expires_at: foundation::time::Timestamp,
    card_type: &'static str,
    credit_card_number: String,
    card_expiry_date: String,
}

/// Stores a card and its security code until the token is used.
///
/// # Errors
/// 01 for an unknown `app_key`, 02, 03, 05, and A1 for the security code.
pub async fn create(app: &App, form: &Form) -> Result<Reply> {
    let named = form.get("app_key");
    let account = accounts::by_app_key(&app.db, named).await?;
    let now = app.clock.now();
    let number = form.get("creditcard_number").and_then(CardNumber::parse).ok_or(Code::Card.refuse())?;
    let masked_card = MaskedCard::of(&number, expiry(form, account.time_zone.date_at(now))?);
    let code = security_code(form, true)?;
    let holder = holder(form)?;

    let key = &app.crypto.card_keys;
    let expires_at = now.plus(LIFETIME);
    let secret_key = named.and_then(|app_key| account.secret_key_for(app_key, key));
    let secret_key = secret_key.ok_or(Failure::NotEntered("the account's secret key cannot be decrypted"))?;
    let token = sign::sign(&secret_key, &masked_card, now, expires_at);
    let hash = TokenHash::of(&token);
    store::insert(
        &app.db,
        &store::NewToken {
            account: account.id,
            hash,
            number: key.seal(number.expose(), &vault::number_context(&hash)),
            security_code: code.map(|code| key.seal(code.expose(), &vault::code_context(&hash))),
            masked_card: &masked_card,
            holder: &holder,
            now,
            expires_at,
        },
    )
    .await?;
    Ok(Reply::new(&Created {
        code: "00",
        description: SUCCESS,
        card_token: token,
        expires_at,
        card_type: masked_card.brand.name(),
        credit_card_number: masked_card.masked,
        card_expiry_date: masked_card.expiry.to_string(),
    }))
}

/// The cardholder's data from the field; the name may come in one field or in two.
fn holder(form: &Form) -> Result<Holder> {
    let whole = form.text("name")?;
    let (first, last) = match whole.as_deref() {
        Some(name) => {
            let (first, last) = name.rsplit_once(' ').unwrap_or((name, name));
            (Some(first.trim_end().to_owned()), Some(last.to_owned()))
        }
        None => (None, None),
    };
    Ok(Holder {
        first_name: form.text("first_name")?.or(first),
        last_name: form.text("last_name")?.or(last),
        zip_code: form.text("zip_code")?,
        country_code: country(form)?,
    })
}

/// The form's country, if any.
///
/// # Errors
/// 05 if it is invalid.
pub fn country(form: &Form) -> Result<Option<String>> {
    let Some(text) = form.get("country_code") else { return Ok(None) };
    text.parse::<Country>().map(|country| Some(country.code().to_owned())).map_err(|_| Code::Country.refuse())
}
