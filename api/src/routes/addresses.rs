//! /v1/addresses

use axum::extract::State;
use domain::addresses::{self, AddressChange, AddressView, Details, NewAddress};
use foundation::id::{AddressId, CustomerId};
use serde::Deserialize;
use utoipa::ToSchema;

use crate::app::App;
use crate::body::{AddressRole, Body, CountryCode, Reference, Text, required};
use crate::error::{ApiResult, created, ok};
use crate::guard::Authenticated;
use crate::path::Path;
use crate::replays::{IdempotentCreate, respond};

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AddressFields {
    /// The customer. It cannot be changed: an update may only repeat it.
    customer_id: Option<Reference>,
    /// The first name of the recipient.
    first_name: Option<Text>,
    /// The last name of the recipient.
    last_name: Option<Text>,
    /// The company of the recipient.
    company: Option<Text>,
    /// The street address.
    line1: Option<Text>,
    /// Apartment, floor and the like.
    line2: Option<Text>,
    /// The city or town.
    city: Option<Text>,
    /// State, province or region.
    state: Option<Text>,
    /// In the country's format, which is not checked.
    postal_code: Option<Text>,
    /// ISO 3166-1 alpha-2, case-insensitive.
    country: Option<CountryCode>,
    /// The telephone number. It is not checked.
    phone: Option<Text>,
}

#[derive(Deserialize, ToSchema)]
pub(crate) struct RoleField {
    /// The purpose for which the address becomes the default.
    #[serde(rename = "type")]
    role: Option<AddressRole>,
}

pub(super) async fn create(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    idempotent: IdempotentCreate,
    Body { fields, .. }: Body<AddressFields>,
) -> ApiResult {
    let change = fields.into_change();
    let customer = required("customerId", change.customer_id)?;
    let line1 = required("line1", change.line1)?;
    let country = required("country", change.country)?;
    let new = NewAddress { customer_id: CustomerId::from_request(&customer)?, line1, country, details: change.details };
    let creation = engine::create_address(&app.db, &caller, new, idempotent.key(), app.now(&caller).await?).await?;
    respond(&app, creation, |address| created(AddressView::new(address, caller.livemode())))
}

pub(super) async fn update(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
    Body { fields, .. }: Body<AddressFields>,
) -> ApiResult {
    let address =
        addresses::update(&app.db, caller.account_id, AddressId::from_request(&id)?, fields.into_change()).await?;
    Ok(ok(AddressView::new(&address, caller.livemode())))
}

pub(super) async fn retrieve(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
) -> ApiResult {
    let address = addresses::retrieve(&*app.db, caller.account_id, AddressId::from_request(&id)?).await?;
    Ok(ok(AddressView::new(&address, caller.livemode())))
}

pub(super) async fn set_default(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
    Body { fields, .. }: Body<RoleField>,
) -> ApiResult {
    let role = required("type", fields.role)?.0;
    let address = engine::set_default_address(&app.db, &caller, AddressId::from_request(&id)?, role).await?;
    Ok(ok(AddressView::new(&address, caller.livemode())))
}

impl AddressFields {
    fn into_change(self) -> AddressChange {
        let text = |text: Option<Text>| text.map(|text| text.0);
        AddressChange {
            customer_id: self.customer_id.map(|id| id.0),
            line1: text(self.line1),
            country: self.country.map(|country| country.0),
            details: Details {
                first_name: text(self.first_name),
                last_name: text(self.last_name),
                company: text(self.company),
                line2: text(self.line2),
                city: text(self.city),
                state: text(self.state),
                postal_code: text(self.postal_code),
                phone: text(self.phone),
            },
        }
    }
}
