//! Renders a page from one database snapshot. Does no I/O.

use domain::accounts::Mode;
use domain::invoices::Invoice;
use domain::payment_links::PaymentLink;
use engine::PageState;
use engine::PayPage;
use engine::Payable;
use maud::{Markup, html};
use texts::{date, moment};

use super::invoice_lines;
use super::notices::notices;
use super::pay_form;
use super::reader::Reader;
use super::receipt::{contact, is_whole_page, logo, receipt, seller_lines};
use super::sheets::closed_badge;
use super::totals::Totals;
use crate::elements::CardTokenizationConfig;
use crate::html::merchant_text;

/// The state of the form after it was submitted.
#[derive(Clone, Debug, Default)]
pub(super) struct FormState {
    /// Why the submission failed.
    pub(super) message: Option<String>,
    pub(super) tip_selected: bool,
    pub(super) renewals_selected: bool,
}

/// Returns the title and the body of the page. Without a `tokenization_config` there is no form.
pub(super) fn render(
    reader: Reader,
    page: &PayPage,
    token: &str,
    tokenization_config: Option<&CardTokenizationConfig>,
    form_state: &FormState,
) -> (String, Markup) {
    let PayPage { payee, payable, state, .. } = page;
    let totals = Totals::of(reader, page, form_state.tip_selected);
    let form = tokenization_config.zip(totals.as_ref()).filter(|_| *state == PageState::Open);
    let renewals_selected = page.offers_renewals().then_some(form_state.renewals_selected);
    let body = html! {
        @if payee.mode == Mode::Test { p.test { (reader.texts().test_mode()) } }
        (notices(reader, page, form_state.message.as_deref()))
        (receipt(reader, page, token))
        @if !is_whole_page(page) { (about(reader, page, token, form.map(|(_, totals)| totals))) }
        @match (form, *state) {
            (Some((tokenization_config, totals)), _) => {
                (pay_form::form(reader, payee, tokenization_config, totals, renewals_selected))
            },
            (None, PageState::Open) => (pay_form::no_form(reader, payee, tokenization_config.is_some())),
            (None, _) => {},
        }
        // A receipt has it.
        @if page.paid_by.is_none() { (contact(reader, payee)) }
        (reader.languages())
    };
    let money = payable.money();
    let amount = reader.price(money.minor, money.currency);
    let total = form.map_or(amount, |(_, totals)| totals.total());
    let (texts, total, name) = (reader.texts(), total.text(), &payee.name);
    let title = match state {
        PageState::Open => texts.title_open(total, name),
        PageState::UnderWay => texts.title_under_way(total, name),
        PageState::Returning | PageState::TooManyDeclined => texts.title_not_now(total, name),
        PageState::Paid => texts.title_paid(total, name),
        PageState::Voided | PageState::Cancelled | PageState::Expired => texts.title_closed(total, name),
    };
    (title, body)
}

/// What is paid, and to whom.
fn about(reader: Reader, page: &PayPage, token: &str, totals: Option<&Totals>) -> Markup {
    let PayPage { payee, payable, state, .. } = page;
    let (texts, money) = (reader.texts(), payable.money());
    let badge = closed_badge(texts, *state);
    let amount = reader.price(money.minor, money.currency);
    html! {
        section.about.closed[badge.is_some()] {
            (logo(payee, "../../"))
            p.payee { (merchant_text(&payee.name)) }
            h1 class=[amount.size()] {
                @match totals {
                    Some(totals) => (totals.switchable()),
                    None => (amount),
                }
                // Not twice, where the notation has no symbol for it.
                @if !amount.text().contains(money.currency.code()) { " " small { (money.currency) } }
            }
            @if let Some(badge) = badge { p.badge { (badge) } }
            @match payable {
                Payable::Invoice(invoice) => (of_invoice(reader, invoice, page, token)),
                Payable::Link(link) => (of_link(reader, link, page)),
            }
            @if let Some(totals) = totals { (totals.list()) }
            (seller_lines(reader, payee))
        }
    }
}

fn of_invoice(reader: Reader, invoice: &Invoice, page: &PayPage, token: &str) -> Markup {
    let (texts, language, zone) = (reader.texts(), reader.language, &page.payee.timezone);
    html! {
        @if let Some(description) = &invoice.description { p { (merchant_text(description)) } }
        dl {
            @if let Some(number) = invoice.number { dt { (texts.invoice()) } dd { (number) } }
            @if let Some(customer) = &page.billed_to { dt { (texts.billed_to()) } dd { (merchant_text(customer)) } }
            @if let Some(at) = invoice.issued_at { dt { (texts.issued()) } dd { (date(language, zone, at)) } }
            @if let Some(at) = invoice.due_at {
                dt { (texts.due()) }
                dd {
                    (date(language, zone, at))
                    @if page.is_overdue() { " " strong.overdue { (texts.badge_overdue()) } }
                }
            }
        }
        (invoice_lines::table(reader, invoice))
        p.pdf { a href=(reader.document(token, "invoice.pdf")) { "PDF" } }
    }
}

fn of_link(reader: Reader, link: &PaymentLink, page: &PayPage) -> Markup {
    let until = moment(reader.language, &page.payee.timezone, link.expires_at);
    html! {
        @if let Some(description) = &link.description { p { (merchant_text(description)) } }
        @if page.state == PageState::Open { p.muted { (reader.texts().payable_until(until)) } }
    }
}
