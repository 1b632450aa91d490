//! A simulated process: a thread with a Tokio runtime of its own, of which only one runs at a time.
//!
//! The functions of the C library that [`interpose`] replaces give it virtual time, seeded random bytes and sockets that
//! end in the simulator. When the runtime has nothing to do it calls `epoll_wait`, which passes control back to the
//! simulator with the time of the next timer.

mod interpose;
mod sockets;

use std::cell::Cell;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use anyhow::Result;

use crate::random::Random;
use foundation::clock::simulate_process;
use sockets::Sockets;
use tokio::runtime::Builder;
use tokio::sync::Notify;

thread_local! {
    /// The process that this thread runs; null in the simulator's own threads.
    static CURRENT: Cell<*const Shared> = const { Cell::new(std::ptr::null()) };
}

/// A connection that a process has opened.
#[derive(Debug)]
pub struct Opened {
    /// The other end.
    pub stream: UnixStream,
    /// Where the process wanted to connect.
    pub to: SocketAddr,
}

/// A handle to a simulated process.
pub struct Host {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// State shared by the process' thread and the simulator.
struct Shared {
    turn: Mutex<Turn>,
    changed: Condvar,
    random: Mutex<Random>,
    sockets: Mutex<Sockets>,
    /// How far the process' wall clock is ahead of the virtual time, in microseconds.
    wall_offset_us: AtomicI64,
    killed: Notify,
    /// What the process sees as its id.
    pid: i32,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Turn {
    Process,
    Simulator(Idle),
}

/// What a process waits for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Idle {
    /// For a socket only.
    Forever,
    /// For a socket, or until this virtual time in microseconds.
    Until(u64),
    /// It has ended.
    Ended,
}

impl Host {
    /// Starts a process that runs `main` in a single-threaded runtime. It gets its first turn from [`Self::run`].
    pub fn start<M, F>(pid: i32, random: Random, main: M) -> Self
    where
        M: FnOnce() -> F + Send + 'static,
        F: Future<Output = ()>,
    {
        let shared = Arc::new(Shared {
            turn: Mutex::new(Turn::Simulator(Idle::Until(0))),
            changed: Condvar::new(),
            random: Mutex::new(random),
            sockets: Mutex::default(),
            wall_offset_us: AtomicI64::new(0),
            killed: Notify::new(),
            pid,
        });
        let own = Arc::clone(&shared);
        let thread = thread::spawn(move || {
            own.wait_for_turn();
            CURRENT.set(Arc::as_ptr(&own));
            // The panic hook has printed the message.
            let _ = panic::catch_unwind(AssertUnwindSafe(|| own.run(main)));
            CURRENT.set(std::ptr::null());
            own.pass(Turn::Simulator(Idle::Ended));
        });
        Self { shared, thread: Some(thread) }
    }

    /// Lets the process run until it is idle.
    pub fn run(&self) -> Idle {
        self.shared.pass(Turn::Process);
        let mut turn = lock(&self.shared.turn);
        loop {
            match *turn {
                Turn::Simulator(idle) => return idle,
                Turn::Process => turn = self.shared.changed.wait(turn).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    /// The connections opened since the last call.
    pub fn opened(&self) -> Vec<Opened> {
        lock(&self.shared.sockets).take_opened()
    }

    /// Connects to a listener of the process, as `from`.
    ///
    /// # Errors
    /// If nothing listens on this port.
    pub fn connect(&self, port: u16, from: SocketAddr) -> Result<UnixStream> {
        lock(&self.shared.sockets).connect(port, from)
    }

    /// Sets how far the wall clock is ahead of the virtual time.
    pub fn set_wall_offset(&self, us: i64) {
        self.shared.wall_offset_us.store(us, Ordering::Relaxed);
    }

    /// Makes the process drop all its tasks and connections at its next turn, and end.
    pub fn kill(&self) {
        self.shared.killed.notify_one();
    }

    /// Waits for the thread after [`Idle::Ended`].
    pub fn join(mut self) {
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn run<F: Future<Output = ()>>(&self, main: impl FnOnce() -> F) {
        simulate_process();
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            tokio::select! {
                biased;
                () = self.killed.notified() => {}
                () = main() => {}
            }
        });
    }

    fn pass(&self, turn: Turn) {
        *lock(&self.turn) = turn;
        self.changed.notify_all();
    }

    fn wait_for_turn(&self) {
        let mut turn = lock(&self.turn);
        while *turn != Turn::Process {
            turn = self.changed.wait(turn).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Called by the process' thread: passes control to the simulator until the next turn.
    fn idle(&self, idle: Idle) {
        self.pass(Turn::Simulator(idle));
        self.wait_for_turn();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
