//! Directories and small secret files.

use std::{
    fs::{self, OpenOptions},
    io::Write,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use nix::sys::statvfs::statvfs;

use crate::{owner::Owner, watchdog};

/// `count` random bytes in hexadecimal.
pub(crate) fn random_hex(count: usize) -> Result<String> {
    let mut bytes = vec![0; count];
    getrandom::fill(&mut bytes).map_err(|error| anyhow::anyhow!("cannot get random bytes: {error}"))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Replaces the file atomically, readable by its owner only: a reader sees the old text or the new one, never a part.
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

/// The password stored in `directory`, created on the first call. Every user of the machine can reach a server on a
/// loopback port, and a superuser of Postgres can run programs.
pub(crate) fn password(directory: &Path) -> Result<String> {
    let path = directory.join("password");
    if let Ok(stored) = fs::read_to_string(&path) {
        return Ok(stored);
    }
    let created = random_hex(16)?;
    write_private(&path, &created)?;
    Ok(created)
}

/// Where files stay in memory.
pub const MEMORY: &str = "/dev/shm";
/// For the servers of all test processes that run at once.
const NEEDED_MEMORY: u64 = 6 << 30;

/// How many bytes of files the file system at `path` has room for; 0 if there is none.
#[must_use]
pub fn free_space(path: &Path) -> u64 {
    statvfs(path).map_or(0, |space| space.blocks_available() * space.fragment_size())
}

/// A directory of this test process, removed when dropped or when the process is killed.
#[derive(Debug)]
pub struct TempDir {
    path: PathBuf,
}

impl TempDir {
    /// Creates an empty directory in the system's temporary folder, or elsewhere if Postgres cannot use that one.
    ///
    /// # Errors
    /// When it cannot be created.
    pub fn new() -> Result<Self> {
        Self::within(&Owner::choose()?.temp_dir()?)
    }

    /// Creates an empty directory in memory, or as [`Self::new`] where that has not enough space. A database has more
    /// than a thousand files, and a disk takes longer to create and remove them than most tests run.
    ///
    /// # Errors
    /// When it cannot be created.
    pub fn in_memory() -> Result<Self> {
        let memory = Path::new(MEMORY);
        if free_space(memory) < NEEDED_MEMORY { Self::new() } else { Self::within(memory) }
    }

    fn within(folder: &Path) -> Result<Self> {
        let path = folder.join(format!("unified-payments-test-{}", random_hex(8)?));
        watchdog::remove_at_end(&path)?;
        fs::create_dir(&path).with_context(|| format!("cannot create {}", path.display()))?;
        Ok(Self { path })
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        // Processes that still write into it end after this; the watchdog removes what they leave.
        let _ = fs::remove_dir_all(&self.path);
    }
}
