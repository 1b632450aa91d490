//! All programs in one executable, for the image: they share most of their code, which is then there once.

use std::env;
use std::ffi::OsStr;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, bail};

/// Runs the program by whose name the process was started, such as that of a symbolic link.
///
/// # Errors
/// There is no such program, or it fails.
pub fn start() -> Result<ExitCode> {
    let name = env::args_os().next().unwrap_or_default();
    match Path::new(&name).file_name().and_then(OsStr::to_str) {
        Some("api") => api::start()?,
        Some("portal") => portal::start()?,
        Some("worker") => worker::start()?,
        Some("scheduler") => scheduler::start()?,
        Some("migrate") => migrations::start()?,
        Some("gateway") => return Ok(gateway::start()),
        Some("ctl") => return Ok(ctl::start()),
        _ => bail!("the name by which this is started is not that of a program"),
    }
    Ok(ExitCode::SUCCESS)
}
