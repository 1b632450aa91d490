//! Forms of actions: how they are shown, and what is entered.

mod control;

use domain::accounts::Mode;
use foundation::crypto::{is_hex, random_hex};
use foundation::money::{Currency, Money};
use maud::{Markup, html};
use serde_json::{Map, Value, json};
use url::form_urlencoded;

use crate::actions::{Action, Field, Kind};
use crate::address::of_object;
use crate::metadata;
use crate::texts::{self, button, filled, labelled, percent, text};
use control::control;

/// Bytes of a nonce.
const NONCE: usize = 16;
/// Percentages have two decimals.
const BASIS_POINTS: i64 = 100;

/// What was entered, by field.
#[derive(Clone, Default)]
pub(crate) struct Entered(pub(crate) Vec<(String, String)>);

impl Entered {
    pub(crate) fn parse(body: &[u8]) -> Self {
        let pairs = form_urlencoded::parse(body);
        Self(pairs.map(|(name, value)| (name.into_owned(), value.trim().to_owned())).collect())
    }

    /// What an address may fill in: the objects that links of the portal name. Any site can link to a form, so that everything
    /// else is left to the user.
    pub(crate) fn of_link(action: &Action, mode: Mode, query: &str) -> Self {
        let Self(mut entered) = Self::parse(query.as_bytes());
        let is_suggested = |name: &str| {
            let mut fields = action.fields.iter();
            fields.any(|field| field.name == name && matches!(field.kind, Kind::Suggested(_)))
        };
        entered.retain(|(name, value)| is_suggested(name) && of_object(mode, value).is_some());
        Self(entered)
    }

    /// The values that an object has, to be changed.
    pub(crate) fn of(action: &Action, object: &Value) -> Self {
        let mut entered = Vec::new();
        for Field { name, kind, .. } in action.fields {
            match &object[*name] {
                Value::String(value) => entered.push(((*name).to_owned(), value.clone())),
                Value::Array(values) => {
                    let values: Vec<String> = values.iter().filter_map(Value::as_str).map(str::to_owned).collect();
                    let values = if matches!(kind, Kind::Lines) { vec![values.join("\n")] } else { values };
                    entered.extend(values.into_iter().map(|value| ((*name).to_owned(), value)));
                }
                pairs @ Value::Object(_) if matches!(kind, Kind::Pairs) => {
                    entered.push(((*name).to_owned(), metadata::lines(pairs)));
                }
                Value::Number(version) if matches!(kind, Kind::Version) => {
                    entered.push(((*name).to_owned(), version.to_string()));
                }
                modifier @ Value::Object(_) => entered.push(((*name).to_owned(), shown_modifier(modifier))),
                Value::Null | Value::Bool(_) | Value::Number(_) => {}
            }
        }
        Self(entered)
    }

