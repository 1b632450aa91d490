//! A history: what clients do and which faults occur, at which virtual time. A seed determines it.

use serde::{Deserialize, Serialize};

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

/// A request of a client. Payments are numbered in the order of the requests that create them.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub enum Request {
    /// Creates a payment. Requests with the same key are repetitions.
    Pay {
        /// In minor units.
        amount: u64,
        /// The token of the mock provider.
        token: String,
        /// Whether it is captured at once.
        capture: bool,
        /// The idempotency key.
        key: Option<u64>,
    },
    /// Captures an authorized payment.
    Capture {
        /// Which payment.
        payment: usize,
        /// In minor units; all of it for `None`.
        amount: Option<u64>,
    },
    /// Cancels an authorized payment.
    Void {
        /// Which payment.
        payment: usize,
    },
    /// Refunds a part of a payment.
    Refund {
        /// Which payment.
        payment: usize,
        /// In minor units.
        amount: u64,
    },
    /// Reads a payment.
    Retrieve {
        /// Which payment.
        payment: usize,
    },
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
        let mut payments = 0;
        let mut requests: Vec<TimedRequest> = (0..REQUESTS)
            .map(|_| TimedRequest { at: random.below(DURATION), request: request(&mut random, &mut payments) })
            .collect();
        requests.sort_by_key(|request| request.at);
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
        let requests = self.requests.iter().map(|step| (step.at, format!("a client sends {:?}", step.request)));
        let faults = self.faults.iter().map(|step| (step.at, format!("{:?} begins", step.fault)));
        let mut steps: Vec<(u64, String)> = requests.chain(faults).collect();
        steps.sort();
        steps.into_iter().map(|(at, text)| format!("After {:.3} s {text}.", at as f64 / 1e6)).collect()
    }
}

fn request(random: &mut Random, payments: &mut usize) -> Request {
    let payment = random.index(*payments + 1);
    match random.below(10) {
        0..5 => {
            *payments += 1;
            let token = ["tok_ok", "tok_ok", "tok_ok", "tok_declined"][random.index(4)].to_owned();
            Request::Pay {
                amount: 100 + random.below(9_900),
                token,
                capture: !random.one_in(3),
                key: random.one_in(2).then(|| random.below(8)),
            }
        }
        5 => Request::Capture { payment, amount: random.one_in(2).then(|| 1 + random.below(200)) },
        6 => Request::Void { payment },
        7 | 8 => Request::Refund { payment, amount: 1 + random.below(2_000) },
        _ => Request::Retrieve { payment },
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
