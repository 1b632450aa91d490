//! Refunds (`common/providers/src/card_gateway/follow_up.rs`) at two kinds of providers.
//!
//! The first accepts a reference for each refund, like our card gateway: it refuses a repeated reference before any
//! other check, and its report contains the references. The second has no references for refunds: it neither detects
//! repeated refunds nor can look one up. No adapter supports such a provider; the model shows what it would take if
//! nobody else made refunds there. The unique index `operations_one_in_flight` allows one refund in flight at a time, so
//! a refund in the report that is not recorded belongs to that operation; and a deadline by the provider's clock ends
//! delayed requests.
//!
//! The model has two equal partial refunds of one payment that leave a rest, so the provider never refuses the second
//! one for its amount.

use std::cmp::Ordering;

use stateright::{Model, Property};

use crate::liveness::Liveness;
use crate::row::{Claim, Row, State as RowState};

/// `recover::REQUIRED_LOOK_UPS`.
const REQUIRED_LOOK_UPS: u8 = 2;

/// The provider's refunds agree with the recorded ones.
pub const SUMS_AGREE: &str = "in settled states the provider has as many refunds as have succeeded or are flagged";
/// No operation is refunded twice.
pub const NONE_TWICE: &str = "no refund is executed twice";
/// No refund behind a failed operation, unless an operator is notified.
pub const FAILED_IS_FAILED: &str = "a failed refund had no effect, or is flagged for an operator";

/// An omitted rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// "Not processed" is an outcome although another worker has claimed the operation since.
    NotProcessedUnfenced,
    /// A refusal is an outcome although another worker has claimed the operation since.
    RefusalUnfenced,
    /// A "not found" counts while a request may be in flight.
    IgnoreInFlight,
    /// Look-ups from before a repeated request still count after it.
    KeepLookUps,
    /// The request is sent again without a look-up.
    ResendWithoutLookUp,
}

/// The parameters of the model.
#[derive(Clone, Copy, Debug)]
pub struct RefundModel {
    /// Number of workers.
    pub workers: usize,
    /// Whether each refund has a reference that the provider accepts once.
    pub references: bool,
    /// Whether only one refund of a payment may be in flight.
    pub one_in_flight: bool,
    /// Whether the provider books nothing after a deadline. Without it a request may be delayed for any time.
    pub deadline: bool,
    /// Whether the statement is read, and differences are flagged for an operator.
    pub reconciles: bool,
    /// Whether one look-up may miss a booked refund.
    pub report_lags: bool,
    /// The omitted rule.
    pub flaw: Option<Flaw>,
}

impl RefundModel {
    /// The complete protocol.
    pub const fn new(workers: usize) -> Self {
        let (one_in_flight, deadline) = (true, true);
        Self { workers, references: true, one_in_flight, deadline, reconciles: false, report_lags: false, flaw: None }
    }

    /// For a provider without references of refunds.
    pub const fn without_references(workers: usize) -> Self {
        Self { references: false, ..Self::new(workers) }
    }

    /// Omits a rule.
    pub const fn with_flaw(self, flaw: Flaw) -> Self {
        Self { flaw: Some(flaw), ..self }
    }

    fn has_flaw(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }
}

/// The complete state of the system. There is no queue: an id may arrive at any time.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct State {
    pub rows: [Row; 2],
    pub workers: Vec<Worker>,
    /// Number of requests in flight for which no worker waits, by operation.
    pub abandoned: [u8; 2],
    /// The refunds that the provider has booked, oldest first.
    pub children: Vec<Child>,
    /// Bit set of the refunds flagged for an operator.
    pub flagged: u8,
}

/// A refund at the provider: a child of the payment in its report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Child {
    /// The operation that requested it. A provider without references does not know it.
    pub operation: usize,
    /// Whether the report may still miss it.
    pub may_be_missed: bool,
}

/// A worker, which does one thing at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Worker {
    /// The operation that it performs.
    pub operation: usize,
    /// Whether its claim of that operation is the latest.
    pub fenced: bool,
    pub step: Step,
}

