//! Finds Postgres, Redis, Chromium, Prometheus and the readers of PDF on this machine.
//!
//! Search order: environment variable, PATH, the folders of Debian and Homebrew, and `.dev/tools`, where `./dev`
//! unpacks packages for users who may not install them.

use std::{
    env,
    ffi::{OsStr, OsString},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};

use crate::process;

const BREW: [&str; 3] = ["/opt/homebrew", "/usr/local", "/home/linuxbrew/.linuxbrew"];

/// In Debian's package. The program of this name on PATH is a script that starts it as a child, which would outlive a
/// signal to the script.
const HEADLESS_SHELL: &str = "usr/lib/chromium/chromium-headless-shell";
const CHROMIUMS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
const CHROMIUM_APPS: [&str; 2] = [
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
];

/// A program or a directory of programs, and the libraries it needs.
#[derive(Clone, Debug)]
pub struct Tool {
    /// The path of the program or directory.
    pub path: PathBuf,
    libraries: Option<OsString>,
}

impl Tool {
    /// The program `name` in this directory.
    #[must_use]
    pub fn program(&self, name: &str) -> Command {
        self.prepare(Command::new(self.path.join(name)))
    }

    /// The program itself.
    pub(crate) fn command(&self) -> Command {
        self.prepare(Command::new(&self.path))
    }

    /// The folders of its shared libraries, if they are not in a standard place.
    #[must_use]
    pub fn libraries(&self) -> Option<&OsStr> {
        self.libraries.as_deref()
    }

    fn prepare(&self, mut command: Command) -> Command {
        if let Some(libraries) = &self.libraries {
            command.env("LD_LIBRARY_PATH", libraries);
        }
        command
    }
}

/// The root of the checkout this was built from; `UNIFIED_PAYMENTS_ROOT` overrides it.
#[must_use]
pub fn project_root() -> PathBuf {
    let built_from = || Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_path_buf).unwrap_or_default();
    env::var_os("UNIFIED_PAYMENTS_ROOT").map_or_else(built_from, PathBuf::from)
}

/// The `redis-server` program; `REDIS_SERVER` overrides it.
///
/// # Errors
/// When it is not installed.
pub fn redis_server() -> Result<Tool> {
    let mut candidates: Vec<PathBuf> = env::var_os("REDIS_SERVER").map(PathBuf::from).into_iter().collect();
    candidates.extend(on_path("redis-server"));
    candidates.extend(BREW.iter().map(|prefix| Path::new(prefix).join("bin/redis-server")));
    candidates.push(downloaded().join("usr/bin/redis-server"));
    find_tool(candidates, |path| path.is_file()).context("redis-server is not installed; ./dev run installs it")
}

/// The directory with `initdb` and `postgres`; `POSTGRES_BIN` overrides it.
///
/// # Errors
/// When it is not installed.
pub fn postgres_programs() -> Result<Tool> {
    let mut candidates: Vec<PathBuf> = env::var_os("POSTGRES_BIN").map(PathBuf::from).into_iter().collect();
    // A symbolic link on PATH leads to the directory that also holds the other programs.
    let linked = on_path("postgres").and_then(|path| path.canonicalize().ok());
    candidates.extend(linked.and_then(|path| path.parent().map(Path::to_path_buf)));
    candidates.extend(newest(Path::new("/usr/lib/postgresql"), "", "bin"));
    candidates.extend(BREW.iter().flat_map(|prefix| newest(&Path::new(prefix).join("opt"), "postgresql@", "bin")));
    candidates.extend(newest(&downloaded().join("usr/lib/postgresql"), "", "bin"));
    let is_complete = |folder: &Path| folder.join("initdb").is_file() && folder.join("postgres").is_file();
    find_tool(candidates, is_complete).context("Postgres is not installed; ./dev run installs it")
}

