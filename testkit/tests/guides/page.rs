//! A page at work: its blocks in the order in which a reader meets them, in one shell, in a folder like the repository's.

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
    examples::Example,
    sandbox::{Running, program},
};
use tokio::{process::Command, sync::OnceCell, time::timeout};

use crate::{
    blocks::{Block, Kind},
    shapes,
};

/// As long as a page may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(240);
/// Where the shell finds the blocks, and leaves what they print.
const BLOCKS: &str = ".blocks";

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// What the examples need beside their own files, by the folder that it is installed for.
#[derive(Debug)]
pub(crate) struct Libraries(Vec<(&'static str, PathBuf)>);

impl Libraries {
    /// Installs them, once for all runs; none where the machine has no Python or Node to install them for.
    pub(crate) async fn ready() -> Result<Option<&'static Self>> {
        static READY: OnceCell<Option<Libraries>> = OnceCell::const_new();
        Ok(READY.get_or_try_init(Self::install).await?.as_ref())
    }

    async fn install() -> Result<Option<Self>> {
        let mut found = Vec::new();
        for (name, python, node) in [("signing", "sign.py", "sign.mjs"), ("webhooks", "receive.py", "receive.mjs")] {
            let (Some(python), Some(node)) =
                (Example::in_python(name, python).await?, Example::in_node(name, node).await?)
            else {
                return Ok(None);
            };
            found.extend([(name, python.folder().join("venv")), (name, node.folder().join("node_modules"))]);
        }
        Ok(Some(Self(found)))
    }

    /// Python with what the examples of this name need.
    pub(crate) fn python(&self, name: &str) -> Option<PathBuf> {
        let (_, venv) = self.0.iter().find(|(of, installed)| *of == name && installed.ends_with("venv"))?;
        Some(venv.join("bin/python"))
    }

    fn put_into(&self, examples: &Path) -> Result<()> {
        for (name, installed) in &self.0 {
            let is_python = installed.ends_with("venv");
            symlink(installed, examples.join(name).join(if is_python { ".venv" } else { "node_modules" }))?;
        }
        Ok(())
    }
}

/// A page in a folder of its own, with an account of its own.
pub(crate) struct Page<'a> {
    name: &'a str,
    blocks: &'a [Block],
    folder: TempDir,
}

impl<'a> Page<'a> {
    /// Prepares what a reader has: a clone in which `./dev run` goes on.
    pub(crate) fn new(name: &'a str, blocks: &'a [Block], sandbox: &Running, libraries: &Libraries) -> Result<Self> {
        let folder = TempDir::new()?;
        let examples = folder.path().join("examples");
        copy(&root().join("examples"), &examples)?;
        libraries.put_into(&examples)?;
        fs::create_dir(folder.path().join(".dev"))?;
        fs::write(folder.path().join(".dev/sandbox.json"), description(sandbox)?.to_string())?;
        let dev = folder.path().join("dev");
        let tool = program(sandbox.root())?;
        let (tool, of) = (Path::new(tool.get_program()).display(), sandbox.root().display());
        fs::write(&dev, format!("#!/bin/sh\nUNIFIED_PAYMENTS_ROOT='{of}' exec '{tool}' \"$@\"\n"))?;
        fs::set_permissions(&dev, fs::Permissions::from_mode(0o755))?;
        let page = Self { name, blocks, folder };
        page.write_blocks()?;
        Ok(page)
    }

    /// One script for all that is run, so that what a block sets is there in the next.
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
            let file = command.split_once(' ').map(|(_, file)| self.path(file)).context("a file")?;
            fs::write(file, text)?;
            script += &format!("echo {line} >{BLOCKS}/at\n{command} >{BLOCKS}/{line}.out 2>{BLOCKS}/{line}.err\n");
        }
        Ok(fs::write(self.path("page.sh"), script)?)
    }

    /// Runs it to its end and compares what it printed with what it shows.
    pub(crate) async fn run(&self) -> Result<()> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port().to_string();
        let mut command = Command::new("bash");
        command.arg("page.sh").current_dir(self.folder.path()).env("PORT", port).process_group(0);
        for variable in ["DATABASE_URL", "REDIS_URL", "url", "key"] {
            command.env_remove(variable);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
        let mut child = command.spawn().context("bash")?;
        let group = Pid::from_raw(i32::try_from(child.id().context("it has just begun")?)?);
        let ended = timeout(PATIENCE, child.wait()).await;
        // What it has left in the background; it may have left nothing.
        let _ = killpg(group, Signal::SIGKILL);
        let what = match ended {
            Ok(Ok(status)) if status.success() => return self.compare(usize::MAX),
            Ok(_) => "it failed",
            Err(_) => "it came to no end",
        };
        let last = self.last()?;
        self.compare(last.line)?;
        bail!("{}", self.told(last, what))
    }

    /// The block that was begun last.
    fn last(&self) -> Result<&Block> {
        let line: usize = fs::read_to_string(self.path(BLOCKS).join("at"))?.trim().parse()?;
        self.blocks.iter().find(|block| block.line == line).context("a block")
    }

    /// Compares what was printed by the blocks before this line.
    fn compare(&self, before: usize) -> Result<()> {
        for pair in self.blocks.windows(2) {
            let [run, expected] = pair else { continue };
            if expected.kind != Kind::Expect || run.line >= before {
                continue;
            }
            let compare = if expected.language == "json" { shapes::json } else { shapes::text };
            if let Err(error) = compare(&expected.text, &self.printed(run, "out")) {
                bail!("{}", self.told(run, &format!("{error:#}")));
            }
        }
        Ok(())
    }

    fn printed(&self, block: &Block, stream: &str) -> String {
        let bytes = fs::read(self.path(BLOCKS).join(format!("{}.{stream}", block.line))).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn told(&self, block: &Block, what: &str) -> String {
        let (out, err) = (self.printed(block, "out"), self.printed(block, "err"));
        format!("{}:{}: {what}\n{}--- printed\n{out}\n--- complained\n{err}", self.name, block.line, block.text)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// What stands in `.dev/sandbox.json`, with an account that no other page uses in place of the one that pages speak of.
fn description(sandbox: &Running) -> Result<Value> {
    let mut told = sandbox.description()?;
    let origin = told["accounts"]["mock"]["allowed_origins"][0].as_str().context("an origin")?.to_owned();
    let options = ["--mode", "test", "--provider", "mock", "--timezone", "UTC", "--origin", &origin, "--json"];
    let made = sandbox.operate(&[&["ctl", "accounts", "create", "--name", "Shop"][..], &options].concat())?;
    let account = told["accounts"]["mock"].as_object_mut().context("an account")?;
    for (name, value) in account.iter_mut() {
        if let Some(new) = made.get(name) {
            value.clone_from(new);
        }
    }
    Ok(told)
}

/// Copies the files of a folder; what is installed in a clone is left where it is.
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
