//! What a build for debugging can be told to do wrong, so that the proofs can be seen to notice it (docs/chaos.md,
//! Mutants, and docs/reliability.md, Failpoints). A release build has nothing of it.

mod switch;

pub use switch::{Act, Rule, at, clock_offset_seconds, holds};

use crate::error::{Error, Result};

/// A place between two effects, where a process may be told to end, to pause, or to go no further.
///
/// # Errors
/// [`Error::Internal`] if it was told so.
pub async fn failpoint(name: &'static str) -> Result<()> {
    match at(name) {
        None => Ok(()),
        Some(Act::Pause(time)) => {
            tokio::time::sleep(time).await;
            Ok(())
        }
        Some(Act::Fail) => Err(Error::internal(format!("failpoint {name}"))),
    }
}
