//! The receipt, shown on a page that was paid.

use domain::accounts::Payee;
use domain::modifiers::Parts;
use domain::payments::{Payment, Status};
use engine::{PayPage, Payable};
use maud::{Markup, html};
use texts::{Texts, brand_name, moment, seller};

use super::reader::Reader;
use super::totals::{Row, parts};
use crate::html::merchant_text;

/// Whether the receipt is all that the page shows: it also says what a link was for.
pub(super) fn is_whole_page(page: &PayPage) -> bool {
    page.paid_by.is_some() && matches!(page.payable, Payable::Link(_))
}

/// The receipt; empty unless a payment has paid the page, also if the invoice was voided since.
pub(super) fn receipt(reader: Reader, page: &PayPage, token: &str) -> Markup {
    let Some(payment) = &page.paid_by else { return html! {} };
    let (texts, payee, payable) = (reader.texts(), &page.payee, &page.payable);
    let pdf = reader.document(token, "receipt.pdf");
    html! {
        section id="receipt" {
            @if is_whole_page(page) { (logo(payee, "../../")) h1.title { (texts.receipt()) } } @else { h2 { (texts.receipt()) } }
            dl {
                dt { (texts.paid_to()) } dd { (merchant_text(&payee.name)) }
                @if let Some(number) = payable.number() { dt { (texts.invoice()) } dd { (number) } }
                @if let Some(customer) = &page.billed_to { dt { (texts.billed_to()) } dd { (merchant_text(customer)) } }
                @if let Some(description) = payable.description() { dt { (texts.paid_for()) } dd { (merchant_text(description)) } }
                @if let Some(at) = payable.paid_at() { dt { (texts.date()) } dd { (moment(reader.language, &payee.timezone, at)) } }
                @for (name, value) in card_of_payer(reader, payment).into_iter().flatten() {
                    dt { (name) } dd { (value) }
                }
            }
            dl.sum {
                @for row in rows(texts, payment) {
                    div.total[row.is_total] { dt { (row.name) } dd { (reader.price(row.minor, payment.currency)) } }
                }
            }
            @if is_whole_page(page) { (seller_lines(reader, payee)) }
            (contact(reader, payee))
            p.pdf { a href=(pdf) { "PDF" } }
        }
    }
}

/// Whom to ask, if the merchant says so.
pub(super) fn contact(reader: Reader, payee: &Payee) -> Markup {
    html! {
        @if let Some(contact) = &payee.support_contact {
            p.contact { (reader.texts().questions()) " " (merchant_text(contact)) }
        }
    }
}

/// The merchant's logo, if it has one. `root` is the URL of the service's root, relative to the page.
pub(super) fn logo(payee: &Payee, root: &str) -> Markup {
    html! {
        @if let Some(logo) = &payee.logo {
            img.logo src={ (root) (logo.path()) } width=(logo.width) height=(logo.height) alt=(payee.name);
        }
    }
}

/// The lines below the merchant's name.
pub(super) fn seller_lines(reader: Reader, payee: &Payee) -> Markup {
    let seller = seller(reader.texts(), payee.address.as_deref(), payee.tax_number.as_deref());
    html! {
        @if !seller.is_empty() {
            p.seller { @for line in seller { (merchant_text(&line)) br; } }
        }
    }
}

/// The paid total with its parts. The receipt keeps it: a later void or refund is an extra row.
pub(super) fn rows(texts: &Texts, payment: &Payment) -> Vec<Row> {
    let was_cancelled = payment.status == Status::Cancelled;
    let refunded = if was_cancelled { payment.amount } else { payment.amount_refunded };
    let mut rows = Vec::new();
    if let Some(base) = payment.amount_base {
        let Payment { amount_surcharge: surcharge, amount_tax: tax, amount_tip: tip, .. } = *payment;
        rows.extend(parts(texts, &Parts { base, surcharge, tax, tip, total: payment.amount }));
    }
    rows.push(Row::total(texts.total_paid(), payment.amount));
    rows.extend(Row::part(texts.refunded_since(), Some(refunded).filter(|refunded| *refunded > 0)));
    rows
}

/// The card and the id of the payment, for its payer, whose URL names it: others may have the page's URL, too.
pub(super) fn card_of_payer(reader: Reader, payment: &Payment) -> [Option<(String, String)>; 2] {
    let texts = reader.texts();
    let is_payer = reader.payment == Some(payment.id);
    let card = payment.card_brand.as_deref().zip(payment.card_last4.as_ref()).filter(|_| is_payer);
    [
        card.map(|(brand, last4)| (texts.card(), texts.card_ending(brand_name(brand), last4))),
        is_payer.then(|| (texts.payment(), payment.id.to_string())),
    ]
}
