//! Requests to hosts configured by the operator, such as a provider. They may be in our own network, and responses are
//! read completely. Each request is sent once.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Body, Bytes};
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
        match read(body).await {
            Ok(body) => Ok(HttpResponse { status: head.status.as_u16(), headers: head.headers, body }),
            Err(error) => {
                Err(NoResponse { sent: true, message: ExchangeError::of(error.as_ref()).message.into_owned() })
            }
        }
    }
}

/// Copies the frames into one buffer. Kept as they arrive, small ones would need many times the memory of the body.
async fn read<B>(body: B) -> Result<Bytes, Box<dyn Error + Send + Sync>>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let (mut body, mut bytes) = (Limited::new(body, MAX_RESPONSE_BYTES), Vec::new());
    while let Some(frame) = body.frame().await {
        // Trailers are ignored.
        let Ok(data) = frame?.into_data() else { continue };
        bytes.extend_from_slice(&data);
    }
    Ok(bytes.into())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::convert::Infallible;

    use futures_util::stream;
    use http_body_util::StreamBody;
    use hyper::body::Frame;

    use super::*;

    /// A byte of a response; the clones of its content count those that exist.
    struct Piece(Arc<[u8; 1]>);

    impl AsRef<[u8]> for Piece {
        fn as_ref(&self) -> &[u8] {
            self.0.as_slice()
        }
    }

    /// A body of this many pieces; `most` becomes how many existed at once.
    fn pieces<'a>(
        count: usize,
        content: &'a Arc<[u8; 1]>,
        most: &'a Cell<usize>,
    ) -> impl Body<Data = Bytes, Error = Infallible> + Unpin + 'a {
        let piece = move |_| {
            let bytes = Bytes::from_owner(Piece(Arc::clone(content)));
            most.set(most.get().max(Arc::strong_count(content) - 1));
            Ok(Frame::data(bytes))
        };
        StreamBody::new(stream::iter((0..count).map(piece)))
    }

    #[tokio::test]
    async fn a_response_in_small_pieces_costs_no_more_memory_than_its_body() {
        let (content, most) = (Arc::new([b'x']), Cell::new(0));
        let body = read(pieces(MAX_RESPONSE_BYTES, &content, &most)).await.expect("within the limit");
        assert_eq!(body.len(), MAX_RESPONSE_BYTES);
        assert!(most.get() <= 2, "{most:?} pieces were kept");
        assert!(read(pieces(MAX_RESPONSE_BYTES + 1, &content, &most)).await.is_err());
    }
}
