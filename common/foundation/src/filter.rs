//! Filters of lists: query parameters that select rows. One declaration, [`crate::filters!`], gives the type of a list's
//! filters, their parser and their documentation.

use std::borrow::Cow;
use std::marker::PhantomData;
use std::ops::Deref;

use ulid::Ulid;
use utoipa::openapi::{ArrayBuilder, Object, Schema};

use crate::error::{Error, Result};
use crate::form::whole_number;
use crate::money::{Currency, MAX_AMOUNT};
use crate::schema;
use crate::time::Timestamp;

/// A value to filter by.
pub trait FilterValue: Sized {
    /// What the error says that the parameter must be.
    fn expected() -> Cow<'static, str>;
    fn parse(text: &str) -> Option<Self>;
    fn schema() -> Object;
}

/// A parameter: `Option` for one value, `Vec` for several, any of which matches.
pub trait FilterField {
    /// Whether the parameter may be repeated.
    const REPEATED: bool;

    /// Adds a value.
    ///
    /// # Errors
    /// What the value must be.
    fn add(&mut self, text: &str) -> Result<(), Cow<'static, str>>;
    fn schema() -> Schema;
}

impl<T: FilterValue> FilterField for Option<T> {
    const REPEATED: bool = false;

    fn add(&mut self, text: &str) -> Result<(), Cow<'static, str>> {
        *self = Some(T::parse(text).ok_or_else(T::expected)?);
        Ok(())
    }

    fn schema() -> Schema {
        Schema::Object(T::schema())
    }
}

impl<T: FilterValue + PartialEq> FilterField for Vec<T> {
    const REPEATED: bool = true;

    fn add(&mut self, text: &str) -> Result<(), Cow<'static, str>> {
        let value = T::parse(text).ok_or_else(T::expected)?;
        if !self.contains(&value) {
            self.push(value);
        }
        Ok(())
    }

    fn schema() -> Schema {
        ArrayBuilder::new().items(T::schema()).into()
    }
}

/// The documentation of a parameter.
pub struct FilterDoc {
    pub name: &'static str,
    pub description: &'static str,
    pub schema: Schema,
}

/// The filters of a list.
pub trait Filters: Default + Send + Sync + 'static {
    /// All parameters.
    fn docs() -> Vec<FilterDoc>;

    /// Adds a value of a parameter; ignores other names.
    ///
    /// # Errors
    /// 422 naming the parameter.
    fn add(&mut self, name: &str, text: &str) -> Result<()>;

    /// Whether no parameter was sent.
    fn is_empty(&self) -> bool;

    /// Checks that no range ends before it begins. Called when all values are added.
    ///
    /// # Errors
    /// 422 naming the lower end.
    fn check(&self) -> Result<()>;
}

