//! The log folders of tests.

use std::{
    collections::BTreeMap,
    fs,
    path::PathBuf,
    sync::{Mutex, PoisonError},
    thread,
};

use anyhow::{Context, Result};

use crate::process::target_folder;

/// Where all of them are.
pub(crate) fn root() -> Result<PathBuf> {
    Ok(target_folder()?.join("test-logs"))
}

/// The name of a file or folder for a test or a suite.
pub(crate) fn name(test: &str) -> String {
    test.replace("::", ".").replace(' ', ".")
}

/// An empty `target/test-logs/<test>/`, named after the test's thread. Further clusters of one test get numbered
/// folders.
pub(crate) fn folder() -> Result<PathBuf> {
    static USED: Mutex<BTreeMap<String, usize>> = Mutex::new(BTreeMap::new());
    let test = name(thread::current().name().unwrap_or("unnamed"));
    let mut used = USED.lock().unwrap_or_else(PoisonError::into_inner);
    let count = used.entry(test.clone()).or_default();
    *count += 1;
    let folder = root()?.join(if *count == 1 { test } else { format!("{test}-{count}") });
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    Ok(folder)
}
