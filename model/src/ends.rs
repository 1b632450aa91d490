//! Whether every run can come to its end: from each state that any faults lead to, one in which all is settled can be reached by
//! steps that are no faults.
//!
//! Stateright's `eventually` does not see runs that go round for ever, and asking again is going round. So the graph is walked
//! forwards here, and then backwards from the states in which all is settled.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

use stateright::Model;

/// A model whose runs come to an end.
pub trait Ends: Model {
    /// Whether all is settled.
    fn is_settled(&self, state: &Self::State) -> bool;

    /// Whether this is bad luck, which nothing may depend on to come to its end.
    fn is_fault(&self, action: &Self::Action) -> bool;
}

/// What was found.
#[derive(Debug)]
pub struct Found<A> {
    /// How many states are settled.
    pub settled: usize,
    /// How many states lead to no settled one.
    pub stuck: usize,
    /// The shortest way to one of those, if there is one.
    pub trace: Option<Vec<A>>,
}

/// Walks the whole graph.
pub fn search<M>(model: &M) -> Found<M::Action>
where
    M: Ends,
    M::State: Clone + Hash,
    M::Action: Clone,
{
    let (graph, _) = forwards(model, |_| false);
    let leads_there = backwards(&graph);
    let stuck: Vec<_> = (0..leads_there.len()).filter(|&at| !leads_there[at]).collect();
    // States are numbered breadth first, so the first one is the nearest.
    let trace = stuck.first().map(|&at| way_to(&graph, at));
    Found { settled: graph.settled.len(), stuck: stuck.len(), trace }
}

/// The shortest way to such a state, if there is one.
pub fn nearest<M>(model: &M, is_wanted: impl Fn(&M::State) -> bool) -> Option<Vec<M::Action>>
where
    M: Ends,
    M::State: Clone + Hash,
    M::Action: Clone,
{
    let (graph, at) = forwards(model, is_wanted);
    at.map(|at| way_to(&graph, at))
}

struct Graph<A> {
    /// By which action, from which state, each was first reached.
    came_from: Vec<Option<(u32, A)>>,
    /// For each state, those from which a step that is no fault leads to it.
    before: Vec<Vec<u32>>,
    settled: Vec<u32>,
}

/// Breadth first, until there is nothing new or something that is wanted. A state is known by its hash alone, as stateright
/// does it: there are millions of them.
fn forwards<M>(model: &M, is_wanted: impl Fn(&M::State) -> bool) -> (Graph<M::Action>, Option<usize>)
where
    M: Ends,
    M::State: Clone + Hash,
    M::Action: Clone,
{
    let mut graph = Graph { came_from: Vec::new(), before: Vec::new(), settled: Vec::new() };
    let mut numbers = HashMap::new();
    let mut ahead = VecDeque::new();
    for state in model.init_states() {
        graph.enter(&mut numbers, &mut ahead, state, None);
    }
    let mut at = 0;
    while let Some(state) = ahead.pop_front() {
        if is_wanted(&state) {
            return (graph, Some(at));
        }
        let number = u32::try_from(at).expect("it was numbered so");
        if model.is_settled(&state) {
            graph.settled.push(number);
        }
        let mut actions = Vec::new();
        model.actions(&state, &mut actions);
        for action in actions {
            let next = model.next_state(&state, action.clone()).filter(|next| model.within_boundary(next));
            let Some(next) = next else { continue };
            let fault = model.is_fault(&action);
            let next = graph.enter(&mut numbers, &mut ahead, next, Some((number, action)));
            if !fault {
                graph.before[next as usize].push(number);
            }
        }
        at += 1;
    }
    (graph, None)
}

impl<A> Graph<A> {
    /// The number of a state, which is put into the queue if it is new.
    fn enter<S: Hash>(
        &mut self,
        numbers: &mut HashMap<u64, u32>,
        ahead: &mut VecDeque<S>,
        state: S,
        by: Option<(u32, A)>,
    ) -> u32 {
        let next = u32::try_from(self.came_from.len()).expect("fewer states than fit into memory");
        let mut hasher = DefaultHasher::new();
        state.hash(&mut hasher);
        match numbers.entry(hasher.finish()) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(new) => {
                new.insert(next);
                ahead.push_back(state);
                self.came_from.push(by);
                self.before.push(Vec::new());
                next
            }
        }
    }
}

fn backwards<A>(graph: &Graph<A>) -> Vec<bool> {
    let mut leads_there = vec![false; graph.before.len()];
    let mut ahead = graph.settled.clone();
    while let Some(at) = ahead.pop() {
        if !std::mem::replace(&mut leads_there[at as usize], true) {
            ahead.extend(graph.before[at as usize].iter().filter(|&&before| !leads_there[before as usize]));
        }
    }
    leads_there
}

fn way_to<A: Clone>(graph: &Graph<A>, mut at: usize) -> Vec<A> {
    let mut way = Vec::new();
    while let Some((before, action)) = &graph.came_from[at] {
        way.push(action.clone());
        at = *before as usize;
    }
    way.reverse();
    way
}
