//! Invoices and receipts as PDF. Knows no account and no amount: it lays out texts.

mod canvas;
mod fonts;
mod sheet;
mod structure;

pub use fonts::{Fonts, NoFonts};
pub use sheet::{Line, Picture, Sheet, Total, Unreadable};
