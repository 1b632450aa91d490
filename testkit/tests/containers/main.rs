//! Runs compose.yaml with a Docker daemon of its own ([`testkit::docker`]). docs/deploying.md says what this does not cover.

mod scenario;

use std::{io::Write, process::Command};

use anyhow::{Result, ensure};
use testkit::docker::{self, Image};

#[test]
#[ignore = "starts a Docker daemon, and downloads 200 MB of packages the first time"]
fn compose_yaml_runs_on_docker() -> Result<()> {
    if let Some(why) = docker::unsupported() {
        // eprintln! is captured in a passing test.
        writeln!(
            std::io::stderr(),
            "SKIPPED: compose.yaml was not run, because no Docker daemon can be started: {why}"
        )?;
        return Ok(());
    }
    let output = docker::inside(&["--exact", "runs_inside_namespaces", "--nocapture"], Image::Built, Command::output)?;
    println!("{}", String::from_utf8_lossy(&[output.stdout, output.stderr].concat()));
    ensure!(output.status.success(), "the test inside exited with {}", output.status);
    Ok(())
}

/// The child process of [`compose_yaml_runs_on_docker`]. Otherwise there is nothing to test.
#[tokio::test]
async fn runs_inside_namespaces() -> Result<()> {
    let Some(docker) = docker::started_inside("", Image::Built)? else { return Ok(()) };
    let result = scenario::run(&docker).await;
    if result.is_err() {
        println!("{}", docker.compose(&["logs", "--tail", "20"])?);
    }
    result
}
