//! Where Postgres, Redis, Chromium and Prometheus are on this machine.
//!
//! In order: what the environment names, PATH, the places of Debian and brew, and what `./dev` fetched into
//! `.dev/tools` for a user who may not install packages.

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

const CHROMIUMS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
const CHROMIUM_APPS: [&str; 2] = [
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
];

/// A program, or a directory of programs, and what it needs to start.
#[derive(Clone, Debug)]
pub struct Tool {
    /// Where it is.
    pub path: PathBuf,
    libraries: Option<OsString>,
}

impl Tool {
    /// The program `name` of a directory of programs.
    pub(crate) fn program(&self, name: &str) -> Command {
        self.prepare(Command::new(self.path.join(name)))
    }

    /// The program itself.
    pub(crate) fn command(&self) -> Command {
        self.prepare(Command::new(&self.path))
    }

    /// Where its shared objects lie, if that is no usual place.
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

/// The root of the checkout: the one this was built from, unless `UNIFIED_PAYMENTS_ROOT` names another.
#[must_use]
pub fn project_root() -> PathBuf {
    let built = || Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_path_buf).unwrap_or_default();
    env::var_os("UNIFIED_PAYMENTS_ROOT").map_or_else(built, PathBuf::from)
}

/// The `redis-server` program; `REDIS_SERVER` names another.
///
/// # Errors
/// When there is none.
pub fn redis_server() -> Result<Tool> {
    let mut places: Vec<PathBuf> = env::var_os("REDIS_SERVER").map(PathBuf::from).into_iter().collect();
    places.extend(on_path("redis-server"));
    places.extend(BREW.iter().map(|prefix| Path::new(prefix).join("bin/redis-server")));
    places.push(fetched().join("usr/bin/redis-server"));
    first(places, |place| place.is_file()).context("no redis-server here: run ./dev run, which installs it")
}

/// The directory with `initdb` and `postgres`; `POSTGRES_BIN` names another.
///
/// # Errors
/// When there is none.
pub fn postgres_programs() -> Result<Tool> {
    let mut places: Vec<PathBuf> = env::var_os("POSTGRES_BIN").map(PathBuf::from).into_iter().collect();
    // A link on PATH leads to the directory that holds the other programs too.
    let linked = on_path("postgres").and_then(|path| path.canonicalize().ok());
    places.extend(linked.and_then(|path| path.parent().map(Path::to_path_buf)));
    places.extend(newest(Path::new("/usr/lib/postgresql"), "", "bin"));
    places.extend(BREW.iter().flat_map(|prefix| newest(&Path::new(prefix).join("opt"), "postgresql@", "bin")));
    places.extend(newest(&fetched().join("usr/lib/postgresql"), "", "bin"));
    let whole = |place: &Path| place.join("initdb").is_file() && place.join("postgres").is_file();
    first(places, whole).context("no Postgres here: run ./dev run, which installs it")
}

/// Chromium, or a browser that is made of it; `CHROMIUM` names another.
pub(crate) fn chromium() -> Result<Tool> {
    let mut places: Vec<PathBuf> = env::var_os("CHROMIUM").map(PathBuf::from).into_iter().collect();
    places.extend(CHROMIUMS.iter().filter_map(|name| on_path(name)));
    places.extend(CHROMIUM_APPS.iter().map(PathBuf::from));
    places.push(fetched().join("usr/lib/chromium/chromium"));
    first(places, |place| place.is_file())
        .context("no Chromium here: run ./dev test, which installs it, or name one in CHROMIUM")
}

/// The directory with `prometheus` and `promtool`; `PROMETHEUS_BIN` names another.
///
/// # Errors
/// When there is none.
pub fn prometheus_programs() -> Result<Tool> {
    let mut places: Vec<PathBuf> = env::var_os("PROMETHEUS_BIN").map(PathBuf::from).into_iter().collect();
    places.extend(on_path("prometheus").and_then(|path| path.parent().map(Path::to_path_buf)));
    places.extend(BREW.iter().map(|prefix| Path::new(prefix).join("bin")));
    places.push(fetched().join("usr/bin"));
    let whole = |place: &Path| place.join("prometheus").is_file() && place.join("promtool").is_file();
    first(places, whole)
        .context("no Prometheus here: run ./dev test, which installs it, or name its folder in PROMETHEUS_BIN")
}

/// The program `name` of this project that was built with this one.
///
/// # Errors
/// When it was not built.
pub fn built(name: &str) -> Result<PathBuf> {
    process::binary(name)
}

fn fetched() -> PathBuf {
    project_root().join(".dev/tools")
}

fn first(places: Vec<PathBuf>, usable: impl Fn(&Path) -> bool) -> Result<Tool> {
    let path = places.into_iter().find(|place| usable(place)).context("not found")?;
    let libraries = path.starts_with(fetched()).then(fetched_libraries).flatten();
    Ok(Tool { path, libraries })
}

/// Every folder with shared objects among the fetched packages, as the loader wants to read it.
fn fetched_libraries() -> Option<OsString> {
    let is_library_folder = |path: &PathBuf| path.to_string_lossy().ends_with("-linux-gnu");
    let folders = ["usr/lib", "lib"].into_iter().flat_map(|place| entries(&fetched().join(place)));
    env::join_paths(folders.filter(is_library_folder)).ok()
}

fn on_path(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(program)).find(|place| place.is_file())
}

/// `place/<prefix><version>/<rest>` for every version there, the highest first.
fn newest(place: &Path, prefix: &str, rest: &str) -> Vec<PathBuf> {
    let version = |path: &PathBuf| path.file_name()?.to_str()?.strip_prefix(prefix)?.parse::<u32>().ok();
    let mut found: Vec<(u32, PathBuf)> =
        entries(place).into_iter().filter_map(|path| Some((version(&path)?, path.join(rest)))).collect();
    found.sort_by(|left, right| right.cmp(left));
    found.into_iter().map(|(_, path)| path).collect()
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}
