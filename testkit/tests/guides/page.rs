//! Runs the blocks of a page in order, in one shell, in a folder laid out like the repository.

use std::{
    fs,
    net::TcpListener,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};
use serde_json::Value;
use testkit::{
    TempDir,
    integration_examples::Example,
    sandbox::{Running, program},
};
use tokio::{process::Command, sync::OnceCell, time::timeout};

use crate::{
    blocks::{Block, Kind},
    shapes,
};

/// The time limit of a page, for a busy machine.
const TIMEOUT: Duration = Duration::from_secs(240);
/// The folder with the scripts of the blocks and their output.
const BLOCKS: &str = ".blocks";

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The dependencies of the examples, with the example folder that each belongs to.
#[derive(Debug)]
pub(crate) struct Libraries(Vec<(&'static str, PathBuf)>);

impl Libraries {
    /// Installs them once for all pages. `None` if the machine has no Python or Node to install them with.
    pub(crate) async fn install_once() -> Result<Option<&'static Self>> {
        static LIBRARIES: OnceCell<Option<Libraries>> = OnceCell::const_new();
        Ok(LIBRARIES.get_or_try_init(Self::install).await?.as_ref())
    }

    async fn install() -> Result<Option<Self>> {
        let mut installed = Vec::new();
        for (name, python, node) in [("signing", "sign.py", "sign.mjs"), ("webhooks", "receive.py", "receive.mjs")] {
            let (Some(python), Some(node)) =
                (Example::in_python(name, python).await?, Example::in_node(name, node).await?)
            else {
                return Ok(None);
            };
            installed.extend([(name, python.folder().join("venv")), (name, node.folder().join("node_modules"))]);
        }
        Ok(Some(Self(installed)))
    }

    /// Python with the dependencies of this example.
    pub(crate) fn python(&self, name: &str) -> Option<PathBuf> {
        let (_, venv) = self.0.iter().find(|(example, installed)| *example == name && installed.ends_with("venv"))?;
        Some(venv.join("bin/python"))
    }

    fn link_into(&self, examples: &Path) -> Result<()> {
        for (name, installed) in &self.0 {
            let is_python = installed.ends_with("venv");
            symlink(installed, examples.join(name).join(if is_python { ".venv" } else { "node_modules" }))?;
        }
        Ok(())
    }
}

/// A page with its own folder and account.
pub(crate) struct Page<'a> {
    name: &'a str,
    blocks: &'a [Block],
    folder: TempDir,
}

impl<'a> Page<'a> {
    /// Prepares the environment of a reader: a clone in which `./dev run` is running.
    pub(crate) fn new(name: &'a str, blocks: &'a [Block], sandbox: &Running, libraries: &Libraries) -> Result<Self> {
        let folder = TempDir::new()?;
        let examples = folder.path().join("examples");
        copy(&root().join("examples"), &examples)?;
        libraries.link_into(&examples)?;
        fs::create_dir(folder.path().join(".dev"))?;
        fs::write(folder.path().join(".dev/sandbox.json"), description(sandbox)?.to_string())?;
        let dev = folder.path().join("dev");
        let tool = program(sandbox.root())?;
        let (tool, root) = (Path::new(tool.get_program()).display(), sandbox.root().display());
        fs::write(&dev, format!("#!/bin/sh\nUNIFIED_PAYMENTS_ROOT='{root}' exec '{tool}' \"$@\"\n"))?;
        fs::set_permissions(&dev, fs::Permissions::from_mode(0o755))?;
        let page = Self { name, blocks, folder };
        page.write_blocks()?;
        Ok(page)
    }

