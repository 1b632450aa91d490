//! The visible texts. Code and tables have the English ones, by which the catalogues of the other languages (`locales/`) have
//! their translations: a text is translated where it is shown.

mod catalogue;
mod notation;
#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::fmt::Display;

use ::texts::Language;
use axum::extract::Request;
use axum::http::header::ACCEPT_LANGUAGE;
use axum::middleware::Next;
use axum::response::Response;
use maud::{Markup, html};

pub(crate) use notation::{day, minute, money, percent, sum, thousands_separator};

/// Sections of a catalogue: texts of pages, what differs on buttons, names of fields, values of /v1, and why something was
/// refused. A value or a field that no other section has may be among the texts.
const TEXTS: &str = "texts";
const ACTIONS: &str = "actions";
const FIELDS: &str = "fields";
const WORDS: &str = "words";
const MESSAGES: &str = "messages";

tokio::task_local! {
    /// The language of the page. It is replaced once the user is known.
    static LANGUAGE: Cell<Language>;
}

/// The language of the page; English where there is none.
pub(crate) fn language() -> Language {
    LANGUAGE.try_with(Cell::get).unwrap_or(Language::En)
}

/// Makes the rest of the page in the language that the user has chosen.
pub(crate) fn set_language(chosen: Language) {
    // Without a page nothing is shown.
    let _ = LANGUAGE.try_with(|language| language.set(chosen));
}

/// Has everything that a future shows in a language.
pub(crate) async fn in_language<T>(language: Language, future: impl Future<Output = T>) -> T {
    LANGUAGE.scope(Cell::new(language), future).await
}

/// Makes pages in the language that the browser prefers.
pub(crate) async fn in_language_of_browser(request: Request, next: Next) -> Response {
    let accepted = request.headers().get(ACCEPT_LANGUAGE).and_then(|value| value.to_str().ok());
    let language = Language::of_request(None, accepted);
    in_language(language, next.run(request)).await
}

/// The first of the sections that has the English text has its translation.
fn translation(sections: &[&str], english: &str) -> Option<&'static str> {
    match language() {
        Language::En => None,
        language @ (Language::De | Language::Es | Language::Fr | Language::Ja) => {
            catalogue::find(language, sections, english)
        }
    }
}

fn translated(sections: &[&str], english: String) -> String {
    translation(sections, &english).map_or(english, str::to_owned)
}

