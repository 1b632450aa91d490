//! The form that pays. Of what the browser sends with it nothing is of a card: the inputs have no names, and our script puts in
//! a token instead.

use std::fmt::Write as _;

use common::accounts::{Mode, Payee};

use super::html::Quoted;
use super::sum::Sums;
use crate::elements::{Taker, inputs};

/// Cards of test accounts, and what each does.
const TEST_CARDS: [(&str, &str); 8] = [
    ("4242 4242 4242 4242", "is approved"),
    ("4000 0000 0000 0002", "is declined"),
    ("4000 0000 0000 9995", "has too little money on it"),
    ("4000 0000 0000 9987", "is declined for good"),
    ("4000 0000 0000 9979", "is declined for good too"),
    ("4000 0000 0000 0069", "has expired"),
    ("4000 0000 0000 0127", "has another security code"),
    ("4000 0025 0000 3155", "asks for a confirmation"),
];
/// One that only the mock knows.
const PARTIAL: (&str, &str) = ("4000 0000 0000 0010", "is approved for half");

/// The form, for a card that somebody takes.
pub(super) fn form(html: &mut String, payee: &Payee, taker: &Taker, sums: &Sums) {
    let name = Quoted(&payee.name);
    let _ = writeln!(
        html,
        "<section class=\"pay\">\n<h2>Pay by card</h2>\n\
         <noscript><div class=\"notice bad\"><p>To pay here your browser must run JavaScript: your card then goes to the card \
         processor alone. Please turn it on, or ask {name} for another way to pay.</p></div></noscript>\n\
         <div id=\"outcome\" class=\"notice bad\" role=\"alert\" tabindex=\"-1\" hidden></div>\n\
         <form id=\"pay\" class=\"card\" method=\"post\" action=\"?\" novalidate autocomplete=\"on\" {}>\n\
         <input type=\"hidden\" name=\"token\">\n{}\n{}",
        taker.attributes(),
        sums.amount_input(),
        inputs(),
    );
    if let Some(tip) = sums.tip() {
        let checked = if sums.tips() { " checked" } else { "" };
        let _ = writeln!(
            html,
            "<label class=\"choice\"><input type=\"checkbox\" id=\"tip\" name=\"tip\" value=\"1\" autocomplete=\"off\"{checked}>\
             <span>Add a tip of {tip}</span></label>"
        );
    }
    let where_to = match taker {
        Taker::Mock => "For test cards alone: nothing of a card is sent anywhere.",
        Taker::Gateway { .. } => "Your card goes straight to the card processor.",
    };
    let _ = writeln!(
        html,
        "<button type=\"submit\"{}</button>\n\
         <p class=\"quiet safe\">{where_to}</p>\n</form>",
        sums.telling("Pay "),
    );
    if payee.mode == Mode::Test {
        test_cards(html, taker);
    }
    html.push_str("</section>\n");
}

fn test_cards(html: &mut String, taker: &Taker) {
    html.push_str("<details>\n<summary>Test cards</summary>\n<dl>\n");
    let partial = matches!(taker, Taker::Mock).then_some(PARTIAL);
    for (number, does) in TEST_CARDS.into_iter().chain(partial) {
        let _ = writeln!(html, "<dt>{number}</dt><dd>{does}</dd>");
    }
    html.push_str("</dl>\n<p class=\"quiet\">With any date ahead, any code and any name.</p>\n</details>\n");
}

/// What stands there where no card can be taken.
pub(super) fn no_form(html: &mut String, payee: &Payee) {
    let name = Quoted(&payee.name);
    let _ = writeln!(
        html,
        "<section>\n<h2>How to pay</h2>\n<p>This page cannot take a card yet. Please contact {name} to pay.</p>\n</section>"
    );
}

/// What stands there where the sum is more than any card is charged.
pub(super) fn too_much(html: &mut String, payee: &Payee) {
    let name = Quoted(&payee.name);
    let _ = writeln!(
        html,
        "<section>\n<h2>How to pay</h2>\n<p>This amount is more than this page can take. Please contact {name} to pay.</p>\n</section>"
    );
}
