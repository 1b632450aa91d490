//! The part of a request's body that its handler has not read. A connection can carry its next request only when that part has
//! been read from it; otherwise it must be closed, and the answer must say so.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::http::header::EXPECT;
use http_body_util::BodyExt;
use hyper::Request;
use hyper::body::{Frame, Incoming, SizeHint};

/// How long the rest of a body is waited for once the answer is known.
const READ_TIMEOUT: Duration = Duration::from_secs(1);
/// Bytes of a rest that is read. A body of 64 KiB is the longest that a route accepts; a little more is read, so that one which
/// is slightly too long does not cost its connection.
const MAX_UNREAD: u64 = 128 * 1024;

/// Where a body is found again after its handler has dropped it.
pub(super) struct Unread {
    returned: Arc<Mutex<Option<Returned>>>,
    /// The client waits for "100 Continue" before it sends the body.
    expects_continue: bool,
}

struct Returned {
    body: Incoming,
    polled: bool,
    failed: bool,
}

/// A body that returns itself when it is dropped before its end.
struct Tracked {
    body: Option<Incoming>,
    polled: bool,
    /// It broke off, or was not what the protocol allows: where the next request begins is unknown.
    failed: bool,
    returned: Arc<Mutex<Option<Returned>>>,
}

/// The request for its handler, and what remains of it afterwards; none if it has no body.
pub(super) fn track(request: Request<Incoming>) -> (Request<Body>, Option<Unread>) {
    if request.body().is_end_stream() {
        return (request.map(|_| Body::empty()), None);
    }
    let expects_continue = request.headers().contains_key(EXPECT);
    let returned = Arc::new(Mutex::new(None));
    let unread = Unread { returned: Arc::clone(&returned), expects_continue };
    let tracked = |body| Body::new(Tracked { body: Some(body), polled: false, failed: false, returned });
    (request.map(tracked), Some(unread))
}

impl Unread {
    /// Reads what remains, if that is not too much and arrives soon. False: the connection cannot be used any more.
    pub(super) async fn discard(self) -> bool {
        let returned = self.returned.lock().unwrap_or_else(PoisonError::into_inner).take();
        // A body that was not returned was read to its end or is still held by a task.
        let Some(Returned { body, polled, failed }) = returned else {
            return Arc::strong_count(&self.returned) == 1;
        };
        // The final answer tells a client that waits for "100 Continue" not to send the body. Whether it sends it all the same
        // cannot be known, so the next bytes could be that body or another request.
        if self.expects_continue && !polled {
            return false;
        }
        if failed || body.size_hint().lower() > MAX_UNREAD {
            return false;
        }
        tokio::time::timeout(READ_TIMEOUT, read(body)).await.unwrap_or(false)
    }
}

async fn read(mut body: Incoming) -> bool {
    let mut left = MAX_UNREAD;
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else { return false };
        let length = frame.data_ref().map_or(0, Bytes::len);
        let Some(fewer) = u64::try_from(length).ok().and_then(|length| left.checked_sub(length)) else { return false };
        left = fewer;
    }
    true
}

impl HttpBody for Tracked {
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

impl Drop for Tracked {
    fn drop(&mut self) {
        if let Some(body) = self.body.take() {
            let returned = Returned { body, polled: self.polled, failed: self.failed };
            *self.returned.lock().unwrap_or_else(PoisonError::into_inner) = Some(returned);
        }
    }
}
