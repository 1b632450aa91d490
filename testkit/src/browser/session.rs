//! The connection to one tab.

use std::sync::Arc;

use anyhow::Result;
use serde_json::Value;

use super::devtools::DevTools;

/// A tab as the DevTools protocol addresses it.
#[derive(Clone)]
pub struct Session {
    pub(super) devtools: Arc<DevTools>,
    pub(super) target: String,
    pub(super) id: String,
    pub(super) scripts_enabled: bool,
}

impl Session {
    pub(super) async fn call(&self, method: &str, parameters: Value) -> Result<Value> {
        self.devtools.call(&self.id, method, parameters).await
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("target", &self.target).finish_non_exhaustive()
    }
}
