//! What merchants store on their objects for themselves: metadata and their own id.
//!
//! Metadata may hold anything, so neither logs nor errors show it.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;

use serde::Serialize;
use sqlx::types::Json;
use utoipa::openapi::schema::AdditionalProperties;
use utoipa::openapi::{ObjectBuilder, Type};

use crate::error::{Error, Result};
use crate::schema::{self, schema_is};

/// Pairs of an object.
pub const MAX_PAIRS: usize = 50;
/// Characters of a key.
pub const MAX_KEY: usize = 40;
/// Characters of a value.
pub const MAX_VALUE: usize = 500;
/// Bytes of all keys and values in UTF-8.
pub const MAX_BYTES: usize = 16 * 1024;

/// The metadata of an object: at least one pair. An object without any has none.
#[derive(Clone, PartialEq, Eq, Serialize, sqlx::Type)]
#[sqlx(transparent)]
pub struct Metadata(Json<BTreeMap<String, String>>);

impl fmt::Debug for Metadata {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Metadata({} pairs)", self.0.len())
    }
}

impl Metadata {
    /// The JSON of an SQL parameter that is an array.
    pub fn to_json(&self) -> String {
        self.0.encode_to_string().unwrap_or_default()
    }

    /// Parses [`Self::to_json`]; `None` if it is anything else, as another release may write.
    pub fn from_json(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok().map(|pairs| Self(Json(pairs)))
    }
}

/// Sent metadata: pairs to set, and with `None` pairs to remove.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct MetadataChange(BTreeMap<String, Option<String>>);

impl fmt::Debug for MetadataChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MetadataChange({} pairs)", self.0.len())
    }
}

impl MetadataChange {
    /// What a JSON value must be.
    pub const EXPECTED: &str = "an object of at most 50 strings of up to 500 characters, with keys of 1 to 40 \
                                characters, and of 16 KiB in all";

    /// Parses a value of a request; `None` if it is not [`Self::EXPECTED`].
    pub fn parse(value: &serde_json::Value) -> Option<Self> {
        let pairs = value.as_object()?.iter().map(|(key, value)| {
            let value = if value.is_null() { None } else { Some(value.as_str()?) };
            let fits = (1..=MAX_KEY).contains(&key.chars().count())
                && value.is_none_or(|value| value.chars().count() <= MAX_VALUE);
            fits.then(|| (key.clone(), value.map(str::to_owned)))
        });
        let pairs: BTreeMap<_, _> = pairs.collect::<Option<_>>()?;
        let set = pairs.iter().filter_map(|(key, value)| value.as_deref().map(|value| (key.as_str(), value)));
        is_within_limits(set).then_some(Self(pairs))
    }

    /// The metadata after this change of `metadata`; `None` without pairs.
    ///
    /// # Errors
    /// 422 `metadata` if it is too large.
    pub fn apply(self, metadata: Option<Metadata>) -> Result<Option<Metadata>> {
        let mut pairs = metadata.map_or_else(BTreeMap::new, |metadata| metadata.0.0);
        for (key, value) in self.0 {
            match value {
                Some(value) => drop(pairs.insert(key, value)),
                None => drop(pairs.remove(&key)),
            }
        }
        if !is_within_limits(pairs.iter().map(|(key, value)| (key.as_str(), value.as_str()))) {
            return Err(Error::invalid("metadata", format!("metadata must be {}", Self::EXPECTED)));
        }
        Ok(if pairs.is_empty() { None } else { Some(Metadata(Json(pairs))) })
    }
}

fn is_within_limits<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> bool {
    let (count, bytes) =
        pairs.fold((0, 0), |(count, bytes), (key, value)| (count + 1, bytes + key.len() + value.len()));
    count <= MAX_PAIRS && bytes <= MAX_BYTES
}

/// The schema of metadata with values of this type.
fn pairs(value: ObjectBuilder) -> ObjectBuilder {
    let value = value.max_length(Some(MAX_VALUE)).build();
    let key = ObjectBuilder::new().schema_type(Type::String).min_length(Some(1)).max_length(Some(MAX_KEY)).build();
    ObjectBuilder::new()
        .schema_type(Type::Object)
        .additional_properties(Some(AdditionalProperties::RefOr(value.into())))
        .property_names(Some(key))
        .max_properties(Some(MAX_PAIRS))
        .examples([serde_json::json!({"order": "1042"})])
}

schema_is!(Metadata, pairs(ObjectBuilder::new().schema_type(Type::String)).build());
schema_is!(
    MetadataChange,
    pairs(ObjectBuilder::new().schema_type(utoipa::openapi::schema::SchemaType::from_iter([Type::String, Type::Null])))
        .build()
);

/// The merchant's own id of an object: 1 to [`Self::MAX`] characters without control characters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, sqlx::Type)]
#[sqlx(transparent)]
pub struct ExternalId(String);

impl ExternalId {
    /// In characters.
    pub const MAX: usize = 128;
    /// What a JSON value must be.
    pub const EXPECTED: &str = "a string of 1 to 128 characters without control characters";

    /// Parses a text of a request; `None` if it is not [`Self::EXPECTED`].
    pub fn parse(text: &str) -> Option<Self> {
        let fits = (1..=Self::MAX).contains(&text.chars().count()) && !text.chars().any(char::is_control);
        fits.then(|| Self(text.to_owned()))
    }
}

