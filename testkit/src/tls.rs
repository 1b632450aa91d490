//! Certificates for private servers: one authority signed the server certificate of this machine, the other authority
//! signed nothing. The keys of both authorities were discarded.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::files;

/// The authority that signed the private servers' certificate.
pub const AUTHORITY: &str = include_str!("tls/authority.pem");
/// An authority that signed none of them.
pub const UNTRUSTED_AUTHORITY: &str = include_str!("tls/untrusted.pem");

/// Writes the server certificate and its key into a folder, readable by its owner only.
pub(crate) fn write_server(folder: &Path) -> Result<[PathBuf; 2]> {
    let [certificate, key] = ["server.pem", "server.key.pem"].map(|name| folder.join(name));
    files::write_private(&certificate, include_str!("tls/server.pem"))?;
    files::write_private(&key, include_str!("tls/server.key.pem"))?;
    Ok([certificate, key])
}

/// Writes certificates to a file for a process to load.
///
/// # Errors
/// When the file cannot be written.
pub fn write(folder: &Path, name: &str, pem: &str) -> Result<PathBuf> {
    let file = folder.join(name);
    fs::write(&file, pem).with_context(|| format!("cannot write {}", file.display()))?;
    Ok(file)
}
