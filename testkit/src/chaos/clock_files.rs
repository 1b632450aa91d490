//! The clock offset of each process, which it reads from a file of its own.

use std::{fs, path::PathBuf};

use anyhow::Result;

use crate::{ProcessKind, TempDir};

/// The environment variable with the path of the file.
pub(super) const CLOCK_OFFSET_FILE: &str = "CLOCK_OFFSET_FILE";

#[derive(Debug)]
pub(super) struct ClockFiles(TempDir);

impl ClockFiles {
    pub(super) fn new() -> Result<Self> {
        Ok(Self(TempDir::new()?))
    }

    /// The file of a process. If it does not exist, the clock is right.
    pub(super) fn file(&self, kind: ProcessKind, index: usize) -> PathBuf {
        self.0.path().join(format!("{}-{index}", kind.name()))
    }

    /// Sets the offset of a clock in milliseconds.
    pub(super) fn set(&self, kind: ProcessKind, index: usize, shift: i64) -> Result<()> {
        let (file, new_file) = (self.file(kind, index), self.0.path().join("fresh"));
        let sign = if shift < 0 { '-' } else { '+' };
        let by = shift.unsigned_abs();
        fs::write(&new_file, format!("{sign}{}.{:03}\n", by / 1000, by % 1000))?;
        // Atomically, so that a reader sees the old offset or the new one.
        fs::rename(new_file, file)?;
        Ok(())
    }
}
