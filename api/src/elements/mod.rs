//! The card field and the scripts of pages and card fields (docs/elements.md). The browser sends the card to the
//! provider; it never reaches this service.

mod card_field_config;
mod field;
mod scripts;

use axum::Router;

pub(crate) use self::card_field_config::CardFieldConfig;
pub(crate) use self::scripts::{PAY, Script};
use crate::app::App;

/// The card inputs of pages and card fields. They have no names, so the form cannot submit them.
pub(crate) fn inputs() -> String {
    use std::fmt::Write as _;

    let mut countries = String::new();
    for country in foundation::country::Country::all() {
        let _ = write!(countries, "<option value=\"{country}\">{country}</option>");
    }
    include_str!("inputs.html").replace("{countries}", &countries)
}

/// The style of the inputs. The embedding page defines the colors.
pub(crate) const INPUTS_STYLE: &str = include_str!("inputs.css");

pub(crate) fn router(app: &App) -> Router<App> {
    scripts::router().merge(field::router(app))
}