    pub(crate) fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(own, _)| own == name).map_or("", |(_, value)| value)
    }

    pub(crate) fn all(&self, name: &str) -> Vec<&str> {
        self.0.iter().filter(|(own, _)| own == name).map(|(_, value)| value.as_str()).collect()
    }

    /// The nonce of the form, if it has one.
    pub(crate) fn nonce(&self) -> Option<&str> {
        Some(self.get("nonce")).filter(|nonce| is_hex(nonce, NONCE))
    }

    /// The body of the request. `currency` is that of the object that is changed.
    ///
    /// # Errors
    /// What is wrong, for the user.
    pub(crate) fn body(&self, action: &Action, currency: Option<&str>) -> Result<Value, String> {
        let chosen = action.fields.iter().find(|field| matches!(field.kind, Kind::Currency));
        let code = match (currency, chosen) {
            (Some(currency), _) => currency.to_owned(),
            (None, Some(field)) => self.currency(field)?,
            (None, None) => String::new(),
        };
        let mut body = Value::Object(Map::new());
        for field in action.fields.iter().filter(|field| !matches!(field.kind, Kind::Version)) {
            let entered = self.get(field.name);
            let may_be_empty =
                matches!(field.kind, Kind::Many(_) | Kind::Lines | Kind::Always(_) | Kind::Cleared | Kind::Pairs);
            let has_value = !entered.is_empty() || may_be_empty;
            if !has_value {
                if field.required {
                    return Err(labelled(text(field.label), text("is missing")));
                }
                continue;
            }
            let value = self.value(field, &code).map_err(|problem| labelled(text(field.label), problem))?;
            let name = if matches!(field.kind, Kind::Reason) { "metadata" } else { field.name };
            insert(&mut body, name, value);
        }
        if let Some(lines) = body["items"].as_array_mut() {
            lines.retain(Value::is_object);
            for line in lines.iter_mut().filter(|line| line["quantity"].is_null()) {
                line["quantity"] = 1.into();
            }
        } else if let Some(fields) = body.as_object_mut() {
            fields.remove("items");
        }
        Ok(body)
    }

    /// The currency that was entered, which amounts depend on.
    fn currency(&self, field: &Field) -> Result<String, String> {
        let code = self.get(field.name).to_uppercase();
        match code.parse::<Currency>() {
            Ok(_) => Ok(code),
            Err(_) => Err(labelled(text(field.label), text("enter a currency such as EUR"))),
        }
    }

    /// The same, with another value of a field.
    pub(crate) fn with(mut self, name: &str, value: String) -> Self {
        self.0.retain(|(own, _)| own != name);
        self.0.push((name.to_owned(), value));
        self
    }

    /// What is sent for a field.
    fn value(&self, field: &Field, code: &str) -> Result<Value, String> {
        let entered = self.get(field.name);
        Ok(match field.kind {
            Kind::Amount => match minor_units(entered, code)? {
                0 => return Err(text("enter more than 0").to_owned()),
                minor => minor.into(),
            },
            Kind::Whole => entered.parse::<u32>().map_err(|_| text("enter a whole number").to_owned())?.into(),
            Kind::Currency => code.into(),
            Kind::Modifier => modifier(entered)?,
            // Browsers send no seconds.
            Kind::Time if entered.len() == 16 => format!("{entered}:00Z").into(),
            Kind::Time => format!("{entered}Z").into(),
            Kind::Reason => json!({"reason": entered}),
            Kind::Many(_) => self.all(field.name).into_iter().collect(),
            Kind::Lines => entered.lines().map(str::trim).filter(|line| !line.is_empty()).collect(),
            Kind::Always(value) => value.into(),
            Kind::Cleared if entered.is_empty() => Value::Null,
            Kind::Pairs => metadata::parse(entered)
                .ok_or_else(|| text("enter a name, a colon and a value on each line").to_owned())?
                .into(),
            Kind::Text
            | Kind::Cleared
            | Kind::Version
            | Kind::Short
            | Kind::Suggested(_)
            | Kind::Email
            | Kind::Url
            | Kind::Date
            | Kind::Choice(_)
            | Kind::Image
            | Kind::Password
            | Kind::Code
            | Kind::Language
            | Kind::Hidden
            | Kind::Passkey => entered.into(),
        })
    }
}

/// Inserts a value at a path, whose numbers are indexes.
fn insert(body: &mut Value, path: &str, value: Value) {
    let mut place = body;
    for part in path.split('.') {
        place = match part.parse::<usize>() {
            Ok(index) => {
                if !place.is_array() {
                    *place = json!([]);
                }
                if let Value::Array(items) = place {
                    items.resize(items.len().max(index + 1), Value::Null);
                }
                &mut place[index]
            }
            Err(_) => &mut place[part],
        };
    }
    *place = value;
}

/// A percentage with two decimals, or a fixed amount in minor units, as accounts store it.
fn modifier(entered: &str) -> Result<Value, String> {
    let problem = || text("enter a percentage such as 8.25%, or a fixed amount in minor units such as 150").to_owned();
    match entered.strip_suffix('%') {
        Some(percent) => {
            let (whole, part) = percent.trim().split_once(['.', ',']).unwrap_or((percent.trim(), "0"));
            let padded = format!("{part:0<2}");
            let whole = whole.parse::<u16>().map_err(|_| problem())?;
            let part = Some(padded).filter(|part| part.len() == 2).and_then(|part| part.parse::<u8>().ok());
            let points = i64::from(whole) * BASIS_POINTS + i64::from(part.ok_or_else(problem)?);
            Ok(json!({"type": "percent", "value": points}))
        }
        None => Ok(json!({"type": "fixed", "value": entered.parse::<u32>().map_err(|_| problem())?})),
    }
}

fn shown_modifier(modifier: &Value) -> String {
    let value = modifier["value"].as_i64().unwrap_or_default();
    match modifier["type"].as_str() {
        Some("percent") => percent(value / BASIS_POINTS, &format!("{:02}", value % BASIS_POINTS)),
        _ => value.to_string(),
    }
}

