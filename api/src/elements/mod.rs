//! The card field and the scripts of pages and card fields (docs/elements.md). The browser sends the card to the
//! provider; it never reaches this service.

mod card_field_config;
mod field;
mod inputs;
mod scripts;

use axum::Router;

pub(crate) use self::card_field_config::CardFieldConfig;
pub(crate) use self::inputs::{INPUTS_STYLE, inputs};
pub(crate) use self::scripts::PAY;
use crate::app::App;

pub(crate) fn router(app: &App) -> Router<App> {
    scripts::router().merge(field::router(app))
}
