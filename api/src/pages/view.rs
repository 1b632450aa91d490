//! What stands on a page: pure, from what was read at one moment.

use std::fmt::Write as _;

use common::accounts::{Mode, Payee};
use common::flows::{PageState, PayPage, Payable};
use common::invoices::Invoice;
use common::payment_links::PaymentLink;
use common::payments::{Payment, Status};

use super::html::{Quoted, Text};
use super::pay_form;
use super::price::Price;
use super::receipt::receipt;
use super::sum::Sums;
use super::words;
use crate::elements::Taker;

const STATUS: &str = "role=\"status\"";
const ALERT: &str = "role=\"alert\"";
/// Where keys and screen readers begin.
const FIRST: &str = "role=\"alert\" tabindex=\"-1\" autofocus";
/// Lines of an invoice that are shown at once.
const MOST_LINES: usize = 8;

/// What is shown beside the page itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Telling<'a> {
    /// About what was just sent.
    pub(super) remark: Option<&'a str>,
    /// Whether the payer gives the tip.
    pub(super) tips: bool,
}

/// The title and what is on the page. With a taker there is a form.
pub(super) fn render(page: &PayPage, taker: Option<&Taker>, telling: Telling<'_>) -> (String, String) {
    let PayPage { payee, payable, state, .. } = page;
    let sums = Sums::of(page, telling.tips);
    let form = taker.zip(sums.as_ref()).filter(|_| *state == PageState::Open);
    let owed = Price(payable.money());
    let shown = form.map_or(owed, |(_, sums)| sums.total());
    let mut html = String::new();
    if payee.mode == Mode::Test {
        html.push_str("<p class=\"test\">Test mode: no money moves.</p>\n");
    }
    notices(&mut html, page, telling.remark);
    html.push_str(&receipt(page));
    let (name, currency) = (Quoted(&payee.name), payable.money().currency);
    let sum = form.map_or_else(|| format!(">{owed}"), |(_, sums)| sums.telling(""));
    let _ = writeln!(
        html,
        "<section class=\"about\">\n<p class=\"payee\">{name}</p>\n<h1><span{sum}</span> <small>{currency}</small></h1>"
    );
    match payable {
        Payable::Invoice(invoice) => of_invoice(&mut html, invoice, page),
        Payable::Link(link) => of_link(&mut html, link, payee, *state),
    }
    if let Some((_, sums)) = form {
        html.push_str(&sums.list());
    }
    html.push_str("</section>\n");
    match (form, *state) {
        (Some((taker, sums)), _) => pay_form::form(&mut html, payee, taker, sums),
        (None, PageState::Open) if taker.is_some() => pay_form::too_much(&mut html, payee),
        (None, PageState::Open) => pay_form::no_form(&mut html, payee),
        (None, _) => {}
    }
    let title = match state {
        PageState::Open => format!("Pay {shown} to {}", payee.name),
        PageState::UnderWay => format!("{shown} to {} is being paid", payee.name),
        PageState::TooManyDeclined => format!("{shown} to {} cannot be paid right now", payee.name),
        PageState::Paid => format!("{shown} to {} is paid", payee.name),
        PageState::Voided | PageState::Cancelled | PageState::Expired => format!("{shown} to {}", payee.name),
    };
    (title, html)
}

/// Where a payment of its reader's waits for him: the last part of the address.
pub(super) fn action_of(payment: &Payment) -> Option<&str> {
    payment.action_token.as_deref().filter(|_| payment.status == Status::RequiresAction)
}

/// What there is to know first: where the page stands, and what became of the payment that its reader made.
fn notices(html: &mut String, page: &PayPage, remark: Option<&str>) {
    if let Some(remark) = remark {
        notice(html, "bad", FIRST, &[remark]);
    }
    let made = page.payment.as_ref().and_then(|payment| words::of_payment(payment, page.state));
    let action = page.payment.as_ref().and_then(action_of);
    let state = of_state(page);
    match (page.state, action) {
        (PageState::Open, _) => {}
        (PageState::Paid, _) => notice(html, "good", STATUS, &[&state]),
        (PageState::UnderWay, Some(token)) => {
            let link = format!("<a class=\"button\" href=\"../a/{}\">Continue with your bank</a>", Text(token));
            let asks = "Your bank asks you to confirm this payment. Nothing is charged until you have.";
            notice(html, "", STATUS, &[asks, &link]);
        }
        (PageState::TooManyDeclined, _) => notice(html, "bad", ALERT, &[&state]),
        (PageState::UnderWay | PageState::Voided | PageState::Cancelled | PageState::Expired, _) => {
            notice(html, "", STATUS, &[&state]);
        }
    }
    if let Some(made) = made {
        notice(html, "bad", FIRST, &made);
    }
}

/// With these attributes. The lines are ours, or escaped by now.
fn notice(html: &mut String, class: &str, attributes: &str, lines: &[&str]) {
    let lines: String = lines.iter().filter(|line| !line.is_empty()).map(|line| format!("<p>{line}</p>")).collect();
    let _ = writeln!(html, "<div class=\"notice {class}\" {attributes}>{lines}</div>");
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
        PageState::TooManyDeclined => format!(
            "Too many cards were declined here, so this cannot be paid right now. Please try again in an hour, or ask {payee} \
             for another way to pay."
        ),
        PageState::Paid => match paid_at {
            Some(at) => format!("Paid on {}. Thank you.", page.payee.timezone.spell(at)),
            None => "Paid. Thank you.".into(),
        },
        PageState::Voided => format!("This invoice was voided by {payee}. There is nothing to pay."),
        PageState::Cancelled => format!("This payment link was cancelled by {payee}. There is nothing to pay."),
        PageState::Expired => format!("This payment link has expired. Please ask {payee} for a new one."),
    }
}

fn of_invoice(html: &mut String, invoice: &Invoice, page: &PayPage) {
    let payee = &page.payee;
    if let Some(description) = &invoice.description {
        let _ = writeln!(html, "<p>{}</p>", Quoted(description));
    }
    html.push_str("<dl>\n");
    if let Some(number) = invoice.number {
        let _ = writeln!(html, "<dt>Invoice</dt><dd>{number}</dd>");
    }
    if let Some(customer) = &page.billed_to {
        let _ = writeln!(html, "<dt>Billed to</dt><dd>{}</dd>", Quoted(customer));
    }
    if let Some(at) = invoice.issued_at {
        let _ = writeln!(html, "<dt>Issued</dt><dd>{}</dd>", payee.timezone.spell_day(at));
    }
    if let Some(at) = invoice.due_at {
        let overdue = if page.is_overdue() { " <strong class=\"overdue\">Overdue</strong>" } else { "" };
        let _ = writeln!(html, "<dt>Due</dt><dd>{}{overdue}</dd>", payee.timezone.spell_day(at));
    }
    html.push_str("</dl>\n");
    lines(html, invoice);
}

/// What an invoice adds up, if it says so. Many lines are folded away, so that the form is not far below; no script is needed to
/// see them.
fn lines(html: &mut String, invoice: &Invoice) {
    let rows = invoice.items.rows();
    if rows.is_empty() {
        return;
    }
    let money = |minor| Price::of(minor, invoice.currency);
    let is_long = rows.len() > MOST_LINES;
    if is_long {
        let _ = writeln!(html, "<details class=\"lines\">\n<summary>All {} lines</summary>", rows.len());
    }
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
    html.push_str(if is_long { "</tbody>\n</table>\n</details>\n<table>\n" } else { "</tbody>\n" });
    html.push_str("<tfoot>\n");
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
