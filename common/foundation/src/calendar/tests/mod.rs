//! Tests the calendar against hand-computed dates and against a naive implementation.

mod cadences;
mod cycles;
mod days;
mod naive;
mod texts;
mod zones;

use testkit::fuzz::check_cases as check;

use super::Date;

fn date(text: &str) -> Date {
    text.parse().expect(text)
}
