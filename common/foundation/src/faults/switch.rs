//! The switches. This file depends on no other file of ours: testkit/tests/faults.rs compiles it alone, as for a
//! release, and tests it.

use std::path::PathBuf;
use std::time::Duration;

macro_rules! rules {
    ($($(#[doc = $what:literal])+ $rule:ident = $name:literal,)+) => {
        /// A rule of the protocol that can be disabled.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Rule {
            $($(#[doc = $what])+ $rule,)+
        }

        impl Rule {
            pub const ALL: &'static [Self] = &[$(Self::$rule,)+];

            /// The name in `DISABLED_RULES`.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$rule => $name,)+
                }
            }
        }
    };
}

rules! {
    /// A claim records that a request may have been sent.
    Gate = "gate",
    /// Only one of several concurrent claims of an operation succeeds.
    Claim = "claim",
    /// A retry has the same reference as the first request.
    Reference = "reference",
    /// A response that a request had no effect counts only if its claim is the latest (fencing token).
    Fence = "fence",
    /// A lost response is not a failure.
    Unknown = "unknown",
    /// A reference that the provider does not know is not an outcome.
    NotFound = "not_found",
    /// Unclaimed work is enqueued again.
    Sweep = "sweep",
    /// An idempotency key is claimed in the transaction that creates the payment.
    Key = "key",
    /// A token is spent in the transaction that creates the payment.
    Token = "token",
    /// A state change and its event are one transaction.
    Event = "event",
    /// An invoice stays locked until its collection is written.
    Collect = "collect",
    /// An invoice is not voided while a payment for it is in progress.
    Void = "void",
    /// A billing cycle's invoice and the move to the next cycle are one transaction.
    Cycle = "cycle",
    /// A payment link has one live payment.
    Link = "link",
    /// The amount of a pending refund is reserved.
    Reservation = "reservation",
    /// After a soft decline, the retry is days later, not immediate.
    Backoff = "backoff",
    /// An unaccepted webhook delivery is retried.
    Redelivery = "redelivery",
    /// Every delivery of an event has identical bytes.
    Bytes = "bytes",
    /// The time is the database's, and a process with a wrong clock starts no operation.
    DatabaseClock = "database_clock",
    /// A background operation that the provider did not process is retried, not failed.
    NotProcessed = "not_processed",
    /// A provider that processes nothing receives only an occasional probe.
    Breaker = "breaker",
    /// A capture, void or refund has its own reference at the provider.
    ChildReference = "child_reference",
    /// A request is not sent again when its provider may have forgotten its reference.
    Forgotten = "forgotten",
    /// A charge that needs a challenge is sent to the acquirer once its cardholder has confirmed it.
    Challenge = "challenge",
    /// What tells accounts at the card gateway apart is their name, which no rotation of keys changes.
    Account = "account",
    /// A charge whose total differs from the requested amount is reversed, not booked.
    Total = "total",
    /// Rows of a table are locked in the order of their ids.
    LockOrder = "lock_order",
}

/// What to do at a failpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FailpointAction {
    /// Pause for this long, which may exceed a lease.
    Pause(Duration),
    /// Pause until this file exists.
    Hold(PathBuf),
    /// Return an error.
    Fail,
}

#[cfg(debug_assertions)]
pub use debug::{clock_offset_seconds, failpoint_action, holds};
#[cfg(not(debug_assertions))]
pub use release::{clock_offset_seconds, failpoint_action, holds};

/// Every rule is enabled, failpoints do nothing, and the clock has no offset.
#[cfg(not(debug_assertions))]
mod release {
    use super::{FailpointAction, Rule};

    pub const fn holds(_: Rule) -> bool {
        true
    }

    pub const fn failpoint_action(_: &'static str) -> Option<FailpointAction> {
        None
    }

    pub const fn clock_offset_seconds() -> f64 {
        0.0
    }
}

#[cfg(debug_assertions)]
mod debug {
    use std::env;
    use std::fs;
    use std::process;
    use std::sync::{Mutex, OnceLock};
    use std::time::{Duration, Instant};

