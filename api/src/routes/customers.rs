//! /v1/customers

use axum::extract::State;
use common::customers::{self, CustomFields, CustomerChange, CustomerView, NewCustomer};
use common::error::Error;
use common::flows;
use common::id::CustomerId;
use common::page::ListView;
use common::schema;
use serde::Deserialize;
use serde_json::Value;
use utoipa::ToSchema;
use utoipa::openapi::schema::OneOfBuilder;
use utoipa::openapi::{ObjectBuilder, Type};

use crate::answer::{Answer, created, ok};
use crate::app::App;
use crate::body::{Body, Email, Text, nullable, required};
use crate::guard::Authenticated;
use crate::idempotency::{Once, answer};
use crate::path::Path;
use crate::query::Params;

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CustomerFields {
    /// Something before and after an `@`, without a space; it is not checked further.
    email: Option<Email>,
    /// Shown to people. It cannot be cleared, only replaced.
    name: Option<Text>,
    /// As sent. It cannot be cleared, only replaced.
    phone: Option<Text>,
    /// Your own id, unique among your customers and written once.
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<Text>)]
    external_id: Option<Option<Text>>,
    /// Replaces the whole list; `null` and `[]` clear it.
    #[serde(default, deserialize_with = "nullable")]
    #[schema(schema_with = sent_custom_fields)]
    custom_fields: Option<Option<Value>>,
}

fn sent_custom_fields() -> schema::Field {
    let nothing = ObjectBuilder::new().schema_type(Type::Null);
    OneOfBuilder::new().item(nothing).item(customers::custom_fields::schema()).into()
}

/// `null` clears the list, as an empty one does.
fn custom_fields(sent: Option<Option<Value>>) -> Result<Option<CustomFields>, Error> {
    sent.map(|value| value.map_or_else(|| Ok(CustomFields::default()), |rows| CustomFields::parse(&rows))).transpose()
}

pub(super) async fn create(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    once: Once,
    Body { fields, .. }: Body<CustomerFields>,
) -> Answer {
    let new = NewCustomer {
        email: required("email", fields.email)?.0,
        name: fields.name.map(|text| text.0),
        phone: fields.phone.map(|text| text.0),
        external_id: fields.external_id.flatten().map(|text| text.0),
        custom_fields: custom_fields(fields.custom_fields)?.unwrap_or_default(),
    };
    let made = flows::create_customer(&app.db, &caller, new, once.key(), app.now(&caller).await?).await?;
    answer(&app, made, |customer| created(CustomerView::new(customer, caller.livemode())))
}

pub(super) async fn update(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
    Body { fields, .. }: Body<CustomerFields>,
) -> Answer {
    let change = CustomerChange {
        email: fields.email.map(|text| text.0),
        name: fields.name.map(|text| text.0),
        phone: fields.phone.map(|text| text.0),
        external_id: fields.external_id.map(|sent| sent.map(|text| text.0)),
        custom_fields: custom_fields(fields.custom_fields)?,
    };
    let customer =
        customers::update(&app.db, &caller, CustomerId::named(&id)?, change, app.now(&caller).await?).await?;
    Ok(ok(CustomerView::new(&customer, caller.livemode())))
}

pub(super) async fn retrieve(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
) -> Answer {
    let customer = customers::retrieve(&app.db, caller.account_id, CustomerId::named(&id)?).await?;
    Ok(ok(CustomerView::new(&customer, caller.livemode())))
}

pub(super) async fn list(State(app): State<App>, Authenticated(caller): Authenticated, params: Params) -> Answer {
    let page = params.page()?;
    let external_id = params.get("externalId");
    if external_id == Some("") {
        return Err(Error::invalid("externalId", "externalId must not be empty").into());
    }
    let rows = customers::list(&app.db, caller.account_id, external_id, page).await?;
    let livemode = caller.livemode();
    let views = rows.views(|c| CustomerView::new(c, livemode));
    Ok(ok(ListView::new(views, |view| view.id.to_string())))
}
