//! The switches. This file needs no other of ours: testkit/tests/proof.rs builds it alone, as a release does, and tries them.

use std::time::Duration;

macro_rules! rules {
    ($($(#[doc = $what:literal])+ $rule:ident = $name:literal,)+) => {
        /// A rule of the protocol that can be left out.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Rule {
            $($(#[doc = $what])+ $rule,)+
        }

        impl Rule {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$rule,)+];

            /// Its name in `LEFT_OUT`.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$rule => $name,)+
                }
            }
        }
    };
}

rules! {
    /// A claim remembers that a request may be under way.
    Gate = "gate",
    /// Of many who claim an operation at once, one gets it.
    Claim = "claim",
    /// A request is repeated under its own reference.
    Reference = "reference",
    /// What says that a request did nothing counts only while its claim is the latest: the fencing token.
    Fence = "fence",
    /// A lost answer is no failure.
    Unknown = "unknown",
    /// That a provider does not find a request is no outcome.
    NotFound = "not_found",
    /// Work that nobody has taken is handed out again.
    Sweep = "sweep",
    /// An idempotency key is claimed with the payment.
    Key = "key",
    /// A token is spent with the payment.
    Token = "token",
    /// State and event are one transaction.
    Event = "event",
    /// An invoice stays locked until its collection is written.
    Collect = "collect",
    /// An invoice is not voided while it is being paid.
    Void = "void",
    /// A cycle's invoice and the move to the next are one transaction.
    Cycle = "cycle",
    /// A link has one live payment.
    Link = "link",
    /// What a refund under way will give back is reserved.
    Reservation = "reservation",
    /// A soft decline is tried again after days, not at once.
    Backoff = "backoff",
    /// A delivery that was not taken is made again.
    Redelivery = "redelivery",
    /// Each delivery of an event is the same bytes.
    Bytes = "bytes",
    /// Time is the database's, and a process whose machine's clock is wrong starts no work that moves money.
    DatabaseClock = "database_clock",
    /// What a provider did not process is no outcome of work that nobody waits for.
    NotProcessed = "not_processed",
    /// A provider that processes nothing is sent nothing but a probe now and then.
    Breaker = "breaker",
    /// A capture, void or refund has a reference of its own at the provider.
    ChildReference = "child_reference",
    /// A charge of another total than was asked is reversed, not booked.
    Total = "total",
    /// Rows of one table are locked in the order of their ids.
    LockOrder = "lock_order",
}

/// What happens at a failpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// It stands still for so long, beyond a lease perhaps.
    Pause(Duration),
    /// It goes no further.
    Fail,
}

/// Whether this rule is kept. `LEFT_OUT` names those that are not, with commas between; of a release build all are.
#[cfg(debug_assertions)]
pub fn holds(rule: Rule) -> bool {
    !armed::left_out().contains(&rule)
}

/// What happens here, if anything does. `FAILPOINTS` says so, in the words of the crate `fail`: `name=1*return(abort)` ends
/// the process at once, `return(pause=25000)` stands still for so many milliseconds, `return(error)` goes no further. In a
/// release build nothing ever does.
#[cfg(debug_assertions)]
pub fn at(point: &'static str) -> Option<Act> {
    armed::at(point)
}

/// See above: in a release build every rule is kept.
#[cfg(not(debug_assertions))]
pub const fn holds(_: Rule) -> bool {
    true
}

/// See above: in a release build nothing happens.
#[cfg(not(debug_assertions))]
pub const fn at(_: &'static str) -> Option<Act> {
    None
}

#[cfg(debug_assertions)]
mod armed {
    use std::env;
    use std::process;
    use std::sync::OnceLock;
    use std::time::Duration;

    use super::{Act, Rule};

    /// A run whose switches are not understood would prove nothing, so there is none.
    fn refuse(what: &str) -> ! {
        tracing::error!("{what}");
        process::exit(2);
    }

    pub(super) fn left_out() -> &'static [Rule] {
        static LEFT_OUT: OnceLock<Vec<Rule>> = OnceLock::new();
        LEFT_OUT.get_or_init(|| {
            let wanted = env::var("LEFT_OUT").unwrap_or_default();
            let rule = |name: &str| {
                let known = Rule::ALL.iter().copied().find(|rule| rule.name() == name);
                known.unwrap_or_else(|| refuse(&format!("LEFT_OUT names {name}, which is no rule")))
            };
            let rules: Vec<_> = wanted.split(',').filter(|name| !name.is_empty()).map(rule).collect();
            if !rules.is_empty() {
                tracing::warn!(?rules, "these rules are left out: this process is here to do harm");
            }
            rules
        })
    }

    pub(super) fn at(point: &'static str) -> Option<Act> {
        static ARMED: OnceLock<bool> = OnceLock::new();
        let armed = ARMED.get_or_init(|| {
            let armed = env::var("FAILPOINTS").is_ok_and(|points| !points.is_empty());
            if armed {
                // For as long as the process lives.
                std::mem::forget(fail::FailScenario::setup());
            }
            armed
        });
        if *armed { fail::eval(point, |told| act(point, told.as_deref().unwrap_or_default())) } else { None }
    }

    fn act(point: &str, told: &str) -> Act {
        tracing::warn!(point, told, "failpoint");
        match told.split_once('=').unwrap_or((told, "")) {
            ("abort", _) => process::abort(),
            ("error", _) => Act::Fail,
            ("pause", time) => match time.parse() {
                Ok(milliseconds) => Act::Pause(Duration::from_millis(milliseconds)),
                Err(_) => refuse(&format!("failpoint {point}: {told} is no pause")),
            },
            _ => refuse(&format!("failpoint {point}: {told} is none of abort, error, pause=MILLISECONDS")),
        }
    }
}
