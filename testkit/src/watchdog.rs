//! A shell process that outlives this one and cleans up after it.
//!
//! `Drop` does not run when a test is killed, and statics are never dropped. Therefore one small shell per process
//! reads a pipe that only this process holds open. When the pipe closes, for whatever reason, the shell kills every
//! server that is still registered and removes every temporary directory.

use std::{
    io::Write,
    os::unix::process::CommandExt,
    path::Path,
    process::{ChildStdin, Command, Stdio},
    sync::{Mutex, OnceLock, PoisonError},
};

use anyhow::{Context, Result, anyhow};
use nix::sys::signal::Signal;

/// `kill -CONT` follows each signal because a paused process would keep it pending.
const SCRIPT: &str = r#"
trap '' HUP INT TERM
cd /
watched=''
while IFS= read -r line; do
    case $line in
    'watch '*) watched="$watched ${line#watch }" ;;
    'forget '*)
        remaining=''
        for entry in $watched; do
            [ "${entry#*:}" = "${line#forget }" ] || remaining="$remaining $entry"
        done
        watched=$remaining
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

/// Ends `pid` with `signal` if this process exits before [`forget`] is called. `SIGKILL` follows after a second.
pub(crate) fn watch(pid: u32, signal: Signal) -> Result<()> {
    let name = signal.as_str();
    send(&format!("watch {}:{pid}\n", name.strip_prefix("SIG").unwrap_or(name)))
}

/// Must follow the reaping of `pid` immediately: after that the pid may be reused.
pub(crate) fn forget(pid: u32) -> Result<()> {
    send(&format!("forget {pid}\n"))
}

/// Removes `directory` with its contents once this process has exited.
pub(crate) fn remove_at_end(directory: &Path) -> Result<()> {
    let path = directory.to_str().filter(|path| !path.contains('\n'));
    send(&format!("remove {}\n", path.context("the path of a temporary directory contains a newline or is not UTF-8")?))
}

fn send(line: &str) -> Result<()> {
    let pipe = PIPE.get_or_init(|| start().map(Mutex::new).map_err(|error| format!("{error:#}")));
    let pipe = pipe.as_ref().map_err(|error| anyhow!("{error}"))?;
    // A write of less than PIPE_BUF bytes is atomic, so a poisoned lock leaves no partial line behind.
    let mut pipe = pipe.lock().unwrap_or_else(PoisonError::into_inner);
    pipe.write_all(line.as_bytes()).context("the watchdog has exited")
}

fn start() -> Result<ChildStdin> {
    let mut shell = Command::new("/bin/sh")
        .args(["-c", SCRIPT, "testkit-watchdog"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // Ctrl-C in the terminal reaches our whole process group, and the watchdog must outlive it.
        .process_group(0)
        .spawn()
        .context("cannot start the watchdog")?;
    shell.stdin.take().context("the watchdog has no standard input")
}
