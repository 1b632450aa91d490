//! Refunds (`providers/card_gateway/follow.rs`) at two kinds of providers.
//!
//! One takes a reference for each refund, as our card gateway: a repeated one is refused before anything else is looked at, and the
//! report shows whose each refund is. The other gives refunds no reference, as a former release of it: it neither knows a repeated one
//! nor can be asked for one. There the unique index `operations_one_in_flight` lets one be under way at a time, so what the report has
//! beside what our books have is that one's; and a deadline ends what was held up, by the provider's clock.
//!
//! Two equal partial refunds of one payment that leave enough of it: the provider never refuses one for being a second one.

use stateright::{Model, Property};

use crate::ends::Ends;
use crate::row::{Claim, Row, State as RowState};

/// `perform::LOOK_UPS`.
const LOOK_UPS: u8 = 2;

/// What is given back is what the books say.
pub const SUMS_AGREE: &str = "in the end what was given back is the sum of the succeeded refunds";
/// No refund is made twice.
pub const NONE_TWICE: &str = "no refund is made twice";
/// A failure gave nothing back, or a person is told.
pub const FAILED_IS_FAILED: &str = "what failed gave nothing back, or a person is told";

/// A rule left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// "Not processed" is an outcome although another worker has claimed the operation since.
    NotProcessedUnfenced,
    /// A refusal is an outcome although another worker has claimed the operation since.
    RefusalUnfenced,
    /// A "not found" counts while a request may be in flight.
    IgnoreInFlight,
    /// Look-ups made before a request was sent again count for that one too.
    KeepLookUps,
    /// It is sent again without asking.
    ResendUnasked,
}

/// What is modelled.
#[derive(Clone, Copy, Debug)]
pub struct Refunding {
    /// How many workers.
    pub workers: usize,
    /// Whether each refund carries a reference that the provider takes once.
    pub references: bool,
    /// Whether one refund of a payment is in flight at a time.
    pub one_in_flight: bool,
    /// Whether the provider enters nothing that is late. Without it a request may be held up for as long as it likes: no clock ends it.
    pub deadline: bool,
    /// Whether the statement is read, and what differs is recorded for a person.
    pub reconciles: bool,
    /// Whether a look-up may once miss what the provider has.
    pub lags: bool,
    /// The rule that is left out.
    pub flaw: Option<Flaw>,
}

impl Refunding {
    /// The protocol as it is.
    pub const fn new(workers: usize) -> Self {
        let (one_in_flight, deadline) = (true, true);
        Self { workers, references: true, one_in_flight, deadline, reconciles: false, lags: false, flaw: None }
    }

    /// At a provider that gives refunds no reference.
    pub const fn without_references(workers: usize) -> Self {
        Self { references: false, ..Self::new(workers) }
    }

    /// The same without a rule.
    pub const fn without(self, flaw: Flaw) -> Self {
        Self { flaw: Some(flaw), ..self }
    }

    fn lacks(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }
}

/// Everything at one moment. The queue is left out: an id comes whenever it likes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// The operations.
    pub rows: [Row; 2],
    /// The workers.
    pub workers: Vec<Worker>,
    /// Requests in flight that nobody waits for, of each operation.
    pub strays: [u8; 2],
    /// What the provider has given back, oldest first: for which operation. Without references it does not know that itself.
    pub children: Vec<Child>,
    /// Those of them that a person was told of, as bits.
    pub noticed: u8,
}

/// A refund at the provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Child {
    /// Whose request made it. Without references nobody is told.
    pub of: usize,
    /// Whether the report may still miss it.
    pub fresh: bool,
}

/// A worker, doing one thing at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Worker {
    /// The operation that it is at.
    pub of: usize,
    /// Whether its claim is the latest of that operation.
    pub fenced: bool,
    /// Where it stands.
    pub step: Step,
}

/// What a worker is about to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Step {
    /// Nothing.
    Idle,
    /// To ask for the report, with the names that our books have (`operations::recorded_refunds`), as bits.
    LookingUp(Claim, u8),
    /// To note that it sends again.
    SendingAgain,
    /// To send.
    Armed(Sending),
    /// To hear of its request, which is in flight.
    Waiting(Sending),
    /// To ask once more, before it believes that what it sent again was refused, with the names that our books have.
    Doubting(u8),
    /// To record that this child was made.
    Done(u8),
    /// To record that nothing was done.
    NotProcessed,
    /// To record that the provider refused.
    Refused,
    /// To give the operation back, with or without a look-up to count.
    Leaving(bool),
}

/// A request that is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Sending {
    /// Whether it is sent again.
    pub again: bool,
    /// Whether `valid_until` lies behind.
    pub expired: bool,
}

