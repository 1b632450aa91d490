//! The catalogues have every visible text in every language, and nothing else.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use domain::accounts::Mode;
use domain::users::Role;
use serde_json::Value;

use super::catalogue::{Catalogue, FILES, sections};
use super::*;
use crate::actions::{Action, Kind};
use crate::catalog::LISTS;
use crate::fields::{HIDDEN, MERCHANT_FIELDS};

/// What is on a line before a literal that pages do not show.
const NOT_SHOWN: [&str; 10] = [
    "tracing::",
    "internal(",
    ".expect(",
    ".context(",
    "ensure!(",
    "reason = ",
    "ends_with(",
    "strip_suffix(",
    "const BUSY: ",
    "format!(\"portal ",
];
/// In every language.
const NAME: &str = "Unified Payments";
/// The objects of /v1 that have pages or rows.
const OBJECTS: [&str; 14] = [
    "Payment",
    "Refund",
    "Customer",
    "PaymentMethod",
    "Invoice",
    "RecurringInvoice",
    "Subscription",
    "PaymentLink",
    "Plan",
    "Dispute",
    "Event",
    "WebhookEndpoint",
    "WebhookDelivery",
    "CollectionAttempt",
];
/// Values that are not in the document of /v1, by their context.
const VALUES: [(&str, &[&str]); 5] = [
    ("activity", &["team.accept"]),
    ("api_key", &["active", "expired", "expiring", "revoked"]),
    ("change", &["cancelled", "captured", "paused", "refunded", "resumed", "voided"]),
    ("kind", &["publishable", "secret"]),
    ("operation", &["authorize", "capture", "refund", "reverse", "reverse_by_refund", "store_card", "void"]),
];
/// What is shown once.
const SECRETS: [&str; 5] = ["key", "link", "recoveryCodes", "secret", "signingSecret"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The code in a folder of the repository, without its tests: the path and the text of each file.
fn code(folder: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(root().join(folder)).expect("a folder") {
        let entry = entry.expect("an entry");
        let path = format!("{folder}/{}", entry.file_name().to_string_lossy());
        if entry.path().is_dir() {
            found.extend(code(&path));
        } else if path.ends_with(".rs") && !path.ends_with("/tests.rs") {
            let text = fs::read_to_string(entry.path()).expect("a file");
            let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
            found.push((path, code.to_owned()));
        }
    }
    found
}

/// A text in the code, and what is around it.
struct Literal<'a> {
    before: &'a str,
    text: String,
    after: &'a str,
}

impl Literal<'_> {
    /// Whether it is translated where it is.
    fn is_translated(&self) -> bool {
        ["text(", "button(", "filled(", "marked("].iter().any(|call| {
            let before = self.before.strip_suffix(*call);
            before.is_some_and(|before| !before.ends_with(char::is_alphanumeric))
        })
    }

    /// Whether it looks like what people read: a word with a capital letter, or several words.
    fn is_readable(&self) -> bool {
        let line = format!("{}\"{}", self.before.rsplit('\n').next().unwrap_or_default(), self.text);
        let is_word = |word: &&str| word.len() > 1 && word.bytes().all(|byte| byte.is_ascii_alphabetic());
        let mut letters = self.text.bytes();
        let is_capital = letters.next().is_some_and(|letter| letter.is_ascii_uppercase())
            && letters.next().is_some_and(|letter| letter.is_ascii_lowercase());
        let has_words = || self.text.split(' ').filter(is_word).count() > 1;
        (is_capital || has_words()) && self.text != NAME && !NOT_SHOWN.iter().any(|mark| line.contains(*mark))
    }

    /// Whether it is a part of markup.
    fn is_content(&self) -> bool {
        let (before, after) = (self.before.trim_end(), self.after.trim_start());
        let is_arm = after.starts_with("if ") || after.starts_with("=>");
        before.ends_with(['{', '}', ')', '"', ';'])
            && !is_arm
            && !after.starts_with([',', '.', '|', ')', ':', ';', '?'])
    }
}

/// The texts in code that has no raw ones, without its comments.
fn literals(code: &str) -> Vec<Literal<'_>> {
    let (mut found, mut at) = (Vec::new(), 0);
    while let Some(next) = code[at..].find(['"', '/', '\'']).map(|next| at + next) {
        let rest = &code[next..];
        if rest.starts_with("//") {
            at = next + rest.find('\n').unwrap_or(rest.len());
        } else if let Some(text) = rest.strip_prefix('"') {
            let mut is_escaped = false;
            let length = text.find(|letter: char| {
                let ends = letter == '"' && !is_escaped;
                is_escaped = letter == '\\' && !is_escaped;
                ends
            });
            let length = length.expect("an end");
            at = next + length + 2;
            let text = joined(&text[..length]).replace("\\\"", "\"");
            found.push(Literal { before: &code[..next], text, after: &code[at..] });
        } else {
            at = next + if rest.starts_with("'\"'") { 3 } else { 1 };
        }
    }
    found
}

/// A line that ends with a backslash continues after the white space of the next one.
fn joined(code: &str) -> String {
    let lines = code.split("\\\n").enumerate();
    lines.map(|(number, line)| if number == 0 { line } else { line.trim_start() }).collect()
}

