//! Starts compose.yaml with a container engine of our own instead of Docker: each container has the network, mounts,
//! processes, user, capabilities and limits that compose.yaml defines. docs/deploying.md says what this does not cover.

mod container;
mod engine;
mod image;
mod limits;
mod network;
mod project;
mod scenario;
mod shell;
mod yaml;

use std::{env, io::Write, path::Path, process::Command};

use anyhow::{Context, Result, ensure};
use testkit::{TempDir, tools};

use engine::Engine;
use shell::run;

/// The variable with the folder of the test that runs inside the namespaces.
const FOLDER: &str = "COMPOSE_FOLDER";
const NAMESPACES: [&str; 7] = ["--net", "--mount", "--pid", "--ipc", "--uts", "--fork", "--kill-child"];
/// The operations of the engine that a machine may not allow.
const PROBE: &str = "mount -t tmpfs none /mnt && mkdir /mnt/a && mount --bind /usr /mnt/a && ip link set lo up && \
                     ip link add name b0 type bridge && ip link add name v0 type veth peer name c0 && ip link set v0 master b0 && \
                     unshare --net --mount --pid --ipc --uts --fork true && chroot / setpriv --reuid 1 --regid 1 \
                     --clear-groups --inh-caps -all --bounding-set -all --no-new-privs true && nsenter --version";

/// The first process. It reaps what a timed-out healthcheck leaves behind; until then that container cannot exit.
const INIT: &str = "\"$@\"; exit $?";

/// Why this machine cannot run containers, if trying fails.
fn unsupported() -> Option<String> {
    let mut probe = Command::new("unshare");
    probe.args(NAMESPACES).args(["--mount-proc", "bash", "-c", PROBE]);
    let result = run(&mut probe).and_then(|_| run(Command::new("dpkg").arg("--listfiles").args(image::SLIM)));
    result.err().map(|why| format!("{why:#}"))
}

#[test]
#[ignore = "builds and starts a container of each service"]
fn compose_yaml_runs() -> Result<()> {
    if let Some(why) = unsupported() {
        // eprintln! is captured in a passing test.
        writeln!(
            std::io::stderr(),
            "SKIPPED: compose.yaml was not run, because containers cannot be created here: {why}"
        )?;
        return Ok(());
    }
    let directory = TempDir::new()?;
    let name = directory.path().file_name().context("a name")?.to_string_lossy().into_owned();
    // If this process dies, everything it started ends with the namespaces.
    let mut inside = Command::new("setpriv");
    inside.args(["--pdeathsig", "KILL", "unshare"]).args(NAMESPACES).args(["--mount-proc", "bash", "-c", INIT, "init"]);
    inside.arg(env::current_exe()?);
    inside.args(["--exact", "runs_inside_namespaces", "--nocapture"]).env(FOLDER, directory.path());
    let output = inside.output()?;
    limits::remove(&name);
    let printed = [output.stdout, output.stderr].concat();
    println!("{}", String::from_utf8_lossy(&printed));
    ensure!(output.status.success(), "the test inside exited with {}", output.status);
    Ok(())
}

/// The child process of [`compose_yaml_runs`], which sets the variable. Otherwise there is nothing to test.
#[tokio::test]
async fn runs_inside_namespaces() -> Result<()> {
    let Some(directory) = env::var_os(FOLDER) else { return Ok(()) };
    let directory = Path::new(&directory);
    let (folder, name) = (directory.join("project"), directory.file_name().context("a name")?);
    prepare(&folder)?;
    let mut engine = Engine::open(&folder, &directory.join("state"), name.to_string_lossy().into_owned())?;
    engine.skipped.extend(limits::unavailable().map(|why| format!("limits of memory and processes: {why}")));
    let files = limits::open_files(65_536)?;
    if files < 65_536 {
        engine.skipped.insert(format!("65536 open files: this machine allows {files}"));
    }
    scenario::run(&mut engine).await?;
    println!("skipped: {}", Vec::from_iter(engine.skipped).join("; "));
    Ok(())
}

/// The first two steps of docs/deploying.md: the files of the repository, the secrets and .env.
fn prepare(folder: &Path) -> Result<()> {
    let root = tools::project_root();
    run(Command::new("mkdir").arg(folder))?;
    let needed = ["compose.yaml", "deploy", "dashboards"].map(|name| root.join(name));
    run(Command::new("cp").arg("-R").args(needed).arg(folder))?;
    run(&mut Command::new(folder.join("deploy/secrets.sh")))?;
    run(Command::new("cp").arg(root.join(".env.example")).arg(folder.join(".env"))).map(drop)
}
