//! The fields that sale, authorize, unreferenced refund and wallet sale have in common, in the order of their codes.

use common::country::Country;
use common::email::is_email;
use url::Url;

use super::Form;
use crate::accounts::{Account, CURRENCIES};
use crate::amount::Amount;
use crate::cards::{Brand, Holder};
use crate::failure::{Code, Failure, Result};
use crate::receipts::Wanted;
use crate::transactions::{Address, Details};

/// Characters of a memo at most.
const MAX_MEMO: usize = 1_000;

/// Which groups of fields an operation has, by the contract's matrix.
#[derive(Clone, Copy, Debug)]
pub(super) struct Has {
    pub(super) shipping: bool,
    pub(super) memo: bool,
    pub(super) custom: bool,
}

/// Who pays: 04, 05, 06. What the form leaves out may be known with the card. Texts that are too long are A1, which has its
/// turn later.
pub(super) struct Payer {
    first_name: Result<String>,
    last_name: Result<String>,
    country_code: String,
    email: Result<String>,
}

impl Payer {
    pub(super) fn of_form(form: &Form, holder: &Holder) -> Result<Self> {
        let first_name = name(form, "first_name", &holder.first_name)?;
        let last_name = name(form, "last_name", &holder.last_name)?;
        let country = form.get("country_code").or(holder.country_code.as_deref()).unwrap_or_default();
        let country = country.parse::<Country>().map_err(|_| Code::Country.refuse())?;
        form.get("email").filter(|email| is_email(email)).ok_or(Code::Email.refuse())?;
        Ok(Self { first_name, last_name, country_code: country.code().to_owned(), email: form.required("email") })
    }
}

/// 04 for no name. One that cannot be used is A1, for when that has its turn.
pub(crate) fn name(form: &Form, field: &str, known: &Option<String>) -> Result<Result<String>> {
    let given = form.text(field).map(|text| text.or_else(|| known.clone()));
    given.transpose().ok_or(Code::Name.refuse())
}

/// 11 for a brand that no processor takes for the account.
pub(crate) fn routable(account: &Account, brand: Brand) -> Result<()> {
    if account.refuses_brand(brand) { Err(Code::LoadBalancer.refuse()) } else { Ok(()) }
}

/// 07 for an amount that is none, or nothing where something must be.
pub(crate) fn amount(form: &Form, least: Amount) -> Result<Amount> {
    let amount = form.get("amount").and_then(|text| text.parse::<Amount>().ok());
    amount.filter(|amount| *amount >= least).ok_or(Code::Amount.refuse())
}

/// 08 for none, 10 for one that the account does not have.
pub(crate) fn currency(account: &Account, text: Option<&str>) -> Result<String> {
    let currency = text.ok_or(Code::CurrencyMissing.refuse())?.to_ascii_uppercase();
    let known = CURRENCIES.contains(&currency.as_str()) && account.takes_currency(&currency);
    if known { Ok(currency) } else { Err(Code::CurrencyNotAllowed.refuse()) }
}

/// What is shown and never decided by, and who is to have a receipt: A1 with the field's name, then 21.
pub(super) fn details(form: &Form, payer: Payer, holder: &Holder, has: Has) -> Result<(Details, Wanted)> {
    let zip_code = match form.text("zip_code")?.or_else(|| holder.zip_code.clone()) {
        Some(zip_code) => zip_code,
        None => return Err(Failure::field("zip_code", "is missing")),
    };
    let receipts = Wanted { cardholder: form.yes("email_receipt")?, merchant: form.yes("emailReceiptDBAEmail")? };
    let billing = Address {
        company_name: form.text("company_name")?,
        first_name: payer.first_name?,
        last_name: payer.last_name?,
        address: form.text("address")?,
        city: form.text("city")?,
        state: form.text("state")?,
        country_code: payer.country_code,
        zip_code,
        phone_number: form.text("phone_number")?,
    };
    let shipping = if has.shipping { Some(shipping(form, &billing)?) } else { None };
    let optional = |wanted: bool, name| if wanted { form.text(name) } else { Ok(None) };
    let details = Details {
        email: payer.email?,
        memo: if has.memo { form.longer_text("memo", MAX_MEMO)? } else { None },
        custom_field_1: optional(has.custom, "custom_field_1")?,
        custom_filed_2: optional(has.custom, "custom_filed_2")?,
        billing,
        shipping,
    };
    decent([&details.billing.company_name, &details.memo, &details.custom_field_1, &details.custom_filed_2])?;
    Ok((details, receipts))
}

fn shipping(form: &Form, billing: &Address) -> Result<Address> {
    if form.yes("ship_address_as_bill_address")? {
        return Ok(billing.clone());
    }
    let country = form.required("ship_country_code")?.parse::<Country>();
    let country = country.map_err(|_| Failure::field("ship_country_code", "is not a country"))?;
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

/// The caller's name for a transaction.
pub(super) fn reference_id(form: &Form) -> Result<Option<String>> {
    form.text("reference_id")
}

/// Where the cardholder goes after a challenge, if the form says.
pub(super) fn return_url(form: &Form) -> Result<Option<String>> {
    const NAME: &str = "3ds_redirect_url";
    let Some(text) = form.longer_text(NAME, 2_000)? else { return Ok(None) };
    let url = Url::parse(&text).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    url.map(|url| Some(url.to_string())).ok_or_else(|| Failure::field(NAME, "is not an http(s) URL"))
}

/// Whole words that no memo, company or custom field may have. Names of people are never looked at.
const PROFANE: [&str; 10] =
    ["arsehole", "asshole", "bastard", "bitch", "bullshit", "cunt", "fuck", "fucking", "motherfucker", "shit"];

/// 21 for a profane one among these.
pub(crate) fn decent<const N: usize>(texts: [&Option<String>; N]) -> Result<()> {
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
    fn whole_words_are_profane_and_parts_of_words_are_not() {
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
    fn an_amount_is_one_and_at_least_the_least_or_it_is_07() {
        let cent = Amount::hundredths(1);
        check(prop_oneof![mutated("133.24"), mutated("0.01"), texts()], |text| {
            let mut form = url::form_urlencoded::Serializer::new(String::new());
            let sent = form.append_pair("amount", &text).finish();
            match amount(&Form::parse(sent.as_bytes()), cent) {
                Ok(read) => assert!((1..=99_999_999_999_999).contains(&read.get()), "{text}"),
                Err(Failure::Refused(code, why)) => {
                    assert!(code == Code::Amount && (text.len() < 3 || !why.contains(&text)))
                }
                Err(other) => panic!("{other:?}"),
            }
        });
    }

    #[test]
    fn a_way_back_is_an_address_of_the_web() {
        check(prop_oneof![mutated("https://shop.example/back?a=1"), mutated("javascript:alert(1)"), texts()], |text| {
            let mut form = url::form_urlencoded::Serializer::new(String::new());
            let sent = form.append_pair("3ds_redirect_url", &text).finish();
            if let Ok(Some(url)) = return_url(&Form::parse(sent.as_bytes())) {
                assert!(url.starts_with("https://") || url.starts_with("http://"), "{url}");
                assert!(url.bytes().all(|byte| byte.is_ascii_graphic()), "it stands in a header: {url:?}");
            }
        });
    }
}
