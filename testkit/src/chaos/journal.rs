//! What the clients asked for and were told: kept in memory for the checker, and in a file for whoever looks into a finding.

use std::{
    fs::File,
    io::Write,
    path::Path,
    sync::{Mutex, MutexGuard, PoisonError},
};

use anyhow::{Context, Result};
use serde_json::{Value, json};

/// One request, and its answer if one came.
#[derive(Clone, Debug, Default)]
pub(super) struct Entry {
    pub(super) sent: i64,
    pub(super) ended: i64,
    pub(super) shop: usize,
    /// Such as `POST /v1/payments`.
    pub(super) request: String,
    pub(super) key: Option<String>,
    pub(super) body: Value,
    /// None if no answer came.
    pub(super) status: Option<u16>,
    pub(super) answer: String,
}

impl Entry {
    /// The answer as JSON; `null` if it is none.
    pub(super) fn said(&self) -> Value {
        serde_json::from_str(&self.answer).unwrap_or(Value::Null)
    }
}

/// Only ever appended to.
#[derive(Debug)]
pub(super) struct Journal {
    kept: Mutex<(Vec<Entry>, File)>,
}

impl Journal {
    pub(super) fn create(path: &Path) -> Result<Self> {
        let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self { kept: Mutex::new((Vec::new(), file)) })
    }

    fn kept(&self) -> MutexGuard<'_, (Vec<Entry>, File)> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&self, entry: Entry) {
        let line = json!({
            "sent": entry.sent, "ended": entry.ended, "shop": entry.shop, "request": entry.request, "key": entry.key,
            "body": entry.body, "status": entry.status, "answer": entry.answer,
        });
        let mut kept = self.kept();
        // What cannot be written is still in memory.
        let _ = writeln!(kept.1, "{line}");
        kept.0.push(entry);
    }

    pub(super) fn entries(&self) -> Vec<Entry> {
        self.kept().0.clone()
    }
}
