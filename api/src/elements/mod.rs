//! What cardholders' browsers run: the scripts of pages and card fields, and the card field itself (docs/elements.md). A card goes
//! from there to the provider, and never comes to this service.

mod field;
mod files;
mod taker;

use axum::Router;

pub(crate) use self::files::{PAY, Script};
pub(crate) use self::taker::Taker;
use crate::app::App;

/// The inputs of a card, without names: no form can send them. Pages and fields show the same.
pub(crate) fn inputs() -> String {
    use std::fmt::Write as _;

    let mut countries = String::new();
    for country in common::country::Country::all() {
        let _ = write!(countries, "<option value=\"{country}\">{country}</option>");
    }
    include_str!("inputs.html").replace("{countries}", &countries)
}

/// How the inputs look. Colours come from whoever shows them.
pub(crate) const INPUTS_STYLE: &str = include_str!("inputs.css");

/// The routes.
pub(crate) fn router(app: &App) -> Router<App> {
    files::router().merge(field::router(app))
}
