//! Requests to hosts configured by the operator, such as a provider. They may be in our own network, and responses are
//! read completely. Each request is sent once.

use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::{Method, Request, Uri};

use super::addresses::Reach;
use super::client::{Http, http};
use super::connector::{self, Connector};
use super::failure::ExchangeError;
use super::resolver::SystemResolver;

/// Bytes of a response body.
const MAX_RESPONSE_BYTES: usize = 1024 * 1024;

/// A client for such hosts. Cheap to clone; clones share their connections.
#[derive(Clone)]
pub struct TrustedClient {
    http: Http,
}

/// A complete response with any status.
#[derive(Debug)]
pub struct HttpResponse {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// There was no complete response.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct NoResponse {
    /// Whether the request may have been received.
    pub sent: bool,
    /// The cause. Names no resolved address.
    pub message: String,
}

impl TrustedClient {
    /// `connect_timeout` limits the connection only; the caller limits the wait for the response.
    pub fn new(connect_timeout: Duration) -> Self {
        let tls = connector::tls(Vec::new());
        Self { http: http(Connector::new(Arc::new(SystemResolver), tls, Reach::Anywhere, connect_timeout)) }
    }

    /// Posts a form with these headers.
    ///
    /// # Errors
    /// There was no complete response.
    pub async fn post_form(&self, to: Uri, mut headers: HeaderMap, form: String) -> Result<HttpResponse, NoResponse> {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
        self.send(Method::POST, to, headers, Bytes::from(form)).await
    }

    /// Gets a resource with these headers.
    ///
    /// # Errors
    /// There was no complete response.
    pub async fn get(&self, to: Uri, headers: HeaderMap) -> Result<HttpResponse, NoResponse> {
        self.send(Method::GET, to, headers, Bytes::new()).await
    }

    async fn send(&self, method: Method, to: Uri, headers: HeaderMap, body: Bytes) -> Result<HttpResponse, NoResponse> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = to;
        *request.headers_mut() = headers;
        let response = self.http.request(request).await.map_err(|error| NoResponse {
            sent: !error.is_connect(),
            message: ExchangeError::of(&error).message.into_owned(),
        })?;
        let (head, body) = response.into_parts();
        match Limited::new(body, MAX_RESPONSE_BYTES).collect().await {
            Ok(body) => Ok(HttpResponse { status: head.status.as_u16(), headers: head.headers, body: body.to_bytes() }),
            Err(error) => {
                Err(NoResponse { sent: true, message: ExchangeError::of(error.as_ref()).message.into_owned() })
            }
        }
    }
}
