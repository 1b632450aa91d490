//! The notices at the top of a page: its state, and the outcome of the reader's own payment.

use domain::payments::{Payment, Status};
use engine::PageState;
use engine::PayPage;
use engine::Payable;
use maud::{Markup, html};
use texts::moment;

use super::messages;
use super::reader::Reader;
use crate::html::{MERCHANT, with_merchant_text};

pub(super) fn notices(reader: Reader, page: &PayPage, message: Option<&str>) -> Markup {
    let texts = reader.texts();
    let own = page.payment.as_ref();
    let failure = own.and_then(|payment| messages::on_page(texts, page, payment));
    let action = own.and_then(action_of);
    html! {
        @if let Some(message) = message { (failed(&[message.to_owned()])) }
        @match (page.state, action) {
            (PageState::Open, _) => {
                @if is_late(reader, page) { div.notice role="status" { p { (texts.not_charged()) } } }
            },
            (PageState::UnderWay, Some(token)) => {
                div.notice role="status" {
                    p { (texts.confirm_with_bank()) }
                    p { a.button href={ "../a/" (token) } { (texts.continue_with_bank()) } }
                }
            },
            (state, _) => (of_state(reader, page, state)),
        }
        @if let Some(failure) = failure { (failed(&failure)) }
    }
}

/// The token of the payment's challenge URL, if the payment needs a challenge.
pub(super) fn action_of(payment: &Payment) -> Option<&str> {
    payment.action_token.as_deref().filter(|_| payment.status == Status::RequiresAction)
}

/// An alert that gets the keyboard focus when the page loads.
fn failed(lines: &[String]) -> Markup {
    html! {
        div.notice.bad role="alert" tabindex="-1" autofocus {
            @for line in lines { p { (line) } }
        }
    }
}

/// Whether the reader's submission was refused. The URL of a payer who paid may say so, too, after a change by hand.
fn is_late(reader: Reader, page: &PayPage) -> bool {
    reader.is_late && page.payment.is_none()
}

fn of_state(reader: Reader, page: &PayPage, state: PageState) -> Markup {
    let texts = reader.texts();
    let paid_at = match &page.payable {
        Payable::Invoice(invoice) => invoice.paid_at,
        Payable::Link(link) => link.paid_at,
    };
    let paid_at = paid_at.map(|at| moment(reader.language, &page.payee.timezone, at));
    let (class, role, sentence) = match state {
        PageState::Open => return html! {},
        PageState::UnderWay => ("notice", "status", texts.under_way()),
        PageState::Returning => ("notice", "status", texts.returning()),
        PageState::TooManyDeclined => ("notice bad", "alert", texts.too_many_declined(MERCHANT)),
        PageState::Paid if is_late(reader, page) => ("notice", "status", texts.already_paid()),
        PageState::Paid => {
            ("notice good", "status", paid_at.clone().map_or_else(|| texts.paid(), |at| texts.paid_at(at)))
        }
        PageState::Voided => ("notice", "status", texts.voided(MERCHANT)),
        PageState::Cancelled => ("notice", "status", texts.cancelled(MERCHANT)),
        PageState::Expired => ("notice", "status", texts.expired(MERCHANT)),
    };
    let late = match state {
        PageState::Paid => paid_at.map(|at| texts.paid_on(at)),
        PageState::Open
        | PageState::UnderWay
        | PageState::Returning
        | PageState::TooManyDeclined
        | PageState::Voided
        | PageState::Cancelled
        | PageState::Expired => Some(texts.not_charged()),
    };
    html! {
        div class=(class) role=(role) {
            p { (with_merchant_text(&sentence, &page.payee.name)) }
            @if let Some(late) = late.filter(|_| is_late(reader, page)) { p { (late) } }
        }
    }
}
