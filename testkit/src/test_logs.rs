//! The log folder of a test.

use std::{
    collections::BTreeMap,
    fs,
    path::PathBuf,
    sync::{Mutex, PoisonError},
    thread,
};

use anyhow::{Context, Result};

use crate::process::target_folder;

/// An empty `target/test-logs/<test>/`, named after the test's thread. Further clusters of one test get numbered
/// folders.
pub(crate) fn folder() -> Result<PathBuf> {
    static USED: Mutex<BTreeMap<String, usize>> = Mutex::new(BTreeMap::new());
    let test = thread::current().name().unwrap_or("unnamed").replace("::", ".");
    let mut used = USED.lock().unwrap_or_else(PoisonError::into_inner);
    let count = used.entry(test.clone()).or_default();
    *count += 1;
    let name = if *count == 1 { test } else { format!("{test}-{count}") };
    let folder = target_folder()?.join("test-logs").join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    Ok(folder)
}
