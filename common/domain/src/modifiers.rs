//! Surcharge, tax and tip that an account adds to an amount on its payment pages (docs/billing.md, Payment pages). Pure
//! functions.

use serde_json::Value;

use foundation::error::{Error, Result};
use foundation::money::MAX_AMOUNT;

/// 100 % in basis points.
const BASIS_POINTS: i128 = 10_000;

/// How an addition is computed from the amount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Modifier {
    /// Basis points of the amount.
    Percent(i64),
    /// Minor units, independent of the amount.
    Fixed(i64),
}

impl Modifier {
    /// Rounds half up to a multiple of `step`.
    fn of(self, base: i64, step: i64) -> i128 {
        let (value, parts) = match self {
            Self::Percent(points) => (i128::from(base) * i128::from(points), BASIS_POINTS),
            Self::Fixed(value) => (value.into(), 1),
        };
        let parts = parts * i128::from(step);
        (2 * value + parts) / (2 * parts) * i128::from(step)
    }
}

/// The configured surcharge, tax and tip of an account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Modifiers {
    surcharge: Option<Modifier>,
    tax: Option<Modifier>,
    tip: Option<Modifier>,
}

/// What applies to a particular charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AppliedModifiers {
    /// The amount already includes tax, so none is added.
    pub taxed: bool,
    /// Whether the payer adds the tip.
    pub tips: bool,
    /// What the provider charges are multiples of so many minor units.
    pub step: i64,
}

/// An amount and its additions. An addition of zero is `None`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts {
    /// The amount due.
    pub base: i64,
    pub surcharge: Option<i64>,
    pub tax: Option<i64>,
    pub tip: Option<i64>,
    /// The charged total.
    pub total: i64,
}

impl Parts {
    /// Whether anything is added.
    pub fn has_additions(&self) -> bool {
        self.total != self.base
    }
}

/// The total cannot be charged: it exceeds the largest amount, or the provider does not charge exactly the amount due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the total cannot be charged")]
pub struct NotChargeable;

impl Modifiers {
    /// Parses the configuration of an account.
    ///
    /// # Errors
    /// 422 `modifiers` if it is invalid.
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

    /// Computes the parts of a charge. Every addition is computed from the base amount, not from another addition, and
    /// rounded by itself, so that the parts add up to a total that the provider charges.
    ///
    /// # Errors
    /// [`NotChargeable`] if the total exceeds the largest amount, or the base amount is no multiple of the step.
    pub fn apply(self, base: i64, applied: AppliedModifiers) -> Result<Parts, NotChargeable> {
        if base % applied.step != 0 {
            return Err(NotChargeable);
        }
        let part = |modifier: Option<Modifier>, applies: bool| -> Result<Option<i64>, NotChargeable> {
            let Some(modifier) = modifier.filter(|_| applies) else { return Ok(None) };
            let minor = i64::try_from(modifier.of(base, applied.step)).map_err(|_| NotChargeable)?;
            Ok((minor > 0).then_some(minor))
        };
        let surcharge = part(self.surcharge, true)?;
        let tax = part(self.tax, !applied.taxed)?;
        let tip = part(self.tip, applied.tips)?;
        let sum = [surcharge, tax, tip].into_iter().flatten().try_fold(base, i64::checked_add);
        let total = sum.filter(|total| *total <= MAX_AMOUNT).ok_or(NotChargeable)?;
        Ok(Parts { base, surcharge, tax, tip, total })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use proptest::prelude::*;
    use testkit::fuzz::{anything, check, json};

    const ALL: AppliedModifiers = AppliedModifiers { taxed: false, tips: true, step: 1 };

    fn modifiers(value: Value) -> Modifiers {
        Modifiers::parse(&value).expect("modifiers")
    }

    fn apply(value: Value, base: i64, applied: AppliedModifiers) -> Result<Parts, NotChargeable> {
        modifiers(value).apply(base, applied)
    }

    #[test]
    fn each_part_is_computed_from_the_amount_and_rounded_half_up() {
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
            assert_eq!(parts.has_additions(), tax.is_some());
        }
    }

    #[test]
    fn the_parts_add_up_to_the_charged_total() {
        let all = json!({
            "surcharge": {"type": "percent", "value": 300},
            "tax": {"type": "percent", "value": 825},
            "tip": {"type": "fixed", "value": 200},
        });
        let parts = apply(all.clone(), 10_000, ALL).expect("a sum");
        let expected = Parts { base: 10_000, surcharge: Some(300), tax: Some(825), tip: Some(200), total: 11_325 };
        assert_eq!(parts, expected);
        let no_tip = apply(all.clone(), 10_000, AppliedModifiers { tips: false, ..ALL }).expect("a sum");
        assert_eq!(no_tip, Parts { tip: None, total: 11_125, ..expected });
        let taxed = apply(all, 10_000, AppliedModifiers { taxed: true, ..ALL }).expect("a sum");
        assert_eq!(taxed, Parts { tax: None, total: 10_500, ..expected });
    }

