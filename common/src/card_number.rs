//! Card numbers where none belong, and what an error may repeat of a text that somebody sent.

use std::fmt::Write as _;

/// Characters of a sent text that an error repeats at most.
const MAX_SHOWN: usize = 64;

/// Whether a card number may stand in a text, with spaces and hyphens between its digits perhaps, whatever digits stand beside it.
pub fn has_card_number(text: &str) -> bool {
    let any_part = |run: &Vec<u32>| (13..=19).any(|length| run.windows(length).any(is_card_number));
    runs_of_digits(text).iter().any(any_part)
}

/// Digits, with spaces and hyphens between them perhaps.
pub(crate) fn runs_of_digits(text: &str) -> Vec<Vec<u32>> {
    let mut runs = vec![Vec::new()];
    for c in text.chars().filter(|c| !matches!(c, ' ' | '-')) {
        match (c.to_digit(10), runs.last_mut()) {
            (Some(digit), Some(run)) => run.push(digit),
            _ => runs.push(Vec::new()),
        }
    }
    runs
}

/// Whether these are 13 to 19 digits that end with the right check digit. No card's number begins with 0.
pub(crate) fn is_card_number(digits: &[u32]) -> bool {
    (13..=19).contains(&digits.len()) && digits.first() != Some(&0) && has_check_digit(digits)
}

fn has_check_digit(digits: &[u32]) -> bool {
    let doubled = |(i, digit): (usize, &u32)| if i % 2 == 1 { digit * 2 / 10 + digit * 2 % 10 } else { *digit };
    digits.iter().rev().enumerate().map(doubled).sum::<u32>().is_multiple_of(10)
}

/// A text as an error may repeat it: short, on one line, and without a card number.
pub fn shown(text: &str) -> String {
    if has_card_number(text) {
        return "(a number that is not repeated)".to_owned();
    }
    let mut shown = String::new();
    for c in text.chars().take(MAX_SHOWN) {
        // Marks that turn the direction of a text would change how the rest of the message is read.
        if c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
        {
            write!(shown, "{}", c.escape_unicode()).expect("a String takes all");
        } else {
            shown.push(c);
        }
    }
    if text.chars().nth(MAX_SHOWN).is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_number_is_seen_however_it_is_written() {
        for number in [
            "4242424242424242",
            "paid with 4242 4242 4242 4242.",
            "4242-4242-4242-4242",
            "x378282246310005x",
            "ticket 123 4242 4242 4242 4242",
            "4242 4242 4242 4242 12/30",
            "on 2026-11-21 4242424242424242",
        ] {
            assert!(has_card_number(number), "{number}");
        }
        for other in ["", "4452783221795149", "op_01JD", "called 555 0100 at 12:30", "42424242"] {
            assert!(!has_card_number(other), "{other}");
        }
    }

    #[test]
    fn what_is_shown_is_short_and_plain() {
        assert_eq!(shown("cus_1"), "cus_1");
        assert_eq!(shown("a\u{0}\n\u{202e}b"), "a\\u{0}\\u{a}\\u{202e}b");
        assert_eq!(shown(&"x".repeat(65)), format!("{}…", "x".repeat(64)));
        assert!(!shown("pm_4242 4242-42424242").contains("42"));
    }
}
