//! The manifests against the schemas of the versions of Kubernetes that docs/deploying.md names.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use testkit::TempDir;
use testkit::integration_examples::{python_program, run};
use tokio::process::Command;

use super::environment_variables::{read, root};
use super::{KUBERNETES, MANIFESTS};

/// The oldest and the newest version that were tried.
const VERSIONS: [&str; 2] = ["1.29", "1.37"];
/// The folders of the example that are applied one after the other.
const OVERLAYS: [&str; 3] = [".", "migrate", "ctl"];
/// The only kind that is not one of Kubernetes.
const FOREIGN: &str = "kind PodMonitor";

#[tokio::test]
#[ignore = "installs a validator from PyPI"]
async fn the_manifests_match_the_schemas_of_kubernetes() -> Result<()> {
    let named = format!("schemas of Kubernetes {}", VERSIONS.join(" and "));
    ensure!(read("docs/deploying.md").contains(&named), "docs/deploying.md does not name the {named}");
    let program = python_program("kubernetes-validate", "1.37.0", "kubernetes-validate").await?;
    let Some(validator) = program else { return Ok(()) };
    let folder = TempDir::new()?;
    let wrong = folder.path().join("wrong.yaml");
    fs::write(&wrong, read(&format!("{KUBERNETES}base/api.yaml")).replace("minReplicas", "minReplica"))?;
    let files = match rendered(folder.path()).await? {
        Some(files) => files,
        None => MANIFESTS.iter().chain(&["base/network.yaml"]).map(|file| root().join(KUBERNETES).join(file)).collect(),
    };
    for version in VERSIONS {
        let validate = |files: &[PathBuf]| {
            let mut validate = Command::new(&validator);
            validate.args(["--kubernetes-version", version, "--strict"]).args(files);
            run(validate)
        };
        let printed = validate(&files).await?;
        let (valid, others): (Vec<_>, Vec<_>) = printed.lines().partition(|line| line.starts_with("INFO "));
        let unexpected: Vec<_> = others.iter().filter(|line| !line.contains(FOREIGN)).collect();
        ensure!(unexpected.is_empty(), "{version}: {unexpected:?}");
        ensure!(valid.len() >= 25, "{version}: only {} objects were validated: {printed}", valid.len());
        ensure!(validate(std::slice::from_ref(&wrong)).await.is_err(), "{version}: an unknown field is accepted");
    }
    Ok(())
}

/// What Kustomize makes of the example, as it is and with all parts that it offers; `None` if this machine lacks Kustomize.
async fn rendered(folder: &Path) -> Result<Option<Vec<PathBuf>>> {
    let version = Command::new("kubectl").args(["version", "--client"]).output().await;
    if !version.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("Kustomize Version: v5")) {
        writeln!(
            std::io::stderr(),
            "SKIPPED: only the parts of the manifests were validated, because this machine has no kubectl with Kustomize 5"
        )?;
        return Ok(None);
    }
    let copy = folder.join("kubernetes");
    let mut copying = Command::new("cp");
    copying.arg("-R").arg(root().join(KUBERNETES)).arg(&copy);
    run(copying).await?;
    let example = copy.join("overlays/example");
    let mut files = Vec::new();
    for all_parts in [false, true] {
        if all_parts {
            use_all_parts(&example)?;
        }
        for overlay in OVERLAYS {
            let output = Command::new("kubectl").arg("kustomize").arg(example.join(overlay)).output().await?;
            ensure!(output.status.success(), "{overlay}: {}", String::from_utf8_lossy(&output.stderr));
            let file = folder.join(format!("{}.yaml", files.len()));
            fs::write(&file, output.stdout)?;
            files.push(file);
        }
    }
    Ok(Some(files))
}

fn use_all_parts(example: &Path) -> Result<()> {
    for (file, from, to) in [
        ("kustomization.yaml", "  # - ../../monitoring\n", "  - ../../monitoring\n"),
        ("kustomization.yaml", "  # - mail-relay\n", "  - mail-relay\n"),
        ("kustomization.yaml", "  # - authority\n", "  - authority\n"),
        ("migrate/kustomization.yaml", "components: [../image]", "components: [../image, ../authority]"),
        ("ctl/kustomization.yaml", "components: [../image]", "components: [../image, ../authority]"),
    ] {
        let file = example.join(file);
        let text = fs::read_to_string(&file)?;
        ensure!(text.contains(from), "{} has no {from}", file.display());
        fs::write(&file, text.replace(from, to)).with_context(|| file.display().to_string())?;
    }
    Ok(())
}
