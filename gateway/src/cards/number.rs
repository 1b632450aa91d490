use foundation::crypto::Secret;

use super::brand::Brand;

/// A card number with a valid check digit (Luhn). It is never printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CardNumber(Secret<String>);

impl CardNumber {
    /// 12 to 19 digits with a valid check digit; spaces and hyphens are ignored.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = digits(text)?;
        passes_luhn(&digits).then(|| Self(Secret::new(digits)))
    }

    /// The digits, for the acquirer and for encryption.
    pub fn expose(&self) -> &str {
        self.0.expose()
    }

    pub fn brand(&self) -> Brand {
        Brand::of(self.expose()[..6].parse().expect("twelve digits at least"))
    }

    /// All but the last four digits hidden.
    pub fn masked(&self) -> String {
        let (hidden, shown) = self.expose().split_at(self.expose().len() - 4);
        format!("{}{shown}", "X".repeat(hidden.len()))
    }
}

/// The digits of a text in the form of a card number, without a check of the last digit.
pub(crate) fn digits(text: &str) -> Option<String> {
    let digits: String = text.chars().filter(|c| !matches!(c, ' ' | '-')).collect();
    let is_plausible = (12..=19).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_plausible.then_some(digits)
}

/// Whether the check digit is valid.
pub(crate) fn passes_luhn(digits: &str) -> bool {
    let sum: u32 = digits
        .bytes()
        .rev()
        .enumerate()
        .map(|(i, byte)| {
            let digit = u32::from(byte - b'0');
            if i % 2 == 0 { digit } else { digit * 2 / 10 + digit * 2 % 10 }
        })
        .sum();
    sum.is_multiple_of(10)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use testkit::fuzz::{check, mutated, texts};

    #[test]
    fn card_numbers_pass_luhn_and_mask_all_but_four_digits() {
        let shown = [
            ("4111111111111111", Brand::Visa, "XXXXXXXXXXXX1111"),
            ("4242 4242 4242 4242", Brand::Visa, "XXXXXXXXXXXX4242"),
            ("5555-5555-5555-4444", Brand::Mastercard, "XXXXXXXXXXXX4444"),
            ("2223003122003222", Brand::Mastercard, "XXXXXXXXXXXX3222"),
            ("378282246310005", Brand::Amex, "XXXXXXXXXXX0005"),
            ("6011111111111117", Brand::Discover, "XXXXXXXXXXXX1117"),
            ("30569309025904", Brand::Diners, "XXXXXXXXXX5904"),
            ("3530111333300000", Brand::Jcb, "XXXXXXXXXXXX0000"),
            ("6200000000000005", Brand::Unionpay, "XXXXXXXXXXXX0005"),
        ];
        for (text, brand, masked) in shown {
            let number = CardNumber::parse(text).expect(text);
            assert_eq!((number.brand(), number.masked().as_str()), (brand, masked));
            assert_eq!(format!("{number:?}"), "CardNumber([secret])");
        }
        let none = [
            "",
            "4111111111111112",
            "411111111111111",
            "4111a11111111111",
            "0",
            "00000000000",
            "41111111111111111111",
            "４１１１",
        ];
        for text in none {
            assert!(CardNumber::parse(text).is_none(), "{text}");
        }
    }

    /// Valid numbers of every length.
    fn numbers() -> impl Strategy<Value = String> {
        "[0-9]{11,18}".prop_map(|digits| {
            let right = (0..10).find(|check| passes_luhn(&format!("{digits}{check}"))).expect("one of ten is right");
            format!("{digits}{right}")
        })
    }

    #[test]
    fn a_card_number_is_its_digits_and_is_never_printed() {
        check((numbers(), any::<prop::sample::Index>(), 1..10u8), |(digits, at, off)| {
            let number = CardNumber::parse(&digits).expect(&digits);
            assert_eq!(number.expose(), digits);
            let masked = number.masked();
            assert!(masked.len() == digits.len() && masked.ends_with(&digits[digits.len() - 4..]));
            assert_eq!(masked.matches('X').count(), digits.len() - 4);
            assert!(!format!("{number:?}").contains(&digits[4..]));
            // Every single mistyped digit is detected.
            let mut wrong = digits.clone().into_bytes();
            let at = at.index(wrong.len());
            wrong[at] = b'0' + (wrong[at] - b'0' + off) % 10;
            assert_eq!(CardNumber::parse(&String::from_utf8(wrong).unwrap()), None);
        });
    }

    #[test]
    fn parsed_card_numbers_have_12_to_19_digits_that_pass_luhn() {
        check(prop_oneof![mutated("4242 4242-4242 4242"), mutated("4242424242424242424"), texts()], |text| {
            let Some(number) = CardNumber::parse(&text) else { return };
            let digits: String = text.chars().filter(char::is_ascii_digit).collect();
            assert!(number.expose() == digits && (12..=19).contains(&digits.len()) && passes_luhn(&digits), "{text}");
            assert!(text.chars().all(|c| c.is_ascii_digit() || c == ' ' || c == '-'), "{text}");
        });
    }
}
