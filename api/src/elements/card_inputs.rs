//! The card inputs of pages and card fields.

use std::fmt::Write as _;

use foundation::country::Country;

/// The style of the inputs. The embedding page defines the colors.
pub(crate) const INPUTS_STYLE: &str = include_str!("inputs.css");

/// The inputs. They have no names, so the form cannot submit them.
pub(super) fn inputs() -> String {
    let mut countries = String::new();
    for country in Country::all() {
        let _ = write!(countries, "<option value=\"{country}\">{country}</option>");
    }
    include_str!("inputs.html").replace("{countries}", &countries)
}

/// The place of Stripe's own card field.
pub(super) const STRIPE_INPUTS: &str = "<div class=\"field\">\n<span class=\"label\">Card</span>\n\
     <div id=\"card-element\" class=\"framed\"></div>\n</div>\n<p id=\"card-error\" class=\"error\" role=\"alert\"></p>\n";
