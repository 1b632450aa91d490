//! Requests to hosts that the operator names, such as a provider: they may be in our own network, and their answers are read
//! whole. Each is sent once, like every other.

use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, Uri};

use super::addresses::Reach;
use super::client::{Http, http};
use super::connector::{self, Connector};
use super::failure::Fault;
use super::resolver::SystemResolver;

/// Bytes of an answer at most.
const LONGEST_ANSWER: usize = 1024 * 1024;

/// A client for such hosts. Cheap to clone; the clones share their connections.
#[derive(Clone)]
pub struct Trusted {
    http: Http,
}

/// What came back, whatever its status.
#[derive(Debug)]
pub struct Said {
    /// The status code.
    pub status: u16,
    /// The whole body.
    pub body: Bytes,
}

/// No whole answer.
#[derive(Debug, thiserror::Error)]
#[error("{why}")]
pub struct Unanswered {
    /// Whether the request may have arrived.
    pub sent: bool,
    /// What went wrong. It names no address.
    pub why: String,
}

impl Trusted {
    /// A client that waits so long for a connection. For how long it waits for an answer is the caller's to say.
    pub fn new(connect_timeout: Duration) -> Self {
        let tls = connector::tls(Vec::new());
        Self { http: http(Connector::new(Arc::new(SystemResolver), tls, Reach::Anywhere, connect_timeout)) }
    }

    /// Posts a form.
    ///
    /// # Errors
    /// There was no whole answer.
    pub async fn post_form(&self, to: Uri, form: String) -> Result<Said, Unanswered> {
        let mut request = Request::new(Full::new(Bytes::from(form)));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = to;
        let form = HeaderValue::from_static("application/x-www-form-urlencoded");
        request.headers_mut().insert(CONTENT_TYPE, form);
        let response = self
            .http
            .request(request)
            .await
            .map_err(|error| Unanswered { sent: !error.is_connect(), why: Fault::of(&error).message.into_owned() })?;
        let status = response.status().as_u16();
        match Limited::new(response.into_body(), LONGEST_ANSWER).collect().await {
            Ok(body) => Ok(Said { status, body: body.to_bytes() }),
            Err(error) => Err(Unanswered { sent: true, why: Fault::of(error.as_ref()).message.into_owned() }),
        }
    }
}
