//! One child process that cannot outlive its parent.

use std::{
    os::unix::process::CommandExt,
    process::{ChildStdin, ChildStdout, Command, ExitStatus},
    time::Duration,
};

use anyhow::{Context, Result};
#[cfg(target_os = "linux")]
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::{sys::signal, unistd::Pid};

pub(crate) use nix::sys::signal::Signal;

use crate::watchdog;

const POLL: Duration = Duration::from_millis(10);

/// A running or ended child. Ended for certain when this value is dropped, and when this process dies.
#[derive(Debug)]
pub(crate) struct Child {
    process: std::process::Child,
    status: Option<ExitStatus>,
    last: Signal,
}

impl Child {
    /// Starts `command` in a process group of its own, so that a Ctrl-C in the terminal reaches only the parent. `last`
    /// is the signal that ends it at once: `SIGKILL`, or what lets a server end its own children too.
    pub(crate) fn spawn(command: &mut Command, last: Signal) -> Result<Self> {
        let program = command.get_program().to_owned();
        let process =
            command.process_group(0).spawn().with_context(|| format!("cannot start {}", program.display()))?;
        let child = Self { process, status: None, last };
        watchdog::watch(child.pid(), last)?;
        Ok(child)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// What it reads and what it writes, once, if its command asked for pipes.
    pub(crate) fn pipes(&mut self) -> Option<(ChildStdin, ChildStdout)> {
        Some((self.process.stdin.take()?, self.process.stdout.take()?))
    }

    /// The exit status if it has ended.
    pub(crate) fn ended(&mut self) -> Result<Option<ExitStatus>> {
        if self.status.is_none()
            && let Some(status) = self.process.try_wait()?
        {
            self.status = Some(status);
            watchdog::forget(self.pid())?;
        }
        Ok(self.status)
    }

    /// Does nothing once the process has ended: its number may be another's by then.
    pub(crate) fn signal(&mut self, signal: Signal) -> Result<()> {
        if self.ended()?.is_none() {
            let pid = Pid::from_raw(i32::try_from(self.pid()).context("no such process number")?);
            signal::kill(pid, signal).with_context(|| format!("cannot send {signal}"))?;
        }
        Ok(())
    }

    /// Stops it in its tracks (SIGSTOP), and returns when the last of its threads stands still: until then it may take up
    /// what is sent to it. (Elsewhere than on Linux there is no such call, and a moment is left to chance.)
    pub(crate) fn pause(&mut self) -> Result<()> {
        self.signal(Signal::SIGSTOP)?;
        #[cfg(target_os = "linux")]
        if self.status.is_none() {
            let flags = WaitPidFlag::WSTOPPED | WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT;
            let pid = Pid::from_raw(i32::try_from(self.pid()).context("no such process number")?);
            waitid(Id::Pid(pid), flags).context("it does not stand still")?;
        }
        Ok(())
    }

    /// Asks with `signal` and waits; after `patience` it kills. The status says which of the two it was.
    pub(crate) async fn stop(&mut self, signal: Signal, patience: Duration) -> Result<ExitStatus> {
        self.ask(signal)?;
        self.end_within(patience).await
    }

    /// Sends `signal` so that a paused process hears it too.
    pub(crate) fn ask(&mut self, signal: Signal) -> Result<()> {
        self.signal(signal)?;
        self.signal(Signal::SIGCONT)
    }

    /// Waits for the end; after `patience` it kills.
    pub(crate) async fn end_within(&mut self, patience: Duration) -> Result<ExitStatus> {
        let waited = tokio::time::timeout(patience, async {
            loop {
                if let Some(status) = self.ended()? {
                    return Ok(status);
                }
                tokio::time::sleep(POLL).await;
            }
        });
        match waited.await {
            Ok(status) => status,
            Err(_) => self.end_with(Signal::SIGKILL),
        }
    }

    /// Sends `signal`, which must be one that cannot be ignored, and waits for the end without yielding.
    pub(crate) fn end_with(&mut self, signal: Signal) -> Result<ExitStatus> {
        self.ask(signal)?;
        if let Some(status) = self.status {
            return Ok(status);
        }
        let status = self.process.wait()?;
        self.status = Some(status);
        watchdog::forget(self.pid())?;
        Ok(status)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // The watchdog does it at the end of this process if it fails here.
        let _ = self.end_with(self.last);
    }
}
