//! A history: what clients do and which faults occur, at which virtual time. A seed determines it.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::generator::Generator;
use crate::random::Random;
use crate::system::Role;
use crate::world::StatementFault;

/// A second in microseconds.
pub const SECOND: u64 = 1_000_000;
/// All requests and faults begin within this time.
const DURATION: u64 = 10 * SECOND;
const REQUESTS: usize = 50;
const FAULTS: usize = 10;

/// Requests and faults.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct History {
    /// Determines the order of everything else.
    pub seed: u64,
    /// By time.
    pub requests: Vec<TimedRequest>,
    /// By time.
    pub faults: Vec<TimedFault>,
}

/// A request and its virtual time after the beginning, in microseconds.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct TimedRequest {
    /// When it is sent.
    pub at: u64,
    /// What is requested.
    pub request: Request,
}

/// A fault and its virtual time after the beginning, in microseconds.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct TimedFault {
    /// When it begins.
    pub at: u64,
    /// What goes wrong.
    pub fault: Fault,
}

/// A request of the merchant's client. In the path and in strings of the body, `{payment.3}` is the id of the fourth
/// payment that the history creates; likewise for other kinds of object.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Request {
    /// A `POST` with this body; otherwise a `GET`.
    pub body: Option<Value>,
    /// Below `/v1`.
    pub path: String,
    /// The idempotency key. Requests with the same key are equal.
    pub key: Option<String>,
    /// The kind of object that it creates.
    pub creates: Option<String>,
}

/// Something that goes wrong.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub enum Fault {
    /// A process is killed and restarted.
    Kill {
        /// Which process.
        role: Role,
        /// After how many microseconds it is started again.
        restart: u64,
    },
    /// A process dies, or loses its connection, before or after Postgres executes one of its statements.
    Statement {
        /// Which process.
        role: Role,
        /// Which statement, and what happens.
        fault: StatementFault,
    },
    /// A process gets no processor time.
    Pause {
        /// Which process.
        role: Role,
        /// For how many microseconds.
        duration: u64,
    },
    /// Postgres or Redis is away.
    Outage {
        /// Redis, or else Postgres.
        redis: bool,
        /// Whether connections break; otherwise they hang.
        refused: bool,
        /// For how many microseconds.
        duration: u64,
    },
    /// The wall clock of a process is wrong from its next start.
    WallClock {
        /// Which process.
        role: Role,
        /// How many microseconds it is ahead.
        offset: i64,
    },
}

impl History {
    /// The history of a seed.
    pub fn generate(seed: u64) -> Self {
        let mut random = Random::new(seed ^ 0x5EED);
        let mut times: Vec<u64> = (0..REQUESTS).map(|_| random.below(DURATION)).collect();
        times.sort_unstable();
        let mut generator = Generator::new(random.fork());
        let requests = times.into_iter().map(|at| TimedRequest { at, request: generator.request() }).collect();
        let mut faults: Vec<TimedFault> =
            (0..FAULTS).map(|_| TimedFault { at: random.below(DURATION), fault: fault(&mut random) }).collect();
        faults.sort_by_key(|fault| fault.at);
        Self { seed, requests, faults }
    }

    /// Whether requests may fail because api cannot reach Postgres.
    pub fn breaks_postgres(&self) -> bool {
        self.faults.iter().any(|step| match step.fault {
            Fault::Outage { redis, .. } => !redis,
            Fault::Statement { role, .. } => role == Role::Api,
            Fault::Kill { .. } | Fault::Pause { .. } | Fault::WallClock { .. } => false,
        })
    }

    /// A sentence for each step, by time.
    pub fn story(&self) -> Vec<String> {
        let requests = self.requests.iter().map(|step| (step.at, format!("a client sends {}", step.request)));
        let faults = self.faults.iter().map(|step| (step.at, format!("{:?} begins", step.fault)));
        let mut steps: Vec<(u64, String)> = requests.chain(faults).collect();
        steps.sort();
        steps.into_iter().map(|(at, text)| format!("After {:.3} s {text}.", at as f64 / 1e6)).collect()
    }
}

fn fault(random: &mut Random) -> Fault {
    let role = Role::ALL[random.index(Role::ALL.len())];
    let duration = [SECOND / 10, SECOND, 3 * SECOND, 12 * SECOND][random.index(4)];
    match random.below(8) {
        0 => Fault::Kill { role, restart: duration },
        1..5 => {
            let fault = StatementFault { skip: random.below(30), executed: !random.one_in(3), kills: random.one_in(2) };
            Fault::Statement { role, fault }
        }
        5 => Fault::Pause { role, duration },
        6 => Fault::Outage { redis: random.one_in(2), refused: random.one_in(2), duration },
        _ => {
            let offset = [-3_600, -5, -1, 1, 5, 3_600][random.index(6)] * 1_000_000;
            Fault::WallClock { role, offset }
        }
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.body {
            Some(body) => write!(f, "POST {} {body}", self.path)?,
            None => write!(f, "GET {}", self.path)?,
        }
        self.key.as_ref().map_or(Ok(()), |key| write!(f, " with the key {key}"))
    }
}
