//! Faults that a debug build can be configured to have, so that tests can show that they detect them (docs/chaos.md,
//! Mutants, and docs/reliability.md, Failpoints). A release build contains none of this.

mod switch;

pub use switch::{FailpointAction, Rule, clock_offset_seconds, failpoint_action, holds};

use crate::error::{Error, Result};

/// A point between two effects at which a process can be configured to abort, pause or fail.
///
/// # Errors
/// [`Error::Internal`] if it is configured to fail.
pub async fn failpoint(name: &'static str) -> Result<()> {
    match failpoint_action(name) {
        None => Ok(()),
        Some(FailpointAction::Pause(time)) => {
            tokio::time::sleep(time).await;
            Ok(())
        }
        Some(FailpointAction::Fail) => Err(Error::internal(format!("failpoint {name}"))),
    }
}
