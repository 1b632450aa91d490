//! The server's end of a simulated connection to Postgres.
//!
//! A new process of Postgres takes milliseconds to start, and again as long to parse and plan the statements it is sent.
//! So a process whose connection was closed serves a later connection with an equal startup packet and keeps its
//! prepared statements. The client notices nothing: a statement that is prepared already gets the same response.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use anyhow::{Context as _, Result, ensure};

use super::backend::{Backend, Login};
use crate::wire::postgres::{message, messages, request, split_text};

/// How the statements begin that execute batches of claims and of outcomes. Their first parameter is an array with an
/// element for each item.
const BATCHES: [&str; 2] = ["WITH candidate AS (", "WITH charge AS MATERIALIZED ("];

/// The server processes that no connection uses.
#[derive(Debug)]
pub struct Backends {
    login: Login,
    /// By startup packet.
    idle: BTreeMap<Vec<u8>, Vec<Numbered>>,
    /// How many processes each startup packet has needed at once.
    needed: BTreeMap<Vec<u8>, usize>,
}

/// The lowest free one is used first, so that it does not matter how many there are.
type Numbered = (usize, Backend);

impl Backends {
    /// None so far.
    pub fn new(login: Login) -> Self {
        Self { login, idle: BTreeMap::new(), needed: BTreeMap::new() }
    }

    /// How many processes each startup packet has needed at once.
    pub fn needed(&self) -> &BTreeMap<Vec<u8>, usize> {
        &self.needed
    }

    /// Starts processes until there are as many.
    ///
    /// # Errors
    /// If Postgres refuses a connection.
    pub fn provide(&mut self, needed: &BTreeMap<Vec<u8>, usize>) -> Result<()> {
        for (startup, count) in needed {
            let idle = self.idle.entry(startup.clone()).or_default();
            for number in idle.len()..*count {
                idle.push((number, Backend::open(&self.login, startup)?));
            }
            self.needed.insert(startup.clone(), *count);
        }
        Ok(())
    }

    /// Every process forgets how it planned its statements, which may depend on the tables' sizes. One that has ended
    /// is replaced.
    ///
    /// # Errors
    /// If Postgres refuses a connection.
    pub fn discard_plans(&mut self) -> Result<()> {
        for (startup, idle) in &mut self.idle {
            for (_, backend) in idle {
                if backend.query("DISCARD PLANS").is_err() {
                    *backend = Backend::open(&self.login, startup)?;
                }
            }
        }
        Ok(())
    }

    fn take(&mut self, startup: &[u8]) -> Result<Numbered> {
        let idle = self.idle.entry(startup.to_vec()).or_default();
        if let Some(lowest) = (0..idle.len()).min_by_key(|index| idle[*index].0) {
            let (number, mut backend) = idle.swap_remove(lowest);
            if backend.prepared.is_empty() {
                backend.read_prepared()?;
            }
            return Ok((number, backend));
        }
        let needed = self.needed.entry(startup.to_vec()).or_default();
        *needed += 1;
        Ok((*needed - 1, Backend::open(&self.login, startup)?))
    }
}

/// The server's end of a simulated connection.
#[derive(Debug, Default)]
pub(super) struct PostgresServer {
    startup: Vec<u8>,
    backend: Option<Numbered>,
    /// The backend's name of each statement that the client has prepared.
    names: BTreeMap<Vec<u8>, Vec<u8>>,
    /// The client's names of those that execute batches.
    batches: BTreeSet<Vec<u8>>,
    /// Whether the transaction contains a batch of several items.
    has_batch: bool,
    /// What the response begins with, if the backend sends only the rest of it.
    prefix: Vec<u8>,
    /// The statement that the request prepares.
    preparing: Option<Vec<u8>>,
    /// Whether the backend is stopped while it waits for a lock.
    frozen: bool,
}

/// What became of a request.
pub(super) enum Sent {
    /// The response is known.
    Responded(Vec<u8>),
    /// The backend responds.
    Pending,
}

impl PostgresServer {
    /// The length of the first request in `bytes`, if the server can receive one.
    pub(super) fn request(&self, bytes: &[u8]) -> Option<usize> {
        if self.frozen { None } else { request(bytes, !self.startup.is_empty()) }
    }

