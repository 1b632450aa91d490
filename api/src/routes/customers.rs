//! /v1/customers

use axum::extract::State;
use domain::customers::{self, CustomFields, CustomerChange, CustomerView, NewCustomer};
use domain::deleted::DeletedView;
use foundation::error::Error;
use foundation::id::CustomerId;
use serde::Deserialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::app::App;
use crate::body::{Body, Email, ExternalId, Metadata, Text, merchant_data, nullable, required};
use crate::error::{ApiResult, created, ok};
use crate::guard::Authenticated;
use crate::path::Path;
use crate::replays::{IdempotentCreate, respond};

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CustomerFields {
    /// One address, `local@domain`, without a display name, comments or blanks. Whether it exists is not checked.
    email: Option<Email>,
    /// The display name. On creation, the local part of `email` by default. It can be replaced but not cleared.
    name: Option<Text>,
    /// Stored as sent. It can be replaced but not cleared.
    phone: Option<Text>,
    /// Your own id, unique among your customers. It can be set only once.
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<ExternalId>)]
    external_id: Option<Option<ExternalId>>,
    /// Your own data. In an update: pairs to set; `null` removes a pair, and the others stay.
    metadata: Option<Metadata>,
    /// Replaces the whole list; `null` and `[]` clear it.
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<customers::custom_fields::Rows>)]
    custom_fields: Option<Option<Value>>,
}

/// `null` clears the list, like an empty one.
fn custom_fields(value: Option<Option<Value>>) -> Result<Option<CustomFields>, Error> {
    value
        .map(|value| value.map_or_else(|| Ok(CustomFields::default()), |fields| CustomFields::parse(&fields)))
        .transpose()
}

pub(super) async fn create(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    idempotent: IdempotentCreate,
    Body { fields, .. }: Body<CustomerFields>,
) -> ApiResult {
    let new = NewCustomer {
        email: required("email", fields.email)?.0,
        name: fields.name.map(|text| text.0),
        phone: fields.phone.map(|text| text.0),
        merchant_data: merchant_data(fields.metadata, fields.external_id.flatten())?,
        custom_fields: custom_fields(fields.custom_fields)?.unwrap_or_default(),
    };
    let creation = engine::create_customer(&app.db, &caller, new, idempotent.key(), app.now(&caller).await?).await?;
    respond(&app, creation, |customer| created(CustomerView::new(customer, caller.livemode())))
}

pub(super) async fn update(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
    Body { fields, .. }: Body<CustomerFields>,
) -> ApiResult {
    let change = CustomerChange {
        email: fields.email.map(|text| text.0),
        name: fields.name.map(|text| text.0),
        phone: fields.phone.map(|text| text.0),
        external_id: fields.external_id.map(|id| id.map(|text| text.0)),
        metadata: fields.metadata.map(|metadata| metadata.0),
        custom_fields: custom_fields(fields.custom_fields)?,
    };
    let customer =
        customers::update(&app.db, &caller, CustomerId::from_request(&id)?, change, app.now(&caller).await?).await?;
    Ok(ok(CustomerView::new(&customer, caller.livemode())))
}

pub(super) async fn retrieve(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
) -> ApiResult {
    let customer = customers::retrieve(&app.db, caller.account_id, CustomerId::from_request(&id)?).await?;
    Ok(ok(CustomerView::new(&customer, caller.livemode())))
}

pub(super) async fn delete(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
) -> ApiResult {
    let id = CustomerId::from_request(&id)?;
    engine::delete_customer(&app.db, &caller, id, app.now(&caller).await?).await?;
    Ok(ok(DeletedView::customer(id)))
}
