//! Faults that a debug build can be configured to have, so that tests can show that they detect them (docs/chaos.md,
//! Mutants, and docs/reliability.md, Failpoints). A release build contains none of this.

mod switch;

pub use switch::{FailpointAction, Rule, clock_offset_seconds, failpoint_action, holds};

use std::time::Duration;

use crate::error::{Error, Result};

/// How often a held failpoint looks for its file.
const HOLD_POLL: Duration = Duration::from_millis(20);

/// Whether a rule of the protocol is enabled; in a release build all are. What is done instead, if more than a line,
/// is in a module `mutants`.
#[macro_export]
macro_rules! rule_enabled {
    ($rule:ident) => {
        $crate::faults::holds($crate::faults::Rule::$rule)
    };
}

/// A point between two effects at which a debug build can be configured to abort, pause or fail, which returns the error
/// from the surrounding function. In a release build it is empty.
#[macro_export]
macro_rules! failpoint {
    ($name:literal) => {
        #[cfg(debug_assertions)]
        $crate::faults::reach($name).await?;
    };
}

/// Does what is configured for this failpoint.
///
/// # Errors
/// [`Error::Internal`] if it is configured to fail.
pub async fn reach(failpoint: &'static str) -> Result<()> {
    match failpoint_action(failpoint) {
        None => Ok(()),
        Some(FailpointAction::Pause(time)) => {
            tokio::time::sleep(time).await;
            Ok(())
        }
        Some(FailpointAction::Hold(file)) => {
            while !file.exists() {
                tokio::time::sleep(HOLD_POLL).await;
            }
            Ok(())
        }
        Some(FailpointAction::Fail) => Err(Error::internal(format!("failpoint {failpoint}"))),
    }
}