/// A step of somebody. Workers go by their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A worker claims, if the index lets it.
    Claim {
        /// Who.
        worker: usize,
        /// Which operation.
        operation: usize,
    },
    /// A worker asks for the report, which may miss the newest.
    LookUp {
        /// Who.
        worker: usize,
        /// Whether it misses.
        missed: bool,
    },
    /// A worker notes that it sends again.
    SendAgain(usize),
    /// A worker sends.
    Send(usize),
    /// The provider acts on a worker's request.
    Deliver {
        /// Whose.
        worker: usize,
        /// Whether it does what is asked. If not, nothing is left of the request.
        made: bool,
        /// Whether the answer arrives.
        heard: bool,
    },
    /// A worker's request is lost on the way.
    LoseRequest(usize),
    /// A worker's request certainly does nothing, and the worker is told.
    TurnAway(usize),
    /// A worker waits no longer.
    TimeOut(usize),
    /// A worker dies.
    Crash(usize),
    /// A worker records, or gives back.
    Write(usize),
    /// The provider acts on a request that nobody waits for.
    DeliverStray(usize),
    /// Such a request is lost.
    LoseStray(usize),
    /// A lease ends.
    LeaseEnds(usize),
    /// No earlier request of the operation can be acted on any more, as far as anybody here knows.
    RequestsDie(usize),
    /// The statement tells of a refund that our books lack.
    Reconcile(usize),
}

mod steps;

impl Model for Refunding {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            rows: [Row::new(RowState::Ready); 2],
            workers: vec![steps::IDLE; self.workers],
            strays: [0; 2],
            children: Vec::new(),
            noticed: 0,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        self.possible(state, actions);
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        self.take(&mut state, action);
        // Workers are alike; a trace is read more easily with their numbers.
        if self.flaw.is_none() {
            state.workers.sort_unstable();
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut all = vec![
            Property::always(SUMS_AGREE, |model: &Self, state: &State| !model.is_settled(state) || sums_agree(state)),
            Property::always(NONE_TWICE, |_, state: &State| (0..2).all(|of| made(state, of) <= 1)),
            Property::always(FAILED_IS_FAILED, |model: &Self, state: &State| {
                let will_be_told = model.reconciles && !model.is_settled(state);
                let is_right =
                    |of: usize| state.rows[of].state != RowState::Failed || made(state, of) == noticed(state, of);
                will_be_told || (0..2).all(is_right)
            }),
        ];
        all.extend(happens());
        if self.references && !self.deadline {
            all.push(Property::sometimes("a request is repeated whose refund was made", |_, state: &State| {
                (0..2).any(|of| state.strays[of] > 0 && made(state, of) > 0)
            }));
        }
        if self.reconciles {
            all.push(Property::sometimes("a person is told", |_, state: &State| state.noticed != 0));
        }
        all
    }

    fn within_boundary(&self, state: &State) -> bool {
        state.children.len() <= 3
    }
}

impl Ends for Refunding {
    fn is_settled(&self, state: &State) -> bool {
        state.rows.iter().all(|row| row.state.is_final())
            && state.workers.iter().all(|worker| worker.step == Step::Idle)
            && state.strays == [0; 2]
            && (!self.reconciles || (0..state.children.len()).all(|child| steps::is_known(state, child)))
    }

    fn is_fault(&self, action: &Action) -> bool {
        match action {
            Action::Crash(_)
            | Action::LoseRequest(_)
            | Action::TurnAway(_)
            | Action::Deliver { heard: false, .. }
            | Action::LookUp { missed: true, .. } => true,
            Action::Claim { .. }
            | Action::LookUp { .. }
            | Action::SendAgain(_)
            | Action::Send(_)
            | Action::Deliver { .. }
            | Action::TimeOut(_)
            | Action::Write(_)
            | Action::DeliverStray(_)
            | Action::LoseStray(_)
            | Action::LeaseEnds(_)
            | Action::RequestsDie(_)
            | Action::Reconcile(_) => false,
        }
    }
}

fn happens() -> Vec<Property<Refunding>> {
    vec![
        Property::sometimes("given back, and the answer lost", |_, state: &State| {
            let heard = state.workers.iter().any(|worker| matches!(worker.step, Step::Done(_)));
            !state.children.is_empty() && state.rows.iter().all(|row| row.state.is_open()) && !heard
        }),
        Property::sometimes("one waits for the other", |_, state: &State| {
            state.rows[0].state.was_sent() && state.rows[1].state == RowState::Ready
        }),
        Property::sometimes("the other's child is told apart", |_, state: &State| {
            let asks = |worker: &Worker| matches!(worker.step, Step::LookingUp(_, recorded) if recorded > 0);
            state.workers.iter().any(asks) && state.children.len() == 2
        }),
        Property::sometimes("sent again after two look-ups", |_, state: &State| {
            state.workers.iter().any(|worker| worker.step == Step::Armed(Sending { again: true, expired: false }))
        }),
        Property::sometimes("a late worker brings the answer", |_, state: &State| {
            state.workers.iter().any(|worker| {
                matches!(worker.step, Step::Done(_)) && !worker.fenced && state.rows[worker.of].state.is_open()
            })
        }),
        Property::sometimes("one failed and one succeeded", |_, state: &State| {
            let succeeded = state.rows.iter().any(|row| matches!(row.state, RowState::Succeeded(_)));
            succeeded && state.rows.iter().any(|row| row.state == RowState::Failed)
        }),
    ]
}

fn made(state: &State, of: usize) -> usize {
    state.children.iter().filter(|child| child.of == of).count()
}

fn noticed(state: &State, of: usize) -> usize {
    let told = |(at, child): &(usize, &Child)| child.of == of && state.noticed & (1 << at) != 0;
    state.children.iter().enumerate().filter(told).count()
}

fn sums_agree(state: &State) -> bool {
    let succeeded = state.rows.iter().filter(|row| matches!(row.state, RowState::Succeeded(_))).count();
    state.children.len() == succeeded + noticed(state, 0) + noticed(state, 1)
}