/// What a worker does next, at any later time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Step {
    Idle,
    /// Query the report, with a bit set of the recorded refunds, which matter only without references.
    LookingUp(Claim, u8),
    /// Record that it sends again.
    SendingAgain,
    /// Send the request.
    ReadyToSend(Request),
    /// Wait for the response to its request.
    Waiting(Request),
    /// Query the report again before it accepts the refusal of a repeated request, with the recorded refunds.
    ConfirmingRefusal(u8),
    /// Record that this child was booked.
    Done(u8),
    /// Record that the request had no effect.
    NotProcessed,
    /// Record the provider's refusal.
    Refused,
    /// Leave the outcome unknown; true if a look-up found nothing.
    LeavingUnknown(bool),
}

/// A request to the provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Request {
    /// Whether it repeats an earlier request.
    pub resend: bool,
    /// Whether `valid_until` has passed.
    pub expired: bool,
}

/// An event. Workers, operations and children are identified by their index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A worker claims an operation, if the unique index permits it.
    Claim {
        worker: usize,
        operation: usize,
    },
    /// A worker queries the report. A lagging report may miss the newest refund.
    LookUp {
        worker: usize,
        missed: bool,
    },
    /// A worker records that it sends again.
    SendAgain(usize),
    /// A worker sends its request.
    Send(usize),
    /// The provider processes a worker's request.
    Deliver {
        worker: usize,
        /// Whether it executes the refund. Otherwise the request leaves no trace.
        executed: bool,
        /// Whether the worker receives the response.
        received: bool,
    },
    /// A worker's request is lost.
    LoseRequest(usize),
    /// A worker learns that its request had no effect.
    NotProcessed(usize),
    /// A worker stops waiting; its request may still arrive.
    TimeOut(usize),
    /// A worker crashes; its request may still arrive.
    Crash(usize),
    /// A worker records an outcome, or leaves it unknown.
    Write(usize),
    /// The provider processes a request for which no worker waits.
    DeliverAbandoned(usize),
    /// A request for which no worker waits is lost.
    LoseAbandoned(usize),
    LeaseExpires(usize),
    /// As far as our side can know, no earlier request of the operation can be processed any more.
    RequestsExpire(usize),
    /// The statement contains a refund that is not recorded.
    Reconcile(usize),
}

mod steps;

impl Model for RefundModel {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            rows: [Row::new(RowState::Ready); 2],
            workers: vec![steps::IDLE; self.workers],
            abandoned: [0; 2],
            children: Vec::new(),
            flagged: 0,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        self.possible_actions(state, actions);
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        self.apply(&mut state, action);
        // Traces are more readable with the numbers that the actions have.
        Some(if self.flaw.is_none() { state.representative() } else { state })
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut all = vec![
            Property::always(SUMS_AGREE, |model: &Self, state: &State| !model.is_settled(state) || sums_agree(state)),
            Property::always(NONE_TWICE, |_, state: &State| (0..2).all(|operation| refunds(state, operation) <= 1)),
            Property::always(FAILED_IS_FAILED, |model: &Self, state: &State| {
                let may_be_flagged_later = model.reconciles && !model.is_settled(state);
                let is_right = |operation: usize| {
                    let failed = state.rows[operation].state == RowState::Failed;
                    !failed || refunds(state, operation) == flagged(state, operation)
                };
                may_be_flagged_later || (0..2).all(is_right)
            }),
        ];
        all.extend(reached_states());
        if self.references && !self.deadline {
            all.push(Property::sometimes("a request in flight repeats an executed refund", |_, state: &State| {
                (0..2).any(|operation| state.abandoned[operation] > 0 && refunds(state, operation) > 0)
            }));
        }
        if self.reconciles {
            all.push(Property::sometimes("a refund is flagged for an operator", |_, state: &State| state.flagged != 0));
        }
        all
    }

    fn within_boundary(&self, state: &State) -> bool {
        state.children.len() <= 3
    }
}

impl State {
    /// The same state for all states that differ only in the numbers of workers and refunds. Both are
    /// interchangeable, so exploring one of these states is enough.
    fn representative(mut self) -> Self {
        self.workers.sort_unstable();
        match self.rows[0].cmp(&self.rows[1]) {
            Ordering::Less => self,
            Ordering::Greater => self.exchanged(),
            Ordering::Equal => {
                let exchanged = self.exchanged();
                self.min(exchanged)
            }
        }
    }

