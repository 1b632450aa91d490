//! The controls of forms.

use ::texts::Language;
use maud::{Markup, html};

use super::Entered;
use crate::actions::{Field, Kind};
use crate::passkeys::{self, Ceremony};
use crate::texts::{text, words_of};

/// The ids of controls contain the form's address, because a page may have the same form for several objects.
pub(super) fn control(address: &str, field: &Field, entered: &Entered) -> Markup {
    let (id, value) = (format!("{address}/{}", field.name), entered.get(field.name));
    let input = |kind: &str, limit: u16, mode: Option<&str>, completion: Option<&str>| {
        let list = if let Kind::Suggested(list) = field.kind { Some(list) } else { None };
        html! {
            label for=(id) { (text(field.label)) }
            input id=(id) type=(kind) name=(field.name) value=(value) required[field.required] maxlength=(limit)
                inputmode=[mode] autocomplete=[completion] list=[list];
        }
    };
    let control = match field.kind {
        Kind::Amount => input("text", 20, Some("decimal"), None),
        Kind::Currency => input("text", 20, None, None),
        Kind::Whole => input("text", 9, Some("numeric"), None),
        Kind::Suggested(_) => input("text", 254, None, None),
        Kind::Text => input("text", 500, None, None),
        Kind::Short => input("text", 64, None, None),
        Kind::Cleared => input("text", 128, None, None),
        Kind::Reason => input("text", 200, None, None),
        Kind::Modifier => input("text", 20, None, None),
        Kind::Email => input("email", 254, None, None),
        Kind::Url => input("url", 2_048, None, None),
        Kind::Time => input("datetime-local", 30, None, None),
        Kind::Date => input("date", 10, None, None),
        Kind::Code => input("text", 20, Some("numeric"), Some("one-time-code")),
        Kind::Password => {
            let completion = if field.name == "current" { "current-password" } else { "new-password" };
            html! {
                label for=(id) { (text(field.label)) }
                input id=(id) type="password" name=(field.name) required maxlength="128" autocomplete=(completion);
            }
        }
        Kind::Image => html! {
            label for=(id) { (text(field.label)) }
            input id=(id) type="file" name=(field.name) required[field.required] accept="image/png,image/jpeg";
        },
        Kind::Hidden | Kind::Version => return html! { input type="hidden" name=(field.name) value=(value); },
        Kind::Passkey => return passkeys::field(Ceremony::Create),
        Kind::Always(_) => return html! {},
        Kind::Choice(choices) => html! {
            label for=(id) { (text(field.label)) }
            select id=(id) name=(field.name) {
                @for choice in choices { option value=(choice) selected[value == *choice] { (words_of(field.name, choice)) } }
            }
        },
        Kind::Language => languages(&id, field, value),
        Kind::Lines => area(&id, field, value, 4_000),
        // As much as /v1 stores, with what is between names and values.
        Kind::Pairs => area(&id, field, value, 20_000),
        Kind::Many(choices) => many(field, &choices(), &entered.all(field.name)),
    };
    html! { div.field { (control) } }
}

/// The languages by their own names, and that of the browser.
fn languages(id: &str, field: &Field, value: &str) -> Markup {
    html! {
        label for=(id) { (text(field.label)) }
        select id=(id) name=(field.name) {
            option value="" selected[value.is_empty()] { (text("As in the browser")) }
            @for language in Language::iter() {
                option value=(language.code()) lang=(language.code()) selected[value == language.code()] { (language.language_name()) }
            }
        }
    }
}

fn area(id: &str, field: &Field, value: &str, limit: u16) -> Markup {
    html! {
        label for=(id) { (text(field.label)) }
        textarea id=(id) name=(field.name) rows="4" maxlength=(limit) { (value) }
    }
}

fn many(field: &Field, choices: &[&'static str], chosen: &[&str]) -> Markup {
    html! {
        details open[!chosen.is_empty()] {
            summary { (text(field.label)) }
            fieldset {
                legend { (text(field.label)) }
                @for choice in choices {
                    label.choice {
                        input type="checkbox" name=(field.name) value=(choice) checked[chosen.contains(choice)];
                        (text(choice))
                    }
                }
            }
        }
    }
}
