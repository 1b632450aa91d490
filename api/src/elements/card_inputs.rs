//! The card inputs of pages and card fields.

use foundation::country::Country;
use maud::{Markup, html};
use serde_json::{Value, json};
use texts::Texts;

/// The style of the inputs. The embedding page defines the colors.
pub(crate) const INPUTS_STYLE: &str = include_str!("inputs.css");

/// The inputs. They have no names, so the form cannot submit them.
pub(super) fn inputs(texts: &Texts) -> Markup {
    let error = |id: &str| html! { p id={ (id) "-error" } .error aria-live="polite" {} };
    html! {
        div.field {
            label for="card-number" { (texts.card_number()) }
            div.box {
                input id="card-number" type="text" inputmode="numeric" autocomplete="cc-number"
                    placeholder="1234 1234 1234 1234" maxlength="24" spellcheck="false"
                    aria-describedby="card-number-error" required;
                span id="card-brand" aria-hidden="true" {}
            }
            (error("card-number"))
        }
        div.field.half {
            label for="card-expiry" { (texts.expiry_date()) }
            input id="card-expiry" type="text" inputmode="numeric" autocomplete="cc-exp"
                placeholder=(texts.expiry_placeholder()) maxlength="9" spellcheck="false"
                aria-describedby="card-expiry-error" required;
            (error("card-expiry"))
        }
        div.field.half {
            label for="card-cvc" { (texts.security_code()) }
            input id="card-cvc" type="text" inputmode="numeric" autocomplete="cc-csc"
                placeholder=(texts.security_code_placeholder()) maxlength="4" spellcheck="false"
                aria-describedby="card-cvc-hint card-cvc-error" required;
            span id="card-cvc-hint" .visually-hidden { (texts.security_code_hint()) }
            (error("card-cvc"))
        }
        div.field {
            label for="card-name" { (texts.name_on_card()) }
            input id="card-name" type="text" autocomplete="cc-name" autocapitalize="words" maxlength="100"
                spellcheck="false" aria-describedby="card-name-error" required;
            (error("card-name"))
        }
        div.field.wide {
            label for="card-country" { (texts.country()) }
            select id="card-country" autocomplete="country" aria-describedby="card-country-error" {
                @for country in Country::all() { option value=(country) { (country) } }
            }
            (error("card-country"))
        }
        div.field.narrow {
            label for="card-postal-code" { (texts.postal_code()) }
            input id="card-postal-code" type="text" autocomplete="postal-code" autocapitalize="characters"
                maxlength="16" spellcheck="false" aria-describedby="card-postal-code-error" required;
            (error("card-postal-code"))
        }
        p id="card-error" .error role="alert" {}
    }
}

/// The place of Stripe's own card field.
pub(super) fn stripe_inputs(texts: &Texts) -> Markup {
    html! {
        div.field {
            span.label { (texts.card()) }
            div id="card-element" .framed {}
        }
        p id="card-error" .error role="alert" {}
    }
}

/// The texts that the scripts of forms show, in JSON.
pub(super) fn script_texts(texts: &Texts) -> String {
    let texts = json!({
        "enterNumber": texts.enter_number(),
        "numberInvalid": texts.number_invalid(),
        "enterExpiry": texts.enter_expiry(),
        "expiryMalformed": texts.expiry_malformed(),
        "expiryInvalid": texts.expiry_invalid(),
        "cardExpired": texts.card_expired(),
        "enterCode": texts.enter_code(),
        "enterCodeAmex": texts.enter_code_amex(),
        "enterName": texts.enter_name(),
        "enterPostalCode": texts.enter_postal_code(),
        "countryInvalid": texts.country_invalid(),
        "cardInvalid": texts.card_invalid(),
        "cardUnreadable": texts.card_unreadable(),
        "processorUnreachable": texts.processor_unreachable(),
        "paying": texts.paying(),
        "noResponse": texts.no_response(),
    });
    texts.to_string()
}

/// The texts that the script of merchants' pages shows.
pub(super) fn page_texts(texts: &Texts) -> Value {
    json!({
        "cardDetails": texts.card_details(),
        "unreachable": texts.service_unreachable(),
        "busy": texts.service_busy(),
        "tookTooLong": texts.took_too_long(),
        "notAvailable": texts.not_available_here(),
        "processorSilent": texts.processor_silent(),
        "closed": texts.field_closed(),
    })
}
