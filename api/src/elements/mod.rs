//! The card field and the scripts of pages and card fields (docs/elements.md). The browser sends the card to the
//! provider; it never reaches this service.

mod appearance;
mod card_field_page;
mod card_inputs;
mod card_tokenization_config;
mod scripts;
mod stripe_origins;

use axum::Router;

pub(crate) use self::card_inputs::INPUTS_STYLE;
pub(crate) use self::card_tokenization_config::{CardTokenizationConfig, FormPurpose};
pub(crate) use self::stripe_origins::StripeOrigins;
use crate::app::App;

pub(crate) fn router(app: &App) -> Router<App> {
    scripts::router().merge(card_field_page::router(app))
}
