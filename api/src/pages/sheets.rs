//! The content of a page's documents.

use std::iter;

use ::documents::{Line, Sheet, Total};
use domain::accounts::Mode;
use domain::invoices::{Invoice, Item};
use engine::PageState;
use engine::PayPage;
use foundation::color::Color;
use foundation::money::Currency;
use texts::{Texts, date, moment, seller};

use super::invoice_lines;
use super::reader::Reader;
use super::receipt;
use super::totals::Row;

/// The invoice, with what was paid.
pub(super) fn invoice(reader: Reader, page: &PayPage, invoice: &Invoice) -> Sheet {
    let (texts, language, zone) = (reader.texts(), reader.language, &page.payee.timezone);
    let price = |minor| reader.price(minor, invoice.currency).text().to_owned();
    let overdue = || page.is_overdue().then(|| texts.badge_overdue());
    let badge = closed_badge(texts, page.state).or_else(overdue);
    let number = invoice.number.map(|number| number.to_string());
    let mut rows = invoice_lines::totals(texts, invoice);
    if let Some(payment) = &page.paid_by {
        rows.extend(receipt::rows(texts, payment).into_iter().skip_while(|row| !row.is_total));
    }
    let facts = [
        number.clone().map(|number| (texts.invoice(), number)),
        page.billed_to.clone().map(|name| (texts.billed_to(), name)),
        invoice.issued_at.map(|at| (texts.issued(), date(language, zone, at))),
        invoice.due_at.map(|at| (texts.due(), date(language, zone, at))),
    ];
    let line = |row: &Item| Line {
        description: row.description.clone(),
        detail: format!("{} × {}", row.quantity, price(row.unit_amount)),
        amount: price(invoice_lines::sum(row)),
    };
    Sheet {
        title: [Some(texts.invoice()), number, badge].into_iter().flatten().collect::<Vec<_>>().join(" · "),
        facts: facts.into_iter().flatten().collect(),
        description: invoice.description.clone(),
        columns: [texts.description(), texts.amount()],
        lines: invoice.items.rows().iter().map(line).collect(),
        totals: totals(reader, rows, invoice.currency),
        ..common(reader, page)
    }
}

/// The receipt of a page; `None` unless it was paid by a payment.
pub(super) fn receipt(reader: Reader, page: &PayPage) -> Option<Sheet> {
    let payment = page.paid_by.as_ref()?;
    let (texts, payable) = (reader.texts(), &page.payable);
    let facts = [
        payable.number().map(|number| (texts.invoice(), number.to_string())),
        page.billed_to.clone().map(|name| (texts.billed_to(), name)),
        payable.paid_at().map(|at| (texts.date(), moment(reader.language, &page.payee.timezone, at))),
    ];
    Some(Sheet {
        title: texts.receipt(),
        facts: facts.into_iter().chain(receipt::card_of_payer(reader, payment)).flatten().collect(),
        description: payable.description().map(str::to_owned),
        totals: totals(reader, receipt::rows(texts, payment), payment.currency),
        ..common(reader, page)
    })
}

fn common(reader: Reader, page: &PayPage) -> Sheet {
    let (texts, payee) = (reader.texts(), &page.payee);
    let seller = seller(texts, payee.address.as_deref(), payee.tax_number.as_deref());
    Sheet {
        language: reader.language.code(),
        accent: payee.color.map(|color| color.readable_on(Color::WHITE).rgb()),
        notice: (payee.mode == Mode::Test).then(|| texts.test_mode()),
        seller: iter::once(payee.name.clone()).chain(seller).collect(),
        footer: payee.support_contact.iter().map(|contact| format!("{} {contact}", texts.questions())).collect(),
        ..Sheet::default()
    }
}

/// Why nothing can be paid any more, unless it was paid.
pub(super) fn closed_badge(texts: &Texts, state: PageState) -> Option<String> {
    match state {
        PageState::Voided => Some(texts.badge_voided()),
        PageState::Cancelled => Some(texts.badge_cancelled()),
        PageState::Expired => Some(texts.badge_expired()),
        PageState::Open | PageState::UnderWay | PageState::Returning | PageState::TooManyDeclined | PageState::Paid => {
            None
        }
    }
}

fn totals(reader: Reader, rows: Vec<Row>, currency: Currency) -> Vec<Total> {
    let total = |row: Row| Total {
        name: row.name,
        amount: reader.price(row.minor, currency).text().to_owned(),
        is_bold: row.is_total,
    };
    rows.into_iter().map(total).collect()
}
