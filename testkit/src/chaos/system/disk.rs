//! A separate file system for Postgres, small enough to be filled.

use std::{
    fs::{self, OpenOptions},
    io::Write,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Result, ensure};

const OPTIONS: &str = "size=1800m";

#[derive(Debug)]
pub(in crate::chaos) struct Disk(PathBuf);

impl Disk {
    pub(super) fn mount(at: &Path) -> Result<Self> {
        fs::create_dir_all(at)?;
        let mount = Command::new("mount").args(["-t", "tmpfs", "-o", OPTIONS, "none"]).arg(at).output()?;
        ensure!(mount.status.success(), "{}", String::from_utf8_lossy(&mount.stderr).trim());
        Ok(Self(at.to_owned()))
    }

    fn filler(&self) -> PathBuf {
        self.0.join("filler")
    }

    /// Fills it with a file.
    pub(in crate::chaos) fn fill(&self) -> Result<()> {
        let mut file = OpenOptions::new().create(true).append(true).open(self.filler())?;
        let block = vec![0u8; 1 << 20];
        while file.write_all(&block).is_ok() {}
        while file.write_all(&block[..4096]).is_ok() {}
        Ok(())
    }

    /// Removes that file.
    pub(in crate::chaos) fn free(&self) -> Result<()> {
        Ok(fs::remove_file(self.filler())?)
    }

    pub(in crate::chaos) fn is_full(&self) -> bool {
        self.filler().exists()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Lazy unmount, because a server may still be running.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}