/// Declares the filters of a list. `ranges` names pairs of which the first must not exceed the second.
#[macro_export]
macro_rules! filters {
    (
        $(#[$doc:meta])*
        $visibility:vis struct $type:ident {
            $($(#[doc = $description:literal])+ $field:ident($name:literal): $kind:ty,)*
        }
        $(ranges { $($from:ident..$to:ident,)* })?
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq)]
        $visibility struct $type {
            $($(#[doc = $description])+ $visibility $field: $kind,)*
        }

        impl $crate::filter::Filters for $type {
            fn docs() -> Vec<$crate::filter::FilterDoc> {
                vec![$($crate::filter::FilterDoc {
                    name: $name,
                    description: concat!($($description),+).trim_ascii_start(),
                    schema: <$kind as $crate::filter::FilterField>::schema(),
                },)*]
            }

            #[allow(unused_variables)]
            fn add(&mut self, name: &str, text: &str) -> $crate::error::Result<()> {
                $(if name == $name {
                    return $crate::filter::FilterField::add(&mut self.$field, text).map_err(|expected| {
                        $crate::error::Error::invalid($name, format!("{} must be {expected}", $name))
                    });
                })*
                Ok(())
            }

            fn is_empty(&self) -> bool {
                *self == Self::default()
            }

            fn check(&self) -> $crate::error::Result<()> {
                $($($crate::filter::check_range(
                    (stringify!($from), &self.$from),
                    (stringify!($to), &self.$to),
                )?;)*)?
                Ok(())
            }
        }
    };
}

/// Checks a range whose ends are named in snake case.
///
/// # Errors
/// 422 naming the lower end.
pub fn check_range<T: PartialOrd>(from: (&str, &Option<T>), to: (&str, &Option<T>)) -> Result<()> {
    match (from.1, to.1) {
        (Some(lower), Some(upper)) if lower > upper => {
            let (from, to) = (camel_case(from.0), camel_case(to.0));
            let message = format!("{from} must not exceed {to}");
            Err(Error::invalid(from, message))
        }
        _ => Ok(()),
    }
}

fn camel_case(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |name, word| name + &word[..1].to_uppercase() + &word[1..])
}

crate::filters! {
    /// A list without filters.
    pub struct NoFilter {}
}

/// Implements [`FilterValue`] for an enumeration with `ALL` and `name`.
#[macro_export]
macro_rules! filter_by_name {
    ($type:ty) => {
        impl $crate::filter::FilterValue for $type {
            fn expected() -> std::borrow::Cow<'static, str> {
                format!("one of {}", <$type>::ALL.map(<$type>::name).join(", ")).into()
            }

            fn parse(text: &str) -> Option<Self> {
                <$type>::ALL.into_iter().find(|value| value.name() == text)
            }

            fn schema() -> utoipa::openapi::Object {
                $crate::schema::enumeration(<$type>::ALL.map(<$type>::name))
            }
        }
    };
}

/// An id as text, where a malformed one is treated like an unknown one.
#[derive(Clone, Debug, PartialEq)]
pub struct Reference<T>(String, PhantomData<fn() -> T>);

impl<T> Reference<T> {
    pub fn text(&self) -> &str {
        &self.0
    }
}

impl<T: FilterValue> FilterValue for Reference<T> {
    fn expected() -> Cow<'static, str> {
        T::expected()
    }

    fn parse(text: &str) -> Option<Self> {
        Some(Self(text.to_owned(), PhantomData))
    }

    fn schema() -> Object {
        T::schema()
    }
}

/// An amount in minor units.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Amount(pub i64);

impl FilterValue for Amount {
    fn expected() -> Cow<'static, str> {
        "a whole number of minor units from 0 to 9007199254740991".into()
    }

    fn parse(text: &str) -> Option<Self> {
        whole_number(text).filter(|amount| *amount <= MAX_AMOUNT).map(Self)
    }

    fn schema() -> Object {
        schema::integer(0, MAX_AMOUNT)
    }
}

impl FilterValue for Timestamp {
    fn expected() -> Cow<'static, str> {
        "an RFC 3339 timestamp with an offset, such as 2026-11-21T09:30:00Z".into()
    }

    fn parse(text: &str) -> Option<Self> {
        Self::parse(text)
    }

    fn schema() -> Object {
        schema::instant()
    }
}

impl FilterValue for Currency {
    fn expected() -> Cow<'static, str> {
        "an ISO 4217 currency code, such as USD".into()
    }

    // Objects may be in a currency that has been withdrawn since.
    fn parse(text: &str) -> Option<Self> {
        text.to_ascii_uppercase().parse().ok()
    }

    fn schema() -> Object {
        schema::text("^[A-Za-z]{3}$", "USD")
    }
}

/// The last four digits of a card.
#[derive(Clone, Debug, PartialEq)]
pub struct Last4(pub String);

impl FilterValue for Last4 {
    fn expected() -> Cow<'static, str> {
        "four digits".into()
    }

    fn parse(text: &str) -> Option<Self> {
        (text.len() == 4 && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| Self(text.to_owned()))
    }

    fn schema() -> Object {
        schema::text("^[0-9]{4}$", "4242")
    }
}

/// The id of any object of ours.
#[derive(Clone, Debug, PartialEq)]
pub struct ObjectId(pub String);

impl FilterValue for ObjectId {
    fn expected() -> Cow<'static, str> {
        "the id of an object, such as pay_01KAJ4M2V8Q0S5T7W9X1Y3Z5A7".into()
    }

    fn parse(text: &str) -> Option<Self> {
        let (kind, id) = text.split_once('_')?;
        let is_kind = !kind.is_empty() && kind.bytes().all(|byte| byte.is_ascii_lowercase());
        (is_kind && Ulid::from_string(id).is_ok()).then(|| Self(text.to_owned()))
    }

    fn schema() -> Object {
        schema::id("[a-z]+_")
    }
}

/// Seconds from 0 to `MAX`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Seconds<const MAX: u64>(pub u64);