/// A text in the language of the page, by the English one.
pub(crate) fn text(english: &'static str) -> &'static str {
    translation(&[TEXTS], english).unwrap_or(english)
}

/// The text of a button.
pub(crate) fn button(english: &'static str) -> &'static str {
    translation(&[ACTIONS, TEXTS], english).unwrap_or(english)
}

/// Why something was refused, as /v1 or the domain says it in English, with the values that it has. What is not in the
/// catalogues stays as it is.
pub(crate) fn message(english: &str) -> String {
    let language = language();
    let matching = catalogue::texts(language, MESSAGES)
        .filter_map(|(pattern, text)| Some((pattern, text, matched(pattern, english)?)));
    // The one that says more is the one that is meant.
    let Some((_, text, values)) = matching.max_by_key(|(pattern, ..)| pattern.len()) else { return english.to_owned() };
    let values: Vec<_> = values.into_iter().map(|(name, value)| (name, in_message(name, value))).collect();
    let values: Vec<_> = values.iter().map(|(name, value)| (*name, value as &dyn Display)).collect();
    fill(text, &values)
}

/// The names of a pattern's placeholders and the values that a message has there; `None` if it is another message.
fn matched<'a>(pattern: &'a str, message: &'a str) -> Option<Vec<(&'a str, &'a str)>> {
    let (mut rest, mut values, mut name) = (message, Vec::new(), None);
    for (before, next) in parts(pattern) {
        let value = match (name, next) {
            (None, _) => rest.starts_with(before).then_some(0),
            (Some(_), Some(_)) => rest.find(before),
            (Some(_), None) => rest.strip_suffix(before).map(str::len),
        }?;
        values.extend(name.map(|name| (name, &rest[..value])));
        rest = &rest[value + before.len()..];
        name = next;
    }
    rest.is_empty().then_some(values)
}

/// A value within a message. The name of its placeholder says what it is.
fn in_message(name: &str, value: &str) -> String {
    match name {
        "field" => label(value.rsplit('.').next().unwrap_or(value)),
        "time" => minute(value).unwrap_or_else(|| value.to_owned()),
        "change" | "invoice" | "object" | "operation" | "recurring_invoice" | "status" => words_of(name, value),
        _ => value.to_owned(),
    }
}

/// A text with values in its placeholders, such as `{amount}`.
pub(crate) fn filled(english: &'static str, values: &[(&str, &dyn Display)]) -> String {
    fill(text(english), values)
}

fn fill(text: &str, values: &[(&str, &dyn Display)]) -> String {
    let mut filled = String::new();
    for (before, name) in parts(text) {
        filled.push_str(before);
        if let Some((_, value)) = values.iter().find(|(own, _)| Some(*own) == name) {
            filled.push_str(&value.to_string());
        }
    }
    filled
}

/// The same with values that are more than a text.
pub(crate) fn marked(english: &'static str, values: &[(&str, Markup)]) -> Markup {
    html! {
        @for (before, name) in parts(text(english)) {
            (before)
            @if let Some((_, value)) = values.iter().find(|(own, _)| Some(*own) == name) { (value) }
        }
    }
}

/// The parts of a text: what is before each placeholder and its name, and what is after the last one.
fn parts(text: &str) -> impl Iterator<Item = (&str, Option<&str>)> {
    text.split('}').map(|part| part.split_once('{').map_or((part, None), |(before, name)| (before, Some(name))))
}

/// A value after what it is.
pub(crate) fn labelled(name: &str, value: impl Display) -> String {
    filled("{name}: {value}", &[("name", &name), ("value", &value)])
}

/// Items one after the other.
pub(crate) fn listed(items: &[String]) -> String {
    items.join(text(", "))
}

/// The words for a status or another value of /v1, which may be others in this context: the type of an object for its
/// status, or a field.
pub(crate) fn words_of(context: &str, value: &str) -> String {
    translated(&[context, WORDS, TEXTS], english_words(value))
}

/// The words for a value that English pages show as /v1 has it.
pub(crate) fn words_of_code(context: &str, value: &str) -> String {
    if language() == Language::En { value.to_owned() } else { words_of(context, value) }
}

fn english_words(value: &str) -> String {
    match value {
        // Approved by the issuer; the money arrives later.
        "pending_settlement" => "Approved".to_owned(),
        other => sentence(&other.replace(['_', '.'], " ")),
    }
}

/// The name of a field of /v1 in words: `amountCaptured` is "Amount captured".
pub(crate) fn label(field: &str) -> String {
    translated(&[FIELDS, TEXTS], english_label(field))
}

fn english_label(field: &str) -> String {
    match field {
        "id" => "ID".to_owned(),
        "url" => "URL".to_owned(),
        "email" => "E-mail".to_owned(),
        "externalId" => "Own reference".to_owned(),
        "expMonth" => "Expiry month".to_owned(),
        "expYear" => "Expiry year".to_owned(),
        "last4" => "Last four digits".to_owned(),
        "isDefault" => "Default".to_owned(),
        "durationMs" => "Duration (ms)".to_owned(),
        other => {
            let name = other.strip_suffix("Id").or_else(|| other.strip_suffix("At")).unwrap_or(other);
            let mut spaced = String::new();
            for letter in name.chars() {
                if letter.is_uppercase() {
                    spaced.push(' ');
                }
                spaced.extend(letter.to_lowercase());
            }
            sentence(&spaced)
        }
    }
}

fn sentence(lower: &str) -> String {
    let mut letters = lower.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}