    /// Writes one script that runs all blocks, so that variables set in a block exist in the next.
    fn write_blocks(&self) -> Result<()> {
        fs::create_dir(self.path(BLOCKS))?;
        let mut script = "set -euo pipefail\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n".to_owned();
        for Block { line, language, kind, text } in self.blocks {
            if *kind != Kind::Run {
                continue;
            }
            let command = match language.as_str() {
                "python" => format!("python3 example-{line}.py"),
                "js" => format!("node example-{line}.mjs"),
                _ => format!("source {BLOCKS}/{line}.sh"),
            };
            let file = command.split_once(' ').map(|(_, file)| self.path(file)).context("no file")?;
            fs::write(file, text)?;
            script += &format!("echo {line} >{BLOCKS}/at\n{command} >{BLOCKS}/{line}.out 2>{BLOCKS}/{line}.err\n");
        }
        Ok(fs::write(self.path("page.sh"), script)?)
    }

    /// Runs the script with these environment variables and compares its output with the page.
    pub(crate) async fn run(&self, environment: &[(&str, &str)]) -> Result<()> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port().to_string();
        let mut command = Command::new("bash");
        command.arg("page.sh").current_dir(self.folder.path()).env("PORT", port).process_group(0);
        command.envs(environment.iter().copied());
        for variable in ["DATABASE_URL", "REDIS_URL", "url", "key"] {
            command.env_remove(variable);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
        let mut child = command.spawn().context("bash")?;
        let group = Pid::from_raw(i32::try_from(child.id().context("no pid")?)?);
        let result = timeout(TIMEOUT, child.wait()).await;
        // Kills background processes; there may be none.
        let _ = killpg(group, Signal::SIGKILL);
        let what = match result {
            Ok(Ok(status)) if status.success() => return self.compare(usize::MAX),
            Ok(_) => "failed",
            Err(_) => "timed out",
        };
        let last = self.last_started()?;
        self.compare(last.line)?;
        bail!("{}", self.report(last, what))
    }

    /// The block that was started last.
    fn last_started(&self) -> Result<&Block> {
        let line: usize = fs::read_to_string(self.path(BLOCKS).join("at"))?.trim().parse()?;
        self.blocks.iter().find(|block| block.line == line).context("no block")
    }

    /// Compares the output of the blocks before this line.
    fn compare(&self, before: usize) -> Result<()> {
        for pair in self.blocks.windows(2) {
            let [run, expected] = pair else { continue };
            if expected.kind != Kind::Expect || run.line >= before {
                continue;
            }
            let compare = if expected.language == "json" { shapes::json } else { shapes::text };
            if let Err(error) = compare(&expected.text, &self.output(run, "out")) {
                bail!("{}", self.report(run, &format!("{error:#}")));
            }
        }
        Ok(())
    }

    fn output(&self, block: &Block, stream: &str) -> String {
        let bytes = fs::read(self.path(BLOCKS).join(format!("{}.{stream}", block.line))).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn report(&self, block: &Block, what: &str) -> String {
        let (out, err) = (self.output(block, "out"), self.output(block, "err"));
        format!("{}:{}: {what}\n{}--- stdout\n{out}\n--- stderr\n{err}", self.name, block.line, block.text)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// The content of `.dev/sandbox.json`, with the account `mock` replaced by one that no other page uses.
fn description(sandbox: &Running) -> Result<Value> {
    let mut description = sandbox.description()?;
    let origin = description["accounts"]["mock"]["allowed_origins"][0].as_str().context("an origin")?.to_owned();
    let options = ["--mode", "test", "--provider", "mock", "--timezone", "UTC", "--origin", &origin, "--json"];
    let created = sandbox.run_tool(&[&["ctl", "accounts", "create", "--name", "Shop"][..], &options].concat())?;
    let account = description["accounts"]["mock"].as_object_mut().context("an account")?;
    for (name, value) in account.iter_mut() {
        if let Some(new) = created.get(name) {
            value.clone_from(new);
        }
    }
    Ok(description)
}

/// Copies a folder recursively, without installed dependencies.
fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (path, to) = (entry.path(), to.join(entry.file_name()));
        match (path.is_dir(), path.file_name().and_then(|name| name.to_str())) {
            (_, Some(".venv" | "node_modules")) => {}
            (true, _) => copy(&path, &to)?,
            (false, _) => drop(fs::copy(&path, &to)?),
        }
    }
    Ok(())
}