/// An amount in major units, such as 12.34, 12,34 or 12, in minor units.
pub(crate) fn minor_units(entered: &str, currency: &str) -> Result<i64, String> {
    let currency: Currency = currency.parse().map_err(|_| text("the currency is not known").to_owned())?;
    let decimals = usize::from(currency.exponent());
    let (whole, part) = entered.split_once(['.', ',']).unwrap_or((entered, ""));
    let separator = texts::thousands_separator();
    let may_have_thousands = part.len() >= 3 && entered.contains(separator);
    let is_complete =
        !may_have_thousands && part.len() <= decimals && (part.is_empty() != entered.contains(['.', ',']));
    let decimal = match decimals {
        0 => whole.to_owned(),
        _ => format!("{whole}.{part:0<decimals$}"),
    };
    let is_number =
        !whole.is_empty() && [whole, part].iter().all(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
    match Money::from_decimal(&decimal, currency).filter(|_| is_complete) {
        Some(money) => Ok(money.minor),
        None if is_complete && is_number => Err(text("the amount is too large").to_owned()),
        None => {
            let example = Money { minor: 1_234, currency }.to_decimal();
            let example = if separator == '.' { example.replace('.', ",") } else { example };
            Err(filled("enter an amount such as {amount}", &[("amount", &example)]))
        }
    }
}

/// The form of an action on this object, with a new nonce; for an action that is confirmed, the way to its confirmation.
pub(crate) fn form(action: &Action, address: &str, entered: &Entered, object: &Value) -> Markup {
    if action.consequence.is_some() {
        return html! {
            form.action method="get" action=(address) { button.danger { (button(action.label)) } }
        };
    }
    let (lines, fields): (Vec<_>, Vec<_>) = action.fields.iter().partition(|field| field.name.starts_with("items."));
    let has_lines = lines.iter().any(|field| !entered.get(field.name).is_empty());
    let encoding = action.has_file().then_some("multipart/form-data");
    html! {
        form.action method="post" action=(address) enctype=[encoding] autocomplete="off" hidden[action.has_passkey()] {
            input type="hidden" name="nonce" value=(random_hex(NONCE));
            @for field in fields { (control(address, field, entered)) }
            @if let Some(most) = (action.most)(object) { p.hint { (filled("At most {amount}", &[("amount", &texts::money(most))])) } }
            @if !lines.is_empty() {
                details open[has_lines] {
                    summary { (text("Lines")) }
                    @for field in lines { (control(address, field, entered)) }
                }
            }
            button { (button(action.label)) }
        }
    }
}

/// A form that was sent, once more with its nonce: it gets the result of the first one.
pub(crate) fn repeated_form(address: &str, entered: &Entered) -> Markup {
    html! {
        form.action method="post" action=(address) {
            @for (name, value) in &entered.0 { input type="hidden" name=(name) value=(value); }
            button { (text("Show the result")) }
        }
    }
}

/// The form that confirms an action on this object, with a new nonce.
pub(crate) fn confirmed_form(action: &Action, address: &str, object: &Value) -> Markup {
    let entered = Entered::of(action, object);
    html! {
        form.action method="post" action=(address) autocomplete="off" {
            input type="hidden" name="nonce" value=(random_hex(NONCE));
            @for field in action.fields { (control(address, field, &entered)) }
            button.danger name="confirm" value="yes" { (labelled(text("Confirm"), button(action.label))) }
        }
    }
}

#[cfg(test)]
mod tests {
    use ::texts::Language;

    use super::*;
    use crate::texts::in_language;

    #[tokio::test]
    async fn what_may_separate_thousands_in_a_language_is_refused() {
        for (language, entered, currency, minor) in [
            (Language::De, "1.250", "KWD", None),
            (Language::De, "1,250", "KWD", Some(1_250)),
            (Language::De, "1.25", "KWD", Some(1_250)),
            (Language::De, "12.34", "EUR", Some(1_234)),
            (Language::De, "12,34", "EUR", Some(1_234)),
            (Language::De, "1.250", "EUR", None),
            (Language::De, "1.250,50", "EUR", None),
            (Language::Es, "1.250", "KWD", None),
            (Language::Es, "1,250", "KWD", Some(1_250)),
            (Language::En, "1.250", "KWD", Some(1_250)),
            (Language::En, "1,250", "KWD", None),
            (Language::Fr, "1.250", "KWD", Some(1_250)),
        ] {
            let read = in_language(language, async { minor_units(entered, currency) }).await;
            assert_eq!(read.ok(), minor, "{language}: {entered} {currency}");
        }
        let problem = in_language(Language::De, async { minor_units("1.250", "KWD") }).await;
        assert_eq!(problem, Err("geben Sie einen Betrag wie 1,234 ein".to_owned()));
    }

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
            ("12,34", "USD", Some(1_234)),
            ("12,3", "USD", Some(1_230)),
            ("1,234", "USD", None),
            ("1,234", "BHD", None),
            ("1,2", "JPY", None),
            ("1,234.50", "USD", None),
            ("0", "USD", Some(0)),
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
        let body = |form: &str| Entered::parse(form.as_bytes()).body(refund, Some("EUR"));
        assert_eq!(
            body("amount=1.50&reason=Too+late&x=y"),
            Ok(json!({"amount": 150, "metadata": {"reason": "Too late"}}))
        );
        assert_eq!(body("amount=&reason="), Err("Amount to refund: is missing".to_owned()));
        assert_eq!(body("amount=0"), Err("Amount to refund: enter more than 0".to_owned()));
        assert_eq!(body("amount=999999999999999999"), Err("Amount to refund: the amount is too large".to_owned()));
        assert_eq!(body("amount=x"), Err("Amount to refund: enter an amount such as 12.34".to_owned()));
        let plan = Action::find("plans", "new").expect("an action");
        let entered = Entered::parse(b"name=Gold&amount=8&currency=usd&interval=month");
        let expected = json!({"name": "Gold", "amount": 800, "currency": "USD", "interval": "month"});
        assert_eq!(entered.body(plan, None), Ok(expected));
        assert_eq!(Entered::parse(b"amount=8&currency=EUR").body(plan, None), Err("Name: is missing".to_owned()));
        let problem = Err("Currency: enter a currency such as EUR".to_owned());
        assert_eq!(Entered::parse(b"amount=8&currency=dollars").body(plan, None), problem);
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

    #[test]
    fn a_link_fills_in_objects_only() {
        let subscription = Action::find("subscriptions", "new").expect("an action");
        let (customer, plan) = ("cus_01KAJ4M2V8Q0S5T7W9X1Y3Z5A7", "plan_01KAJ4M2V8Q0S5T7W9X1Y3Z5A7");
        let query = format!("customerId={customer}&planId={plan}&description=Pay+me&confirm=yes&nonce=0");
        let known = Entered::of_link(subscription, Mode::Test, &query);
        assert_eq!(known.0, [("customerId".to_owned(), customer.to_owned()), ("planId".to_owned(), plan.to_owned())]);
        for (page, query) in [
            ("subscriptions", "customerId=Ada"),
            ("webhooks", "url=https://evil.example"),
            ("team", "email=eve@evil.example&role=owner"),
            ("payment-links", "amount=1&currency=USD"),
        ] {
            let action = Action::find(page, "new").expect("an action");
            assert!(Entered::of_link(action, Mode::Test, query).0.is_empty(), "{page}?{query}");
        }
    }

    #[test]
    fn a_nested_field_has_a_path() {
        let recurring = Action::find("recurring-invoices", "new").expect("an action");
        let entered = Entered::parse(
            b"customerId=cus_1&cadence.unit=monthly&template.currency=eur&template.items.0.description=Rent&\
              template.items.0.unitAmount=9.50&template.paymentTerms=net_7",
        );
        let expected = json!({
            "customerId": "cus_1", "cadence": {"unit": "monthly"},
            "template": {"currency": "EUR", "paymentTerms": "net_7",
                "items": [{"description": "Rent", "quantity": 1, "unitAmount": 950}]},
        });
        assert_eq!(entered.body(recurring, None), Ok(expected));
    }

    #[test]
    fn an_invoice_has_the_lines_that_were_entered() {
        let invoice = Action::find("invoices", "new").expect("an action");
        let entered = Entered::parse(
            b"customerId=cus_1&currency=eur&items.0.description=Rent&items.0.unitAmount=9.50&items.2.quantity=3",
        );
        let items = json!([{"description": "Rent", "unitAmount": 950, "quantity": 1}, {"quantity": 3}]);
        assert_eq!(entered.body(invoice, None).map(|body| body["items"].clone()), Ok(items));
        let plain = Entered::parse(b"customerId=cus_1&currency=eur&amount=5").body(invoice, None);
        assert_eq!(plain, Ok(json!({"customerId": "cus_1", "amount": 500, "currency": "EUR"})));
    }

    #[test]
    fn modifiers_are_percentages_or_fixed() {
        for (entered, stored) in [
            ("8.25%", Some(json!({"type": "percent", "value": 825}))),
            ("8 %", Some(json!({"type": "percent", "value": 800}))),
            ("8,25\u{a0}%", Some(json!({"type": "percent", "value": 825}))),
            ("0.5%", Some(json!({"type": "percent", "value": 50}))),
            ("150", Some(json!({"type": "fixed", "value": 150}))),
            ("1.50", None),
            ("8.255%", None),
            ("-1%", None),
            ("%", None),
        ] {
            assert_eq!(modifier(entered).ok(), stored, "{entered}");
        }
        assert_eq!(shown_modifier(&json!({"type": "percent", "value": 825})), "8.25%");
        assert_eq!(shown_modifier(&json!({"type": "fixed", "value": 150})), "150");
    }
}
