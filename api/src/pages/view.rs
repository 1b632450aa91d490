//! What stands on a page: pure, from what was read at one moment.

use std::fmt::Write as _;

use common::accounts::{Mode, Payee};
use common::flows::{PageState, PayPage, Payable};
use common::invoices::Invoice;
use common::money::Money;
use common::payment_links::PaymentLink;
use common::payments::{Payment, Status};
use common::providers::ProviderKind;

use super::html::{Quoted, Text};

/// The cards of the mock that a page offers, and what each does.
const TEST_CARDS: [(&str, &str, &str); 3] = [
    ("tok_ok", "Visa ending in 4242", "approves"),
    ("tok_partial", "Visa ending in 0010", "approves half"),
    ("tok_insufficient", "Visa ending in 9995", "declines"),
];

/// The title and what is on the page. A remark is about what was just sent.
pub(super) fn render(page: &PayPage, remark: Option<&str>) -> (String, String) {
    let PayPage { payee, payable, state, .. } = page;
    let money = payable.money();
    let mut html = String::new();
    if payee.mode == Mode::Test {
        html.push_str("<p class=\"test\">Test mode: no money moves.</p>\n");
    }
    notices(&mut html, page, remark);
    let _ = writeln!(html, "<section>\n<p class=\"payee\">{}</p>\n<h1>{money}</h1>", Quoted(&payee.name));
    match payable {
        Payable::Invoice(invoice) => of_invoice(&mut html, invoice, payee),
        Payable::Link(link) => of_link(&mut html, link, payee, *state),
    }
    html.push_str("</section>\n");
    if *state == PageState::Open {
        form(&mut html, payee, money);
    }
    let title = match state {
        PageState::Open => format!("Pay {money} to {}", payee.name),
        PageState::UnderWay => format!("{money} to {} is being paid", payee.name),
        PageState::Paid => format!("{money} to {} is paid", payee.name),
        PageState::Voided | PageState::Cancelled | PageState::Expired => format!("{money} to {}", payee.name),
    };
    (title, html)
}

/// What there is to know first: where the page stands, and what became of the payment that its reader made.
fn notices(html: &mut String, page: &PayPage, remark: Option<&str>) {
    if let Some(remark) = remark {
        notice(html, "bad", "alert", &[remark]);
    }
    let made = page.payment.as_ref().and_then(|payment| of_payment(payment, page.state));
    let state = of_state(page);
    match page.state {
        PageState::Paid => notice(html, "good", "status", &[&state]),
        PageState::Open => {}
        PageState::UnderWay | PageState::Voided | PageState::Cancelled | PageState::Expired => {
            notice(html, "", "status", &[&state]);
        }
    }
    if let Some(made) = made {
        notice(html, "bad", "alert", &made);
    }
}

/// The lines are ours, or escaped by now.
fn notice(html: &mut String, class: &str, role: &str, lines: &[&str]) {
    let lines: String = lines.iter().filter(|line| !line.is_empty()).map(|line| format!("<p>{line}</p>")).collect();
    let _ = writeln!(html, "<div class=\"notice {class}\" role=\"{role}\">{lines}</div>");
}

fn of_state(page: &PayPage) -> String {
    let payee = Quoted(&page.payee.name);
    let paid_at = match &page.payable {
        Payable::Invoice(invoice) => invoice.paid_at,
        Payable::Link(link) => link.paid_at,
    };
    match page.state {
        PageState::Open => String::new(),
        PageState::UnderWay => {
            "A payment is being processed. Please do not pay again; this page looks by itself what has come of it."
                .into()
        }
        PageState::Paid => match paid_at {
            Some(at) => format!("Paid on {}. Thank you.", page.payee.timezone.spell(at)),
            None => "Paid. Thank you.".into(),
        },
        PageState::Voided => format!("This invoice was voided by {payee}. There is nothing to pay."),
        PageState::Cancelled => format!("This payment link was cancelled by {payee}. There is nothing to pay."),
        PageState::Expired => format!("This payment link has expired. Please ask {payee} for a new one."),
    }
}

/// What became of a payment that has paid nothing.
fn of_payment(payment: &Payment, state: PageState) -> Option<[&'static str; 2]> {
    let again = if state == PageState::Open { "You may try again, with another card perhaps." } else { "" };
    let partial = payment.amount < payment.amount_requested;
    match payment.status {
        Status::Declined => Some([of_decline(payment.decline_code.as_deref()), again]),
        Status::Failed => Some(["The payment could not be made. Nothing was charged.", again]),
        Status::Cancelled | Status::Refunded if partial => {
            Some(["The card's bank approved only a part of the amount. That part was given back.", again])
        }
        Status::PartiallyAuthorized | Status::Settled | Status::PartiallyRefunded if partial => {
            Some(["The card's bank approved only a part of the amount. That part is being given back.", again])
        }
        Status::Processing
        | Status::RequiresAction
        | Status::Authorized
        | Status::PartiallyAuthorized
        | Status::PendingSettlement
        | Status::Settled
        | Status::PartiallyRefunded
        | Status::Refunded
        | Status::Cancelled
        | Status::Expired => None,
    }
}

