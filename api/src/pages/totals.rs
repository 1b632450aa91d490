//! The totals of a page, with their parts, with and without the tip.

use domain::modifiers::Parts;
use engine::PayPage;
use foundation::money::Currency;
use maud::{Markup, html};
use texts::Texts;

use super::reader::Reader;
use crate::html::Price;

/// The two totals that a payer can choose from; equal if the account has no tip.
#[derive(Clone, Copy, Debug)]
pub(super) struct Totals {
    reader: Reader,
    currency: Currency,
    with_tip: Parts,
    without_tip: Parts,
    pub(super) tip_selected: bool,
}

impl Totals {
    /// `None` if a total cannot be charged.
    pub(super) fn of(reader: Reader, page: &PayPage, tip_selected: bool) -> Option<Self> {
        let (with_tip, without_tip) = (page.parts(true).ok()?, page.parts(false).ok()?);
        Some(Self { reader, currency: page.payable.money().currency, with_tip, without_tip, tip_selected })
    }

    fn price(&self, minor: i64) -> Price {
        self.reader.price(minor, self.currency)
    }

    /// The optional tip.
    pub(super) fn tip(&self) -> Option<Price> {
        self.with_tip.tip.map(|tip| self.price(tip))
    }

    fn parts(&self, with_tip: bool) -> &Parts {
        if with_tip { &self.with_tip } else { &self.without_tip }
    }

    /// The selected total.
    pub(super) fn total(&self) -> Price {
        self.total_if(self.tip_selected)
    }

    /// The total with or without the tip; the script switches between the two.
    pub(super) fn total_if(&self, with_tip: bool) -> Price {
        self.price(self.parts(with_tip).total)
    }

    /// The hidden input with the selected total in minor units, and both totals for the script.
    pub(super) fn amount_input(&self) -> Markup {
        let (with, without) = (self.with_tip.total, self.without_tip.total);
        html! {
            input type="hidden" name="amount" value=(self.parts(self.tip_selected).total)
                data-sum=(with) data-sum-without=(without);
        }
    }

    /// The parts and the total to pay; empty if the amount has no additions.
    pub(super) fn list(&self) -> Markup {
        if !self.with_tip.has_additions() {
            return html! {};
        }
        let texts = self.reader.texts();
        html! {
            dl.sum {
                @for row in parts_before_tip(texts, &self.with_tip) {
                    div { dt { (row.name) } dd { (self.price(row.minor)) } }
                }
                @if let Some(tip) = self.tip() {
                    div data-tip hidden[!self.tip_selected] { dt { (texts.tip()) } dd { (tip) } }
                }
                div.total {
                    dt { (texts.total_to_pay()) }
                    dd aria-live="polite" { (self.switchable()) }
                }
            }
        }
    }

    /// The selected total, which the script switches.
    pub(super) fn switchable(&self) -> Markup {
        html! {
            span.amount data-with=(self.total_if(true).text()) data-without=(self.total_if(false).text()) {
                (self.total().text())
            }
        }
    }
}

/// A total, or a part of it.
pub(super) struct Row {
    pub(super) name: String,
    /// In minor units.
    pub(super) minor: i64,
    pub(super) is_total: bool,
}

impl Row {
    pub(super) fn total(name: String, minor: i64) -> Self {
        Self { name, minor, is_total: true }
    }

    /// `None` for an amount that there is not.
    pub(super) fn part(name: String, minor: Option<i64>) -> Option<Self> {
        minor.map(|minor| Self { name, minor, is_total: false })
    }
}

/// The parts of a total but the tip.
fn parts_before_tip(texts: &Texts, parts: &Parts) -> impl Iterator<Item = Row> {
    let rows = [
        Row::part(texts.amount(), Some(parts.base)),
        Row::part(texts.surcharge(), parts.surcharge),
        Row::part(texts.tax(), parts.tax),
    ];
    rows.into_iter().flatten()
}

/// The parts of a total.
pub(super) fn parts(texts: &Texts, parts: &Parts) -> impl Iterator<Item = Row> {
    parts_before_tip(texts, parts).chain(Row::part(texts.tip(), parts.tip))
}
