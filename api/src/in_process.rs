//! /v1 for a program that serves signed-in users: the same routes, checks and limits, called without a connection.

use std::net::IpAddr;
use std::sync::Arc;

use anyhow::Result;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::middleware::from_fn_with_state;
use axum::response::Response;
use domain::accounts::{self, AuthError, Caller};
use domain::users::Role;
use foundation::crypto::{KeyRing, Peppers};
use foundation::error::Error;
use foundation::id::{AccountId, KeyId, LogoId};
use foundation::telemetry::MetricsHandle;
use sqlx::PgPool;
use tower::ServiceExt as _;

use crate::trusted::Trusted;
use crate::{Connected, Listener, connect, request_layer, routes, serve};

/// The API in this process, for callers that the program has authenticated. Cheap to clone.
#[derive(Clone)]
pub struct InProcess {
    connected: Arc<Connected>,
    router: Router,
}

impl InProcess {
    /// Connects to Postgres and Redis, configured by the environment variables of `api`. `process` names the
    /// connections.
    ///
    /// # Errors
    /// The configuration is invalid.
    pub fn connect(process: &'static str) -> Result<Self> {
        let connected = connect(process)?;
        let router = routes::router(connected.app.clone());
        Ok(Self { connected: Arc::new(connected), router })
    }

    /// Serves the program's own routes until `stop`. Their requests are logged and counted as those of the API.
    ///
    /// # Errors
    /// The configuration is invalid, or an address cannot be bound.
    pub async fn serve(
        &self,
        listener: Listener,
        router: Router,
        metrics: MetricsHandle,
        stop: impl Future<Output = ()> + Send + 'static,
    ) -> Result<()> {
        let router = router.layer(from_fn_with_state(self.connected.app.clone(), request_layer::wrap));
        serve(&self.connected, listener, router, metrics, stop).await
    }

    /// The connections to Postgres.
    pub fn pool(&self) -> &PgPool {
        &self.connected.pool
    }

    /// The keys that encrypt secrets at rest.
    pub fn encryption(&self) -> &KeyRing {
        &self.connected.secrets.encryption
    }

    /// The peppers of API key hashes.
    pub fn peppers(&self) -> &Peppers {
        &self.connected.peppers
    }

    /// The caller as which a user with this role acts.
    ///
    /// # Errors
    /// As [`domain::accounts::Keys::caller_of_user`].
    pub async fn caller(&self, key: KeyId, role: Role) -> Result<Arc<Caller>, AuthError> {
        self.connected.app.keys.caller_of_user(key, role.entitlements()).await.map(Arc::new)
    }

    /// The bytes of an account's logo, for this client.
    ///
    /// # Errors
    /// Database errors; [`Error::Busy`] if clients are reading too many logos.
    pub async fn logo(&self, id: LogoId, account: AccountId, client: IpAddr) -> Result<Option<Bytes>, Error> {
        let load = accounts::logo(&self.connected.pool, id);
        self.connected.app.large_responses.logo((id, account), client, load).await
    }

    /// The response to a request of this caller.
    pub async fn call(&self, caller: Arc<Caller>, mut request: Request<Body>) -> Response {
        request.extensions_mut().insert(Trusted(caller));
        match self.router.clone().oneshot(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        }
    }
}
