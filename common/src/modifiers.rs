//! What an account adds to an amount on its payment pages: surcharge, tax and tip (docs/billing.md, Payment pages). Pure.

use serde_json::Value;

use crate::error::{Error, Result};
use crate::money::MAX_AMOUNT;

/// Basis points of a whole.
const WHOLE: i128 = 10_000;

/// How one part is reckoned from the amount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Modifier {
    /// Basis points of the amount.
    Percent(i64),
    /// Minor units, whatever the amount.
    Fixed(i64),
}

impl Modifier {
    /// Rounded half up to the minor unit.
    fn of(self, base: i64) -> i128 {
        match self {
            Self::Percent(points) => (i128::from(base) * i128::from(points) + WHOLE / 2) / WHOLE,
            Self::Fixed(value) => value.into(),
        }
    }
}

/// Surcharge, tax and tip as an account has them configured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Modifiers {
    surcharge: Option<Modifier>,
    tax: Option<Modifier>,
    tip: Option<Modifier>,
}

/// What depends on the occasion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Occasion {
    /// The amount says itself what of it is tax, so none is added.
    pub taxed: bool,
    /// The payer gives the tip.
    pub tips: bool,
}

/// An amount and what is added to it. Where nothing is, that part is absent and never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts {
    /// What is owed.
    pub base: i64,
    /// Surcharge, if any.
    pub surcharge: Option<i64>,
    /// Tax, if any.
    pub tax: Option<i64>,
    /// Tip, if any.
    pub tip: Option<i64>,
    /// All of them together: what is charged.
    pub total: i64,
}

impl Parts {
    /// Whether anything was added.
    pub fn is_composed(&self) -> bool {
        self.total != self.base
    }
}

/// Why there is no sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the amount and what is added to it are more than the largest amount")]
pub struct TooMuch;

impl Modifiers {
    /// Reads the configuration of an account.
    ///
    /// # Errors
    /// 422 `modifiers` for what is none.
    pub fn parse(value: &Value) -> Result<Self> {
        let wrong = |message: String| Error::invalid("modifiers", message);
        let object = value.as_object().ok_or_else(|| wrong("modifiers must be a JSON object".into()))?;
        let mut modifiers = Self::default();
        for (name, modifier) in object {
            let part = match name.as_str() {
                "surcharge" => &mut modifiers.surcharge,
                "tax" => &mut modifiers.tax,
                "tip" => &mut modifiers.tip,
                _ => return Err(wrong(format!("{name} is not one of surcharge, tax, tip"))),
            };
            let value = modifier["value"].as_i64().filter(|value| *value >= 0);
            *part = match (modifier["type"].as_str(), value) {
                (Some("percent"), Some(points)) => Some(Modifier::Percent(points)),
                (Some("fixed"), Some(minor)) => Some(Modifier::Fixed(minor)),
                _ => {
                    let form = "{\"type\": \"percent\"|\"fixed\", \"value\": whole number ≥ 0}";
                    return Err(wrong(format!("{name} must be {form}")));
                }
            };
        }
        Ok(modifiers)
    }

