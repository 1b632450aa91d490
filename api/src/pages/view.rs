//! Renders a page from one database snapshot. Does no I/O.

use std::fmt::Write as _;

use domain::accounts::{Mode, Payee};
use domain::invoices::Invoice;
use domain::payment_links::PaymentLink;
use domain::payments::{Payment, Status};
use engine::PageState;
use engine::PayPage;
use engine::Payable;

use super::messages;
use super::pay_form;
use super::price::Price;
use super::receipt::receipt;
use super::totals::Totals;
use crate::elements::CardTokenizationConfig;
use crate::html::{MerchantText, Text};

const STATUS: &str = "role=\"status\"";
const ALERT: &str = "role=\"alert\"";
/// An alert that gets the keyboard focus when the page loads.
const FOCUSED_ALERT: &str = "role=\"alert\" tabindex=\"-1\" autofocus";
/// Invoices with more line items show them folded.
const MAX_UNFOLDED_LINES: usize = 8;

/// The state of the form after it was submitted.
#[derive(Clone, Copy, Debug)]
pub(super) struct FormState<'a> {
    /// Why the submission failed.
    pub(super) message: Option<&'a str>,
    pub(super) tip_selected: bool,
}

/// Returns the title and the body of the page. Without a `tokenization_config` there is no form.
pub(super) fn render(
    page: &PayPage,
    tokenization_config: Option<&CardTokenizationConfig>,
    form_state: FormState<'_>,
) -> (String, String) {
    let PayPage { payee, payable, state, .. } = page;
    let totals = Totals::of(page, form_state.tip_selected);
    let form = tokenization_config.zip(totals.as_ref()).filter(|_| *state == PageState::Open);
    let amount = Price(payable.money());
    let total = form.map_or(amount, |(_, totals)| totals.total());
    let mut html = String::new();
    if payee.mode == Mode::Test {
        html.push_str("<p class=\"test\">Test mode: no money moves.</p>\n");
    }
    notices(&mut html, page, form_state.message);
    html.push_str(&receipt(page));
    let (name, currency) = (MerchantText(&payee.name), payable.money().currency);
    let heading = form.map_or_else(|| format!(">{amount}"), |(_, totals)| totals.switchable_text(""));
    let _ = writeln!(
        html,
        "<section class=\"about\">\n<p class=\"payee\">{name}</p>\n<h1><span{heading}</span> <small>{currency}</small></h1>"
    );
    match payable {
        Payable::Invoice(invoice) => of_invoice(&mut html, invoice, page),
        Payable::Link(link) => of_link(&mut html, link, payee, *state),
    }
    if let Some((_, totals)) = form {
        html.push_str(&totals.list());
    }
    html.push_str("</section>\n");
    match (form, *state) {
        (Some((tokenization_config, totals)), _) => pay_form::form(&mut html, payee, tokenization_config, totals),
        (None, PageState::Open) if tokenization_config.is_some() => pay_form::amount_too_large(&mut html, payee),
        (None, PageState::Open) => pay_form::no_form(&mut html, payee),
        (None, _) => {}
    }
    let title = match state {
        PageState::Open => format!("Pay {total} to {}", payee.name),
        PageState::UnderWay => format!("{total} to {} is being paid", payee.name),
        PageState::Returning | PageState::TooManyDeclined => {
            format!("{total} to {} cannot be paid right now", payee.name)
        }
        PageState::Paid => format!("{total} to {} is paid", payee.name),
        PageState::Voided | PageState::Cancelled | PageState::Expired => format!("{total} to {}", payee.name),
    };
    (title, html)
}

/// The token of the payment's challenge URL, if the payment needs a challenge.
pub(super) fn action_of(payment: &Payment) -> Option<&str> {
    payment.action_token.as_deref().filter(|_| payment.status == Status::RequiresAction)
}

