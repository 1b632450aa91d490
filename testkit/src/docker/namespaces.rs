//! The namespaces in which the daemon runs, and the first steps of docs/deploying.md in them.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
    process::{self, Command},
};

use anyhow::{Context, Result};
use nix::{errno::Errno, sys::signal, unistd::Pid};

use super::{Docker, Image, download, folder, remove, run};
use crate::tools;

/// The variable with the folder of the program that runs inside the namespaces.
const FOLDER: &str = "CONTAINERS_FOLDER";
const NAMESPACES: [&str; 7] = ["--net", "--mount", "--pid", "--ipc", "--uts", "--fork", "--kill-child"];
/// Followed by the id of the process: the folder of a run.
const RUN: &str = "run-";
/// What a machine may not allow, and what a daemon needs.
const PROBE: &str = "mount -t tmpfs none /mnt && ip link set lo up && ip link add name b0 type bridge && \
                     mkdir /mnt/a /mnt/b /mnt/c /mnt/d && \
                     mount -t overlay -o lowerdir=/mnt/a,upperdir=/mnt/b,workdir=/mnt/c none /mnt/d && mmdebstrap --version";
/// With this `docker compose up --build` works without network: the programs are built, and Grafana is not in Debian.
const OVERRIDE: &str = "services:
  migrate: {build: {additional_contexts: {build: /project/built}}}
  grafana: {profiles: [none]}
";
/// $1: the project. What a build from sources needs.
const SOURCES: &str = "set -eo pipefail; mkdir $1/source
                       git ls-files -z | tar --null --files-from=- --create | tar --extract --directory=$1/source
                       cp -R $(rustc --print sysroot) $1/toolchain; cp -R .dev/containers/crates $1/crates";
/// The first process. It reaps the processes that the daemon leaves behind.
const INIT: &str = "\"$@\"; exit $?";

/// Why this machine cannot run a Docker daemon, if trying fails.
#[must_use]
pub fn unsupported() -> Option<String> {
    let mut probe = Command::new("unshare");
    probe.args(NAMESPACES).args(["--mount-proc", "bash", "-c", PROBE]);
    run(&mut probe).err().map(|why| format!("{why:#}"))
}

/// Runs this program again, inside namespaces and with these arguments. There, [`started_inside`] starts the daemon.
/// `start` starts the command and waits for it. What it leaves is removed.
///
/// # Errors
/// When it cannot be run.
pub fn inside<T>(arguments: &[&str], image: Image, start: impl FnOnce(&mut Command) -> io::Result<T>) -> Result<T> {
    download(image)?;
    leftovers(&folder())?.iter().try_for_each(|left| remove(left))?;
    let folder = folder().join(format!("{RUN}{}", process::id()));
    // If this process dies, everything it started ends with the namespaces.
    let mut inside = Command::new("setpriv");
    inside.args(["--pdeathsig", "KILL", "unshare"]).args(NAMESPACES).args(["--mount-proc", "bash", "-c", INIT, "init"]);
    inside.arg(env::current_exe()?).args(arguments).env(FOLDER, &folder);
    let result = start(&mut inside);
    remove(&folder)?;
    Ok(result?)
}

/// The folders of runs that were interrupted. One with the id of this process is of an earlier process.
fn leftovers(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut left = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.strip_prefix(RUN)?.parse::<i32>().ok()) else { continue };
        let has_ended = || signal::kill(Pid::from_raw(pid), None) == Err(Errno::ESRCH);
        if u32::try_from(pid) == Ok(process::id()) || has_ended() {
            left.push(entry.path());
        }
    }
    Ok(left)
}

/// The daemon, with the images, these settings in .env and no containers; none in a program that [`inside`] has not
/// started.
///
/// # Errors
/// When it does not start.
pub fn started_inside(settings: &str, image: Image) -> Result<Option<Docker>> {
    let Some(folder) = env::var_os(FOLDER).map(PathBuf::from) else { return Ok(None) };
    prepare(&folder.join("project"), settings, image)?;
    Docker::start(&folder, image).map(Some)
}

/// The first steps of docs/deploying.md: the files of the repository, the secrets and .env.
fn prepare(project: &Path, settings: &str, image: Image) -> Result<()> {
    let root = tools::project_root();
    fs::create_dir_all(project.join("built/out"))?;
    let needed = ["compose.yaml", "Dockerfile", ".env.example", "deploy", "dashboards"].map(|name| root.join(name));
    run(Command::new("cp").arg("-R").args(needed).arg(project))?;
    run(&mut Command::new(project.join("deploy/secrets.sh")))?;
    // The last of two values counts.
    let example = fs::read_to_string(root.join(".env.example"))?;
    fs::write(project.join(".env"), format!("{example}\n{settings}"))?;
    if image == Image::Sources {
        return run(Command::new("bash").args(["-c", SOURCES, "sources"]).arg(project).current_dir(root)).map(drop);
    }
    fs::write(project.join("compose.override.yaml"), OVERRIDE)?;
    for program in ["api", "portal", "worker", "scheduler", "migrate", "ctl", "gateway"] {
        let built = tools::built_program(program).context("./dev builds the programs")?;
        fs::copy(built, project.join("built/out").join(program))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TempDir;

    #[test]
    fn what_interrupted_runs_have_left_is_found() -> Result<()> {
        let folder = TempDir::new()?;
        let mut ended = Command::new("true").spawn()?;
        let (pid, own) = (ended.id(), process::id());
        ended.wait()?;
        // The first process of the machine runs as long as this one.
        for name in ["run-1", "daemon", "base.tar.packages", &format!("run-{pid}"), &format!("run-{own}")] {
            fs::create_dir(folder.path().join(name))?;
        }
        let mut left = leftovers(folder.path())?;
        left.sort();
        let mut expected = [pid, own].map(|pid| folder.path().join(format!("run-{pid}")));
        expected.sort();
        assert_eq!(left, expected);
        Ok(())
    }
}
