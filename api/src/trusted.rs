//! Callers that need no key.

use std::sync::Arc;

use domain::accounts::Caller;

/// A caller that a program of this process has authenticated, which needs neither a key nor a signature. No client can
/// send it.
#[derive(Clone)]
pub(crate) struct Trusted(pub(crate) Arc<Caller>);
