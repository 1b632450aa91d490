//! The line to the browser: the DevTools protocol over two pipes, messages of JSON that end with a zero byte.
//!
//! A pipe needs no port and no library, and a browser whose pipe closes ends by itself, however this process died.

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

use super::seen::Seen;

const PATIENCE: Duration = Duration::from_secs(30);

type Outcome = Result<Value, String>;

/// Who waits for the answer to a call.
enum Waiter {
    Caller(oneshot::Sender<Outcome>),
    /// The record: the answer is the body of this request.
    Body(usize),
}

/// One browser's line, shared by its tabs and the thread that reads.
pub(super) struct Wire {
    input: Mutex<Option<Box<dyn Write + Send>>>,
    next: AtomicU64,
    waiters: Mutex<HashMap<u64, Waiter>>,
    seen: Mutex<Seen>,
}

impl Wire {
    pub(super) fn new(input: impl Write + Send + 'static) -> Self {
        Self {
            input: Mutex::new(Some(Box::new(input))),
            next: AtomicU64::new(1),
            waiters: Mutex::default(),
            seen: Mutex::default(),
        }
    }

    /// What the browser has told so far.
    pub(super) fn seen(&self) -> MutexGuard<'_, Seen> {
        lock(&self.seen)
    }

    /// Closes the pipe, whereupon the browser ends.
    pub(super) fn close(&self) {
        lock(&self.input).take();
    }

    /// Asks, and waits for the answer. An empty session is the browser itself.
    pub(super) async fn call(&self, session: &str, method: &str, parameters: Value) -> Result<Value> {
        let (sender, receiver) = oneshot::channel();
        self.send(session, method, parameters, Some(Waiter::Caller(sender)))?;
        let answer = tokio::time::timeout(PATIENCE, receiver).await;
        let answer = answer.with_context(|| format!("the browser does not answer {method}"))?;
        let answer = answer.with_context(|| format!("the browser ended before it answered {method}"))?;
        answer.map_err(|complaint| anyhow!("{method}: {complaint}"))
    }

    /// Tells; whatever the answer is, nobody waits for it.
    pub(super) fn tell(&self, session: &str, method: &str, parameters: Value) {
        // Fails once the browser has ended, and then there is nobody to tell.
        let _ = self.send(session, method, parameters, None);
    }

    /// Asks for the body of a request that came without it.
    pub(super) fn ask_body(&self, session: &str, request: &str, index: usize) {
        let parameters = json!({"requestId": request});
        let _ = self.send(session, "Network.getRequestPostData", parameters, Some(Waiter::Body(index)));
    }

    fn send(&self, session: &str, method: &str, parameters: Value, waiter: Option<Waiter>) -> Result<()> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let mut message = json!({"id": id, "method": method, "params": parameters});
        if !session.is_empty() {
            message["sessionId"] = session.into();
        }
        if let Some(waiter) = waiter {
            lock(&self.waiters).insert(id, waiter);
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        let mut input = lock(&self.input);
        let Some(input) = input.as_mut() else { bail!("the browser was told to end") };
        input.write_all(&bytes).and_then(|()| input.flush()).context("the browser is gone")
    }

    /// Reads until the browser ends; on a thread of its own.
    pub(super) fn read(&self, output: impl Read) {
        let mut output = BufReader::new(output);
        let mut message = Vec::new();
        while output.read_until(0, &mut message).is_ok_and(|count| count > 0) {
            message.pop();
            if let Ok(value) = serde_json::from_slice(&message) {
                self.take(value);
            }
            message.clear();
        }
        // Whoever waits is told by the end of its channel.
        lock(&self.waiters).clear();
    }

    fn take(&self, mut message: Value) {
        let Some(id) = message["id"].as_u64() else {
            let session = message["sessionId"].as_str().unwrap_or_default();
            let method = message["method"].as_str().unwrap_or_default();
            return Seen::take(self, session, method, &message["params"]);
        };
        let answer = match message["error"]["message"].as_str() {
            Some(complaint) => Err(complaint.to_owned()),
            None => Ok(message["result"].take()),
        };
        match lock(&self.waiters).remove(&id) {
            Some(Waiter::Caller(sender)) => drop(sender.send(answer)),
            Some(Waiter::Body(index)) => self.seen().body(index, answer),
            None => {}
        }
    }
}

/// What is behind these locks is whole between any two statements, so a panic elsewhere is no reason to stop.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
