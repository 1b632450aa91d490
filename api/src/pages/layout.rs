//! The layout of payment pages, with their style, Content-Security-Policy and headers.

use std::sync::LazyLock;

use axum::http::header::{CONTENT_SECURITY_POLICY, X_FRAME_OPTIONS};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use domain::accounts::Payee;
use foundation::color::Color;
use maud::{Markup, html};

use super::reader::Reader;
use crate::elements::{CardTokenizationConfig, INPUTS_STYLE};
use crate::html::{HTML, Style, document, set_private_headers};

/// A page that waits for an outcome reloads after this many seconds.
pub(super) const REFRESH_SECONDS: &str = "3";
/// For a page with a button to press, so that a reload rarely interrupts the reader.
pub(super) const SLOW_REFRESH_SECONDS: &str = "15";

/// The backgrounds of panels in `page.css`.
const LIGHT_PANEL: Color = Color::WHITE;
const DARK_PANEL: Color = Color::new(0x17, 0x1d, 0x26);

static STYLE: LazyLock<Style> = LazyLock::new(|| Style::new(&[include_str!("page.css"), INPUTS_STYLE]));

/// A page without a card form allows a form that posts to this service; no script.
const NO_CARD: &str = "form-action 'self'";

/// Allows the inline style and these sources; no framing, no other server.
fn policy(style: &Style, sources: &str) -> HeaderValue {
    let policy =
        format!("default-src 'none'; style-src {}; {sources}; base-uri 'none'; frame-ancestors 'none'", style.source());
    HeaderValue::try_from(policy).expect("base64, keywords and a URL's origin are valid in a header")
}

/// A page that belongs to no merchant.
pub(super) fn page(reader: Reader, status: StatusCode, title: &str, body: &Markup) -> Response {
    html_response(reader, status, title, &STYLE, (&Markup::default(), NO_CARD), body)
}

/// A merchant's page in its colour; with a `tokenization_config`, with the scripts of a card form, and the servers that they
/// send the card to.
pub(super) fn page_of(
    payee: &Payee,
    reader: Reader,
    status: StatusCode,
    title: &str,
    body: &Markup,
    tokenization_config: Option<&CardTokenizationConfig>,
) -> Response {
    let style = payee.color.map(style_of);
    let style = style.as_ref().unwrap_or(&STYLE);
    let images = if payee.logo.is_some() { "img-src 'self'; " } else { "" };
    match tokenization_config {
        Some(config) => {
            let card = (config.pay_scripts("../../elements/"), format!("{images}{}", config.sources().of_page()));
            html_response(reader, status, title, style, (&card.0, &card.1), body)
        }
        None => {
            let sources = format!("{images}{NO_CARD}");
            html_response(reader, status, title, style, (&Markup::default(), &sources), body)
        }
    }
}

/// The style with buttons and links in this colour, or the nearest shade of it that can be read on the panels of `page.css`.
fn style_of(color: Color) -> Style {
    let shades = |panel: Color| {
        let accent = color.readable_on(panel);
        let text = accent.text();
        // The pointer is on it: further from the text, so that it can be read better.
        let deep = accent.mixed(if text == Color::WHITE { Color::BLACK } else { Color::WHITE }, 4);
        format!(":root {{ --accent: {accent}; --accent-deep: {deep}; --on-accent: {text}; }}")
    };
    let (light, dark) = (shades(LIGHT_PANEL), shades(DARK_PANEL));
    Style::new(&[&STYLE.text, &light, "@media (prefers-color-scheme: dark) {", &dark, "}"])
}

fn html_response(
    reader: Reader,
    status: StatusCode,
    title: &str,
    style: &Style,
    (scripts, sources): (&Markup, &str),
    body: &Markup,
) -> Response {
    let html = document(reader.language, title, style, scripts, &html! { main { (body) } });
    let mut response = (status, HTML, html).into_response();
    response.headers_mut().insert(CONTENT_SECURITY_POLICY, policy(style, sources));
    response
}

/// The headers of every response.
pub(super) fn set_page_headers(headers: &mut HeaderMap) {
    set_private_headers(headers);
    headers.entry(CONTENT_SECURITY_POLICY).or_insert_with(|| policy(&STYLE, NO_CARD));
    headers.insert(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
}

#[cfg(test)]
mod tests {
    use foundation::color::READABLE;

    use super::*;

    #[test]
    fn the_style_loads_nothing() {
        for loaded in ["@import", "url(", "</", "\\"] {
            assert!(!STYLE.text.contains(loaded), "{loaded}");
        }
        let policy = policy(&STYLE, NO_CARD);
        assert!(policy.to_str().expect("text").starts_with("default-src 'none'; style-src 'sha256-"));
    }

    #[test]
    fn any_color_can_be_read_on_the_panels() {
        assert!(STYLE.text.contains(&format!("--panel: {DARK_PANEL}")) && LIGHT_PANEL == Color::WHITE);
        for color in ["#ffff00", "#000000", "#ffffff", "#0b57c4", "#777777", "#00ff7f"] {
            let style = style_of(color.parse().expect("a colour")).text;
            let shades = |name: &str| {
                let mark = format!("{name}: ");
                let values = style.rsplit(mark.as_str()).take(2);
                values.map(|rest| rest[..7].parse::<Color>().expect("a colour")).collect::<Vec<_>>()
            };
            let (accents, deeps, texts) = (shades("--accent"), shades("--accent-deep"), shades("--on-accent"));
            // The dark ones come last, so first here.
            for (number, panel) in [DARK_PANEL, LIGHT_PANEL].into_iter().enumerate() {
                assert!(accents[number].contrast(panel) >= READABLE, "{color} on {panel}");
                for background in [accents[number], deeps[number]] {
                    assert!(texts[number].contrast(background) >= READABLE, "{color}: text on {background}");
                }
            }
        }
    }
}