impl<const MAX: u64> FilterValue for Seconds<MAX> {
    fn expected() -> Cow<'static, str> {
        format!("a whole number of seconds from 0 to {MAX}").into()
    }

    fn parse(text: &str) -> Option<Self> {
        whole_number(text).and_then(|n| u64::try_from(n).ok()).filter(|n| *n <= MAX).map(Self)
    }

    fn schema() -> Object {
        schema::integer(0, i64::try_from(MAX).unwrap_or(i64::MAX))
    }
}

/// A merchant's own id, matched exactly.
#[derive(Clone, Debug, PartialEq)]
pub struct ExternalIdFilter(String);

impl Deref for ExternalIdFilter {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl FilterValue for ExternalIdFilter {
    fn expected() -> Cow<'static, str> {
        "a string of 1 to 255 characters".into()
    }

    fn parse(text: &str) -> Option<Self> {
        (1..=255).contains(&text.chars().count()).then(|| Self(text.to_owned()))
    }

    fn schema() -> Object {
        schema::bounded_text(255)
    }
}

/// A text that is compared without case: an e-mail address, or words of a name.
#[derive(Clone, Debug, PartialEq)]
pub struct CaselessText(pub String);

impl FilterValue for CaselessText {
    fn expected() -> Cow<'static, str> {
        ExternalIdFilter::expected()
    }

    // E-mail addresses stored by earlier versions may not be valid today.
    fn parse(text: &str) -> Option<Self> {
        ExternalIdFilter::parse(text).map(|text| Self(text.0))
    }

    fn schema() -> Object {
        ExternalIdFilter::schema()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::CustomerId;

    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Shade {
        Light,
        Dark,
    }

    impl Shade {
        const ALL: [Self; 2] = [Self::Light, Self::Dark];

        const fn name(self) -> &'static str {
            match self {
                Self::Light => "light",
                Self::Dark => "dark",
            }
        }
    }

    crate::filter_by_name!(Shade);

    crate::filters! {
        /// The filters of a list.
        struct Sample {
            /// Any of these.
            shade("shade"): Vec<Shade>,
            /// This customer's.
            customer_id("customerId"): Option<CustomerId>,
            /// From this amount.
            amount_from("amountFrom"): Option<Amount>,
            /// Up to this amount.
            amount_to("amountTo"): Option<Amount>,
        }
        ranges { amount_from..amount_to, }
    }

    fn parse(values: &[(&str, &str)]) -> Result<Sample> {
        let mut sample = Sample::default();
        for (name, value) in values {
            sample.add(name, value)?;
        }
        sample.check().map(|()| sample)
    }

    fn param(values: &[(&str, &str)]) -> (String, String) {
        match parse(values) {
            Err(Error::Invalid { param, message }) => (param.into_owned(), message.into_owned()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn values_are_parsed_and_errors_name_the_parameter() {
        let sample =
            parse(&[("shade", "dark"), ("shade", "light"), ("shade", "dark"), ("amountTo", "7")]).expect("valid");
        assert_eq!(sample.shade, [Shade::Dark, Shade::Light]);
        assert_eq!((sample.amount_from, sample.amount_to), (None, Some(Amount(7))));
        let expected = ("shade".to_owned(), "shade must be one of light, dark".to_owned());
        assert_eq!(param(&[("shade", "red")]), expected);
        for (name, value) in [("shade", ""), ("customerId", ""), ("customerId", "pay_1"), ("amountFrom", "-1")] {
            assert_eq!(param(&[(name, value)]).0, name);
        }
    }

    #[test]
    fn a_range_must_not_be_reversed() {
        assert!(parse(&[("amountFrom", "7"), ("amountTo", "7")]).is_ok());
        let (name, message) = param(&[("amountTo", "6"), ("amountFrom", "7")]);
        assert_eq!((name.as_str(), message.as_str()), ("amountFrom", "amountFrom must not exceed amountTo"));
    }

    #[test]
    fn the_documentation_has_each_parameter() {
        let docs = Sample::docs();
        assert_eq!(
            docs.iter().map(|doc| doc.name).collect::<Vec<_>>(),
            ["shade", "customerId", "amountFrom", "amountTo"]
        );
        assert_eq!(docs[0].description, "Any of these.");
        assert!(matches!(docs[0].schema, Schema::Array(_)) && matches!(docs[1].schema, Schema::Object(_)));
    }
}