    /// The parts of a charge for this much. All of them are reckoned from the amount itself, and none from another.
    ///
    /// # Errors
    /// [`TooMuch`] if the sum is over the largest amount.
    pub fn apply(self, base: i64, occasion: Occasion) -> Result<Parts, TooMuch> {
        let part = |modifier: Option<Modifier>, wanted: bool| -> Result<Option<i64>, TooMuch> {
            let Some(modifier) = modifier.filter(|_| wanted) else { return Ok(None) };
            let minor = i64::try_from(modifier.of(base)).map_err(|_| TooMuch)?;
            Ok((minor > 0).then_some(minor))
        };
        let surcharge = part(self.surcharge, true)?;
        let tax = part(self.tax, !occasion.taxed)?;
        let tip = part(self.tip, occasion.tips)?;
        let sum = [surcharge, tax, tip].into_iter().flatten().try_fold(base, i64::checked_add);
        let total = sum.filter(|total| *total <= MAX_AMOUNT).ok_or(TooMuch)?;
        Ok(Parts { base, surcharge, tax, tip, total })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use proptest::prelude::*;
    use testkit::fuzz::{anything, check, json};

    const ALL: Occasion = Occasion { taxed: false, tips: true };

    fn modifiers(value: Value) -> Modifiers {
        Modifiers::parse(&value).expect("modifiers")
    }

    fn apply(value: Value, base: i64, occasion: Occasion) -> Result<Parts, TooMuch> {
        modifiers(value).apply(base, occasion)
    }

    #[test]
    fn each_part_is_reckoned_from_the_amount_and_rounded_half_up() {
        for (base, points, tax) in [
            (10_000, 825, Some(825)),
            (1_000, 825, Some(83)),
            (1_006, 825, Some(83)),
            (100, 50, Some(1)),
            (100, 49, None),
            (99, 50, None),
            (1, 10_000, Some(1)),
            (3, 20_000, Some(6)),
            (500, 0, None),
        ] {
            let parts = apply(json!({"tax": {"type": "percent", "value": points}}), base, ALL).expect("a sum");
            assert_eq!((parts.base, parts.tax, parts.total), (base, tax, base + tax.unwrap_or(0)), "{base} {points}");
            assert_eq!(parts.is_composed(), tax.is_some());
        }
    }

    #[test]
    fn the_parts_add_up_to_what_is_charged() {
        let all = json!({
            "surcharge": {"type": "percent", "value": 300},
            "tax": {"type": "percent", "value": 825},
            "tip": {"type": "fixed", "value": 200},
        });
        let parts = apply(all.clone(), 10_000, ALL).expect("a sum");
        let expected = Parts { base: 10_000, surcharge: Some(300), tax: Some(825), tip: Some(200), total: 11_325 };
        assert_eq!(parts, expected);
        let no_tip = apply(all.clone(), 10_000, Occasion { tips: false, ..ALL }).expect("a sum");
        assert_eq!(no_tip, Parts { tip: None, total: 11_125, ..expected });
        let taxed = apply(all, 10_000, Occasion { taxed: true, ..ALL }).expect("a sum");
        assert_eq!(taxed, Parts { tax: None, total: 10_500, ..expected });
    }

    #[test]
    fn without_modifiers_nothing_is_added() {
        let parts = apply(json!({}), 500, ALL).expect("a sum");
        assert!(!parts.is_composed());
        assert_eq!(parts, Parts { base: 500, surcharge: None, tax: None, tip: None, total: 500 });
    }

    #[test]
    fn more_than_the_largest_amount_is_refused() {
        let fixed = |value: i64| json!({"tip": {"type": "fixed", "value": value}});
        assert_eq!(apply(fixed(1), MAX_AMOUNT - 1, ALL).expect("a sum").total, MAX_AMOUNT);
        assert_eq!(apply(fixed(1), MAX_AMOUNT, ALL), Err(TooMuch));
        assert_eq!(apply(fixed(i64::MAX), MAX_AMOUNT, ALL), Err(TooMuch));
        let percent = json!({"surcharge": {"type": "percent", "value": i64::MAX}});
        assert_eq!(apply(percent, MAX_AMOUNT, ALL), Err(TooMuch));
        // What the payer leaves out is not reckoned.
        assert!(apply(fixed(i64::MAX), MAX_AMOUNT, Occasion { tips: false, ..ALL }).is_ok());
    }

    #[test]
    fn what_is_no_configuration_is_refused() {
        for wrong in [
            json!(null),
            json!([]),
            json!({"fee": {"type": "fixed", "value": 1}}),
            json!({"tax": null}),
            json!({"tax": {"type": "permille", "value": 1}}),
            json!({"tax": {"type": "fixed", "value": -1}}),
            json!({"tax": {"type": "fixed", "value": 1.5}}),
            json!({"tax": {"type": "fixed", "value": "1"}}),
            json!({"tax": {"value": 1}}),
        ] {
            let error = Modifiers::parse(&wrong).expect_err("no configuration");
            assert!(matches!(error, Error::Invalid { param, .. } if param == "modifiers"), "{wrong}");
        }
    }

    #[test]
    fn whatever_is_read_adds_up_and_stays_within_bounds() {
        let all = json!({"surcharge": {"type": "percent", "value": 300}, "tip": {"type": "fixed", "value": 200}});
        let values = prop_oneof![
            json(all).prop_filter_map("no JSON", |text| serde_json::from_slice(&text).ok()),
            anything(),
            (any::<i64>(), any::<i64>()).prop_map(|(tax, tip)| json!({
                "tax": {"type": "percent", "value": tax}, "tip": {"type": "fixed", "value": tip},
            })),
        ];
        check((values, 1..=MAX_AMOUNT, any::<bool>(), any::<bool>()), |(value, base, taxed, tips)| {
            let modifiers = match Modifiers::parse(&value) {
                Ok(modifiers) => modifiers,
                Err(Error::Invalid { param, .. }) => return assert_eq!(param, "modifiers"),
                Err(other) => panic!("{other}"),
            };
            let Ok(parts) = modifiers.apply(base, Occasion { taxed, tips }) else { return };
            let added = [parts.surcharge, parts.tax, parts.tip];
            assert!(added.iter().flatten().all(|part| *part > 0), "{parts:?}");
            assert_eq!(parts.total, parts.base + added.iter().flatten().sum::<i64>());
            assert!(parts.base == base && parts.total <= MAX_AMOUNT, "{parts:?}");
        });
    }
}
