//! What compose.yaml says is started, by an engine of ours in place of Docker's: each container with its own network, mounts,
//! processes, user, rights and limits, as compose.yaml gives them. docs/deploying.md says what it is not.

mod container;
mod engine;
mod image;
mod limits;
mod network;
mod project;
mod shell;
mod story;
mod yaml;

use std::{env, io::Write, path::Path, process::Command};

use anyhow::{Context, Result, ensure};
use testkit::{TempDir, tools};

use engine::Engine;
use shell::run;

/// Tells the test inside of the namespaces where its files are.
const FOLDER: &str = "COMPOSE_FOLDER";
const NAMESPACES: [&str; 7] = ["--net", "--mount", "--pid", "--ipc", "--uts", "--fork", "--kill-child"];
/// What an engine does of which the machine may not allow any.
const PROBE: &str = "mount -t tmpfs none /mnt && mkdir /mnt/a && mount --bind /usr /mnt/a && ip link set lo up && \
                     ip link add name b0 type bridge && ip link add name v0 type veth peer name c0 && ip link set v0 master b0 && \
                     unshare --net --mount --pid --ipc --uts --fork true && chroot / setpriv --reuid 1 --regid 1 \
                     --clear-groups --inh-caps -all --bounding-set -all --no-new-privs true && nsenter --version";

/// The first process: it buries whatever is left behind by a healthcheck that took too long. A container does not end before that.
const INIT: &str = "\"$@\"; exit $?";

/// Why this machine cannot do it, if it cannot: it is tried.
fn refused() -> Option<String> {
    let mut probe = Command::new("unshare");
    probe.args(NAMESPACES).args(["--mount-proc", "bash", "-c", PROBE]);
    let tried = run(&mut probe).and_then(|_| run(Command::new("dpkg").arg("--listfiles").args(image::SLIM)));
    tried.err().map(|why| format!("{why:#}"))
}

#[test]
fn everything_that_compose_says_runs() -> Result<()> {
    if let Some(why) = refused() {
        // Not by a macro, which would print nothing of a test that passes.
        writeln!(std::io::stderr(), "left out, because containers cannot be made here: {why}")?;
        return Ok(());
    }
    let directory = TempDir::new()?;
    let name = directory.path().file_name().context("a name")?.to_string_lossy().into_owned();
    // Whatever happens to this process, all that was started ends with the namespaces.
    let mut inside = Command::new("setpriv");
    inside.args(["--pdeathsig", "KILL", "unshare"]).args(NAMESPACES).args(["--mount-proc", "bash", "-c", INIT, "init"]);
    inside.arg(env::current_exe()?);
    inside.args(["--exact", "inside_of_namespaces", "--ignored", "--nocapture"]).env(FOLDER, directory.path());
    let output = inside.output()?;
    limits::remove(&name);
    let said = [output.stdout, output.stderr].concat();
    println!("{}", String::from_utf8_lossy(&said));
    ensure!(output.status.success(), "it ended ({})", output.status);
    Ok(())
}

/// Only for [`everything_that_compose_says_runs`], which runs it as a process of its own.
#[tokio::test]
#[ignore = "is run by another test"]
async fn inside_of_namespaces() -> Result<()> {
    let directory = env::var_os(FOLDER).context("this is run by another test")?;
    let directory = Path::new(&directory);
    let (folder, name) = (directory.join("project"), directory.file_name().context("a name")?);
    prepare(&folder)?;
    let mut engine = Engine::open(&folder, &directory.join("place"), name.to_string_lossy().into_owned())?;
    engine.left_out.extend(limits::left_out().map(|why| format!("limits of memory and processes: {why}")));
    let files = limits::files(65_536)?;
    if files < 65_536 {
        engine.left_out.insert(format!("65536 open files: this machine gives {files}"));
    }
    story::tell(&mut engine).await?;
    println!("left out: {}", Vec::from_iter(engine.left_out).join("; "));
    Ok(())
}

/// What somebody does who has the repository: the first two steps of docs/deploying.md.
fn prepare(folder: &Path) -> Result<()> {
    let root = tools::project_root();
    run(Command::new("mkdir").arg(folder))?;
    let needed = ["compose.yaml", "deploy", "dashboards"].map(|name| root.join(name));
    run(Command::new("cp").arg("-R").args(needed).arg(folder))?;
    run(&mut Command::new(folder.join("deploy/secrets.sh")))?;
    run(Command::new("cp").arg(root.join(".env.example")).arg(folder.join(".env"))).map(drop)
}
