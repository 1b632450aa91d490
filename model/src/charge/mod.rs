//! A charge, from its intent to its outcome: one operation, the invoice that it collects, workers, the queue and a provider.
//!
//! Every step is one that the code commits, sends or receives at once. Between any two of them anything else may happen, for as
//! long as it likes: so a pause needs no action of its own, and a lease may end whenever it is held.

mod actions;
mod flaw;
pub mod properties;
mod provider;
mod steps;

pub use flaw::Flaw;
pub use provider::{Charge, Class, Decision, Standing};

use stateright::{Model, Property};

use crate::ends::Ends;
use crate::row::{Claim, Row, State as RowState};

/// Copies of the operation's id that may be under way at once.
const IDS: u8 = 2;

/// What is modelled.
#[derive(Clone, Copy, Debug)]
pub struct Charging {
    /// How many workers.
    pub workers: usize,
    /// What the provider offers.
    pub class: Class,
    /// Whether the provider enters nothing after `valid_until`.
    pub deadline: bool,
    /// How many look-ups may miss what the provider has.
    pub lags: u8,
    /// Whether the provider may refuse a request and forget it.
    pub forgets: bool,
    /// Whether the provider's statement is read.
    pub reconciles: bool,
    /// The rule that is left out.
    pub flaw: Option<Flaw>,
}

impl Charging {
    /// The protocol as it is, without help from the statement. A report may lag behind all look-ups where the refusal of a
    /// repeated reference makes up for it.
    pub const fn new(workers: usize, class: Class) -> Self {
        let (deadline, lags) = match class {
            Class::Lookup => (true, 2),
            Class::LookupOnly => (true, 1),
            Class::Idempotent | Class::Neither => (false, 0),
        };
        Self { workers, class, deadline, lags, forgets: false, reconciles: false, flaw: None }
    }

    /// The same without a rule.
    pub const fn without(self, flaw: Flaw) -> Self {
        Self { flaw: Some(flaw), ..self }
    }

    fn lacks(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }
}

/// Everything at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// The row of the operation. Its payment is under way as long as it is open: one statement writes the end of both.
    pub row: Row,
    /// The reference that a request carries which is sent now: 0 for ever, unless a flaw makes it another.
    pub reference: u8,
    /// Copies of its id on the queue.
    pub ids: u8,
    /// The workers.
    pub workers: Vec<Worker>,
    /// Requests in flight that nobody waits for, by reference.
    pub strays: [u8; 2],
    /// What the provider has entered.
    pub charges: Vec<Charge>,
    /// The invoice.
    pub parent: Parent,
}

/// The invoice that is collected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Parent {
    /// It is to be paid.
    Owed,
    /// It is to be paid, and somebody without its lock has seen that it may be voided. A flaw alone leads here.
    Looked,
    /// It was voided, and the merchant was told so.
    Voided,
    /// After that it was charged.
    ChargedAfterVoid,
}

/// A worker, doing one thing at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Worker {
    /// Whether its claim is the latest: the fence of the row is its own.
    pub fenced: bool,
    /// Where it stands.
    pub step: Step,
}

/// What a worker is about to do. Whatever it is, it may come late.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Step {
    /// Nothing.
    Idle,
    /// To ask the provider (`perform::look_up`).
    LookingUp(Claim),
    /// To note that it sends again (`perform::send_again`).
    SendingAgain,
    /// To send (`perform::send`).
    Armed(Sending),
    /// To hear of its request, which is in flight, under this reference.
    Waiting(Sending, u8),
    /// To ask once more, before it believes that what it sent again was refused (`perform::doubt_refusal`).
    Doubting(Answer),
    /// To record what it heard (`outcome::record_outcome`).
    Answered(Answer),
    /// To give the operation back (`operations::leave_unknown`).
    Leaving(Why),
}

/// A request that is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Sending {
    /// Whether it is sent again.
    pub again: bool,
    /// Whether no earlier one has done anything, nor will: then "not processed" is an outcome.
    pub alone: bool,
    /// Whether `valid_until` lies behind.
    pub expired: bool,
}

/// What the worker knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Answer {
    /// This charge was approved.
    Approved(u8),
    /// No.
    Declined,
    /// No, and the provider does not remember the reference.
    Refused,
    /// The cardholder is asked first.
    Challenged,
    /// This request did nothing, and no earlier one did (`Fault::NotProcessed`).
    NotProcessed,
}

/// Why an outcome stays unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Why {
    /// No answer, or one that says nothing of an earlier request.
    NoAnswer,
    /// The provider refused the reference as a repeated one.
    Repeated,
    /// It has arrived, and its end is still ahead.
    Pending,
    /// It was not found, but may still arrive.
    MayArrive,
    /// It was not found, and can no longer arrive.
    FoundNothing,
    /// Nobody can be asked.
    OnlyAPerson,
    /// The one request there was did nothing, and nobody waits for it: it is ready again (`operations::put_back`).
    NotProcessed,
}

