//! How often a batch of work is repeated.

use foundation::error::Result;

/// Repeats `batch` while it is full, at most `max_batches` times; the next tick continues.
pub(crate) async fn batches(max_batches: usize, rows: i64, batch: impl AsyncFn() -> Result<u64>) -> Result<()> {
    for _ in 0..max_batches {
        if batch().await? < rows.unsigned_abs() {
            break;
        }
    }
    Ok(())
}