    #[test]
    fn each_part_is_rounded_half_up_to_what_the_provider_charges() {
        let of = |kind: &str, value: i64, step| {
            let applied = AppliedModifiers { step, ..ALL };
            apply(json!({"tip": {"type": kind, "value": value}}), 12_300, applied).map(|parts| parts.tip)
        };
        for (kind, value, step, tip) in [
            // 12,300 × 8.25 % is 1,014.75.
            ("percent", 825, 1, Some(1015)),
            ("percent", 825, 10, Some(1010)),
            ("percent", 825, 100, Some(1000)),
            // 1,045.5 and 1,033.2
            ("percent", 850, 10, Some(1050)),
            ("percent", 840, 10, Some(1030)),
            ("fixed", 1234, 1, Some(1234)),
            ("fixed", 1234, 10, Some(1230)),
            ("fixed", 1235, 10, Some(1240)),
            ("fixed", 50, 100, Some(100)),
            ("fixed", 49, 100, None),
        ] {
            assert_eq!(of(kind, value, step), Ok(tip), "{kind} {value} {step}");
        }
        let all = json!({"tax": {"type": "percent", "value": 833}, "tip": {"type": "percent", "value": 1111}});
        let parts = apply(all, 1230, AppliedModifiers { step: 10, ..ALL }).expect("a sum");
        assert_eq!(parts, Parts { base: 1230, surcharge: None, tax: Some(100), tip: Some(140), total: 1470 });
        assert_eq!(apply(json!({}), 1234, AppliedModifiers { step: 10, ..ALL }), Err(NotChargeable));
    }

    #[test]
    fn without_modifiers_nothing_is_added() {
        let parts = apply(json!({}), 500, ALL).expect("a sum");
        assert!(!parts.has_additions());
        assert_eq!(parts, Parts { base: 500, surcharge: None, tax: None, tip: None, total: 500 });
    }

    #[test]
    fn totals_above_the_largest_amount_are_refused() {
        let fixed = |value: i64| json!({"tip": {"type": "fixed", "value": value}});
        assert_eq!(apply(fixed(1), MAX_AMOUNT - 1, ALL).expect("a sum").total, MAX_AMOUNT);
        assert_eq!(apply(fixed(1), MAX_AMOUNT, ALL), Err(NotChargeable));
        assert_eq!(apply(fixed(i64::MAX), MAX_AMOUNT, ALL), Err(NotChargeable));
        let percent = json!({"surcharge": {"type": "percent", "value": i64::MAX}});
        assert_eq!(apply(percent, MAX_AMOUNT, ALL), Err(NotChargeable));
        // The tip is not computed if the payer omits it.
        assert!(apply(fixed(i64::MAX), MAX_AMOUNT, AppliedModifiers { tips: false, ..ALL }).is_ok());
    }

    #[test]
    fn invalid_configurations_are_rejected() {
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
    fn any_valid_configuration_adds_up_within_the_limit() {
        let all = json!({"surcharge": {"type": "percent", "value": 300}, "tip": {"type": "fixed", "value": 200}});
        let values = prop_oneof![
            json(all).prop_filter_map("no JSON", |text| serde_json::from_slice(&text).ok()),
            anything(),
            (any::<i64>(), any::<i64>()).prop_map(|(tax, tip)| json!({
                "tax": {"type": "percent", "value": tax}, "tip": {"type": "fixed", "value": tip},
            })),
        ];
        let steps = proptest::sample::select(vec![1, 10, 100]);
        check((values, 1..=MAX_AMOUNT, any::<bool>(), any::<bool>(), steps), |(value, base, taxed, tips, step)| {
            let base = base / step * step;
            let modifiers = match Modifiers::parse(&value) {
                Ok(modifiers) => modifiers,
                Err(Error::Invalid { param, .. }) => return assert_eq!(param, "modifiers"),
                Err(other) => panic!("{other}"),
            };
            let Ok(parts) = modifiers.apply(base, AppliedModifiers { taxed, tips, step }) else { return };
            let added = [parts.surcharge, parts.tax, parts.tip];
            assert!(added.iter().flatten().all(|part| *part > 0), "{parts:?}");
            assert_eq!(parts.total, parts.base + added.iter().flatten().sum::<i64>());
            assert!(parts.base == base && parts.total <= MAX_AMOUNT, "{parts:?}");
            assert!(parts.total % step == 0 && added.iter().flatten().all(|part| part % step == 0), "{parts:?}");
        });
    }
}
