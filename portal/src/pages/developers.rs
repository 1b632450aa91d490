//! What the account can do, and the cards for tests.

use axum::response::Html;
use domain::accounts::Mode;
use maud::html;
use serde_json::Value;

use super::table;
use crate::app::App;
use crate::failure::Failure;
use crate::fields::status;
use crate::layout::page;
use crate::session::AccountSession;
use crate::texts::text;

/// Numbers and tokens of the mock provider, and what becomes of a payment with them.
const TEST_CARDS: [(&str, &str, &str); 7] = [
    ("4242 4242 4242 4242", "tok_ok", "Approved"),
    ("4000 0000 0000 0010", "tok_partial", "Half of the amount is authorized"),
    ("4000 0000 0000 0002", "tok_declined", "Declined"),
    ("4000 0000 0000 9995", "tok_insufficient", "Declined: insufficient funds"),
    ("4000 0000 0000 0069", "tok_expired", "Declined: expired card"),
    ("4000 0025 0000 3155", "tok_authentication", "Declined: authentication required"),
    ("4000 0000 0000 0259", "tok_disputed", "Approved, and disputed when it settles"),
];

pub(super) async fn show(app: &App, session: &AccountSession) -> Result<Html<String>, Failure> {
    let capabilities = app.get(&session.caller, "/v1/capabilities").await?;
    let capabilities = capabilities["data"].as_array().map_or(&[] as &[Value], Vec::as_slice);
    let cards = html! {
        @for (number, token, outcome) in TEST_CARDS { tr { td { (number) } td { code { (token) } } td { (text(outcome)) } } }
    };
    let operations = html! {
        @for capability in capabilities {
            tr { td { code { (capability["operation"].as_str().unwrap_or_default()) } } td { (status("capability", &capability["state"])) } }
        }
    };
    let content = html! {
        h1 { (text("Developers")) }
        @if session.mode == Mode::Test {
            section { h2 { (text("Test cards")) } (table("Test cards", &["Number", "Token", "Outcome"], &cards)) }
        }
        section {
            h2 { (text("Capabilities")) }
            p { (text("What you can do in this account.")) }
            (table("Capabilities", &["Operation", "State"], &operations))
        }
    };
    Ok(page(session, "developers", text("Developers"), &content))
}
