//! A lane: one Postgres, one Redis, and one history after the other, each in a child process, so that each begins in the
//! same state: counters of libraries, lazily initialized values and addresses in memory.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;
use std::process::exit;
use std::thread::available_parallelism;

use anyhow::{Context as _, Result, bail};
use foundation::telemetry::{self, MetricsHandle};

use crate::history::History;
use crate::run::{Report, run};
use crate::servers::Servers;
use crate::system;

/// Runs histories.
pub struct Lane {
    servers: Servers,
    metrics: MetricsHandle,
}

impl Lane {
    /// Starts the servers. The lane with this number shares a processor with them, since only one of them ever runs.
    ///
    /// # Errors
    /// If one of them does not start.
    #[allow(unsafe_code)]
    pub fn start(number: usize) -> Result<Self> {
        pin(number);
        let servers = Servers::start()?;
        // SAFETY: a lane has one thread.
        unsafe { system::configure(&servers) };
        Ok(Self { servers, metrics: telemetry::init_metrics()? })
    }

    /// Runs a history. Writes its events to the file `trace`, if there is one.
    ///
    /// # Errors
    /// If the child process fails.
    #[allow(unsafe_code)]
    pub fn run(&mut self, history: &History, trace: Option<&Path>) -> Result<Report> {
        self.servers.reset()?;
        let (mut reader, writer) = pipe()?;
        // SAFETY: a lane has one thread, so the child may do anything.
        match unsafe { libc::fork() } {
            0 => {
                drop(reader);
                // Neither a panic nor the end may run the destructors of what belongs to the parent.
                let result = panic::catch_unwind(AssertUnwindSafe(|| self.run_as_child(history, trace, writer)));
                if let Ok(Err(error)) = &result {
                    eprintln!("seed {}: {error:#}", history.seed);
                }
                exit(i32::from(!matches!(result, Ok(Ok(())))));
            }
            child if child > 0 => {
                drop(writer);
                let mut report = Vec::new();
                reader.read_to_end(&mut report)?;
                let mut status = 0;
                // SAFETY: waits for the child above.
                unsafe { libc::waitpid(child, &raw mut status, 0) };
                if status != 0 {
                    self.servers.forget_backends();
                    bail!("seed {}: the process of the history failed ({status})", history.seed);
                }
                let mut report: Report = serde_json::from_slice(&report).context("the report of the history")?;
                self.servers.provide_backends(report.backends.drain(..).collect())?;
                Ok(report)
            }
            _ => Err(io::Error::last_os_error()).context("fork"),
        }
    }

    fn run_as_child(&mut self, history: &History, trace: Option<&Path>, mut report: File) -> Result<()> {
        if std::env::var("RUST_LOG").is_ok() {
            telemetry::init_logs();
        }
        let (outcome, lines) = run(history, &mut self.servers, self.metrics.clone(), trace.is_some())?;
        if let Some(path) = trace {
            fs::write(path, lines.join("\n"))?;
        }
        report.write_all(&serde_json::to_vec(&outcome)?)?;
        Ok(())
    }
}

/// The reading and the writing end of a new pipe.
#[allow(unsafe_code)]
fn pipe() -> Result<(File, File)> {
    let mut ends = [0; 2];
    // SAFETY: the array has room for two descriptors, which nothing else owns.
    unsafe {
        if libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) < 0 {
            return Err(io::Error::last_os_error()).context("pipe");
        }
        Ok((File::from(OwnedFd::from_raw_fd(ends[0])), File::from(OwnedFd::from_raw_fd(ends[1]))))
    }
}

/// Restricts this process and those that it starts to one processor. A message is then passed without waking another
/// processor, which takes longer than most of the work.
#[allow(unsafe_code)]
fn pin(number: usize) {
    let processors = available_parallelism().map_or(1, usize::from);
    // SAFETY: a set of processors is valid if it is zero, and the number is smaller than its size.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(number % processors.min(libc::CPU_SETSIZE as usize), &mut set);
        // Only speed depends on it.
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set);
    }
}