fn of_decline(code: Option<&str>) -> &'static str {
    match code {
        Some("insufficient_funds") => "The card was declined: there is not enough money on it. Nothing was charged.",
        Some("expired_card") => "The card was declined: it has expired. Nothing was charged.",
        Some("authentication_required") => "The card was declined: its bank wants a confirmation. Nothing was charged.",
        _ => "The card was declined by its bank. Nothing was charged.",
    }
}

fn of_invoice(html: &mut String, invoice: &Invoice, payee: &Payee) {
    if let Some(description) = &invoice.description {
        let _ = writeln!(html, "<p>{}</p>", Quoted(description));
    }
    html.push_str("<dl>\n");
    if let Some(number) = invoice.number {
        let _ = writeln!(html, "<dt>Invoice</dt><dd>{number}</dd>");
    }
    if let Some(at) = invoice.issued_at {
        let _ = writeln!(html, "<dt>Issued</dt><dd>{}</dd>", payee.timezone.spell_day(at));
    }
    if let Some(at) = invoice.due_at {
        let _ = writeln!(html, "<dt>Due</dt><dd>{}</dd>", payee.timezone.spell_day(at));
    }
    html.push_str("</dl>\n");
    lines(html, invoice);
}

/// What an invoice adds up, if it says so.
fn lines(html: &mut String, invoice: &Invoice) {
    let rows = invoice.items.rows();
    if rows.is_empty() {
        return;
    }
    let money = |minor| Money { minor, currency: invoice.currency };
    html.push_str(
        "<table>\n<thead><tr><th scope=\"col\">Description</th><th scope=\"col\">Amount</th></tr></thead>\n<tbody>\n",
    );
    for row in rows {
        // A total is an amount, so no row of it is beyond what fits.
        let sum = money(row.quantity.saturating_mul(row.unit_amount));
        let each = money(row.unit_amount);
        let (what, quantity) = (Quoted(&row.description), row.quantity);
        let _ =
            writeln!(html, "<tr><th scope=\"row\">{what}<small>{quantity} × {each}</small></th><td>{sum}</td></tr>");
    }
    html.push_str("</tbody>\n<tfoot>\n");
    let parts = [
        ("Tax", invoice.amount_tax.filter(|tax| *tax > 0)),
        ("Discount", invoice.amount_discount.filter(|discount| *discount > 0).map(|discount| -discount)),
        ("Total", Some(invoice.amount)),
    ];
    for (name, part) in parts {
        if let Some(part) = part {
            let _ = writeln!(html, "<tr><th scope=\"row\">{name}</th><td>{}</td></tr>", money(part));
        }
    }
    html.push_str("</tfoot>\n</table>\n");
}

fn of_link(html: &mut String, link: &PaymentLink, payee: &Payee, state: PageState) {
    if let Some(description) = &link.description {
        let _ = writeln!(html, "<p>{}</p>", Quoted(description));
    }
    if state == PageState::Open {
        let until = payee.timezone.spell(link.expires_at);
        let _ = writeln!(html, "<p class=\"quiet\">It can be paid until {until}.</p>");
    }
}

/// The form, if this page can take a card of the payee's provider.
fn form(html: &mut String, payee: &Payee, money: Money) {
    if !takes_test_cards(payee) {
        let _ = writeln!(
            html,
            "<section>\n<h2>How to pay</h2>\n<p>This page cannot take a card yet. Please contact {} to pay.</p>\n</section>",
            Quoted(&payee.name)
        );
        return;
    }
    html.push_str("<section>\n<form method=\"post\" action=\"?\">\n<fieldset>\n<legend>Test card</legend>\n");
    for (i, (token, card, does)) in TEST_CARDS.into_iter().enumerate() {
        let checked = if i == 0 { " checked" } else { "" };
        let _ = writeln!(
            html,
            "<label><input type=\"radio\" name=\"token\" value=\"{}\" required{checked}>{card} <small>{does}</small></label>",
            Text(token)
        );
    }
    let _ = writeln!(html, "</fieldset>\n<button type=\"submit\">Pay {money}</button>\n</form>\n</section>");
}

fn takes_test_cards(payee: &Payee) -> bool {
    match payee.provider {
        ProviderKind::Mock => payee.mode == Mode::Test && payee.takes_payments,
        ProviderKind::CardGateway => false,
    }
}
