//! GET /v1/capabilities: every operation, in the state in which its route would find it.

use axum::response::Response;
use common::capabilities::{Grants, Operation, State};
use common::schema;
use serde::Serialize;
use utoipa::ToSchema;

use crate::answer::ok;
use crate::guard::Authenticated;

#[derive(Serialize, ToSchema)]
pub(crate) struct Capabilities {
    #[schema(schema_with = schema::capabilities)]
    object: &'static str,
    data: Vec<Capability>,
}

#[derive(Serialize, ToSchema)]
struct Capability {
    #[schema(schema_with = operations)]
    operation: &'static str,
    state: State,
}

fn operations() -> schema::Field {
    schema::word(Operation::ALL.iter().map(|operation| operation.name())).into()
}

pub(super) async fn list(Authenticated(caller): Authenticated) -> Response {
    // A secret key is not for browsers, whatever its entitlements: it sees their operations as the account has them.
    let account = Grants { entitlements: None, ..caller.grants.clone() };
    let state = |operation| {
        let for_browsers = matches!(operation, Operation::CheckoutSessionsCreate | Operation::TokensCreate);
        if for_browsers { account.state(operation) } else { caller.grants.state(operation) }
    };
    let data = Operation::ALL
        .iter()
        .map(|operation| Capability { operation: operation.name(), state: state(*operation) })
        .collect();
    ok(Capabilities { object: "capabilities", data })
}