/// The notices at the top: the state of the page, and the outcome of the reader's own payment.
fn notices(html: &mut String, page: &PayPage, message: Option<&str>) {
    if let Some(message) = message {
        notice(html, "bad", FOCUSED_ALERT, &[message]);
    }
    let failure = page.payment.as_ref().and_then(|payment| messages::of_payment(payment, page.state));
    let action = page.payment.as_ref().and_then(action_of);
    let state = of_state(page);
    match (page.state, action) {
        (PageState::Open, _) => {}
        (PageState::Paid, _) => notice(html, "good", STATUS, &[&state]),
        (PageState::UnderWay, Some(token)) => {
            let link = format!("<a class=\"button\" href=\"../a/{}\">Continue with your bank</a>", Text(token));
            let request = "Your bank asks you to confirm this payment. Nothing is charged until you confirm it.";
            notice(html, "", STATUS, &[request, &link]);
        }
        (PageState::TooManyDeclined, _) => notice(html, "bad", ALERT, &[&state]),
        (
            PageState::UnderWay | PageState::Returning | PageState::Voided | PageState::Cancelled | PageState::Expired,
            _,
        ) => {
            notice(html, "", STATUS, &[&state]);
        }
    }
    if let Some(failure) = failure {
        notice(html, "bad", FOCUSED_ALERT, &failure);
    }
}

/// The lines must already be HTML-escaped.
fn notice(html: &mut String, class: &str, attributes: &str, lines: &[&str]) {
    let lines: String = lines.iter().filter(|line| !line.is_empty()).map(|line| format!("<p>{line}</p>")).collect();
    let _ = writeln!(html, "<div class=\"notice {class}\" {attributes}>{lines}</div>");
}

fn of_state(page: &PayPage) -> String {
    let payee = MerchantText(&page.payee.name);
    let paid_at = match &page.payable {
        Payable::Invoice(invoice) => invoice.paid_at,
        Payable::Link(link) => link.paid_at,
    };
    match page.state {
        PageState::Open => String::new(),
        PageState::UnderWay => {
            "A payment is being processed. Please do not pay again; this page updates automatically.".into()
        }
        PageState::Returning => {
            "An earlier charge is being returned to its card. You can pay here as soon as it has been returned.".into()
        }
        PageState::TooManyDeclined => format!(
            "Too many cards were declined here, so this cannot be paid right now. Please try again in an hour, or ask \
             {payee} for another way to pay."
        ),
        PageState::Paid => match paid_at {
            Some(at) => format!("Paid on {}. Thank you.", page.payee.timezone.format_datetime(at)),
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
        let _ = writeln!(html, "<p>{}</p>", MerchantText(description));
    }
    html.push_str("<dl>\n");
    if let Some(number) = invoice.number {
        let _ = writeln!(html, "<dt>Invoice</dt><dd>{number}</dd>");
    }
    if let Some(customer) = &page.billed_to {
        let _ = writeln!(html, "<dt>Billed to</dt><dd>{}</dd>", MerchantText(customer));
    }
    if let Some(at) = invoice.issued_at {
        let _ = writeln!(html, "<dt>Issued</dt><dd>{}</dd>", payee.timezone.format_date(at));
    }
    if let Some(at) = invoice.due_at {
        let overdue = if page.is_overdue() { " <strong class=\"overdue\">Overdue</strong>" } else { "" };
        let _ = writeln!(html, "<dt>Due</dt><dd>{}{overdue}</dd>", payee.timezone.format_date(at));
    }
    html.push_str("</dl>\n");
    lines(html, invoice);
}

/// The line items of an invoice, if it has any. Many are folded, without a script, so that the form stays near the top.
fn lines(html: &mut String, invoice: &Invoice) {
    let rows = invoice.items.rows();
    if rows.is_empty() {
        return;
    }
    let money = |minor| Price::of(minor, invoice.currency);
    let is_long = rows.len() > MAX_UNFOLDED_LINES;
    if is_long {
        let _ = writeln!(html, "<details class=\"lines\">\n<summary>All {} lines</summary>", rows.len());
    }
    html.push_str(
        "<table>\n<thead><tr><th scope=\"col\">Description</th><th scope=\"col\">Amount</th></tr></thead>\n<tbody>\n",
    );
    for row in rows {
        // The total fits, so each row does.
        let sum = money(row.quantity.saturating_mul(row.unit_amount));
        let each = money(row.unit_amount);
        let (what, quantity) = (MerchantText(&row.description), row.quantity);
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
        let _ = writeln!(html, "<p>{}</p>", MerchantText(description));
    }
    if state == PageState::Open {
        let until = payee.timezone.format_datetime(link.expires_at);
        let _ = writeln!(html, "<p class=\"muted\">Can be paid until {until}.</p>");
    }
}
