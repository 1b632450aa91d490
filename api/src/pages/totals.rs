//! The totals of a page, with their parts, with and without the tip.

use domain::modifiers::Parts;
use engine::PayPage;
use foundation::money::Currency;
use maud::{Markup, html};

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
    /// `None` if a total exceeds the largest amount.
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
        html! {
            dl.sum {
                (parts(self.reader, &self.with_tip, self.currency, !self.tip_selected))
                div.total {
                    dt { (self.reader.texts().total_to_pay()) }
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

/// The rows of the parts of a total, without the total itself.
pub(super) fn parts(reader: Reader, parts: &Parts, currency: Currency, tip_hidden: bool) -> Markup {
    let texts = reader.texts();
    let added = [(texts.amount(), Some(parts.base)), (texts.surcharge(), parts.surcharge), (texts.tax(), parts.tax)];
    html! {
        @for (name, part) in added {
            @if let Some(part) = part { div { dt { (name) } dd { (reader.price(part, currency)) } } }
        }
        @if let Some(tip) = parts.tip {
            div data-tip hidden[tip_hidden] { dt { (texts.tip()) } dd { (reader.price(tip, currency)) } }
        }
    }
}
