//! A charge, from its intent to its outcome: one operation, the invoice that it collects, workers, the queue and a
//! provider.
//!
//! Every action is one commit, send or receive of the code. Between any two of them any number of others may happen, so
//! a pause needs no action of its own, and a lease may expire whenever it is held.

mod actions;
mod flaw;
pub mod properties;
mod provider;
mod steps;

pub use flaw::Flaw;
pub use provider::{Charge, ChargeStatus, Class, Decision};

use stateright::{Model, Property};

use crate::liveness::Liveness;
use crate::row::{Claim, Row, State as RowState};

/// Maximum copies of the operation's id in the queue.
const MAX_IDS: u8 = 2;

/// The parameters of the model.
#[derive(Clone, Copy, Debug)]
pub struct ChargeModel {
    /// Number of workers.
    pub workers: usize,
    /// The provider's recovery class.
    pub class: Class,
    /// Whether the provider books nothing after `valid_until`, or forgets a reference only when no worker may still send
    /// it.
    pub deadline: bool,
    /// How many look-ups may miss a booked charge.
    pub max_lag: u8,
    /// Whether the provider may refuse a request and keep no record of it.
    pub discards_refusals: bool,
    /// Whether the provider's statement is read.
    pub reconciles: bool,
    /// The omitted rule.
    pub flaw: Option<Flaw>,
}

impl ChargeModel {
    /// The complete protocol, without reading the statement. The report may lag behind all look-ups only if the
    /// provider refuses repeated references.
    pub const fn new(workers: usize, class: Class) -> Self {
        let (deadline, max_lag) = match class {
            Class::Lookup => (true, 2),
            Class::LookupOnly | Class::IdempotentForATime => (true, 1),
            Class::Idempotent | Class::Neither => (false, 0),
        };
        Self { workers, class, deadline, max_lag, discards_refusals: false, reconciles: false, flaw: None }
    }

    /// Omits a rule.
    pub const fn with_flaw(self, flaw: Flaw) -> Self {
        Self { flaw: Some(flaw), ..self }
    }

    fn has_flaw(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }
}

/// The complete state of the system.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// The row of the operation. Its payment is in progress while the row is open: one statement ends both.
    pub row: Row,
    /// The reference of the next request: always 0, unless a flaw changes it.
    pub reference: u8,
    /// Copies of the operation's id in the queue.
    pub ids: u8,
    pub workers: Vec<Worker>,
    /// Number of requests in flight for which no worker waits, by reference.
    pub abandoned: [u8; 2],
    /// The charges that the provider has booked.
    pub charges: Vec<Charge>,
    pub invoice: Invoice,
    /// Whether so much time has passed since the first request that the provider may have forgotten the reference.
    pub old: bool,
    /// Whether it has forgotten it.
    pub forgotten: bool,
}

/// The invoice that is collected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Invoice {
    Open,
    /// It is open, and a process without its lock has decided that it may be voided. Reached only by a flaw.
    CheckedUnlocked,
    /// It was voided, and the void was acknowledged.
    Voided,
    /// It was charged after an acknowledged void.
    ChargedAfterVoid,
}

/// A worker, which does one thing at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Worker {
    /// Whether its claim is the latest: it has the row's fencing token.
    pub fenced: bool,
    pub step: Step,
}

/// What a worker does next, at any later time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Step {
    Idle,
    /// Query the provider (`recover::look_up`).
    LookingUp(Claim),
    /// Record that it sends again (`recover::send_again`).
    SendingAgain,
    /// Send the request (`send::send`).
    ReadyToSend(Request),
    /// Wait for the response to its request with this reference.
    Waiting(Request, u8),
    /// Query the provider again before it accepts the refusal of a repeated request (`recover::confirm_refusal`).
    ConfirmingRefusal(Response),
    /// Record the response (`outcome::record_outcome`).
    Recording(Response),
    /// Leave the outcome unknown (`charges::leave_unknown`).
    LeavingUnknown(UnknownReason),
}

/// A request to the provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Request {
    /// Whether it repeats an earlier request.
    pub resend: bool,
    /// Whether no earlier request has had or will have an effect; only then is "not processed" an outcome.
    pub sole: bool,
    /// Whether `valid_until` has passed.
    pub expired: bool,
}

/// What the worker knows about the outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Response {
    /// The charge at this index was approved.
    Approved(u8),
    Declined,
    /// Refused, and the provider does not remember the reference.
    Refused,
    /// The cardholder must authenticate first.
    Challenged,
    /// Neither this request nor an earlier one had an effect (`ProviderError::NotProcessed`).
    NotProcessed,
}

/// Why an outcome stays unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum UnknownReason {
    /// There was no response, or it does not cover an earlier request.
    NoResponse,
    /// The provider refused a repeated reference.
    RepeatedReference,
    /// The provider has the charge, but its outcome is pending.
    Pending,
    /// The look-up found nothing, but a request may still arrive.
    MayStillArrive,
    /// The look-up found nothing, and no request can arrive any more.
    NotFound,
    /// The provider supports no look-ups, so an operator must decide.
    ManualReview,
    /// The only request had no effect, and no client waits for it: the row becomes ready again (`charges::requeue`).
    NotProcessed,
}

