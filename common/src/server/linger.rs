//! Closing a connection so that the client can read the last answer. A socket that is closed while bytes of the client are unread
//! or still arrive sends a reset, and a reset discards what the client has not read yet.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// How long a client may be silent before it is not waited for any more.
const IDLE_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a client may go on sending in all.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes that are read, and discarded, at once.
const BUFFER: usize = 8 * 1024;

/// A stream whose shutdown ends when the client has closed its side too, or has been given time to.
pub(super) struct Lingering<S> {
    stream: S,
    closing: Option<Closing>,
}

struct Closing {
    deadline: Instant,
    idle: Pin<Box<Sleep>>,
}

impl<S> Lingering<S> {
    pub(super) fn new(stream: S) -> Self {
        Self { stream, closing: None }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Lingering<S> {
    /// Discards what the client still sends. An error ends it like an end: everything was sent before.
    fn poll_discard(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let closing = self
            .closing
            .get_or_insert_with(|| Closing { deadline: Instant::now() + TIMEOUT, idle: Box::pin(sleep(IDLE_TIMEOUT)) });
        let mut bytes = [0; BUFFER];
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
            // A client that never pauses leaves no moment in which the timer would be asked.
            if Instant::now() >= closing.deadline {
                return Poll::Ready(());
            }
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Lingering<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Lingering<S> {
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