    /// The response if `bytes` are a request without statements, a test whether the connection is alive.
    pub(super) fn pong(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let (_, backend) = self.backend.as_ref().filter(|_| !self.frozen && bytes == message(b'S', &[]))?;
        Some(message(b'Z', &[backend.status()]))
    }

    pub(super) fn is_frozen(&self) -> bool {
        self.frozen
    }

    /// Sends a request. Empty if the server closes the connection.
    ///
    /// # Errors
    /// If Postgres fails.
    pub(super) fn send(&mut self, request: &[u8], backends: &mut Backends) -> Result<Sent> {
        if self.startup.is_empty() {
            self.startup = with_long_timeouts(request);
            let backend = self.backend.insert(backends.take(&self.startup)?);
            return Ok(Sent::Responded(backend.1.greeting[0].clone()));
        }
        let (_, backend) = self.backend.as_mut().context("a backend")?;
        match request[0] {
            b'p' => return Ok(Sent::Responded(backend.greeting[1].clone())),
            b'X' => return Ok(Sent::Responded(Vec::new())),
            _ => {}
        }
        self.preparing = None;
        let mut rewritten = Vec::with_capacity(request.len());
        for (kind, contents) in messages(request) {
            let (name, rest) = match kind {
                b'P' => split_text(contents).context("a statement")?,
                b'D' if contents[0] == b'S' => split_text(&contents[1..]).context("a statement")?,
                b'B' => {
                    let (portal, rest) = split_text(contents).context("a portal")?;
                    ensure!(portal.is_empty(), "named portals are not simulated");
                    split_text(rest).context("a statement")?
                }
                // Statements that a client closes stay prepared.
                _ => (&[][..], contents),
            };
            if name.is_empty() {
                rewritten.extend(message(kind, contents));
                continue;
            }
            if kind == b'P' {
                let shared = statement_name(rest);
                if BATCHES.iter().any(|begin| rest.starts_with(begin.as_bytes())) {
                    self.batches.insert(name.to_vec());
                }
                self.names.insert(name.to_vec(), shared.clone());
                self.preparing = Some(shared);
            }
            if kind == b'B' && self.batches.contains(name) {
                self.has_batch |= first_array_length(rest) > Some(1);
            }
            let shared = self.names.get(name).context("the statement was not prepared")?;
            match kind {
                b'P' if backend.prepared.contains_key(shared) && backend.status() != b'E' => {
                    self.prefix = message(b'1', &[])
                }
                b'P' => rewritten.extend(message(kind, &[shared, &b"\0"[..], rest].concat())),
                b'D' => match backend.prepared.get(shared) {
                    Some(Some(description)) if backend.status() != b'E' => self.prefix.extend(description),
                    _ => rewritten.extend(message(kind, &[b"S", &shared[..], b"\0", rest].concat())),
                },
                _ => rewritten.extend(message(kind, &[&b"\0"[..], shared, b"\0", rest].concat())),
            }
        }
        // A request without statements is a test whether the connection is alive.
        if rewritten == message(b'S', &[]) {
            self.prefix.extend(message(b'Z', &[backend.status()]));
            return Ok(Sent::Responded(std::mem::take(&mut self.prefix)));
        }
        backend.send(&rewritten)?;
        Ok(Sent::Pending)
    }

    /// The response, or `None` if the statement is still running.
    ///
    /// # Errors
    /// If the server has not received a request.
    pub(super) fn response(&mut self) -> Result<Option<Vec<u8>>> {
        let (_, backend) = self.backend.as_mut().context("a backend")?;
        let Some(response) = backend.response() else { return Ok(None) };
        let response = [std::mem::take(&mut self.prefix), response].concat();
        if let Some(name) = self.preparing.take()
            && messages(&response).any(|(kind, _)| kind == b'1')
        {
            let described = messages(&response).filter(|(kind, _)| matches!(kind, b't' | b'T' | b'n'));
            let description: Vec<u8> = described.flat_map(|(kind, contents)| message(kind, contents)).collect();
            backend.prepared.insert(name, (!description.is_empty()).then_some(description));
        }
        Ok(Some(response))
    }

