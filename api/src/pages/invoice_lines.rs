//! The line items of an invoice.

use domain::invoices::{Invoice, Item};
use maud::{Markup, html};
use texts::Texts;

use super::reader::Reader;
use super::totals::Row;
use crate::html::merchant_text;

/// Invoices with more line items show them folded.
const MAX_UNFOLDED: usize = 8;

/// The lines and their total; empty without lines. Many are folded, without a script, so that the form stays near the
/// top.
pub(super) fn table(reader: Reader, invoice: &Invoice) -> Markup {
    let rows = invoice.items.rows();
    let texts = reader.texts();
    if rows.is_empty() {
        return html! {};
    }
    let money = |minor| reader.price(minor, invoice.currency);
    let lines = html! {
        thead { tr { th scope="col" { (texts.description()) } th scope="col" { (texts.amount()) } } }
        tbody {
            @for row in rows {
                tr {
                    th scope="row" {
                        (merchant_text(&row.description))
                        small { (row.quantity) " × " (money(row.unit_amount)) }
                    }
                    td { (money(sum(row))) }
                }
            }
        }
    };
    let foot = html! {
        tfoot {
            @for row in totals(texts, invoice) {
                tr { th scope="row" { (row.name) } td { (money(row.minor)) } }
            }
        }
    };
    html! {
        @if rows.len() > MAX_UNFOLDED {
            details.lines {
                summary { (texts.all_lines(rows.len())) }
                table { (lines) }
            }
            table { (foot) }
        } @else {
            table { (lines) (foot) }
        }
    }
}

/// The amount of a line. The total fits, so each does.
pub(super) fn sum(row: &Item) -> i64 {
    row.quantity.saturating_mul(row.unit_amount)
}

/// The total of the invoice, and how it comes about.
pub(super) fn totals(texts: &Texts, invoice: &Invoice) -> Vec<Row> {
    let discount = invoice.amount_discount.filter(|discount| *discount > 0);
    let tax = invoice.amount_tax.filter(|tax| *tax > 0);
    let rows = invoice.items.rows();
    let subtotal = discount.or(tax).filter(|_| !rows.is_empty()).map(|_| rows.iter().map(sum).sum());
    let parts = [
        Row::part(texts.subtotal(), subtotal),
        Row::part(texts.discount(), discount.map(|discount| -discount)),
        Row::part(texts.tax(), tax),
        Some(Row::total(texts.total(), invoice.amount)),
    ];
    parts.into_iter().flatten().collect()
}
