//! Runs compose.yaml with a Docker daemon of its own, in namespaces, with its own socket and data. No registry is used:
//! the images are made of Debian's packages under the names in compose.yaml and the Dockerfile, and ours of the
//! Dockerfile's last stage with the programs of this build. docs/deploying.md says what this does not cover.

mod docker;
mod scenario;

use std::{env, fs, io::Write, path::Path, process::Command};

use anyhow::{Context, Result, ensure};
use testkit::tools;

use docker::{Docker, run};

/// The variable with the folder of the test that runs inside the namespaces.
const FOLDER: &str = "CONTAINERS_FOLDER";
const NAMESPACES: [&str; 7] = ["--net", "--mount", "--pid", "--ipc", "--uts", "--fork", "--kill-child"];
/// What a machine may not allow, and what a daemon needs.
const PROBE: &str = "mount -t tmpfs none /mnt && ip link set lo up && ip link add name b0 type bridge && \
                     mkdir /mnt/a /mnt/b /mnt/c /mnt/d && \
                     mount -t overlay -o lowerdir=/mnt/a,upperdir=/mnt/b,workdir=/mnt/c none /mnt/d && mmdebstrap --version";
/// The first process. It reaps the processes that the daemon leaves behind.
const INIT: &str = "\"$@\"; exit $?";

/// Why this machine cannot run a Docker daemon, if trying fails.
fn unsupported() -> Option<String> {
    let mut probe = Command::new("unshare");
    probe.args(NAMESPACES).args(["--mount-proc", "bash", "-c", PROBE]);
    run(&mut probe).err().map(|why| format!("{why:#}"))
}

#[test]
#[ignore = "starts a Docker daemon, and downloads 200 MB of packages the first time"]
fn compose_yaml_runs_on_docker() -> Result<()> {
    if let Some(why) = unsupported() {
        // eprintln! is captured in a passing test.
        writeln!(
            std::io::stderr(),
            "SKIPPED: compose.yaml was not run, because no Docker daemon can be started: {why}"
        )?;
        return Ok(());
    }
    docker::download()?;
    let folder = docker::folder().join(format!("run-{}", std::process::id()));
    // If this process dies, everything it started ends with the namespaces.
    let mut inside = Command::new("setpriv");
    inside.args(["--pdeathsig", "KILL", "unshare"]).args(NAMESPACES).args(["--mount-proc", "bash", "-c", INIT, "init"]);
    inside.arg(env::current_exe()?);
    inside.args(["--exact", "runs_inside_namespaces", "--nocapture"]).env(FOLDER, &folder);
    let output = inside.output();
    docker::remove(&folder)?;
    let output = output?;
    println!("{}", String::from_utf8_lossy(&[output.stdout, output.stderr].concat()));
    ensure!(output.status.success(), "the test inside exited with {}", output.status);
    Ok(())
}

/// The child process of [`compose_yaml_runs_on_docker`], which sets the variable. Otherwise there is nothing to test.
#[tokio::test]
async fn runs_inside_namespaces() -> Result<()> {
    let Some(folder) = env::var_os(FOLDER) else { return Ok(()) };
    let project = Path::new(&folder).join("project");
    prepare(&project)?;
    let docker = Docker::start(Path::new(&folder))?;
    let result = scenario::run(&docker).await;
    if result.is_err() {
        println!("{}", docker.compose(&["logs", "--tail", "20"])?);
    }
    result
}

/// The first steps of docs/deploying.md: the files of the repository, the secrets and .env.
fn prepare(project: &Path) -> Result<()> {
    let root = tools::project_root();
    fs::create_dir_all(project.join("built/out"))?;
    let needed = ["compose.yaml", "Dockerfile", "deploy", "dashboards"].map(|name| root.join(name));
    run(Command::new("cp").arg("-R").args(needed).arg(project))?;
    run(&mut Command::new(project.join("deploy/secrets.sh")))?;
    fs::copy(root.join(".env.example"), project.join(".env"))?;
    for program in ["api", "portal", "worker", "scheduler", "migrate", "ctl", "gateway"] {
        let built = tools::built_program(program).context("./dev test builds the programs")?;
        fs::copy(built, project.join("built/out").join(program))?;
    }
    Ok(())
}