/// All sections of a language.
fn whole(files: [&str; 4]) -> Catalogue {
    files.into_iter().flat_map(sections).collect()
}

fn placeholders(text: &str) -> BTreeSet<&str> {
    parts(text).filter_map(|(_, name)| name).collect()
}

/// What is looked up in the catalogues.
struct LookUps {
    catalogue: Catalogue,
    found: BTreeSet<(String, String)>,
    missing: BTreeSet<String>,
}

impl LookUps {
    fn has(&self, section: &str, english: &str) -> bool {
        self.catalogue.get(section).is_some_and(|texts| texts.contains_key(english))
    }

    /// In the first of the sections that has it.
    fn text(&mut self, sections: &[&str], english: &str) {
        let Some(section) = sections.iter().find(|section| self.has(section, english)) else {
            self.missing.insert(format!("{english} in {}", sections.join(", ")));
            return;
        };
        self.found.insert(((*section).to_owned(), english.to_owned()));
    }

    fn words(&mut self, context: &str, value: &str) {
        self.text(&[context, WORDS, TEXTS], &english_words(value));
    }

    fn label(&mut self, field: &str) {
        self.text(&[FIELDS, TEXTS], &english_label(field));
    }

    /// All texts in the portal's code. The same one may be on a button and elsewhere.
    fn literals(&mut self) {
        for (path, code) in code("portal/src") {
            for literal in literals(&code) {
                let text = literal.text.as_str();
                for section in
                    [TEXTS, ACTIONS].into_iter().filter(|section| self.has(section, text)).collect::<Vec<_>>()
                {
                    self.text(&[section], text);
                }
                let is_part = |texts: &&String| text.ends_with(' ') && texts.starts_with(text);
                let is_known = [TEXTS, ACTIONS, MESSAGES, FIELDS].iter().any(|section| self.has(section, text))
                    || self.has(WORDS, &english_words(text))
                    || self.catalogue[TEXTS].keys().any(|known| is_part(&known));
                if !is_known && (literal.is_translated() || literal.is_readable()) {
                    self.missing.insert(format!("{text} of {path}"));
                }
            }
        }
    }

    /// What tables of the portal have.
    fn tables(&mut self) {
        for action in Action::all() {
            self.text(&[ACTIONS, TEXTS], action.label);
            self.words("activity", &action.record_name());
            for field in action.fields {
                self.text(&[TEXTS], field.label);
                if let Kind::Choice(choices) = field.kind {
                    choices.iter().for_each(|choice| self.words(field.name, choice));
                }
            }
        }
        for list in &LISTS {
            list.statuses.iter().for_each(|status| self.words(list.object(), status));
            list.filters.iter().for_each(|filter| self.label(filter));
        }
        for (context, values) in VALUES {
            values.iter().for_each(|value| self.words(context, value));
        }
        Mode::ALL.iter().for_each(|mode| self.words("mode", mode.name()));
        Role::ALL.iter().for_each(|role| self.words("role", role.name()));
        SECRETS.iter().for_each(|secret| self.label(secret));
    }

    /// The fields of objects of /v1, and their values.
    fn object(&mut self, document: &Value, schema: &Value) {
        let fields = schema["properties"].as_object();
        let object = schema["properties"]["object"]["enum"][0].as_str().unwrap_or_default();
        let is_shown = |name: &&String| !HIDDEN.contains(&name.as_str()) && !MERCHANT_FIELDS.contains(&name.as_str());
        for (name, field) in fields.into_iter().flatten().filter(|(name, _)| is_shown(name)) {
            self.label(name);
            let field = if field["items"].is_object() { &field["items"] } else { field };
            let field = resolved(document, field);
            for value in values(field) {
                self.words(if name == "status" { object } else { name.as_str() }, value);
            }
            self.object(document, field);
        }
    }

    fn v1(&mut self) {
        let document = fs::read_to_string(root().join("docs/openapi.json")).expect("a file");
        let document: Value = serde_json::from_str(&document).expect("JSON");
        let schemas = &document["components"]["schemas"];
        for name in OBJECTS {
            self.object(&document, &schemas[name]);
        }
        MERCHANT_FIELDS.iter().for_each(|name| self.label(name));
        for (context, field) in [
            ("capability", &schemas["Capability"]["properties"]["state"]),
            ("code", &schemas["ErrorDetail"]["properties"]["code"]),
        ] {
            values(field).for_each(|value| self.words(context, value));
        }
    }
}

fn resolved<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    schema["$ref"].as_str().and_then(|name| document.pointer(&name[1..])).unwrap_or(schema)
}

/// The texts that a field of /v1 can be.
fn values(field: &Value) -> impl Iterator<Item = &str> {
    ["enum", "x-extensible-enum"]
        .into_iter()
        .flat_map(move |name| field[name].as_array().into_iter().flatten())
        .filter_map(Value::as_str)
}

