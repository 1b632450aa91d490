//! GET /v1/capabilities: every operation and whether this key may call it.

use axum::response::Response;
use foundation::schema;
use providers::capabilities::{Grants, Permission, State};
use serde::Serialize;
use utoipa::ToSchema;

use crate::error::ok;
use crate::guard::Authenticated;

#[derive(Serialize, ToSchema)]
pub(crate) struct Capabilities {
    #[schema(schema_with = schema::capabilities)]
    object: &'static str,
    /// Every operation.
    data: Vec<Capability>,
}

#[derive(Serialize, ToSchema)]
struct Capability {
    /// The name of the operation and of the entitlement to it.
    #[schema(value_type = OperationName)]
    operation: &'static str,
    state: State,
}

schema::field_types! { OperationName = schema::enumeration(Permission::ALL.iter().map(|operation| operation.name())); }

pub(super) async fn list(Authenticated(caller): Authenticated) -> Response {
    // Browser operations need a publishable key, so a secret key sees their state for the account.
    let account = Grants { entitlements: None, ..caller.grants.clone() };
    let state = |operation| {
        let for_browsers = matches!(operation, Permission::CheckoutSessionsCreate | Permission::TokensCreate);
        if for_browsers { account.state(operation) } else { caller.grants.state(operation) }
    };
    let data = Permission::ALL
        .iter()
        .map(|operation| Capability { operation: operation.name(), state: state(*operation) })
        .collect();
    ok(Capabilities { object: "capabilities", data })
}
