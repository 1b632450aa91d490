//! The shell process that outlives ours and ends what we leave behind.
//!
//! A `Drop` does not run when a test is killed, and values in statics are never dropped at all. One small shell per process
//! therefore reads a pipe that only we hold: when it ends, whatever the reason, every server that is still
//! registered is killed and every temporary directory removed.

use std::{
    io::Write,
    os::unix::process::CommandExt,
    path::Path,
    process::{ChildStdin, Command, Stdio},
    sync::{Mutex, OnceLock, PoisonError},
};

use anyhow::{Context, Result, anyhow};
use nix::sys::signal::Signal;

/// `kill -CONT` follows each signal because a paused process would otherwise keep it pending for ever.
const SCRIPT: &str = r#"
trap '' HUP INT TERM
cd /
watched=''
while IFS= read -r line; do
    case $line in
    'watch '*) watched="$watched ${line#watch }" ;;
    'forget '*)
        kept=''
        for entry in $watched; do
            [ "${entry#*:}" = "${line#forget }" ] || kept="$kept $entry"
        done
        watched=$kept
        ;;
    'remove '*) set -- "$@" "${line#remove }" ;;
    esac
done
for entry in $watched; do
    kill -s "${entry%%:*}" "${entry#*:}" && kill -s CONT "${entry#*:}"
done
[ -z "$watched" ] || sleep 1
for entry in $watched; do kill -s KILL "${entry#*:}"; done
[ $# -eq 0 ] || rm -rf -- "$@"
"#;

static PIPE: OnceLock<Result<Mutex<ChildStdin>, String>> = OnceLock::new();

/// Ends `pid` with `signal` if this process ends before [`forget`] is called. `SIGKILL` follows after a second.
pub(crate) fn watch(pid: u32, signal: Signal) -> Result<()> {
    let name = signal.as_str();
    tell(&format!("watch {}:{pid}\n", name.strip_prefix("SIG").unwrap_or(name)))
}

/// Must follow the reaping of `pid` at once: from then on the number may belong to someone else.
pub(crate) fn forget(pid: u32) -> Result<()> {
    tell(&format!("forget {pid}\n"))
}

/// Removes `directory` and all it holds once this process has ended.
pub(crate) fn remove_at_end(directory: &Path) -> Result<()> {
    let path = directory.to_str().filter(|path| !path.contains('\n'));
    tell(&format!("remove {}\n", path.context("a temporary directory with an unprintable name")?))
}

fn tell(line: &str) -> Result<()> {
    let pipe = PIPE.get_or_init(|| start().map(Mutex::new).map_err(|error| format!("{error:#}")));
    let pipe = pipe.as_ref().map_err(|error| anyhow!("{error}"))?;
    // One write of less than PIPE_BUF bytes is atomic, so a poisoned lock leaves no half line behind.
    let mut pipe = pipe.lock().unwrap_or_else(PoisonError::into_inner);
    pipe.write_all(line.as_bytes()).context("the watchdog is gone")
}

fn start() -> Result<ChildStdin> {
    let mut shell = Command::new("/bin/sh")
        .args(["-c", SCRIPT, "testkit-watchdog"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // A Ctrl-C in the terminal goes to our whole group, and this one must outlive it.
        .process_group(0)
        .spawn()
        .context("cannot start the watchdog")?;
    shell.stdin.take().context("the watchdog has no input")
}
