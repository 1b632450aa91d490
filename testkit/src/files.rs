//! Directories and small secret files.

use std::{
    fs::{self, OpenOptions},
    io::Write,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use crate::{owner::Owner, watchdog};

/// `count` random bytes in hexadecimal.
pub(crate) fn random_hex(count: usize) -> Result<String> {
    let mut bytes = vec![0; count];
    getrandom::fill(&mut bytes).map_err(|error| anyhow::anyhow!("no randomness: {error}"))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Replaces `path` as a whole, readable by its owner only: a reader sees the old text or the new one, never half.
pub(crate) fn write_private(path: &Path, text: &str) -> Result<()> {
    let new = path.with_extension("new");
    let write = || {
        let _ = fs::remove_file(&new);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
        file.write_all(text.as_bytes())?;
        fs::rename(&new, path)
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}

/// The password kept in `directory`, made at the first call. Servers on a loopback port can be reached by every user of the
/// machine, and the superuser of a Postgres can run programs.
pub(crate) fn password(directory: &Path) -> Result<String> {
    let path = directory.join("password");
    if let Ok(kept) = fs::read_to_string(&path) {
        return Ok(kept);
    }
    let made = random_hex(16)?;
    write_private(&path, &made)?;
    Ok(made)
}

/// A directory of this test process, removed when dropped or when the process is killed.
#[derive(Debug)]
pub struct TempDir {
    path: PathBuf,
}

impl TempDir {
    /// Makes an empty directory in the system's place for such, or in another where a Postgres can live too.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn new() -> Result<Self> {
        let path = Owner::choose()?.temporary()?.join(format!("unified-payments-test-{}", random_hex(8)?));
        watchdog::remove_at_end(&path)?;
        fs::create_dir(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Self { path })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        // What still writes into it is ended after us; the watchdog removes the rest.
        let _ = fs::remove_dir_all(&self.path);
    }
}
