//! The receipt, shown on a page that was paid.

use domain::modifiers::Parts;
use domain::payments::{Payment, Status};
use engine::PageState;
use engine::PayPage;
use engine::Payable;
use maud::{Markup, html};
use texts::moment;

use super::reader::Reader;
use super::totals::parts;
use crate::html::merchant_text;

/// The receipt; empty unless the page was paid by a payment. The card is shown to its payer only, whose URL names the
/// payment: others may have the page's URL, too.
pub(super) fn receipt(reader: Reader, page: &PayPage) -> Markup {
    let (number, description, paid_at) = match &page.payable {
        Payable::Invoice(invoice) => (invoice.number, &invoice.description, invoice.paid_at),
        Payable::Link(link) => (None, &link.description, link.paid_at),
    };
    let Some(payment) = page.paid_by.as_ref().filter(|_| page.state == PageState::Paid) else { return html! {} };
    let (texts, payee) = (reader.texts(), &page.payee);
    let card = payment.card_brand.as_deref().zip(payment.card_last4.as_ref());
    html! {
        section id="receipt" {
            h2 { (texts.receipt()) }
            dl {
                dt { (texts.paid_to()) } dd { (merchant_text(&payee.name)) }
                @if let Some(number) = number { dt { (texts.invoice()) } dd { (number) } }
                @if let Some(customer) = &page.billed_to { dt { (texts.billed_to()) } dd { (merchant_text(customer)) } }
                @if let Some(description) = description { dt { (texts.paid_for()) } dd { (merchant_text(description)) } }
                @if let Some(at) = paid_at { dt { (texts.date()) } dd { (moment(reader.language, &payee.timezone, at)) } }
                @if reader.payment == Some(payment.id) {
                    @if let Some((brand, last4)) = card {
                        dt { (texts.card()) } dd { (texts.card_ending(brand_name(brand), last4)) }
                    }
                    dt { (texts.payment()) } dd.id { (payment.id) }
                }
            }
            (totals(reader, payment))
        }
    }
}

fn totals(reader: Reader, payment: &Payment) -> Markup {
    let (texts, price) = (reader.texts(), |minor| reader.price(minor, payment.currency));
    // The receipt keeps the paid total; a later void or refund is an extra row.
    let was_cancelled = payment.status == Status::Cancelled;
    let refunded = if was_cancelled { payment.amount } else { payment.amount_refunded };
    html! {
        dl.sum {
            @if let Some(base) = payment.amount_base {
                @let Payment { amount_surcharge: surcharge, amount_tax: tax, amount_tip: tip, .. } = *payment;
                (parts(reader, &Parts { base, surcharge, tax, tip, total: payment.amount }, payment.currency, false))
            }
            div.total { dt { (texts.total_paid()) } dd { (price(payment.amount)) } }
            @if refunded > 0 { div { dt { (texts.refunded_since()) } dd { (price(refunded)) } } }
        }
    }
}

fn brand_name(brand: &str) -> &str {
    match brand {
        "visa" => "Visa",
        "mastercard" => "Mastercard",
        "amex" | "american_express" => "American Express",
        "discover" => "Discover",
        "diners" | "diners_club" => "Diners Club",
        "jcb" => "JCB",
        "unionpay" => "UnionPay",
        other => other,
    }
}
