//! Clients that are generated from the document pass their type checkers, and keep what an error says.

use std::process::Command as Probe;

use anyhow::{Context, Result, ensure};
use testkit::tools::project_root;
use tokio::process::Command;

use super::tools::{Tools, run};

/// The versions that npm installs.
const PACKAGES: [&str; 2] = ["openapi-typescript@7.13.0", "typescript@5.9.3"];

/// Uses the error and a list as a program would.
const USE: &str = "import type { components, paths } from './api';\n\
    type Failed = components['schemas']['ErrorResponse']['error'];\n\
    export const text = (error: Failed): string => `${error.message} ${error.param ?? ''}`;\n\
    type Listed = paths['/v1/payments']['get']['responses'][200]['content']['application/json'];\n\
    export const first = (list: Listed): number | undefined => list.data[0]?.amountCaptured;\n";

#[tokio::test]
#[ignore = "generates clients for a minute"]
async fn a_generated_python_client_type_checks() -> Result<()> {
    let Some(tools) = Tools::install_once().await? else { return Ok(()) };
    let client = tools.folder().join("client");
    let document = project_root().join("docs/openapi.json");
    let mut generate = tools.command("openapi-python-client");
    generate.args(["generate", "--overwrite", "--meta", "none", "--path"]).arg(document);
    run(generate.arg("--output-path").arg(&client)).await.context("openapi-python-client")?;
    run(tools.command("mypy").arg("client")).await.context("the client is not valid")?;
    let error = std::fs::read_to_string(client.join("models/error_detail.py"))?;
    for field in ["message: str\n", "param: str | Unset"] {
        ensure!(error.contains(field), "an error has no {field:?}: {error}");
    }
    Ok(())
}

#[tokio::test]
#[ignore = "generates clients for a minute"]
async fn generated_typescript_types_check() -> Result<()> {
    if !Probe::new("npm").arg("--version").output().is_ok_and(|output| output.status.success()) {
        eprintln!("SKIPPED: the TypeScript types were not generated, because this machine has no npm");
        return Ok(());
    }
    let Some(tools) = Tools::install_once().await? else { return Ok(()) };
    let folder = tools.folder().join("typescript");
    std::fs::create_dir_all(&folder)?;
    std::fs::write(folder.join("package.json"), "{\"private\": true}")?;
    std::fs::write(folder.join("use.ts"), USE)?;
    let program = |name: &str| {
        let mut command = Command::new(name);
        command.kill_on_drop(true).current_dir(&folder);
        command
    };
    run(program("npm").args(["install", "--silent", "--no-audit", "--no-fund"]).args(PACKAGES)).await.context("npm")?;
    let document = project_root().join("docs/openapi.json");
    let types = folder.join("node_modules/.bin/openapi-typescript");
    run(Command::new(types).arg(document).arg("--output").arg(folder.join("api.d.ts"))).await.context("generation")?;
    let check = ["--noEmit", "--strict", "--skipLibCheck", "false", "use.ts", "api.d.ts"];
    run(program("node_modules/.bin/tsc").args(check)).await.context("the types are not valid")
}
