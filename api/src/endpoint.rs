//! One entry of the route table: method, path, required access, handler and documentation. The router and the OpenAPI
//! document are built from the same entries, so they cannot differ.

use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::handler::Handler;
use axum::middleware::from_fn_with_state;
use axum::routing::{MethodFilter, MethodRouter, on};
use providers::capabilities::Permission;

use crate::app::App;
use crate::guard::{self, Access};
use crate::listing::{self, Listed};
use crate::openapi::operation_doc::OperationDoc;
use crate::unknown_fields::{self, InputSpec, LazySpec};

/// An operation of /v1.
pub(crate) struct Endpoint {
    pub(crate) method: &'static str,
    pub(crate) path: &'static str,
    pub(crate) access: Access,
    /// Built when it is first needed: building all of them takes much of the time in which a process starts.
    pub(crate) doc: LazyLock<OperationDoc>,
    handler: MethodRouter<App>,
}

pub(crate) fn get<T: 'static>(
    path: &'static str,
    access: Access,
    handler: impl Handler<T, App>,
    doc: fn() -> OperationDoc,
) -> Endpoint {
    Endpoint::new("get", path, access, on(MethodFilter::GET, handler), doc)
}

/// A list, with the documentation of its description.
pub(crate) fn list<L: Listed>(path: &'static str, access: Access) -> Endpoint {
    get(path, access, listing::respond::<L>, listing::doc::<L>)
}

pub(crate) fn post<T: 'static>(
    path: &'static str,
    access: Access,
    handler: impl Handler<T, App>,
    doc: fn() -> OperationDoc,
) -> Endpoint {
    Endpoint::new("post", path, access, on(MethodFilter::POST, handler), doc)
}

pub(crate) fn delete<T: 'static>(
    path: &'static str,
    access: Access,
    handler: impl Handler<T, App>,
    doc: fn() -> OperationDoc,
) -> Endpoint {
    Endpoint::new("delete", path, access, on(MethodFilter::DELETE, handler), doc)
}

impl Endpoint {
    fn new(
        method: &'static str,
        path: &'static str,
        access: Access,
        handler: MethodRouter<App>,
        doc: fn() -> OperationDoc,
    ) -> Self {
        let operation = access.operation();
        let spec: LazySpec = LazyLock::new(Box::new(move || InputSpec::of(operation, &doc())));
        let handler = handler.route_layer(from_fn_with_state(Arc::new(spec), unknown_fields::read));
        Self { method, path, access, doc: LazyLock::new(doc), handler }
    }

    /// The `operationId`: the name of the required entitlement.
    pub(crate) fn name(&self) -> &'static str {
        self.access.operation().map_or("capabilities.list", Permission::name)
    }

    /// Adds the route, behind its guard, to the router.
    pub(crate) fn register(self, router: Router<App>, app: &App) -> Router<App> {
        match self.access {
            Access::AnySecret | Access::Secret(_) | Access::TestSecret(_) => {
                router.route(self.path, guard::secret_key_route(app, self.access, self.handler))
            }
            Access::Browser(operation) => router.merge(guard::browser_route(app, self.path, operation, self.handler)),
        }
    }
}
