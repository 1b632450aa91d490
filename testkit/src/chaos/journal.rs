//! The log of all requests of the clients: in memory for the checker, and in a file for debugging.

use std::{
    fs::File,
    io::Write,
    path::Path,
    sync::{Mutex, MutexGuard, PoisonError},
};

use anyhow::{Context, Result};
use serde_json::{Value, json};

/// One request, and its response if one arrived.
#[derive(Clone, Debug, Default)]
pub(super) struct Entry {
    pub(super) sent: i64,
    pub(super) ended: i64,
    pub(super) shop: usize,
    /// Such as `POST /v1/payments`.
    pub(super) request: String,
    pub(super) key: Option<String>,
    pub(super) body: Value,
    /// `None` if no response arrived.
    pub(super) status: Option<u16>,
    pub(super) response: String,
}

impl Entry {
    /// The response as JSON; `null` if it is not JSON.
    pub(super) fn response_json(&self) -> Value {
        serde_json::from_str(&self.response).unwrap_or(Value::Null)
    }
}

/// An append-only log.
#[derive(Debug)]
pub(super) struct Journal {
    entries: Mutex<(Vec<Entry>, File)>,
}

impl Journal {
    pub(super) fn create(path: &Path) -> Result<Self> {
        let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self { entries: Mutex::new((Vec::new(), file)) })
    }

    fn lock(&self) -> MutexGuard<'_, (Vec<Entry>, File)> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&self, entry: Entry) {
        let line = json!({
            "sent": entry.sent, "ended": entry.ended, "shop": entry.shop, "request": entry.request, "key": entry.key,
            "body": entry.body, "status": entry.status, "response": entry.response,
        });
        let mut entries = self.lock();
        // If the file cannot be written, the entry is still in memory.
        let _ = writeln!(entries.1, "{line}");
        entries.0.push(entry);
    }

    pub(super) fn entries(&self) -> Vec<Entry> {
        self.lock().0.clone()
    }
}
