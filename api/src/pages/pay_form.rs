//! The payment form. It never submits card data: the card inputs have no names, and the script submits a token instead.

use std::fmt::Write as _;

use domain::accounts::{Mode, Payee};

use super::totals::Totals;
use crate::elements::CardTokenizationConfig;
use crate::html::MerchantText;

/// Test cards and their outcomes, worded unlike the messages of `messages.rs` so that tests can tell both apart.
const TEST_CARDS: [(&str, &str); 8] = [
    ("4242 4242 4242 4242", "is approved"),
    ("4000 0000 0000 0002", "is declined"),
    ("4000 0000 0000 9995", "is declined (low balance)"),
    ("4000 0000 0000 9987", "is declined permanently"),
    ("4000 0000 0000 9979", "is also declined permanently"),
    ("4000 0000 0000 0069", "has expired"),
    ("4000 0000 0000 0127", "is declined (wrong security code)"),
    ("4000 0025 0000 3155", "asks for confirmation"),
];
/// Only the mock provider has this card.
const PARTIAL: (&str, &str) = ("4000 0000 0000 0010", "is approved for half");

/// Renders the form.
pub(super) fn form(html: &mut String, payee: &Payee, tokenization_config: &CardTokenizationConfig, totals: &Totals) {
    let name = MerchantText(&payee.name);
    let _ = writeln!(
        html,
        "<section class=\"pay\">\n<h2>Pay by card</h2>\n\
         <noscript><div class=\"notice bad\"><p>To pay here, your browser must run JavaScript, which sends your card \
         directly to the card processor. Please turn it on, or ask {name} for another way to pay.</p></div></noscript>\n\
         <div id=\"outcome\" class=\"notice bad\" role=\"alert\" tabindex=\"-1\" hidden></div>\n\
         <form id=\"pay\" class=\"card\" method=\"post\" action=\"?\" novalidate autocomplete=\"on\" {}>\n\
         <input type=\"hidden\" name=\"token\">\n{}\n{}",
        tokenization_config.attributes(),
        totals.amount_input(),
        tokenization_config.inputs(),
    );
    if let Some(tip) = totals.tip() {
        let checked = if totals.tip_selected { " checked" } else { "" };
        let _ = writeln!(
            html,
            "<label class=\"choice\"><input type=\"checkbox\" id=\"tip\" name=\"tip\" value=\"1\" autocomplete=\"off\"{checked}>\
             <span>Add a tip of {tip}</span></label>"
        );
    }
    let notice = match tokenization_config {
        CardTokenizationConfig::Mock => "For test cards only: no card data is sent.",
        CardTokenizationConfig::Gateway { .. } | CardTokenizationConfig::Stripe { .. } => {
            "Your card goes straight to the card processor."
        }
    };
    let _ = writeln!(
        html,
        "<button type=\"submit\"{}</button>\n\
         <p class=\"muted safe\">{notice}</p>\n</form>",
        totals.switchable_text("Pay "),
    );
    // Stripe documents its own.
    if payee.mode == Mode::Test && !matches!(tokenization_config, CardTokenizationConfig::Stripe { .. }) {
        test_cards(html, tokenization_config);
    }
    html.push_str("</section>\n");
}

fn test_cards(html: &mut String, tokenization_config: &CardTokenizationConfig) {
    html.push_str("<details>\n<summary>Test cards</summary>\n<dl>\n");
    let partial = matches!(tokenization_config, CardTokenizationConfig::Mock).then_some(PARTIAL);
    for (number, outcome) in TEST_CARDS.into_iter().chain(partial) {
        let _ = writeln!(html, "<dt>{number}</dt><dd>{outcome}</dd>");
    }
    html.push_str("</dl>\n<p class=\"muted\">Use any future date, any security code and any name.</p>\n</details>\n");
}

/// Shown instead of the form if the account cannot take cards.
pub(super) fn no_form(html: &mut String, payee: &Payee) {
    let name = MerchantText(&payee.name);
    let _ = writeln!(
        html,
        "<section>\n<h2>How to pay</h2>\n<p>This page cannot take a card yet. Please contact {name} to pay.</p>\n</section>"
    );
}

/// Shown instead of the form if the total exceeds the largest amount.
pub(super) fn amount_too_large(html: &mut String, payee: &Payee) {
    let name = MerchantText(&payee.name);
    let _ = writeln!(
        html,
        "<section>\n<h2>How to pay</h2>\n<p>This amount is more than this page can take. Please contact {name} to pay.</p>\n</section>"
    );
}