#[test]
fn every_visible_text_is_in_the_catalogues_and_nothing_else() {
    let (_, files) = FILES[0];
    let mut used = LookUps { catalogue: whole(files), found: BTreeSet::new(), missing: BTreeSet::new() };
    used.literals();
    used.tables();
    used.v1();
    let LookUps { catalogue, found, missing } = used;
    assert!(missing.is_empty(), "these have no translation: {missing:#?}");
    let others = catalogue.iter().filter(|(section, _)| *section != MESSAGES);
    let all = others.flat_map(|(section, texts)| texts.keys().map(move |text| (section.clone(), text.clone())));
    let unused: Vec<_> = all.filter(|entry| !found.contains(entry)).collect();
    assert!(unused.is_empty() && found.len() > 600, "{} are used, and not these: {unused:#?}", found.len());
}

#[test]
fn every_message_in_the_catalogues_is_one_of_the_code() {
    let folders = [
        "common/domain/src",
        "common/egress/src",
        "common/engine/src",
        "common/foundation/src",
        "common/providers/src",
    ];
    let code: Vec<_> = folders.into_iter().chain(["api/src", "portal/src"]).flat_map(code).collect();
    let code: String = code.iter().map(|(_, text)| joined(text)).collect();
    let whole = whole(FILES[0].1);
    let is_said = |message: &str| {
        parts(message).all(|(part, _)| {
            let part = part.trim_matches([' ', ':', ';', ',']);
            // What a field must be may be said where its type is.
            [Some(part), part.strip_prefix("must be ")].into_iter().flatten().any(|part| code.contains(part))
        })
    };
    let unsaid: Vec<_> = whole[MESSAGES].keys().filter(|message| !is_said(message)).collect();
    assert!(unsaid.is_empty(), "{unsaid:#?}");
}

#[test]
fn catalogues_of_all_languages_have_the_same_texts() {
    let (_, first) = FILES[0];
    let (first, mut wrong) = (whole(first), Vec::new());
    for (language, files) in FILES {
        let own = whole(files);
        assert_eq!(
            files.into_iter().map(|file| sections(file).len()).sum::<usize>(),
            own.len(),
            "sections of {language}"
        );
        let names = |catalogue: &Catalogue| -> BTreeSet<(String, String)> {
            let texts = catalogue
                .iter()
                .flat_map(|(section, texts)| texts.keys().map(move |text| (section.clone(), text.clone())));
            texts.collect()
        };
        let (expected, given) = (names(&first), names(&own));
        wrong.extend(expected.symmetric_difference(&given).map(|entry| format!("{language}: {entry:?}")));
        for (section, texts) in &own {
            for (english, text) in texts {
                let (expected, given) = (placeholders(english), placeholders(text));
                // A message may say less.
                let has_all = expected == given || section == MESSAGES && given.is_subset(&expected);
                if !has_all || text.trim() != text && text.trim() != "," || text.is_empty() {
                    wrong.push(format!("{language}, {section}: {english} is {text}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn no_text_of_a_page_is_only_in_english() {
    let (mut seen, mut wrong) = (0, Vec::new());
    for (path, code) in code("portal/src") {
        for literal in literals(&code) {
            seen += usize::from(literal.is_translated());
            if literal.is_readable() && literal.is_content() {
                wrong.push(format!("{path}: {}", literal.text));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(seen > 150, "only {seen} texts were seen");
}

#[tokio::test]
async fn a_page_has_the_notation_of_its_language() {
    for (language, day, minute, percent) in [
        (Language::En, "2026-01-31", "2026-01-31 22:05 UTC", "8.25%"),
        (Language::De, "31.01.2026", "31.01.2026, 22:05 UTC", "8,25\u{a0}%"),
        (Language::Fr, "31/01/2026", "31/01/2026 22:05 UTC", "8,25\u{a0}%"),
        (Language::Ja, "2026/01/31", "2026/01/31 22:05 UTC", "8.25%"),
    ] {
        let shown =
            async { (super::day("2026-01-31"), super::minute("2026-01-31T22:05:06.789Z"), super::percent(8, "25")) };
        let expected = (day.to_owned(), Some(minute.to_owned()), percent.to_owned());
        assert_eq!(in_language(language, shown).await, expected, "{language}");
    }
}

#[tokio::test]
async fn a_message_is_translated_with_its_values() {
    for (message, german) in [
        ("the code is wrong", "der Code ist falsch"),
        ("at most 20 addresses", "höchstens 20 Adressen"),
        (
            "an invoice that is draft cannot be scheduled",
            "der Einzug einer Rechnung mit dem Status „Entwurf“ kann nicht geplant werden",
        ),
        (
            "a payment that is settled cannot be voided",
            "eine Zahlung mit dem Status „Abgerechnet“ kann nicht storniert werden",
        ),
        ("items[1].unitAmount is required", "Einzelbetrag: Angabe fehlt"),
        ("no such plan: plan_1", "nicht gefunden: Tarif plan_1"),
        ("url must use https", "URL: muss https verwenden"),
        ("what no catalogue has: {x}", "what no catalogue has: {x}"),
    ] {
        let shown = async || super::message(message);
        assert_eq!(in_language(Language::De, shown()).await, german);
        assert_eq!(in_language(Language::En, shown()).await, message);
    }
}
