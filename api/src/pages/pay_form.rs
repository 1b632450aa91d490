//! The payment form. It never submits card data: the card inputs have no names, and the script submits a token instead.

use domain::accounts::{Mode, Payee};
use maud::{Markup, html};
use texts::Texts;

use super::reader::Reader;
use super::totals::Totals;
use crate::elements::{CardTokenizationConfig, FormPurpose};
use crate::html::{MERCHANT, with_merchant_text};

/// Renders the form. `renewals_selected` is `None` if the page does not offer to use the card for renewals.
pub(super) fn form(
    reader: Reader,
    payee: &Payee,
    tokenization_config: &CardTokenizationConfig,
    totals: &Totals,
    renewals_selected: Option<bool>,
) -> Markup {
    let texts = reader.texts();
    let safety = match tokenization_config {
        CardTokenizationConfig::Mock => texts.test_cards_only(),
        CardTokenizationConfig::Gateway { .. } | CardTokenizationConfig::Stripe { .. } => {
            texts.card_goes_to_processor()
        }
    };
    let pay = |with_tip| texts.pay_amount(totals.total_if(with_tip).text());
    let fields = html! {
        input type="hidden" name="token";
        (totals.amount_input())
        (tokenization_config.inputs(texts))
        @if let Some(tip) = totals.tip() {
            label.choice {
                input type="checkbox" id="tip" name="tip" value="1" autocomplete="off" checked[totals.tip_selected];
                span { (texts.add_tip(tip.text())) }
            }
        }
        @if let Some(selected) = renewals_selected {
            label.choice {
                input type="checkbox" id="renewals" name="renewals" value="1" autocomplete="off" checked[selected];
                span { (texts.use_for_renewals()) }
            }
        }
        // The script enables it: without it, a click would lose what was entered.
        button type="submit" class=[totals.total().size()] data-with=(pay(true)) data-without=(pay(false)) disabled { (pay(totals.tip_selected)) }
        p.muted.safe { (safety) }
    };
    html! {
        section.pay {
            h2 { (texts.pay_by_card()) }
            noscript {
                div.notice.bad { p { (with_merchant_text(&texts.script_needed(MERCHANT), &payee.name)) } }
            }
            div id="outcome" class="notice bad" role="alert" tabindex="-1" hidden {}
            (tokenization_config.form(FormPurpose::Pay { action: &reader.query(&[]) }, texts, &fields))
            // Stripe documents its own.
            @if payee.mode == Mode::Test && !matches!(tokenization_config, CardTokenizationConfig::Stripe { .. }) {
                (test_cards(texts, matches!(tokenization_config, CardTokenizationConfig::Mock)))
            }
        }
    }
}

/// Test cards and their outcomes, worded unlike the messages about payments so that tests can tell both apart.
fn test_cards(texts: &Texts, is_mock: bool) -> Markup {
    let cards = [
        ("4242 4242 4242 4242", texts.test_card_approved()),
        ("4000 0000 0000 0002", texts.test_card_declined()),
        ("4000 0000 0000 9995", texts.test_card_low_balance()),
        ("4000 0000 0000 9987", texts.test_card_lost()),
        ("4000 0000 0000 9979", texts.test_card_stolen()),
        ("4000 0000 0000 0069", texts.test_card_expired()),
        ("4000 0000 0000 0127", texts.test_card_code()),
        ("4000 0025 0000 3155", texts.test_card_challenge()),
    ];
    // Only the mock provider has this card.
    let partial = is_mock.then(|| ("4000 0000 0000 0010", texts.test_card_partial()));
    html! {
        details {
            summary { (texts.test_cards()) }
            dl { @for (number, outcome) in cards.into_iter().chain(partial) { dt { (number) } dd { (outcome) } } }
            p.muted { (texts.test_card_others()) }
        }
    }
}

/// Shown instead of the form if the account cannot take cards or, if it can, if the total cannot be charged.
pub(super) fn no_form(reader: Reader, payee: &Payee, accepts_cards: bool) -> Markup {
    let texts = reader.texts();
    let why = if accepts_cards { texts.amount_not_payable(MERCHANT) } else { texts.no_card_yet(MERCHANT) };
    html! {
        section {
            h2 { (texts.how_to_pay()) }
            p { (with_merchant_text(&why, &payee.name)) }
        }
    }
}