    /// Whether the last response ends a transaction that contains a batch of several items.
    pub(super) fn has_ended_batch(&mut self) -> bool {
        let has_ended = self.backend.as_ref().is_some_and(|(_, backend)| backend.status() == b'I');
        has_ended && std::mem::take(&mut self.has_batch)
    }

    /// Whether the statement waits for a lock. `observer` is another connection.
    ///
    /// # Errors
    /// If Postgres fails.
    pub(super) fn waits_for_lock(&self, observer: &mut Backend) -> Result<bool> {
        let (_, backend) = self.backend.as_ref().context("a backend")?;
        // On a busy machine most statements take so long because they wait for a processor. A process that has just been
        // frozen may still seem to run.
        if !self.frozen && backend.is_runnable() {
            return Ok(false);
        }
        backend.waits_for_lock(observer)
    }

    /// Stops or continues the backend, whose statement waits for a lock.
    ///
    /// # Errors
    /// If the backend has ended.
    pub(super) fn freeze(&mut self, frozen: bool) -> Result<()> {
        self.frozen = frozen;
        self.backend.as_ref().context("a backend")?.1.freeze(frozen)
    }

    /// Ends the connection: its transaction is rolled back before anything else happens.
    ///
    /// # Errors
    /// If Postgres fails.
    pub(super) fn end(self, backends: &mut Backends) -> Result<()> {
        let Some((number, mut backend)) = self.backend else { return Ok(()) };
        if backend.reset(self.frozen)? {
            backends.idle.entry(self.startup).or_default().push((number, backend));
        }
        Ok(())
    }
}

/// The startup packet with timeouts of hours instead of seconds. Postgres measures them in real time, so that a slow machine
/// would decide which statements end.
fn with_long_timeouts(startup: &[u8]) -> Vec<u8> {
    let mut startup = startup.to_vec();
    let name = b"_timeout=";
    for begin in 0..startup.len() {
        if startup[begin..].starts_with(name) {
            let digits = startup[begin + name.len()..].iter().take_while(|byte| byte.is_ascii_digit()).count();
            if let Some(unit @ b's') = startup.get_mut(begin + name.len() + digits) {
                *unit = b'h';
            }
        }
    }
    startup
}

/// The length of the array that is the first parameter of a request to execute a statement; `parameters` follows the names.
fn first_array_length(parameters: &[u8]) -> Option<u32> {
    let formats = u16::from_be_bytes(parameters.get(..2)?.try_into().ok()?);
    // Before the length there are the formats, the number of parameters, the size of the first one, and of that the number
    // of dimensions, a flag and the type.
    let at = 2 + 2 * usize::from(formats) + 2 + 4 + 12;
    Some(u32::from_be_bytes(parameters.get(at..at + 4)?.try_into().ok()?))
}

/// The name of a statement: a function of its text and the types of its parameters.
fn statement_name(text_and_types: &[u8]) -> Vec<u8> {
    let mut hasher = DefaultHasher::new();
    text_and_types.hash(&mut hasher);
    format!("s{:016x}", hasher.finish()).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::{BATCHES, first_array_length, with_long_timeouts};

    #[test]
    fn timeouts_are_hours() {
        let sent = b"options\0-c statement_timeout=15s -c lock_timeout=10s -c jit=off\0";
        let expected = b"options\0-c statement_timeout=15h -c lock_timeout=10h -c jit=off\0";
        assert_eq!(with_long_timeouts(sent), expected);
    }

    #[test]
    fn the_length_of_a_batch_is_that_of_its_first_array() {
        // Formats of two parameters, which are an array of one dimension with three elements of the type 2950, and another.
        let begin = [&[0, 2, 0, 1, 0, 1, 0, 2, 0, 0, 0, 80][..], &[0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 11, 134]].concat();
        assert_eq!(first_array_length(&[&begin[..], &[0, 0, 0, 3, 0, 0, 0, 1]].concat()), Some(3));
        assert_eq!(first_array_length(&begin), None);
    }

    #[test]
    fn workers_execute_batches_with_statements_that_begin_so() {
        let sources = [
            include_str!("../../../common/domain/src/charges/claim.rs"),
            include_str!("../../../common/domain/src/charges/outcomes.rs"),
        ];
        for (source, begin) in sources.iter().zip(BATCHES) {
            assert!(source.contains(&format!("r#\"{begin}")), "{begin}");
        }
    }
}