    /// The same state with the numbers of the two refunds exchanged.
    #[must_use]
    pub fn exchanged(&self) -> Self {
        let mut state = self.clone();
        state.rows.reverse();
        state.abandoned.reverse();
        for child in &mut state.children {
            child.operation = 1 - child.operation;
        }
        // An idle worker has no operation.
        for worker in state.workers.iter_mut().filter(|worker| worker.step != Step::Idle) {
            worker.operation = 1 - worker.operation;
        }
        state.workers.sort_unstable();
        state
    }
}

impl Liveness for RefundModel {
    fn is_settled(&self, state: &State) -> bool {
        state.rows.iter().all(|row| row.state.is_final())
            && state.workers.iter().all(|worker| worker.step == Step::Idle)
            && state.abandoned == [0; 2]
            && (!self.reconciles || (0..state.children.len()).all(|child| steps::is_known(state, child)))
    }

    fn is_fault(&self, action: &Action) -> bool {
        match action {
            Action::Crash(_)
            | Action::LoseRequest(_)
            | Action::NotProcessed(_)
            | Action::Deliver { received: false, .. }
            | Action::LookUp { missed: true, .. } => true,
            Action::Claim { .. }
            | Action::LookUp { .. }
            | Action::SendAgain(_)
            | Action::Send(_)
            | Action::Deliver { .. }
            | Action::TimeOut(_)
            | Action::Write(_)
            | Action::DeliverAbandoned(_)
            | Action::LoseAbandoned(_)
            | Action::LeaseExpires(_)
            | Action::RequestsExpire(_)
            | Action::Reconcile(_) => false,
        }
    }
}

fn reached_states() -> Vec<Property<RefundModel>> {
    vec![
        Property::sometimes("refunded, and the response lost", |_, state: &State| {
            let received = state.workers.iter().any(|worker| matches!(worker.step, Step::Done(_)));
            !state.children.is_empty() && state.rows.iter().all(|row| row.state.is_open()) && !received
        }),
        Property::sometimes("one refund waits for the other", |_, state: &State| {
            let was_sent = |row: &Row| row.state.was_sent();
            state.rows.iter().any(was_sent) && state.rows.iter().any(|row| row.state == RowState::Ready)
        }),
        Property::sometimes("a look-up distinguishes the other operation's child", |_, state: &State| {
            let looks_up = |worker: &Worker| matches!(worker.step, Step::LookingUp(_, recorded) if recorded > 0);
            state.workers.iter().any(looks_up) && state.children.len() == 2
        }),
        Property::sometimes("sent again after two look-ups", |_, state: &State| {
            state
                .workers
                .iter()
                .any(|worker| worker.step == Step::ReadyToSend(Request { resend: true, expired: false }))
        }),
        Property::sometimes("a late worker has the response", |_, state: &State| {
            state.workers.iter().any(|worker| {
                matches!(worker.step, Step::Done(_)) && !worker.fenced && state.rows[worker.operation].state.is_open()
            })
        }),
        Property::sometimes("one refund failed and one succeeded", |_, state: &State| {
            let succeeded = state.rows.iter().any(|row| matches!(row.state, RowState::Succeeded(_)));
            succeeded && state.rows.iter().any(|row| row.state == RowState::Failed)
        }),
    ]
}

fn refunds(state: &State, operation: usize) -> usize {
    state.children.iter().filter(|child| child.operation == operation).count()
}

fn flagged(state: &State, operation: usize) -> usize {
    let is_flagged = |(at, child): &(usize, &Child)| child.operation == operation && state.flagged & (1 << at) != 0;
    state.children.iter().enumerate().filter(is_flagged).count()
}

fn sums_agree(state: &State) -> bool {
    let succeeded = state.rows.iter().filter(|row| matches!(row.state, RowState::Succeeded(_))).count();
    state.children.len() == succeeded + flagged(state, 0) + flagged(state, 1)
}
