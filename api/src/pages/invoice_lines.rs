//! The line items of an invoice.

use domain::invoices::Invoice;
use maud::{Markup, html};

use super::reader::Reader;
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
    // The total fits, so each row does.
    let sum = |quantity: i64, each: i64| quantity.saturating_mul(each);
    let lines = html! {
        thead { tr { th scope="col" { (texts.description()) } th scope="col" { (texts.amount()) } } }
        tbody {
            @for row in rows {
                @let each = money(row.unit_amount);
                tr {
                    th scope="row" {
                        (merchant_text(&row.description))
                        small { (row.quantity) " × " (each) }
                    }
                    td { (money(sum(row.quantity, row.unit_amount))) }
                }
            }
        }
    };
    let discount = invoice.amount_discount.filter(|discount| *discount > 0);
    let tax = invoice.amount_tax.filter(|tax| *tax > 0);
    let subtotal = rows.iter().map(|row| sum(row.quantity, row.unit_amount)).sum();
    let totals = [
        (texts.subtotal(), discount.or(tax).map(|_| subtotal)),
        (texts.discount(), discount.map(|discount| -discount)),
        (texts.tax(), tax),
        (texts.total(), Some(invoice.amount)),
    ];
    let foot = html! {
        tfoot {
            @for (name, part) in totals {
                @if let Some(part) = part { tr { th scope="row" { (name) } td { (money(part)) } } }
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
