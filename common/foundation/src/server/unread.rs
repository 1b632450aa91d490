//! The part of a request's body that its handler has not read. That part must be read before the connection can carry
//! another request; otherwise the connection must be closed, and the response must announce that.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::http::header::EXPECT;
use http_body_util::BodyExt;
use hyper::Request;
use hyper::body::{Frame, Incoming, SizeHint};

/// Bytes of the rest that are read. Routes accept bodies up to 64 KiB; reading more keeps the connection usable after a
/// body that is slightly too long.
const MAX_UNREAD: u64 = 128 * 1024;

/// Receives the body back after the handler has dropped it.
pub(super) struct UnreadBody {
    returned: Arc<Mutex<Option<ReturnedBody>>>,
    /// The client waits for "100 Continue" before sending the body.
    expects_continue: bool,
}

struct ReturnedBody {
    body: Incoming,
    polled: bool,
    failed: bool,
}

/// A body that is handed back when dropped before its end.
struct TrackedBody {
    body: Option<Incoming>,
    polled: bool,
    /// The body is incomplete or malformed, so it is unknown where the next request begins.
    failed: bool,
    returned: Arc<Mutex<Option<ReturnedBody>>>,
}

/// Wraps the request's body to get back the unread part later; `None` if there is no body.
pub(super) fn track(request: Request<Incoming>) -> (Request<Body>, Option<UnreadBody>) {
    if request.body().is_end_stream() {
        return (request.map(|_| Body::empty()), None);
    }
    let expects_continue = request.headers().contains_key(EXPECT);
    let returned = Arc::new(Mutex::new(None));
    let unread = UnreadBody { returned: Arc::clone(&returned), expects_continue };
    let tracked = |body| Body::new(TrackedBody { body: Some(body), polled: false, failed: false, returned });
    (request.map(tracked), Some(unread))
}

impl UnreadBody {
    /// Reads the rest if it is short and arrives within `timeout`. Returns whether the connection remains usable.
    pub(super) async fn discard(self, timeout: Duration) -> bool {
        let returned = self.returned.lock().unwrap_or_else(PoisonError::into_inner).take();
        // A body that was not handed back was read to its end, or a task still holds it.
        let Some(ReturnedBody { body, polled, failed }) = returned else {
            return Arc::strong_count(&self.returned) == 1;
        };
        // A final response tells a client that waits for "100 Continue" not to send the body. It may send it
        // nevertheless, so the next bytes could be that body or another request.
        if self.expects_continue && !polled {
            return false;
        }
        if failed || body.size_hint().lower() > MAX_UNREAD {
            return false;
        }
        tokio::time::timeout(timeout, read(body)).await.unwrap_or(false)
    }
}

async fn read(mut body: Incoming) -> bool {
    let mut remaining = MAX_UNREAD;
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else { return false };
        let length = frame.data_ref().map_or(0, Bytes::len);
        let rest = u64::try_from(length).ok().and_then(|length| remaining.checked_sub(length));
        let Some(rest) = rest else { return false };
        remaining = rest;
    }
    true
}

impl HttpBody for TrackedBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        self.polled = true;
        let Some(body) = self.body.as_mut() else { return Poll::Ready(None) };
        let frame = ready!(Pin::new(body).poll_frame(context));
        match &frame {
            None => self.body = None,
            Some(frame) => self.failed = frame.is_err(),
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Incoming::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), Incoming::size_hint)
    }
}

impl Drop for TrackedBody {
    fn drop(&mut self) {
        if let Some(body) = self.body.take() {
            let returned = ReturnedBody { body, polled: self.polled, failed: self.failed };
            *self.returned.lock().unwrap_or_else(PoisonError::into_inner) = Some(returned);
        }
    }
}
