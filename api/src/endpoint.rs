//! One row of the route table: where it is, who may come in, what answers, and what the document says of it. The router and
//! the document are built from the same rows, so neither knows a route that the other does not.

use std::sync::Arc;

use axum::Router;
use axum::handler::Handler;
use axum::middleware::from_fn_with_state;
use axum::routing::{MethodFilter, MethodRouter, on};
use common::capabilities::Operation;

use crate::app::App;
use crate::guard;
use crate::input::{self, Known};
use crate::openapi::sheet::Sheet;

/// Who may come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Door {
    /// A secret key, whatever its entitlements.
    AnySecret,
    /// A secret key with this entitlement.
    Secret(Operation),
    /// The same, of a test account.
    TestSecret(Operation),
    /// A publishable key with this entitlement, from a browser.
    Browser(Operation),
}

impl Door {
    /// The operation whose entitlement is asked for.
    pub(crate) const fn operation(self) -> Option<Operation> {
        match self {
            Self::AnySecret => None,
            Self::Secret(operation) | Self::TestSecret(operation) | Self::Browser(operation) => Some(operation),
        }
    }
}

/// An operation of /v1.
pub(crate) struct Endpoint {
    pub(crate) method: &'static str,
    pub(crate) path: &'static str,
    pub(crate) door: Door,
    pub(crate) sheet: Sheet,
    handler: MethodRouter<App>,
}

/// A row that reads.
pub(crate) fn get<T: 'static>(path: &'static str, door: Door, handler: impl Handler<T, App>, sheet: Sheet) -> Endpoint {
    Endpoint::new("get", path, door, on(MethodFilter::GET, handler), sheet)
}

/// A row that does something.
pub(crate) fn post<T: 'static>(
    path: &'static str,
    door: Door,
    handler: impl Handler<T, App>,
    sheet: Sheet,
) -> Endpoint {
    Endpoint::new("post", path, door, on(MethodFilter::POST, handler), sheet)
}

/// A row that deletes.
pub(crate) fn delete<T: 'static>(
    path: &'static str,
    door: Door,
    handler: impl Handler<T, App>,
    sheet: Sheet,
) -> Endpoint {
    Endpoint::new("delete", path, door, on(MethodFilter::DELETE, handler), sheet)
}

impl Endpoint {
    fn new(method: &'static str, path: &'static str, door: Door, handler: MethodRouter<App>, sheet: Sheet) -> Self {
        let known = Arc::new(Known::of(door.operation(), &sheet));
        let handler = handler.route_layer(from_fn_with_state(known, input::read));
        Self { method, path, door, sheet, handler }
    }

    /// Its name in the document: the entitlement, where there is one.
    pub(crate) fn name(&self) -> &'static str {
        self.operation().map_or("capabilities.list", Operation::name)
    }

    /// The operation whose entitlement it needs.
    pub(crate) fn operation(&self) -> Option<Operation> {
        self.door.operation()
    }

    /// Hangs it up behind its guard.
    pub(crate) fn join(self, router: Router<App>, app: &App) -> Router<App> {
        match self.door {
            Door::AnySecret | Door::Secret(_) | Door::TestSecret(_) => {
                router.route(self.path, guard::secret(app, self.door, self.handler))
            }
            Door::Browser(operation) => router.merge(guard::browser(app, self.path, operation, self.handler)),
        }
    }
}
