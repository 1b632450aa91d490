//! The body of updates that change only a merchant's own data.

use foundation::merchant_data::MerchantDataChange;
use serde::Deserialize;
use utoipa::ToSchema;

use crate::body::{ExternalId, Metadata, nullable};
use crate::trusted::ExpectedVersion;

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MerchantDataFields {
    /// Your own data: pairs to set. `null` removes a pair; the others stay.
    metadata: Option<Metadata>,
    /// Your own id; `null` clears it.
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<ExternalId>)]
    external_id: Option<Option<ExternalId>>,
}

impl MerchantDataFields {
    pub(super) fn into_change(self) -> MerchantDataChange {
        MerchantDataChange {
            metadata: self.metadata.map(|metadata| metadata.0),
            external_id: self.external_id.map(|id| id.map(|id| id.0)),
            expected_version: None,
        }
    }

    /// A change of this version only, if one is expected.
    pub(super) fn into_change_of(self, ExpectedVersion(expected_version): ExpectedVersion) -> MerchantDataChange {
        MerchantDataChange { expected_version, ..self.into_change() }
    }
}