/// A step of somebody. Workers go by their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The intent is written and its id pushed (`collect_invoices::begin`).
    Begin,
    /// The invoice is voided (`void_invoice`), under its lock.
    Void,
    /// Without the lock: somebody sees that nothing is under way.
    LookAtInvoice,
    /// The sweep hands the id out (`operations::take_due`).
    Sweep,
    /// The queue delivers an id once more, or late.
    Duplicate,
    /// The queue loses an id.
    LoseId,
    /// A worker takes an id and claims (`operations::claim`).
    Claim(usize),
    /// A worker asks the provider. The report may miss what has just been entered.
    LookUp {
        /// Who.
        worker: usize,
        /// Whether it misses.
        missed: bool,
    },
    /// A worker notes that it sends again (`operations::sending_again`).
    SendAgain(usize),
    /// A worker sends.
    Send(usize),
    /// The provider acts on a worker's request.
    Deliver {
        /// Whose.
        worker: usize,
        /// What the provider makes of it, if it is new to it.
        decision: Option<Decision>,
        /// Whether the answer arrives.
        heard: bool,
    },
    /// A worker's request is lost on the way.
    LoseRequest(usize),
    /// A worker's request certainly does nothing, and the worker is told.
    TurnAway(usize),
    /// The same, of work that nobody waits for: it is no outcome.
    TurnAwayForNow(usize),
    /// A worker waits no longer; its request may still arrive.
    TimeOut(usize),
    /// A worker dies; its request may still arrive.
    Crash(usize),
    /// A worker gives the operation back.
    LeaveUnknown(usize),
    /// A worker records what it knows.
    Record(usize),
    /// The provider acts on a request that nobody waits for.
    DeliverStray {
        /// Its reference.
        reference: u8,
        /// What the provider makes of it, if it is new to it.
        decision: Option<Decision>,
    },
    /// Such a request is lost.
    LoseStray(u8),
    /// The lease ends.
    LeaseEnds,
    /// So much time has passed that no earlier request can be acted on.
    RequestsDie,
    /// The provider decides about a challenged charge.
    Decide {
        /// Which.
        charge: usize,
        /// How.
        approved: bool,
    },
    /// A second charge is reversed.
    Reverse(usize),
    /// The statement is read (`reconcile::compare`).
    Reconcile(usize),
    /// A timer calls the unknown failed. A flaw alone does so.
    GiveUp,
}

impl Model for Charging {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            row: Row::new(RowState::Absent),
            reference: 0,
            ids: 0,
            workers: vec![Worker { fenced: false, step: Step::Idle }; self.workers],
            strays: [0; 2],
            charges: Vec::new(),
            parent: Parent::Owed,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        self.possible(state, actions);
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        self.take(&mut state, action);
        // Workers are alike, so only who does what counts, and not under which number. A trace is read more easily with numbers.
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

impl Charging {
    /// Whether nothing more will be done about it: where the statement is read, not before it was.
    fn owes_nothing(&self, state: &State, at: usize, charge: &Charge) -> bool {
        match charge.standing {
            Standing::Approved => !charge.unwanted && (!self.reads_statement() || state.has(at)),
            Standing::Pending => false,
            Standing::Declined | Standing::Reversed => true,
        }
    }

    fn reads_statement(&self) -> bool {
        self.reconciles && self.class.remembers()
    }
}

impl State {
    /// Whether the payment is paid by this charge.
    pub(crate) fn has(&self, charge: usize) -> bool {
        matches!(self.row.state, RowState::Succeeded(ours) if usize::from(ours) == charge)
    }
}

impl Ends for Charging {
    fn is_settled(&self, state: &State) -> bool {
        let decided = state.row.state.is_final()
            || (self.class == Class::Neither && state.row.for_a_person)
            || (state.row.state == RowState::Absent && state.parent == Parent::Voided);
        let quiet = state.workers.iter().all(|worker| worker.step == Step::Idle) && state.strays == [0; 2];
        let mut charges = state.charges.iter().enumerate();
        decided && quiet && charges.all(|(at, charge)| self.owes_nothing(state, at, charge))
    }

    fn is_fault(&self, action: &Action) -> bool {
        match action {
            Action::Crash(_)
            | Action::Duplicate
            | Action::LoseId
            | Action::LoseRequest(_)
            | Action::TurnAway(_)
            | Action::TurnAwayForNow(_)
            | Action::Void
            | Action::LookAtInvoice
            | Action::GiveUp
            | Action::LookUp { missed: true, .. }
            | Action::Deliver { heard: false, .. } => true,
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
            | Action::DeliverStray { .. }
            | Action::LoseStray(_)
            | Action::LeaseEnds
            | Action::RequestsDie
            | Action::Decide { .. }
            | Action::Reverse(_)
            | Action::Reconcile(_) => false,
        }
    }
}
