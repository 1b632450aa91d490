//! The receipt, shown to the payer.

use std::fmt::Write as _;

use domain::modifiers::Parts;
use domain::payments::{Payment, Status};
use engine::PageState;
use engine::PayPage;
use engine::Payable;

use super::price::Price;
use super::totals::rows;
use crate::html::{MerchantText, Text};

/// The receipt of the payment that paid this page; empty unless the page's URL names that payment.
pub(super) fn receipt(page: &PayPage) -> String {
    let (paid_by, paid_at) = match &page.payable {
        Payable::Invoice(invoice) => (invoice.payment_id, invoice.paid_at),
        Payable::Link(link) => (link.payment_id, link.paid_at),
    };
    let payment = page.payment.as_ref().filter(|payment| Some(payment.id) == paid_by);
    let Some(payment) = payment.filter(|_| page.state == PageState::Paid) else { return String::new() };
    let mut html = String::from("<section id=\"receipt\">\n<h2>Receipt</h2>\n<dl>\n");
    let _ = writeln!(html, "<dt>Paid to</dt><dd>{}</dd>", MerchantText(&page.payee.name));
    let (number, description) = match &page.payable {
        Payable::Invoice(invoice) => (invoice.number, &invoice.description),
        Payable::Link(link) => (None, &link.description),
    };
    if let Some(number) = number {
        let _ = writeln!(html, "<dt>Invoice</dt><dd>{number}</dd>");
    }
    if let Some(customer) = &page.billed_to {
        let _ = writeln!(html, "<dt>Billed to</dt><dd>{}</dd>", MerchantText(customer));
    }
    if let Some(description) = description {
        let _ = writeln!(html, "<dt>For</dt><dd>{}</dd>", MerchantText(description));
    }
    if let Some(at) = paid_at {
        let _ = writeln!(html, "<dt>Date</dt><dd>{}</dd>", page.payee.timezone.format_datetime(at));
    }
    if let (Some(brand), Some(last4)) = (&payment.card_brand, &payment.card_last4) {
        let _ = writeln!(html, "<dt>Card</dt><dd>{} ending in {}</dd>", Text(brand_name(brand)), Text(last4));
    }
    let _ = writeln!(html, "<dt>Payment</dt><dd class=\"id\">{}</dd>\n</dl>", payment.id);
    totals(&mut html, payment);
    if let Some(contact) = &page.payee.support_contact {
        let _ = writeln!(html, "<p class=\"contact\">Questions about this payment? {}</p>", MerchantText(contact));
    }
    html.push_str("</section>\n");
    html
}

fn totals(html: &mut String, payment: &Payment) {
    html.push_str("<dl class=\"sum\">\n");
    if let Some(base) = payment.amount_base {
        let Payment { amount_surcharge: surcharge, amount_tax: tax, amount_tip: tip, .. } = *payment;
        let parts = Parts { base, surcharge, tax, tip, total: payment.amount };
        html.push_str(&rows(&parts, payment.currency, false));
    }
    let total = Price::of(payment.amount, payment.currency);
    let _ = writeln!(html, "<dt class=\"total\">Total paid</dt><dd class=\"total\">{total}</dd>");
    // The receipt keeps the paid total; a later void or refund is an extra row.
    let was_cancelled = payment.status == Status::Cancelled;
    let refunded = if was_cancelled { payment.amount } else { payment.amount_refunded };
    if refunded > 0 {
        let refunded = Price::of(refunded, payment.currency);
        let _ = writeln!(html, "<dt>Refunded since</dt><dd>{refunded}</dd>");
    }
    html.push_str("</dl>\n");
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
