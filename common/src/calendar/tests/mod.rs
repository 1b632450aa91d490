//! The calendar against days that were reckoned by hand, and against a reckoning of its own that knows no short cuts.

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
