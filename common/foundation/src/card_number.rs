//! Detects card numbers in texts, and limits what an error message repeats of a client's text.

use crate::console::is_misleading;

/// Maximum number of characters of a client's text in an error message.
const MAX_EXCERPT: usize = 64;

/// Whether a text may contain a card number, also with spaces and hyphens between its digits, and among other digits.
pub fn has_card_number(text: &str) -> bool {
    let any_part = |run: &Vec<u32>| (13..=19).any(|length| run.windows(length).any(is_card_number));
    runs_of_digits(text).iter().any(any_part)
}

/// Returns the sequences of digits, ignoring spaces and hyphens between them.
pub fn runs_of_digits(text: &str) -> Vec<Vec<u32>> {
    let mut runs = vec![Vec::new()];
    for c in text.chars().filter(|c| !matches!(c, ' ' | '-')) {
        match (c.to_digit(10), runs.last_mut()) {
            (Some(digit), Some(run)) => run.push(digit),
            _ => runs.push(Vec::new()),
        }
    }
    runs
}

/// Whether these are 13 to 19 digits with a valid check digit. No card number starts with 0.
pub fn is_card_number(digits: &[u32]) -> bool {
    (13..=19).contains(&digits.len()) && digits.first() != Some(&0) && has_check_digit(digits)
}

fn has_check_digit(digits: &[u32]) -> bool {
    let doubled = |(i, digit): (usize, &u32)| if i % 2 == 1 { digit * 2 / 10 + digit * 2 % 10 } else { *digit };
    digits.iter().rev().enumerate().map(doubled).sum::<u32>().is_multiple_of(10)
}

/// Formats a client's text for an error message: short, on one line, and without a card number.
pub fn excerpt(text: &str) -> String {
    if has_card_number(text) {
        return "(number redacted)".to_owned();
    }
    let (mut excerpt, mut length) = (String::new(), 0);
    for c in text.chars() {
        let is_escaped = is_misleading(c);
        let shown = if is_escaped { c.escape_unicode().to_string() } else { c.to_string() };
        length += if is_escaped { shown.len() } else { 1 };
        // An escape counts as long as it is shown, so that no text makes the message long.
        if length > MAX_EXCERPT {
            excerpt.push('…');
            break;
        }
        excerpt.push_str(&shown);
    }
    excerpt
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn card_numbers_are_detected_in_any_notation() {
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
    fn excerpts_are_short_and_plain() {
        assert_eq!(excerpt("cus_1"), "cus_1");
        assert_eq!(excerpt("a\u{0}\n\u{202e}b"), "a\\u{0}\\u{a}\\u{202e}b");
        assert_eq!(excerpt(&"x".repeat(65)), format!("{}…", "x".repeat(64)));
        assert!(!excerpt("pm_4242 4242-42424242").contains("42"));
        let controls = excerpt(&"\r".repeat(64));
        assert!(controls.len() <= MAX_EXCERPT + 3 && controls.ends_with('…'), "{controls}");
    }
}
