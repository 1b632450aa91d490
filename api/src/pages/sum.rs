//! What is charged on a page, part by part, with a tip and without.

use std::fmt::Write as _;

use common::flows::PayPage;
use common::modifiers::Parts;
use common::money::Currency;

use super::price::Price;

/// Both sums that a payer may choose from; they are the same where no tip is asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sums {
    currency: Currency,
    with_tip: Parts,
    without: Parts,
    /// Whether the payer gives the tip.
    tips: bool,
}

impl Sums {
    /// `None`: what is added makes it more than can be charged.
    pub(super) fn of(page: &PayPage, tips: bool) -> Option<Self> {
        let (with_tip, without) = (page.parts(true).ok()?, page.parts(false).ok()?);
        Some(Self { currency: page.payable.money().currency, with_tip, without, tips })
    }

    /// The tip that may be left out.
    pub(super) fn tip(&self) -> Option<Price> {
        self.with_tip.tip.map(|tip| Price::of(tip, self.currency))
    }

    /// Whether the payer gives it.
    pub(super) fn tips(&self) -> bool {
        self.tips
    }

    fn chosen(&self) -> &Parts {
        if self.tips { &self.with_tip } else { &self.without }
    }

    /// What is charged as the form stands.
    pub(super) fn total(&self) -> Price {
        Price::of(self.chosen().total, self.currency)
    }

    /// The total in minor units, as the form stands, and both of them for the script.
    pub(super) fn amount_input(&self) -> String {
        let (with, without, now) = (self.with_tip.total, self.without.total, self.chosen().total);
        format!(
            "<input type=\"hidden\" name=\"amount\" value=\"{now}\" data-sum=\"{with}\" data-sum-without=\"{without}\">"
        )
    }

    /// Attributes and text of an element that shows the total: the script shows the other one when the payer chooses.
    pub(super) fn telling(&self, before: &str) -> String {
        let of = |parts: &Parts| format!("{before}{}", Price::of(parts.total, self.currency));
        let (with, without) = (of(&self.with_tip), of(&self.without));
        let now = if self.tips { &with } else { &without };
        format!(" data-with=\"{with}\" data-without=\"{without}\">{now}")
    }

    /// The parts before they are paid; nothing where nothing is added.
    pub(super) fn list(&self) -> String {
        let parts = &self.with_tip;
        if !parts.is_composed() {
            return String::new();
        }
        let mut html = String::from("<dl class=\"sum\">\n");
        html.push_str(&rows(parts, self.currency, !self.tips));
        let _ = writeln!(
            html,
            "<dt class=\"total\">Total to pay</dt><dd class=\"total\" aria-live=\"polite\"{}</dd>",
            self.telling("")
        );
        html.push_str("</dl>\n");
        html
    }
}

/// What a total is made of, without the total.
pub(super) fn rows(parts: &Parts, currency: Currency, tip_hidden: bool) -> String {
    let hidden = if tip_hidden { " hidden" } else { "" };
    let of_tip = format!(" data-tip{hidden}");
    let mut html = String::new();
    for (name, attributes, part) in [
        ("Amount", "", Some(parts.base)),
        ("Surcharge", "", parts.surcharge),
        ("Tax", "", parts.tax),
        ("Tip", of_tip.as_str(), parts.tip),
    ] {
        if let Some(part) = part {
            let price = Price::of(part, currency);
            let _ = writeln!(html, "<dt{attributes}>{name}</dt><dd{attributes}>{price}</dd>");
        }
    }
    html
}
