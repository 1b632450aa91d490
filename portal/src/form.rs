//! Forms of actions: how they are shown, and what is entered.

use foundation::crypto::random_hex;
use foundation::money::{Currency, Money};
use maud::{Markup, html};
use serde_json::{Map, Value, json};
use url::form_urlencoded;

use crate::actions::{Action, Field, Kind};
use crate::texts::{text, words};

/// Bytes of a nonce.
const NONCE: usize = 16;

/// What was entered, by field.
#[derive(Default)]
pub(crate) struct Entered(Vec<(String, String)>);

impl Entered {
    pub(crate) fn parse(body: &[u8]) -> Self {
        let pairs = form_urlencoded::parse(body);
        Self(pairs.map(|(name, value)| (name.into_owned(), value.trim().to_owned())).collect())
    }

    pub(crate) fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(own, _)| own == name).map_or("", |(_, value)| value)
    }

    /// The nonce of the form, if it has one.
    pub(crate) fn nonce(&self) -> Option<&str> {
        let nonce = self.get("nonce");
        let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        (nonce.len() == NONCE * 2 && nonce.bytes().all(is_hex)).then_some(nonce)
    }

    /// The body of the request of /v1. `currency` is that of the object that is changed.
    ///
    /// # Errors
    /// What is wrong, for the user.
    pub(crate) fn body(&self, action: &Action, currency: Option<&str>) -> Result<Map<String, Value>, String> {
        let code = currency.map_or_else(|| self.get("currency").to_uppercase(), str::to_owned);
        let mut body = Map::new();
        for field in action.fields {
            let entered = self.get(field.name);
            if entered.is_empty() {
                if field.required {
                    return Err(format!("{}: {}", text(field.label), text("is missing")));
                }
                continue;
            }
            let value = match field.kind {
                Kind::Amount => {
                    minor_units(entered, &code).map_err(|problem| format!("{}: {problem}", text(field.label)))?.into()
                }
                Kind::Currency => code.as_str().into(),
                Kind::Text | Kind::Email | Kind::Choice(_) => entered.into(),
                // Browsers send no seconds.
                Kind::Time if entered.len() == 16 => format!("{entered}:00Z").into(),
                Kind::Time => format!("{entered}Z").into(),
                Kind::Reason => {
                    body.insert("metadata".to_owned(), json!({"reason": entered}));
                    continue;
                }
            };
            body.insert(field.name.to_owned(), value);
        }
        Ok(body)
    }
}

/// An amount in major units, such as 12.34 or 12, in minor units.
fn minor_units(entered: &str, currency: &str) -> Result<i64, String> {
    let currency: Currency = currency.parse().map_err(|_| text("the currency is not known").to_owned())?;
    let decimals = usize::from(currency.exponent());
    let (whole, part) = entered.split_once('.').unwrap_or((entered, ""));
    let is_complete = part.len() <= decimals && (part.is_empty() != entered.contains('.'));
    let decimal = match decimals {
        0 => whole.to_owned(),
        _ => format!("{whole}.{part:0<decimals$}"),
    };
    let money = Money::from_decimal(&decimal, currency).filter(|_| is_complete);
    let example = Money { minor: 1_234, currency }.to_decimal();
    money.map(|money| money.minor).ok_or_else(|| format!("{} {example}", text("enter an amount such as")))
}

/// The form of an action, with a new nonce.
pub(crate) fn form(action: &Action, address: &str, entered: &Entered) -> Markup {
    html! {
        form.action method="post" action=(address) autocomplete="off" {
            input type="hidden" name="nonce" value=(random_hex(NONCE));
            @for field in action.fields { (control(action, field, entered)) }
            button { (text(action.label)) }
        }
    }
}

/// The form that confirms an action, with a new nonce.
pub(crate) fn confirmed_form(action: &Action, address: &str) -> Markup {
    html! {
        form.action method="post" action=(address) {
            input type="hidden" name="nonce" value=(random_hex(NONCE));
            button name="confirm" value="yes" { (text("Confirm")) ": " (text(action.label)) }
        }
    }
}

fn control(action: &Action, field: &Field, entered: &Entered) -> Markup {
    let (id, value) = (format!("{}-{}", action.name, field.name), entered.get(field.name));
    let (kind, limit) = match field.kind {
        Kind::Amount => ("text", 20),
        Kind::Currency => ("text", 3),
        Kind::Text | Kind::Choice(_) => ("text", 500),
        Kind::Reason => ("text", 200),
        Kind::Email => ("email", 254),
        Kind::Time => ("datetime-local", 30),
    };
    let mode = (field.kind == Kind::Amount).then_some("decimal");
    html! {
        label for=(id) { (text(field.label)) }
        @if let Kind::Choice(choices) = field.kind {
            select id=(id) name=(field.name) {
                @for choice in choices { option value=(choice) selected[value == *choice] { (words(choice)) } }
            }
        } @else {
            input id=(id) type=(kind) name=(field.name) value=(value) required[field.required] maxlength=(limit) inputmode=[mode];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_entered_in_major_units() {
        for (entered, currency, minor) in [
            ("12.34", "USD", Some(1_234)),
            ("12", "USD", Some(1_200)),
            ("12.3", "USD", Some(1_230)),
            ("1234", "JPY", Some(1_234)),
            ("1.234", "BHD", Some(1_234)),
            ("12.345", "USD", None),
            ("12.", "USD", None),
            ("12,34", "USD", None),
            ("-1", "USD", None),
            ("1.5", "JPY", None),
            ("1", "XXX", None),
            ("", "USD", None),
        ] {
            assert_eq!(minor_units(entered, currency).ok(), minor, "{entered} {currency}");
        }
    }

    #[test]
    fn a_form_becomes_the_body_of_a_request() {
        let refund = Action::find("payments", "refund").expect("an action");
        let body = |form: &str| Entered::parse(form.as_bytes()).body(refund, Some("EUR")).map(Value::Object);
        assert_eq!(
            body("amount=1.50&reason=Too+late&x=y"),
            Ok(json!({"amount": 150, "metadata": {"reason": "Too late"}}))
        );
        assert_eq!(body("amount=&reason="), Ok(json!({})));
        assert_eq!(body("amount=x"), Err("Amount to refund: enter an amount such as 12.34".to_owned()));
        let plan = Action::find("plans", "new").expect("an action");
        let entered = Entered::parse(b"name=Gold&amount=8&currency=usd&interval=month");
        let expected = json!({"name": "Gold", "amount": 800, "currency": "USD", "interval": "month"});
        assert_eq!(entered.body(plan, None).map(Value::Object), Ok(expected));
        assert_eq!(Entered::parse(b"amount=8").body(plan, None), Err("Name: is missing".to_owned()));
    }

    #[test]
    fn a_nonce_has_its_form() {
        for (form, is_nonce) in [
            ("nonce=0123456789abcdef0123456789abcdef", true),
            ("nonce=0123456789ABCDEF0123456789abcdef", false),
            ("nonce=01", false),
            ("", false),
        ] {
            assert_eq!(Entered::parse(form.as_bytes()).nonce().is_some(), is_nonce, "{form}");
        }
    }
}
