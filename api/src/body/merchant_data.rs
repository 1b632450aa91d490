//! A merchant's own data on an object.

use foundation::error::Error;
use foundation::merchant_data::{self, MerchantData, MetadataChange};
use serde::de::{Deserialize, Deserializer};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use super::strict::strict;

/// Metadata to set. An error names the whole field: a key may be anything, even a card number.
#[derive(Clone, Debug)]
pub(crate) struct Metadata(pub(crate) MetadataChange);

impl<'de> Deserialize<'de> for Metadata {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        strict(from, MetadataChange::EXPECTED, |value| MetadataChange::parse(value).map(Self))
    }
}

impl PartialSchema for Metadata {
    fn schema() -> RefOr<Schema> {
        MetadataChange::schema()
    }
}

impl ToSchema for Metadata {}

/// The merchant's own id.
#[derive(Clone, Debug)]
pub(crate) struct ExternalId(pub(crate) merchant_data::ExternalId);

impl<'de> Deserialize<'de> for ExternalId {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let expected = merchant_data::ExternalId::EXPECTED;
        strict(from, expected, |value| merchant_data::ExternalId::parse(value.as_str()?).map(Self))
    }
}

impl PartialSchema for ExternalId {
    fn schema() -> RefOr<Schema> {
        merchant_data::ExternalId::schema()
    }
}

impl ToSchema for ExternalId {}

/// The own data of a new object.
///
/// # Errors
/// 422 `metadata` if it is too large.
pub(crate) fn merchant_data(
    metadata: Option<Metadata>,
    external_id: Option<ExternalId>,
) -> Result<MerchantData, Error> {
    let metadata = metadata.map_or(Ok(None), |metadata| metadata.0.apply(None))?;
    Ok(MerchantData { metadata, external_id: external_id.map(|id| id.0) })
}
