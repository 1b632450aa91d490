//! GET /v1/capabilities: every operation, in the state in which its route would find it.

use axum::response::Response;
use common::capabilities::{Operation, State};
use serde::Serialize;

use crate::answer::ok;
use crate::guard::Authenticated;

#[derive(Serialize)]
struct Capabilities {
    object: &'static str,
    data: Vec<Capability>,
}

#[derive(Serialize)]
struct Capability {
    operation: &'static str,
    state: State,
}

pub(super) async fn list(Authenticated(caller): Authenticated) -> Response {
    let data = Operation::ALL
        .iter()
        .map(|operation| Capability { operation: operation.name(), state: caller.grants.state(*operation) })
        .collect();
    ok(Capabilities { object: "capabilities", data })
}
