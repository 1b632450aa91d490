//! Bodies of requests, read within limits of size and time.

use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use http_body_util::BodyExt;
use tokio::time::{Instant, timeout};

/// Why a body was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadError {
    /// It is longer than the limit.
    TooLong,
    /// It did not arrive in time.
    TooLate,
    /// It is malformed, or its end is missing.
    Incomplete,
}

/// Reads a body of up to `limit` bytes that arrives within `time`.
///
/// # Errors
/// [`ReadError`].
pub async fn read(body: Body, limit: usize, time: Duration) -> Result<Bytes, ReadError> {
    Reading::begin(body, limit, time)?.finish().await.map(Bytes::from)
}

/// A body that is being read.
pub struct Reading {
    body: Body,
    bytes: Vec<u8>,
    limit: usize,
    /// What is left of the time for its arrival. What the reader does meanwhile does not count.
    time: Duration,
}

impl Reading {
    /// Begins with a body of up to `limit` bytes, for whose arrival `time` is waited.
    ///
    /// # Errors
    /// [`ReadError::TooLong`] if it is announced as longer.
    pub fn begin(body: Body, limit: usize, time: Duration) -> Result<Self, ReadError> {
        // Checked before reading, so that a client waiting for "100 Continue" sends nothing.
        if body.size_hint().lower() > u64::try_from(limit).unwrap_or(u64::MAX) {
            return Err(ReadError::TooLong);
        }
        Ok(Self { body, bytes: Vec::new(), limit, time })
    }

    /// Reads on until the end, or until more than `length` bytes have arrived. Whether they have.
    ///
    /// # Errors
    /// [`ReadError`].
    pub async fn exceeds(&mut self, length: usize) -> Result<bool, ReadError> {
        let (began, time) = (Instant::now(), self.time);
        let read = timeout(time, self.collect(length)).await;
        self.time = time.saturating_sub(began.elapsed());
        read.unwrap_or(Err(ReadError::TooLate))
    }

    /// Reads the rest.
    ///
    /// # Errors
    /// [`ReadError`].
    pub async fn finish(mut self) -> Result<Vec<u8>, ReadError> {
        self.exceeds(self.limit).await?;
        Ok(self.bytes)
    }

    /// Copies the frames into one buffer. Kept as they arrive, frames of one byte each would need many times the memory of
    /// the body, and would keep the connection's buffers besides.
    async fn collect(&mut self, length: usize) -> Result<bool, ReadError> {
        while self.bytes.len() <= length {
            let Some(frame) = self.body.frame().await else { return Ok(false) };
            // Trailers are ignored.
            let Ok(data) = frame.map_err(|_| ReadError::Incomplete)?.into_data() else { continue };
            let (read, capacity) = (self.bytes.len() + data.len(), self.bytes.capacity());
            if read > self.limit {
                return Err(ReadError::TooLong);
            }
            if read > capacity {
                self.bytes.reserve_exact(read.max((2 * capacity).min(length)) - self.bytes.len());
            }
            self.bytes.extend_from_slice(&data);
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::stream;

    use super::*;

    const LIMIT: usize = 64 * 1024;
    const TIME: Duration = Duration::from_secs(10);

    /// The memory of a chunk, which counts those that exist.
    struct Chunk(Arc<AtomicUsize>);

    impl AsRef<[u8]> for Chunk {
        fn as_ref(&self) -> &[u8] {
            b"x"
        }
    }

    impl Drop for Chunk {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// A body of this many chunks of one byte, and the most that existed at once.
    fn chunks(count: usize) -> (Body, Arc<AtomicUsize>) {
        let (existing, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let counted = Arc::clone(&most);
        let chunk = move |_| {
            counted.fetch_max(existing.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
            Ok::<_, io::Error>(Bytes::from_owner(Chunk(Arc::clone(&existing))))
        };
        (Body::from_stream(stream::iter((0..count).map(chunk))), most)
    }

    #[tokio::test]
    async fn small_chunks_cost_no_more_memory_than_the_body() {
        let (body, most) = chunks(LIMIT);
        let bytes = Reading::begin(body, LIMIT, TIME).expect("no length").finish().await.expect("within the limit");
        assert!(bytes == [b'x'; LIMIT] && bytes.capacity() <= LIMIT, "{} of {}", bytes.len(), bytes.capacity());
        assert!(most.load(Ordering::Relaxed) <= 2, "{most:?} chunks were kept");
        for length in [0, 1, 1000, LIMIT - 1] {
            let sent = vec![b'x'; length];
            assert_eq!(read(Body::from(sent.clone()), LIMIT, TIME).await.expect("within the limit"), sent);
        }
    }

    #[tokio::test]
    async fn bodies_over_the_limit_are_refused() {
        assert_eq!(read(chunks(LIMIT + 1).0, LIMIT, TIME).await, Err(ReadError::TooLong));
        assert_eq!(read(Body::from(vec![b'x'; LIMIT + 1]), LIMIT, TIME).await, Err(ReadError::TooLong));
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_is_read_only_as_far_as_it_is_wanted() -> Result<(), ReadError> {
        let (body, most) = chunks(2 * LIMIT);
        let mut reading = Reading::begin(body, 2 * LIMIT, TIME)?;
        assert!(reading.exceeds(LIMIT).await?);
        let (read, capacity) = (reading.bytes.len(), reading.bytes.capacity());
        assert!(read == LIMIT + 1 && capacity <= LIMIT + 1, "{read} bytes in {capacity}");
        // Longer than the body may take to arrive.
        tokio::time::sleep(2 * TIME).await;
        assert_eq!(reading.finish().await?.len(), 2 * LIMIT);
        assert!(most.load(Ordering::Relaxed) <= 2, "{most:?} chunks were kept");
        assert!(!Reading::begin(chunks(LIMIT).0, 2 * LIMIT, TIME)?.exceeds(LIMIT).await?);
        Ok(())
    }

    #[tokio::test(start_paused = true)]
    async fn bodies_without_an_end_are_refused() {
        let broken = stream::iter([Ok(Bytes::from_static(b"x")), Err(io::Error::other("the connection was lost"))]);
        assert_eq!(read(Body::from_stream(broken), LIMIT, TIME).await, Err(ReadError::Incomplete));
        let silent = Body::from_stream(stream::pending::<io::Result<Bytes>>());
        assert_eq!(read(silent, LIMIT, TIME).await, Err(ReadError::TooLate));
    }
}