/// An event. Workers and charges are identified by their index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The intent is written and its id pushed (`collect_invoices::begin`).
    Begin,
    /// The invoice is voided under its lock (`void_invoice`).
    Void,
    /// A process without the invoice's lock sees that no operation is open.
    CheckUnlocked,
    /// The sweep enqueues the id (`charges::take_due`).
    Sweep,
    /// The queue delivers an id again, or late.
    Duplicate,
    /// The queue loses an id.
    LoseId,
    /// A worker takes an id and claims the row (`charges::claim`).
    Claim(usize),
    /// A worker queries the provider. A lagging report may miss a recent charge.
    LookUp {
        worker: usize,
        missed: bool,
    },
    /// A worker records that it sends again (`charges::sending_again`).
    SendAgain(usize),
    /// A worker sends its request.
    Send(usize),
    /// The provider processes a worker's request.
    Deliver {
        worker: usize,
        /// The provider's decision, if the request is new to it.
        decision: Option<Decision>,
        /// Whether the worker receives the response.
        received: bool,
    },
    /// A worker's request is lost.
    LoseRequest(usize),
    /// A worker learns that its request had no effect.
    NotProcessed(usize),
    /// The same for background work: it is not an outcome.
    NotProcessedInBackground(usize),
    /// A worker stops waiting; its request may still arrive.
    TimeOut(usize),
    /// A worker crashes; its request may still arrive.
    Crash(usize),
    /// A worker leaves the outcome unknown.
    LeaveUnknown(usize),
    /// A worker records its response.
    Record(usize),
    /// The provider processes a request for which no worker waits.
    DeliverAbandoned {
        reference: u8,
        /// The provider's decision, if the request is new to it.
        decision: Option<Decision>,
    },
    /// A request for which no worker waits is lost.
    LoseAbandoned(u8),
    LeaseExpires,
    /// Enough time has passed that no earlier request can be processed any more.
    RequestsExpire,
    /// The time is over for which the provider remembers references at least.
    Ages,
    /// The provider forgets the reference.
    Forgets,
    /// The provider decides about a challenged charge.
    Decide {
        charge: usize,
        approved: bool,
    },
    /// A second charge is reversed.
    Reverse(usize),
    /// The statement is read (`reconcile::compare`).
    Reconcile(usize),
    /// A timer marks an unknown outcome as failed. Only with a flaw.
    FailByTimer,
}

impl Model for ChargeModel {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            row: Row::new(RowState::Absent),
            reference: 0,
            ids: 0,
            workers: vec![Worker { fenced: false, step: Step::Idle }; self.workers],
            abandoned: [0; 2],
            charges: Vec::new(),
            invoice: Invoice::Open,
            old: false,
            forgotten: false,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        self.possible_actions(state, actions);
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        self.apply(&mut state, action);
        // Workers are interchangeable, so sorting them reduces the number of states. Traces are more readable unsorted.
        if self.flaw.is_none() {
            state.workers.sort_unstable();
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        self.all_properties()
    }

    fn within_boundary(&self, state: &State) -> bool {
        state.charges.len() <= 3
    }
}

impl ChargeModel {
    /// Whether nothing more will happen to the charge. If the statement is read, an unrecorded charge still has to be
    /// reconciled.
    fn is_complete(&self, state: &State, at: usize, charge: &Charge) -> bool {
        match charge.status {
            ChargeStatus::Approved => !charge.unwanted && (!self.reads_statement() || state.has(at)),
            ChargeStatus::Pending => false,
            ChargeStatus::Declined | ChargeStatus::Reversed => true,
        }
    }

    /// Whether an operator may have to decide about an unknown outcome.
    fn may_need_review(&self) -> bool {
        matches!(self.class, Class::Neither | Class::IdempotentForATime)
    }

    fn reads_statement(&self) -> bool {
        self.reconciles && self.class.retains_records()
    }
}

impl State {
    /// Whether the operation succeeded with this charge.
    pub(crate) fn has(&self, charge: usize) -> bool {
        matches!(self.row.state, RowState::Succeeded(recorded) if usize::from(recorded) == charge)
    }
}

impl Liveness for ChargeModel {
    fn is_settled(&self, state: &State) -> bool {
        let decided = state.row.state.is_final()
            || (self.may_need_review() && state.row.manual_review)
            || (state.row.state == RowState::Absent && state.invoice == Invoice::Voided);
        let quiet = state.workers.iter().all(|worker| worker.step == Step::Idle) && state.abandoned == [0; 2];
        let mut charges = state.charges.iter().enumerate();
        decided && quiet && charges.all(|(at, charge)| self.is_complete(state, at, charge))
    }

    fn is_fault(&self, action: &Action) -> bool {
        match action {
            Action::Crash(_)
            | Action::Duplicate
            | Action::LoseId
            | Action::LoseRequest(_)
            | Action::NotProcessed(_)
            | Action::NotProcessedInBackground(_)
            | Action::Void
            | Action::CheckUnlocked
            | Action::FailByTimer
            | Action::LookUp { missed: true, .. }
            | Action::Deliver { received: false, .. } => true,
            Action::Begin
            | Action::Sweep
            | Action::Claim(_)
            | Action::LookUp { .. }
            | Action::SendAgain(_)
            | Action::Send(_)
            | Action::Deliver { .. }
            | Action::TimeOut(_)
            | Action::LeaveUnknown(_)
            | Action::Record(_)
            | Action::DeliverAbandoned { .. }
            | Action::LoseAbandoned(_)
            | Action::LeaseExpires
            | Action::RequestsExpire
            | Action::Ages
            | Action::Forgets
            | Action::Decide { .. }
            | Action::Reverse(_)
            | Action::Reconcile(_) => false,
        }
    }
}
