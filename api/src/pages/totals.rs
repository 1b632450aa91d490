//! The totals of a page, with their parts, with and without the tip.

use std::fmt::Write as _;

use domain::modifiers::Parts;
use engine::PayPage;
use foundation::money::Currency;

use super::price::Price;

/// The two totals that a payer can choose from; equal if the account has no tip.
#[derive(Clone, Copy, Debug)]
pub(super) struct Totals {
    currency: Currency,
    with_tip: Parts,
    without_tip: Parts,
    pub(super) tip_selected: bool,
}

impl Totals {
    /// `None` if a total exceeds the largest amount.
    pub(super) fn of(page: &PayPage, tip_selected: bool) -> Option<Self> {
        let (with_tip, without_tip) = (page.parts(true).ok()?, page.parts(false).ok()?);
        Some(Self { currency: page.payable.money().currency, with_tip, without_tip, tip_selected })
    }

    /// The optional tip.
    pub(super) fn tip(&self) -> Option<Price> {
        self.with_tip.tip.map(|tip| Price::of(tip, self.currency))
    }

    fn selected(&self) -> &Parts {
        if self.tip_selected { &self.with_tip } else { &self.without_tip }
    }

    /// The selected total.
    pub(super) fn total(&self) -> Price {
        Price::of(self.selected().total, self.currency)
    }

    /// The hidden input with the selected total in minor units, and both totals for the script.
    pub(super) fn amount_input(&self) -> String {
        let (with, without, now) = (self.with_tip.total, self.without_tip.total, self.selected().total);
        format!(
            "<input type=\"hidden\" name=\"amount\" value=\"{now}\" data-sum=\"{with}\" data-sum-without=\"{without}\">"
        )
    }

    /// Attributes and text of an element that shows the total; the script switches between the two texts.
    pub(super) fn switchable_text(&self, prefix: &str) -> String {
        let text = |parts: &Parts| format!("{prefix}{}", Price::of(parts.total, self.currency));
        let (with, without) = (text(&self.with_tip), text(&self.without_tip));
        let now = if self.tip_selected { &with } else { &without };
        format!(" data-with=\"{with}\" data-without=\"{without}\">{now}")
    }

    /// The parts and the total to pay; empty if the amount has no additions.
    pub(super) fn list(&self) -> String {
        let parts = &self.with_tip;
        if !parts.has_additions() {
            return String::new();
        }
        let mut html = String::from("<dl class=\"sum\">\n");
        html.push_str(&rows(parts, self.currency, !self.tip_selected));
        let _ = writeln!(
            html,
            "<dt class=\"total\">Total to pay</dt><dd class=\"total\" aria-live=\"polite\"{}</dd>",
            self.switchable_text("")
        );
        html.push_str("</dl>\n");
        html
    }
}

/// The rows of the parts of a total, without the total itself.
pub(super) fn rows(parts: &Parts, currency: Currency, tip_hidden: bool) -> String {
    let hidden = if tip_hidden { " hidden" } else { "" };
    let tip_attributes = format!(" data-tip{hidden}");
    let mut html = String::new();
    for (name, attributes, part) in [
        ("Amount", "", Some(parts.base)),
        ("Surcharge", "", parts.surcharge),
        ("Tax", "", parts.tax),
        ("Tip", tip_attributes.as_str(), parts.tip),
    ] {
        if let Some(part) = part {
            let price = Price::of(part, currency);
            let _ = writeln!(html, "<dt{attributes}>{name}</dt><dd{attributes}>{price}</dd>");
        }
    }
    html
}
