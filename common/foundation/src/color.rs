//! Colours that merchants choose, and shades of them that can be read (WCAG 2.2, contrast ratio).

use std::fmt;
use std::str::FromStr;

/// The least contrast of a text with its background (WCAG 2.2, success criterion 1.4.3).
pub const READABLE: f64 = 4.5;
/// Steps from a colour to black or white.
const STEPS: u8 = 20;

/// A colour of sRGB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Color([u8; 3]);

/// The text is not `#rrggbb`.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("must be a colour such as #0b57c4")]
pub struct NotAColor;

impl Color {
    pub const WHITE: Self = Self([255; 3]);
    pub const BLACK: Self = Self([0; 3]);

    /// From its red, green and blue.
    pub const fn new(red: u8, green: u8, blue: u8) -> Self {
        Self([red, green, blue])
    }

    /// Its red, green and blue.
    pub const fn rgb(self) -> [u8; 3] {
        self.0
    }

    /// From 1 (the same) to 21 (black on white).
    pub fn contrast(self, other: Self) -> f64 {
        let (one, two) = (self.luminance(), other.luminance());
        (one.max(two) + 0.05) / (one.min(two) + 0.05)
    }

    /// The nearest shade that can be read on this background. White or black always can.
    #[must_use]
    pub fn readable_on(self, background: Self) -> Self {
        let end = background.text();
        let mut shades = (0..=STEPS).map(|step| self.mixed(end, step));
        shades.find(|shade| shade.contrast(background) >= READABLE).unwrap_or(end)
    }

    /// White or black, whichever can be read better on this colour.
    #[must_use]
    pub fn text(self) -> Self {
        if self.contrast(Self::WHITE) >= self.contrast(Self::BLACK) { Self::WHITE } else { Self::BLACK }
    }

    /// This many of twenty steps towards another colour.
    #[must_use]
    pub fn mixed(self, other: Self, steps: u8) -> Self {
        let mut mixed = self;
        for (own, other) in mixed.0.iter_mut().zip(other.0) {
            let sum = u16::from(*own) * u16::from(STEPS - steps) + u16::from(other) * u16::from(steps);
            *own = u8::try_from(sum / u16::from(STEPS)).expect("a mean of two bytes");
        }
        mixed
    }

    fn luminance(self) -> f64 {
        let linear = |part: u8| {
            let part = f64::from(part) / 255.0;
            if part <= 0.04045 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
        };
        let [red, green, blue] = self.0.map(linear);
        0.2126 * red + 0.7152 * green + 0.0722 * blue
    }
}

impl FromStr for Color {
    type Err = NotAColor;

    fn from_str(text: &str) -> Result<Self, NotAColor> {
        let digits = text.strip_prefix('#').filter(|digits| digits.len() == 6 && digits.is_ascii()).ok_or(NotAColor)?;
        let part = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).map_err(|_| NotAColor);
        // A sign would be accepted as a digit.
        if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(NotAColor);
        }
        Ok(Self([part(0)?, part(2)?, part(4)?]))
    }
}

impl fmt::Display for Color {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [red, green, blue] = self.0;
        write!(f, "#{red:02x}{green:02x}{blue:02x}")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use testkit::fuzz::check;

    use super::*;

    #[test]
    fn colors_are_six_digits() {
        assert_eq!("#0B57c4".parse::<Color>().expect("a colour").to_string(), "#0b57c4");
        for wrong in ["", "#fff", "0b57c4", "#0b57c", "#0b57c4a", "#+b57c4", "#0b57cé", "red", "#0b57c4;"] {
            assert!(wrong.parse::<Color>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_shade_of_any_color_can_be_read_on_any_background() {
        check((any::<[u8; 3]>(), any::<[u8; 3]>()), |(color, background)| {
            let (color, background) = (Color(color), Color(background));
            assert!(color.readable_on(background).contrast(background) >= READABLE, "{color} on {background}");
            assert!(color.text().contrast(color) >= READABLE, "{color}");
        });
        let blue = Color::new(11, 87, 196);
        assert_eq!(blue.readable_on(Color::WHITE), blue, "no change is needed");
        assert!((Color::BLACK.contrast(Color::WHITE) - 21.0).abs() < 1e-9);
    }
}
