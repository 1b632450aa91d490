//! Fields shared by sale, authorize, unreferenced refund and wallet sale, checked in the order of their codes.

use foundation::country::Country;
use foundation::email::is_internet_email;
use foundation::web_url;

use super::form::Form;
use crate::accounts::{Account, CURRENCIES};
use crate::amount::Amount;
use crate::cards::{Brand, Cardholder};
use crate::failure::{Code, Failure, Result};
use crate::transactions::{Address, Details, ReceiptRequest};

/// The smallest amount that can be charged.
pub(super) const CENT: Amount = Amount::from_minor(1);
/// Maximum length of `memo` in characters.
const MAX_MEMO: usize = 1_000;

/// The groups of fields that an operation has, from the contract's field matrix.
#[derive(Clone, Copy, Debug)]
pub(super) struct FieldGroups {
    pub(super) shipping: bool,
    pub(super) memo: bool,
    pub(super) custom: bool,
}

/// A field that was read, whose error is reported only after the fields that have codes of their own.
pub(super) struct Deferred<T>(pub(super) Result<T>);

impl<T> Deferred<T> {
    /// The value, once it is the turn of its error.
    pub(super) fn check(self) -> Result<T> {
        self.0
    }
}

/// The payer's fields: 04, 05, 06. Values missing in the form are taken from the card's holder. Texts that are too long
/// are A1, which is reported only after the fields with codes of their own.
pub(super) struct Payer {
    first_name: Deferred<String>,
    last_name: Deferred<String>,
    country_code: String,
    email: Deferred<String>,
}

impl Payer {
    pub(super) fn from_form(form: &Form, holder: &Cardholder) -> Result<Self> {
        let first_name = name(form, "first_name", &holder.first_name)?;
        let last_name = name(form, "last_name", &holder.last_name)?;
        let country = form.get("country_code").or(holder.country_code.as_deref()).unwrap_or_default();
        let country = country.parse::<Country>().map_err(|_| Code::Country.refuse())?;
        form.get("email").filter(|email| is_internet_email(email)).ok_or(Code::Email.refuse())?;
        Ok(Self {
            first_name,
            last_name,
            country_code: country.code().to_owned(),
            email: Deferred(form.required("email")),
        })
    }
}

/// 04 for a missing name. An invalid name is A1.
pub(super) fn name(form: &Form, field: &str, default: &Option<String>) -> Result<Deferred<String>> {
    let given = form.text(field).map(|text| text.or_else(|| default.clone()));
    given.transpose().map(Deferred).ok_or(Code::Name.refuse())
}

/// 11 for a brand that the account's processors do not accept.
pub(super) fn check_brand(account: &Account, brand: Brand) -> Result<()> {
    if account.refuses_brand(brand) { Err(Code::LoadBalancer.refuse()) } else { Ok(()) }
}

/// 07 for an invalid amount or one below `min`.
pub(super) fn amount(form: &Form, min: Amount) -> Result<Amount> {
    let amount = form.get("amount").and_then(|text| text.parse::<Amount>().ok());
    amount.filter(|amount| *amount >= min).ok_or(Code::Amount.refuse())
}

/// 08 for a missing currency, 10 for one that the account does not accept.
pub(super) fn currency(account: &Account, text: Option<&str>) -> Result<String> {
    let currency = known_currency(text)?;
    if account.accepts_currency(&currency) { Ok(currency) } else { Err(Code::CurrencyNotAllowed.refuse()) }
}

/// 08 for a missing currency, 10 for an unknown one.
pub(super) fn known_currency(text: Option<&str>) -> Result<String> {
    let currency = text.ok_or(Code::CurrencyMissing.refuse())?.to_ascii_uppercase();
    if CURRENCIES.contains(&currency.as_str()) { Ok(currency) } else { Err(Code::CurrencyNotAllowed.refuse()) }
}

/// 01 for a missing app key.
pub(super) fn app_key(form: &Form) -> Result<&str> {
    form.get("app_key").ok_or_else(|| Code::Username.because("app_key"))
}

/// The form's country, if any: 05 if it is invalid.
pub(super) fn country(form: &Form) -> Result<Option<String>> {
    let Some(text) = form.get("country_code") else { return Ok(None) };
    text.parse::<Country>().map(|country| Some(country.code().to_owned())).map_err(|_| Code::Country.refuse())
}