    use super::{FailpointAction, Rule};

    /// Whether this rule is enabled. `DISABLED_RULES` lists disabled rules, separated by commas.
    pub fn holds(rule: Rule) -> bool {
        !disabled_rules().contains(&rule)
    }

    /// Exits, because a test run with invalid switches would prove nothing.
    fn refuse(what: &str) -> ! {
        tracing::error!("{what}");
        process::exit(2);
    }

    fn disabled_rules() -> &'static [Rule] {
        static DISABLED_RULES: OnceLock<Vec<Rule>> = OnceLock::new();
        DISABLED_RULES.get_or_init(|| {
            let names = env::var("DISABLED_RULES").unwrap_or_default();
            let rule = |name: &str| {
                let rule = Rule::ALL.iter().copied().find(|rule| rule.name() == name);
                rule.unwrap_or_else(|| refuse(&format!("DISABLED_RULES contains an unknown rule: {name}")))
            };
            let rules: Vec<_> = names.split(',').filter(|name| !name.is_empty()).map(rule).collect();
            if !rules.is_empty() {
                tracing::warn!(?rules, "protocol rules are disabled; this process violates them on purpose");
            }
            rules
        })
    }

    /// The simulated offset of this machine's clock in seconds: the number in the file that `CLOCK_OFFSET_FILE` names, read
    /// at most ten times per second.
    pub fn clock_offset_seconds() -> f64 {
        const READ_AGAIN_AFTER: Duration = Duration::from_millis(100);
        static FILE: OnceLock<Option<String>> = OnceLock::new();
        static LAST: Mutex<Option<(Instant, f64)>> = Mutex::new(None);
        let Some(file) = FILE.get_or_init(|| env::var("CLOCK_OFFSET_FILE").ok()) else { return 0.0 };
        let Ok(mut last) = LAST.lock() else { return 0.0 };
        match *last {
            Some((read, offset)) if read.elapsed() < READ_AGAIN_AFTER => offset,
            _ => {
                let text = fs::read_to_string(file).unwrap_or_default();
                let offset = match text.trim() {
                    "" => 0.0,
                    number => number
                        .parse()
                        .unwrap_or_else(|_| refuse(&format!("{file} does not contain a number of seconds"))),
                };
                *last = Some((Instant::now(), offset));
                offset
            }
        }
    }

    /// Returns what to do at this failpoint. `FAILPOINTS` configures it in the syntax of the crate `fail`:
    /// `name=1*return(abort)` aborts the process, `return(pause=25000)` pauses for that many milliseconds,
    /// `return(hold=FILE)` pauses until the file exists, `return(error)` returns an error.
    pub fn failpoint_action(point: &'static str) -> Option<FailpointAction> {
        static ARMED: OnceLock<bool> = OnceLock::new();
        let armed = ARMED.get_or_init(|| {
            let armed = env::var("FAILPOINTS").is_ok_and(|points| !points.is_empty());
            if armed {
                // For the lifetime of the process.
                std::mem::forget(fail::FailScenario::setup());
            }
            armed
        });
        if *armed {
            fail::eval(point, |action| parse_action(point, action.as_deref().unwrap_or_default()))
        } else {
            None
        }
    }

    fn parse_action(point: &str, action: &str) -> FailpointAction {
        tracing::warn!(point, action, "failpoint");
        match action.split_once('=').unwrap_or((action, "")) {
            ("abort", _) => process::abort(),
            ("error", _) => FailpointAction::Fail,
            ("pause", time) => match time.parse() {
                Ok(milliseconds) => FailpointAction::Pause(Duration::from_millis(milliseconds)),
                Err(_) => refuse(&format!("failpoint {point}: {action} is not a valid pause")),
            },
            ("hold", file) if !file.is_empty() => FailpointAction::Hold(file.into()),
            _ => refuse(&format!(
                "failpoint {point}: {action} is not one of abort, error, pause=MILLISECONDS, hold=FILE"
            )),
        }
    }
}
