//! A child process that cannot outlive its parent.

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

/// A running or exited child. It is ended when this value is dropped and when this process dies.
#[derive(Debug)]
pub(crate) struct Child {
    process: std::process::Child,
    status: Option<ExitStatus>,
    kill_signal: Signal,
}

impl Child {
    /// Starts `command` in its own process group, so that Ctrl-C in the terminal reaches only the parent. `kill_signal`
    /// ends it at once: `SIGKILL`, or a signal on which a server also ends its own children.
    pub(crate) fn spawn(command: &mut Command, kill_signal: Signal) -> Result<Self> {
        let program = command.get_program().to_owned();
        let process =
            command.process_group(0).spawn().with_context(|| format!("cannot start {}", program.display()))?;
        let child = Self { process, status: None, kill_signal };
        watchdog::watch(child.pid(), kill_signal)?;
        Ok(child)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// The child's standard input and output. Returns them once, if the command asked for pipes.
    pub(crate) fn pipes(&mut self) -> Option<(ChildStdin, ChildStdout)> {
        Some((self.process.stdin.take()?, self.process.stdout.take()?))
    }

    pub(crate) fn exit_status(&mut self) -> Result<Option<ExitStatus>> {
        if self.status.is_none()
            && let Some(status) = self.process.try_wait()?
        {
            self.status = Some(status);
            watchdog::forget(self.pid())?;
        }
        Ok(self.status)
    }

    /// Does nothing once the process has exited: its pid may have been reused.
    pub(crate) fn signal(&mut self, signal: Signal) -> Result<()> {
        if self.exit_status()?.is_none() {
            let pid = Pid::from_raw(i32::try_from(self.pid()).context("invalid process id")?);
            signal::kill(pid, signal).with_context(|| format!("cannot send {signal}"))?;
        }
        Ok(())
    }

    /// Sends SIGSTOP and returns when all threads have stopped: until then the process may still accept work. (Only
    /// Linux can wait for that; elsewhere a short race remains.)
    pub(crate) fn pause(&mut self) -> Result<()> {
        self.signal(Signal::SIGSTOP)?;
        #[cfg(target_os = "linux")]
        if self.status.is_none() {
            let flags = WaitPidFlag::WSTOPPED | WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT;
            let pid = Pid::from_raw(i32::try_from(self.pid()).context("invalid process id")?);
            waitid(Id::Pid(pid), flags).context("cannot wait until the process has stopped")?;
        }
        Ok(())
    }

    /// Sends `signal` and waits; after `timeout` it sends SIGKILL. The exit status tells which of the two ended it.
    pub(crate) async fn stop(&mut self, signal: Signal, timeout: Duration) -> Result<ExitStatus> {
        self.signal_and_resume(signal)?;
        self.wait_or_kill(timeout).await
    }

    /// Sends `signal`, then SIGCONT so that a paused process receives it too.
    pub(crate) fn signal_and_resume(&mut self, signal: Signal) -> Result<()> {
        self.signal(signal)?;
        self.signal(Signal::SIGCONT)
    }

    /// Waits for the process to exit; after `timeout` it sends SIGKILL.
    pub(crate) async fn wait_or_kill(&mut self, timeout: Duration) -> Result<ExitStatus> {
        let exited = tokio::time::timeout(timeout, async {
            loop {
                if let Some(status) = self.exit_status()? {
                    return Ok(status);
                }
                tokio::time::sleep(POLL).await;
            }
        });
        match exited.await {
            Ok(status) => status,
            Err(_) => self.kill_with(Signal::SIGKILL),
        }
    }

    /// Sends `signal`, which the process must not be able to ignore, and blocks until it exits.
    pub(crate) fn kill_with(&mut self, signal: Signal) -> Result<ExitStatus> {
        self.signal_and_resume(signal)?;
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
        // If this fails, the watchdog ends the child when this process exits.
        let _ = self.kill_with(self.kill_signal);
    }
}