/// Chromium or a browser based on it; `CHROMIUM` overrides it. Chromium's headless shell comes first, because it starts
/// in a third of the time.
pub(crate) fn chromium() -> Result<Tool> {
    let mut candidates: Vec<PathBuf> = env::var_os("CHROMIUM").map(PathBuf::from).into_iter().collect();
    candidates.extend([Path::new("/").join(HEADLESS_SHELL), downloaded().join(HEADLESS_SHELL)]);
    candidates.extend(CHROMIUMS.iter().filter_map(|name| on_path(name)));
    candidates.extend(CHROMIUM_APPS.iter().map(PathBuf::from));
    candidates.push(downloaded().join("usr/lib/chromium/chromium"));
    find_tool(candidates, |path| path.is_file())
        .context("Chromium is not installed; ./dev test installs it, or set CHROMIUM to its path")
}

/// The directory with `prometheus` and `promtool`; `PROMETHEUS_BIN` overrides it.
///
/// # Errors
/// When it is not installed.
pub fn prometheus_programs() -> Result<Tool> {
    let mut candidates: Vec<PathBuf> = env::var_os("PROMETHEUS_BIN").map(PathBuf::from).into_iter().collect();
    candidates.extend(on_path("prometheus").and_then(|path| path.parent().map(Path::to_path_buf)));
    candidates.extend(BREW.iter().map(|prefix| Path::new(prefix).join("bin")));
    candidates.push(downloaded().join("usr/bin"));
    let is_complete = |folder: &Path| folder.join("prometheus").is_file() && folder.join("promtool").is_file();
    find_tool(candidates, is_complete)
        .context("Prometheus is not installed; ./dev test installs it, or set PROMETHEUS_BIN to its folder")
}

/// The directory with `pdftotext`, `pdffonts` and `pdfinfo`.
pub(crate) fn pdf_programs() -> Result<Tool> {
    let mut candidates: Vec<PathBuf> =
        on_path("pdftotext").and_then(|path| path.parent().map(Path::to_path_buf)).into_iter().collect();
    candidates.extend(BREW.iter().map(|prefix| Path::new(prefix).join("bin")));
    candidates.push(downloaded().join("usr/bin"));
    find_tool(candidates, |folder| folder.join("pdftotext").is_file() && folder.join("pdffonts").is_file())
        .context("poppler-utils is not installed; ./dev test installs it")
}

/// The program `name` of this workspace that was built with this one.
///
/// # Errors
/// When it has not been built.
pub fn built_program(name: &str) -> Result<PathBuf> {
    process::binary(name)
}

fn downloaded() -> PathBuf {
    project_root().join(".dev/tools")
}

fn find_tool(candidates: Vec<PathBuf>, usable: impl Fn(&Path) -> bool) -> Result<Tool> {
    let path = candidates.into_iter().find(|path| usable(path)).context("not found")?;
    let libraries = path.starts_with(downloaded()).then(downloaded_libraries).flatten();
    Ok(Tool { path, libraries })
}

/// Every folder with shared libraries among the unpacked packages, as a value for `LD_LIBRARY_PATH`.
fn downloaded_libraries() -> Option<OsString> {
    let is_library_folder = |path: &PathBuf| path.to_string_lossy().ends_with("-linux-gnu");
    let folders = ["usr/lib", "lib"].into_iter().flat_map(|folder| entries(&downloaded().join(folder)));
    env::join_paths(folders.filter(is_library_folder)).ok()
}

fn on_path(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(program)).find(|path| path.is_file())
}

/// `folder/<prefix><version>/<rest>` for every version found, the highest first.
fn newest(folder: &Path, prefix: &str, rest: &str) -> Vec<PathBuf> {
    let version = |path: &PathBuf| path.file_name()?.to_str()?.strip_prefix(prefix)?.parse::<u32>().ok();
    let mut versions: Vec<(u32, PathBuf)> =
        entries(folder).into_iter().filter_map(|path| Some((version(&path)?, path.join(rest)))).collect();
    versions.sort_by(|left, right| right.cmp(left));
    versions.into_iter().map(|(_, path)| path).collect()
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}
