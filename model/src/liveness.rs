//! Explores a model, and checks that every run can finish: from each state that any faults lead to, a settled state can
//! be reached without further faults.
//!
//! Stateright's `eventually` ignores infinite cycles, and retries are cycles. So this explores the graph forwards, and
//! then walks backwards from the settled states. The properties of all states are checked in the same exploration.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::ControlFlow;

use stateright::Model;

/// A model whose runs must be able to finish.
pub trait Liveness: Model {
    /// Whether nothing remains to be done.
    fn is_settled(&self, state: &Self::State) -> bool;

    /// Whether this is a fault: no run may depend on it to finish.
    fn is_fault(&self, action: &Self::Action) -> bool;
}

/// Whether every run can finish.
pub(crate) struct LivenessReport<A> {
    /// The number of settled states.
    pub(crate) settled: usize,
    /// The number of states that cannot reach a settled one.
    pub(crate) stuck: usize,
    /// The shortest trace to a stuck state, if there is one.
    pub(crate) trace: Option<Vec<A>>,
}

/// The states, numbered breadth first.
pub(crate) struct Graph<A> {
    /// For each state, the predecessor and the action that first reached it.
    reached_by: Vec<Option<(u32, A)>>,
    /// For each state, the predecessors that reach it without a fault.
    predecessors: Vec<Vec<u32>>,
    settled: Vec<u32>,
}

/// Explores breadth first, until all states are visited or `visit` breaks. States are identified by their hash alone, as
/// in stateright, because there are millions of them.
pub(crate) fn explore<M>(model: &M, mut visit: impl FnMut(usize, &M::State) -> ControlFlow<()>) -> Graph<M::Action>
where
    M: Liveness,
    M::State: Hash,
    M::Action: Clone,
{
    let mut graph = Graph { reached_by: Vec::new(), predecessors: Vec::new(), settled: Vec::new() };
    let mut numbers = HashMap::new();
    let mut queue = VecDeque::new();
    for state in model.init_states() {
        graph.insert(&mut numbers, &mut queue, state, None);
    }
    let (mut at, mut actions) = (0, Vec::new());
    while let Some(state) = queue.pop_front() {
        if visit(at, &state).is_break() {
            return graph;
        }
        let number = u32::try_from(at).expect("states are numbered with u32");
        if model.is_settled(&state) {
            graph.settled.push(number);
        }
        model.actions(&state, &mut actions);
        for action in actions.drain(..) {
            let next = model.next_state(&state, action.clone()).filter(|next| model.within_boundary(next));
            let Some(next) = next else { continue };
            let fault = model.is_fault(&action);
            let next = graph.insert(&mut numbers, &mut queue, next, Some((number, action)));
            if !fault {
                graph.predecessors[next as usize].push(number);
            }
        }
        at += 1;
    }
    graph
}

impl<A> Graph<A> {
    /// Returns the number of a state; a new state is added to the queue.
    fn insert<S: Hash>(
        &mut self,
        numbers: &mut HashMap<u64, u32>,
        queue: &mut VecDeque<S>,
        state: S,
        reached_by: Option<(u32, A)>,
    ) -> u32 {
        let next = u32::try_from(self.reached_by.len()).expect("fewer than 2^32 states");
        let mut hasher = DefaultHasher::new();
        state.hash(&mut hasher);
        match numbers.entry(hasher.finish()) {
            Entry::Occupied(number) => *number.get(),
            Entry::Vacant(new) => {
                new.insert(next);
                queue.push_back(state);
                self.reached_by.push(reached_by);
                self.predecessors.push(Vec::new());
                next
            }
        }
    }

    pub(crate) fn states(&self) -> usize {
        self.reached_by.len()
    }

    fn reach_backwards(&self) -> Vec<bool> {
        let mut can_settle = vec![false; self.predecessors.len()];
        let mut stack = self.settled.clone();
        while let Some(at) = stack.pop() {
            if !std::mem::replace(&mut can_settle[at as usize], true) {
                stack.extend(self.predecessors[at as usize].iter().filter(|&&before| !can_settle[before as usize]));
            }
        }
        can_settle
    }
}

impl<A: Clone> Graph<A> {
    /// The length of the longest of the shortest paths, which leads to the last state.
    pub(crate) fn depth(&self) -> usize {
        self.states().checked_sub(1).map_or(0, |last| self.trace_to(last).len())
    }

    /// The shortest trace to a state.
    pub(crate) fn trace_to(&self, mut at: usize) -> Vec<A> {
        let mut trace = Vec::new();
        while let Some((predecessor, action)) = &self.reached_by[at] {
            trace.push(action.clone());
            at = *predecessor as usize;
        }
        trace.reverse();
        trace
    }

    /// Which states of the whole graph can reach a settled one.
    pub(crate) fn liveness(&self) -> LivenessReport<A> {
        let can_settle = self.reach_backwards();
        let stuck: Vec<_> = (0..can_settle.len()).filter(|&at| !can_settle[at]).collect();
        // States are numbered breadth first, so the first one has the shortest trace.
        let trace = stuck.first().map(|&at| self.trace_to(at));
        LivenessReport { settled: self.settled.len(), stuck: stuck.len(), trace }
    }
}
