//! QR codes.

use maud::{Markup, PreEscaped, html};
use qrcode::QrCode;
use qrcode::render::svg::Color;

use crate::failure::Failure;
use crate::texts::text;

/// The least width of a QR code, in pixels.
const QR: u32 = 200;

/// A QR code as a picture.
pub(crate) fn qr(content: &str) -> Result<Markup, Failure> {
    let code = QrCode::new(content).map_err(Failure::internal)?;
    let svg = code.render::<Color>().min_dimensions(QR, QR).build();
    // Without the XML declaration before it.
    let svg = svg.split_once("?>").map_or(svg.as_str(), |(_, svg)| svg);
    Ok(html! { div.qr role="img" aria-label=(text("QR code")) { (PreEscaped(svg)) } })
}
