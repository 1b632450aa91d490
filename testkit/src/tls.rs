//! Certificates for private servers: an authority signed one for this machine, a stranger signed none, and the keys of both were
//! thrown away.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::files;

/// Who vouches for the private servers.
pub const AUTHORITY: &str = include_str!("tls/authority.pem");
/// Who does not.
pub const STRANGER: &str = include_str!("tls/stranger.pem");

/// Writes the certificate of the servers and its key into a folder, which nobody else may read.
pub(crate) fn write_server(folder: &Path) -> Result<[PathBuf; 2]> {
    let [certificate, key] = ["server.pem", "server.key.pem"].map(|name| folder.join(name));
    files::write_private(&certificate, include_str!("tls/server.pem"))?;
    files::write_private(&key, include_str!("tls/server.key.pem"))?;
    Ok([certificate, key])
}

/// Writes certificates where a process is to find them.
///
/// # Errors
/// When the file cannot be written.
pub fn write(folder: &Path, name: &str, pem: &str) -> Result<PathBuf> {
    let file = folder.join(name);
    fs::write(&file, pem).with_context(|| format!("cannot write {}", file.display()))?;
    Ok(file)
}
