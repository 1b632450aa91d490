//! Lingering close: closes a connection so that the client can read the last response. Closing a socket with unread or
//! still arriving bytes sends a reset, which discards response bytes that the client has not read yet.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// How long the client may be idle before the connection is closed.
const IDLE_TIMEOUT: Duration = Duration::from_secs(2);
/// How long the client may keep sending in total.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes discarded per read.
const BUFFER_BYTES: usize = 8 * 1024;

/// A stream whose shutdown completes when the client has closed its side too, or has had time to.
pub(super) struct LingeringClose<S> {
    stream: S,
    closing: Option<Closing>,
}

struct Closing {
    deadline: Instant,
    idle: Pin<Box<Sleep>>,
}

impl<S> LingeringClose<S> {
    pub(super) fn new(stream: S) -> Self {
        Self { stream, closing: None }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> LingeringClose<S> {
    /// Discards incoming bytes. An error counts as the end, because the response was sent before.
    fn poll_discard(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let closing = self
            .closing
            .get_or_insert_with(|| Closing { deadline: Instant::now() + TIMEOUT, idle: Box::pin(sleep(IDLE_TIMEOUT)) });
        let mut bytes = [0; BUFFER_BYTES];
        loop {
            let mut buffer = ReadBuf::new(&mut bytes);
            match Pin::new(&mut self.stream).poll_read(context, &mut buffer) {
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {
                    let idle = Instant::now() + IDLE_TIMEOUT;
                    closing.idle.as_mut().reset(idle.min(closing.deadline));
                }
                Poll::Ready(_) => return Poll::Ready(()),
                Poll::Pending => return closing.idle.as_mut().poll(context),
            }
            // If the client never pauses, the timer is never polled.
            if Instant::now() >= closing.deadline {
                return Poll::Ready(());
            }
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for LingeringClose<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for LingeringClose<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.closing.is_none() {
            ready!(Pin::new(&mut self.stream).poll_shutdown(context))?;
        }
        self.poll_discard(context).map(Ok)
    }
}
