//! A history: what clients do and which faults occur, at which virtual time. A seed determines it.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::system::Role;
use crate::world::StatementFault;

/// A second in microseconds.
pub const SECOND: u64 = 1_000_000;

/// Time zones with and without summer time, and with half an hour.
pub const ZONES: [&str; 4] = ["UTC", "America/New_York", "Europe/Berlin", "Asia/Kolkata"];

/// Who settles the money of an account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
pub enum Provider {
    /// The mock.
    #[default]
    Mock,
    /// The card gateway, which belongs to recovery class B.
    CardGateway,
    /// A double of Stripe, which forgets idempotency keys after a day.
    Stripe,
}

/// Requests and faults.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct History {
    /// Determines the order of everything else.
    pub seed: u64,
    /// What the mock does with a repeated reference: `A`, `B` or `C` (docs/charge-protocol.md, "Recovery classes").
    pub class: char,
    /// Where the account makes its payments, until it moves.
    pub provider: Provider,
    /// Whether operators resolve what waits for a manual review at the end.
    pub operators: bool,
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

/// A request of the merchant's client or a cardholder's browser. In the path and in strings of the content,
/// `{payment.3}` is the id of the fourth payment that the history creates, or of another one if that does not exist,
/// `{link.0.url}` the path of the first link's page, `{payment.0.nextAction}` that of the first payment's challenge,
/// `{bank.0.bank}` that of the page to which a challenge redirects, and `{subscription.0.latestInvoiceId}` that field of
/// the first subscription; likewise for other kinds of object.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct Request {
    /// What is sent.
    pub content: Content,
    /// The path and the query.
    pub path: String,
    /// The idempotency key.
    pub key: Option<String>,
    /// The kind of object that it creates, or that its response shows for later requests to refer to.
    pub creates: Option<String>,
}

/// The body of a request, and with it the method.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub enum Content {
    /// `GET`.
    None,
    /// `DELETE`.
    Delete,
    /// `POST` with the secret key.
    Json(Value),
    /// `POST` as a browser sends a form, without a key.
    Form(String),
}

impl Content {
    /// JSON or text; null if there is none.
    pub fn into_value(self) -> Value {
        match self {
            Self::None | Self::Delete => Value::Null,
            Self::Json(body) => body,
            Self::Form(form) => form.into(),
        }
    }
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
    /// Postgres commits the next batch of several claims or outcomes of a worker, which gets no response.
    Batch {
        /// Which process.
        role: Role,
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
    /// Each provider drops its next responses.
    LostResponses {
        /// How many.
        count: u64,
    },
    /// Each provider is slow, or processes nothing. Requests to another than the mock arrive at the end, or not at all.
    Provider {
        /// The duration of each request in milliseconds; none if it processes nothing.
        latency_ms: Option<u64>,
        /// For how many microseconds.
        duration: u64,
    },
    /// The card gateway adds a fee to each sale.
    Fee {
        /// For how many microseconds.
        duration: u64,
    },
    /// An operator moves stored secrets to another key, while somebody tries to connect another account to those of the
    /// account at the providers.
    Rotation,
    /// An operator moves the account to another provider.
    Move {
        /// For new payments and cards.
        to: Provider,
    },
}

impl History {
    /// The time zone of the account.
    pub fn timezone(&self) -> &'static str {
        ZONES[self.seed as usize % ZONES.len()]
    }

    /// The time zone of the account at the card gateway.
    pub fn gateway_zone(&self) -> &'static str {
        ZONES[self.seed as usize / ZONES.len() % ZONES.len()]
    }

    /// The processes.
    pub fn roles(&self) -> &'static [Role] {
        roles(self.uses(Provider::CardGateway))
    }

    /// Whether the account is connected to this provider at some time.
    pub fn uses(&self, provider: Provider) -> bool {
        let moves = |step: &TimedFault| matches!(step.fault, Fault::Move { to } if to == provider);
        self.provider == provider || self.faults.iter().any(moves)
    }

    /// Whether requests may fail because api cannot reach Postgres.
    pub fn breaks_postgres(&self) -> bool {
        let breaks =
            |fault| matches!(fault, Fault::Outage { redis: false, .. } | Fault::Statement { role: Role::Api, .. });
        self.faults.iter().any(|step| breaks(step.fault))
    }

    /// Whether the account is connected to no other provider.
    pub fn uses_only(&self, provider: Provider) -> bool {
        let moves = |step: &TimedFault| matches!(step.fault, Fault::Move { to } if to != provider);
        self.provider == provider && !self.faults.iter().any(moves)
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

/// The processes, of which the last one is the card gateway.
pub fn roles(uses_gateway: bool) -> &'static [Role] {
    if uses_gateway { &Role::ALL } else { Role::ALL.split_last().map_or(&[], |(_, others)| others) }
}

/// A `GET`.
pub fn get(path: impl Into<String>) -> Request {
    Request { content: Content::None, path: path.into(), key: None, creates: None }
}

/// A `DELETE`.
pub fn delete(path: impl Into<String>) -> Request {
    Request { content: Content::Delete, ..get(path) }
}

/// A `POST` of JSON.
pub fn post(path: impl Into<String>, body: Value) -> Request {
    Request { content: Content::Json(body), ..get(path) }
}

impl Request {
    /// The method and the path with `{id}` for each placeholder, without the query.
    pub fn operation(&self) -> String {
        let method = match self.content {
            Content::None => "GET",
            Content::Delete => "DELETE",
            Content::Json(_) | Content::Form(_) => "POST",
        };
        let path = self.path.split_once('?').map_or(self.path.as_str(), |(path, _)| path);
        let mut operation = format!("{method} ");
        for (index, part) in path.split('{').enumerate() {
            match part.split_once('}') {
                Some((name, rest)) if index > 0 => {
                    operation += match name.rsplit_once('.') {
                        Some((_, "url")) => "page",
                        Some((_, "nextAction")) => "challenge",
                        Some((_, "bank")) => "bank",
                        Some(_) | None => "{id}",
                    };
                    operation += rest;
                }
                Some(_) | None => operation += part,
            }
        }
        operation
    }

    /// The body, if it is JSON.
    pub fn json(&self) -> Option<&Value> {
        match &self.content {
            Content::Json(body) => Some(body),
            Content::None | Content::Delete | Content::Form(_) => None,
        }
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.content {
            Content::None => write!(f, "GET {}", self.path)?,
            Content::Delete => write!(f, "DELETE {}", self.path)?,
            Content::Json(body) => write!(f, "POST {} {body}", self.path)?,
            Content::Form(form) => write!(f, "the form {form} to {}", self.path)?,
        }
        self.key.as_ref().map_or(Ok(()), |key| write!(f, " with the key {key}"))
    }
}