/// Details for display, and who gets a receipt: A1 with the field's name, then 21.
pub(super) fn details(
    form: &Form,
    payer: Payer,
    holder: &Cardholder,
    groups: FieldGroups,
) -> Result<(Details, ReceiptRequest)> {
    let zip_code = match form.text("zip_code")?.or_else(|| holder.zip_code.clone()) {
        Some(zip_code) => zip_code,
        None => return Err(Failure::field("zip_code", "is missing")),
    };
    let receipts =
        ReceiptRequest { cardholder: form.flag("email_receipt")?, merchant: form.flag("emailReceiptDBAEmail")? };
    let billing = Address {
        company_name: form.text("company_name")?,
        first_name: payer.first_name.check()?,
        last_name: payer.last_name.check()?,
        address: form.text("address")?,
        city: form.text("city")?,
        state: form.text("state")?,
        country_code: payer.country_code,
        zip_code,
        phone_number: form.text("phone_number")?,
    };
    let shipping = if groups.shipping { Some(shipping(form, &billing)?) } else { None };
    let optional = |present: bool, name| if present { form.text(name) } else { Ok(None) };
    let details = Details {
        email: payer.email.check()?,
        memo: if groups.memo { form.text_up_to("memo", MAX_MEMO)? } else { None },
        custom_field_1: optional(groups.custom, "custom_field_1")?,
        custom_filed_2: optional(groups.custom, "custom_filed_2")?,
        billing,
        shipping,
    };
    check_profanity([&details.billing.company_name, &details.memo, &details.custom_field_1, &details.custom_filed_2])?;
    Ok((details, receipts))
}

fn shipping(form: &Form, billing: &Address) -> Result<Address> {
    if form.flag("ship_address_as_bill_address")? {
        return Ok(billing.clone());
    }
    let country = form.required("ship_country_code")?.parse::<Country>();
    let country = country.map_err(|_| Failure::field("ship_country_code", "is not a country code"))?;
    Ok(Address {
        company_name: form.text("ship_company_name")?,
        first_name: form.required("ship_first_name")?,
        last_name: form.required("ship_last_name")?,
        address: form.text("ship_address")?,
        city: form.text("ship_city")?,
        state: form.text("ship_state")?,
        country_code: country.code().to_owned(),
        zip_code: form.required("ship_zip_code")?,
        phone_number: form.text("ship_phone_number")?,
    })
}

/// Where the cardholder returns to after a challenge.
pub(super) fn return_url(form: &Form) -> Result<Option<String>> {
    const NAME: &str = "3ds_redirect_url";
    let Some(text) = form.text_up_to(NAME, 2_000)? else { return Ok(None) };
    let url = web_url::parse(&text).map_err(|_| Failure::field(NAME, "is not an http(s) URL"))?;
    Ok(Some(url.to_string()))
}

/// Words that memo, company and custom fields must not contain. Names of persons are not checked.
const PROFANE: [&str; 10] =
    ["arsehole", "asshole", "bastard", "bitch", "bullshit", "cunt", "fuck", "fucking", "motherfucker", "shit"];

/// 21 if a text contains a profane word.
pub(super) fn check_profanity<const N: usize>(texts: [&Option<String>; N]) -> Result<()> {
    let profane = texts.into_iter().flatten().any(|text| is_profane(text));
    if profane { Err(Code::Profanity.refuse()) } else { Ok(()) }
}

fn is_profane(text: &str) -> bool {
    let words = text.split(|c: char| !c.is_alphanumeric()).map(str::to_lowercase);
    words.into_iter().any(|word| PROFANE.contains(&word.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use testkit::fuzz::{check, mutated, texts};

    #[test]
    fn only_whole_words_are_profane() {
        for bad in ["what the Fuck", "SHIT!", "a-bitch-b", "bullshit"] {
            assert!(is_profane(bad), "{bad}");
        }
        for good in ["Scunthorpe", "shitake", "Matsushita", "assessment", ""] {
            assert!(!is_profane(good), "{good}");
        }
        check(texts(), |text| {
            is_profane(&text);
        });
    }

    #[test]
    fn invalid_amounts_and_those_below_the_minimum_are_07() {
        let cent = Amount::from_minor(1);
        check(prop_oneof![mutated("133.24"), mutated("0.01"), texts()], |text| {
            let mut form = url::form_urlencoded::Serializer::new(String::new());
            let sent = form.append_pair("amount", &text).finish();
            match amount(&Form::parse(sent.as_bytes()).expect("a form"), cent) {
                Ok(read) => assert!((1..=99_999_999_999_999).contains(&read.get()), "{text}"),
                Err(Failure::Refused(code, why)) => {
                    assert!(code == Code::Amount && (text.len() < 3 || !why.contains(&text)))
                }
                Err(other) => panic!("{other:?}"),
            }
        });
    }

    #[test]
    fn return_urls_are_http_urls() {
        check(prop_oneof![mutated("https://shop.example/back?a=1"), mutated("javascript:alert(1)"), texts()], |text| {
            let mut form = url::form_urlencoded::Serializer::new(String::new());
            let sent = form.append_pair("3ds_redirect_url", &text).finish();
            if let Ok(Some(url)) = return_url(&Form::parse(sent.as_bytes()).expect("a form")) {
                assert!(url.starts_with("https://") || url.starts_with("http://"), "{url}");
                assert!(url.bytes().all(|byte| byte.is_ascii_graphic()), "the URL is sent in a header: {url:?}");
            }
        });
    }
}
