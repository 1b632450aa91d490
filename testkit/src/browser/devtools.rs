//! The connection to the browser: the DevTools protocol over two pipes, with JSON messages terminated by a zero byte.
//!
//! Pipes need no port and no library, and a browser whose pipe closes ends by itself, however this process died.

use std::{
    collections::HashMap,
    io::{BufRead, BufReader, Read, Write},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, Result, anyhow, bail};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::events::{Command, EventLog};

/// Long enough for axe-core on the API reference while every processor runs other tests.
const TIMEOUT: Duration = Duration::from_secs(120);

type CommandResult = Result<Value, String>;

/// The recipient of a response.
enum Pending {
    Command(oneshot::Sender<CommandResult>),
    /// The response is the body of the recorded request with this index.
    Body(usize),
}

/// The connection of one browser, shared by its tabs and the reading thread.
pub(super) struct DevTools {
    input: Mutex<Option<Box<dyn Write + Send>>>,
    next: AtomicU64,
    pending: Mutex<HashMap<u64, Pending>>,
    events: Mutex<EventLog>,
}

impl DevTools {
    pub(super) fn new(input: impl Write + Send + 'static) -> Self {
        Self {
            input: Mutex::new(Some(Box::new(input))),
            next: AtomicU64::new(1),
            pending: Mutex::default(),
            events: Mutex::default(),
        }
    }

    /// The events recorded so far.
    pub(super) fn events(&self) -> MutexGuard<'_, EventLog> {
        lock(&self.events)
    }

    /// Closes the pipe, which ends the browser.
    pub(super) fn close(&self) {
        lock(&self.input).take();
    }

    /// Sends a command and waits for its response. An empty session addresses the browser itself.
    pub(super) async fn call(&self, session: &str, method: &str, parameters: Value) -> Result<Value> {
        let (sender, receiver) = oneshot::channel();
        self.send(session, method, parameters, Some(Pending::Command(sender)))?;
        let response = tokio::time::timeout(TIMEOUT, receiver).await;
        let response = response.with_context(|| format!("the browser did not respond to {method}"))?;
        let response = response.with_context(|| format!("the browser exited before it responded to {method}"))?;
        response.map_err(|error| anyhow!("{method}: {error}"))
    }

    fn send(&self, session: &str, method: &str, parameters: Value, pending_response: Option<Pending>) -> Result<()> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let mut message = json!({"id": id, "method": method, "params": parameters});
        if !session.is_empty() {
            message["sessionId"] = session.into();
        }
        if let Some(pending_response) = pending_response {
            lock(&self.pending).insert(id, pending_response);
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        let mut input = lock(&self.input);
        let Some(input) = input.as_mut() else { bail!("the connection to the browser has been closed") };
        input.write_all(&bytes).and_then(|()| input.flush()).context("the browser has exited")
    }

    /// Sends a command without waiting for its response.
    fn execute(&self, command: Command) -> Result<()> {
        match command {
            Command::Notify { session, method, parameters } => self.send(&session, method, parameters, None),
            Command::RequestBody { session, request, index } => {
                let parameters = json!({"requestId": request});
                self.send(&session, "Network.getRequestPostData", parameters, Some(Pending::Body(index)))
            }
        }
    }

    /// Reads messages until the browser ends; runs on its own thread.
    pub(super) fn read(&self, output: impl Read) {
        let mut output = BufReader::new(output);
        let mut message = Vec::new();
        while output.read_until(0, &mut message).is_ok_and(|count| count > 0) {
            message.pop();
            if let Ok(value) = serde_json::from_slice(&message) {
                self.handle(value);
            }
            message.clear();
        }
        // Dropping the senders tells the waiting callers that the browser has ended.
        lock(&self.pending).clear();
    }

    fn handle(&self, mut message: Value) {
        let Some(id) = message["id"].as_u64() else {
            let session = message["sessionId"].as_str().unwrap_or_default();
            let method = message["method"].as_str().unwrap_or_default();
            // The lock is held until the commands are sent: no one may use a new tab before it has been set up.
            let mut events = self.events();
            for command in events.handle(session, method, &message["params"]) {
                // Fails only if the browser has ended.
                let _ = self.execute(command);
            }
            return;
        };
        let response = match message["error"]["message"].as_str() {
            Some(error) => Err(error.to_owned()),
            None => Ok(message["result"].take()),
        };
        match lock(&self.pending).remove(&id) {
            Some(Pending::Command(sender)) => drop(sender.send(response)),
            Some(Pending::Body(index)) => self.events().store_body(index, response),
            None => {}
        }
    }
}

/// Statements under these locks leave consistent data behind, so a poisoned lock is safe to use.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