impl Deref for ExternalId {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

schema_is!(
    ExternalId,
    ObjectBuilder::new()
        .schema_type(Type::String)
        .pattern(Some(schema::NO_CONTROL))
        .min_length(Some(1))
        .max_length(Some(ExternalId::MAX))
        .build()
);

/// A merchant's own data on an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MerchantData {
    pub metadata: Option<Metadata>,
    pub external_id: Option<ExternalId>,
}

/// The own data to update; `None` leaves a field unchanged.
#[derive(Clone, Debug, Default)]
pub struct MerchantDataChange {
    pub metadata: Option<MetadataChange>,
    /// `Some(None)` clears it.
    pub external_id: Option<Option<ExternalId>>,
    /// The version of the object that is to be changed; another one is not.
    pub expected_version: Option<i64>,
}

impl MerchantDataChange {
    /// The own data of an object of this version after this change.
    ///
    /// # Errors
    /// 422 `metadata` if it is too large; [`Error::Conflict`] if another version was expected.
    pub fn apply(self, data: MerchantData, version: i64) -> Result<MerchantData> {
        if self.expected_version.is_some_and(|expected| expected != version) {
            return Err(Error::conflict("it was changed meanwhile"));
        }
        Ok(MerchantData {
            metadata: match self.metadata {
                Some(change) => change.apply(data.metadata)?,
                None => data.metadata,
            },
            external_id: self.external_id.unwrap_or(data.external_id),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};
    use testkit::fuzz::{anything, check, json as mutated};

    use super::*;

    fn set(pairs: &Value) -> Option<Metadata> {
        MetadataChange::parse(pairs).expect("valid").apply(None).expect("within the limits")
    }

    #[test]
    fn each_limit_is_inclusive() {
        let pairs = |count: usize, length: usize| {
            Value::Object((0..count).map(|i| (format!("{i:02}"), json!("x".repeat(length)))).collect())
        };
        for (valid, invalid) in [
            (pairs(MAX_PAIRS, 0), pairs(MAX_PAIRS + 1, 0)),
            (json!({"é".repeat(MAX_KEY): ""}), json!({"é".repeat(MAX_KEY + 1): ""})),
            (json!({"a": "é".repeat(MAX_VALUE)}), json!({"a": "é".repeat(MAX_VALUE + 1)})),
            // 32 pairs of 2 and 510 bytes.
            (
                Value::Object((0..32).map(|i| (format!("{i:02}"), json!("é".repeat(255)))).collect()),
                Value::Object((0..32).map(|i| (format!("{i:03}"), json!("é".repeat(255)))).collect()),
            ),
            (json!({"a": ""}), json!({"": "a"})),
            (json!({"a": null}), json!({"a": 1})),
            (json!({}), json!([])),
        ] {
            assert!(MetadataChange::parse(&valid).is_some(), "{valid}");
            assert_eq!(MetadataChange::parse(&invalid), None, "{invalid}");
        }
    }

    #[test]
    fn a_change_merges_and_the_result_is_limited() {
        let change = MetadataChange::parse(&json!({"a": null, "c": "3", "x": null})).expect("valid");
        assert_eq!(change.apply(set(&json!({"a": "1", "b": "2"}))).expect("small"), set(&json!({"b": "2", "c": "3"})));
        let nothing = MetadataChange::parse(&json!({"a": null})).expect("valid").apply(set(&json!({"a": "1"})));
        assert_eq!(nothing.expect("small"), None);
        let full = Value::Object((0..MAX_PAIRS).map(|i| (i.to_string(), json!(""))).collect());
        let more = MetadataChange::parse(&json!({"more": ""})).expect("valid");
        assert!(matches!(more.apply(set(&full)), Err(Error::Invalid { param, .. }) if param == "metadata"));
        let exchanged = MetadataChange::parse(&json!({"more": "", "0": null})).expect("valid");
        assert!(exchanged.apply(set(&full)).is_ok());
    }

    #[test]
    fn what_is_accepted_is_stored_unchanged_and_never_shown_in_logs() {
        let near = mutated(json!({"order": "1042", "note": "two\nlines", "gone": null}));
        let near = near.prop_filter_map("not JSON", |text| serde_json::from_slice(&text).ok());
        check(prop_oneof![3 => near, 1 => anything()], |sent: Value| {
            let Some(change) = MetadataChange::parse(&sent) else { return };
            assert!(!format!("{change:?}").contains("1042"));
            let mut expected = sent.as_object().expect("an object").clone();
            expected.retain(|_, value| !value.is_null());
            let stored = change.apply(None).expect("within the limits");
            assert!(!format!("{stored:?}").contains("1042"));
            let stored = stored.map_or_else(|| json!({}), |stored| json!(stored));
            assert_eq!(stored, Value::Object(expected));
        });
    }

    #[test]
    fn external_ids_are_kept_as_sent() {
        check(testkit::fuzz::texts(), |text: String| match ExternalId::parse(&text) {
            Some(id) => assert!(*id == *text && (1..=ExternalId::MAX).contains(&text.chars().count())),
            None => assert!(text.is_empty() || text.chars().count() > 128 || text.chars().any(char::is_control)),
        });
    }
}
