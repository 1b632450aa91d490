//! Checking a model, whichever it is.

use std::fmt::Debug;
use std::hash::Hash;

use stateright::{Checker, HasDiscoveries};

use crate::ends::{self, Ends};
use crate::suite::Shows;

/// What a check has come to.
#[derive(Debug)]
pub struct Checked {
    /// How many states there are.
    pub states: usize,
    /// The longest of the shortest ways to one of them.
    pub depth: usize,
    /// Properties that hold, or examples that were found.
    pub held: usize,
    /// What is wrong, each with the way there.
    pub wrong: Vec<String>,
}

/// Visits every state, and every property.
pub fn check<M>(model: M) -> Checked
where
    M: Ends + Clone + Send + Sync + 'static,
    M::State: Clone + Debug + Eq + Hash + Send + Sync + 'static,
    M::Action: Clone + Debug + PartialEq + Send + Sync,
{
    let checker = model.clone().checker().spawn_bfs().join();
    let mut found = checker.discoveries();
    let mut checked =
        Checked { states: checker.unique_state_count(), depth: checker.max_depth(), held: 0, wrong: Vec::new() };
    for property in model.properties() {
        let way = found.remove(property.name).map(|path| path.into_actions());
        if way.is_some() == property.expectation.discovery_is_failure() {
            checked.wrong.push(format!("{}: {}", property.name, told(way.as_deref())));
        } else {
            checked.held += 1;
        }
    }
    let ends = ends::search(&model);
    match ends.trace {
        Some(way) => checked.wrong.push(format!("{} states lead to no end: {}", ends.stuck, told(Some(&way)))),
        None if ends.settled == 0 => checked.wrong.push("there is no end".to_owned()),
        None => checked.held += 1,
    }
    checked
}

/// The shortest way to where it shows that a rule is missing.
pub fn counterexample<M>(model: M, shows: Shows) -> Option<Vec<M::Action>>
where
    M: Ends + Clone + Send + Sync + 'static,
    M::State: Clone + Debug + Eq + Hash + Send + Sync + 'static,
    M::Action: Clone + Debug + PartialEq + Send + Sync,
{
    match shows {
        Shows::Breaks(property) => {
            let enough = HasDiscoveries::AnyOf([property].into());
            model.clone().checker().finish_when(enough).spawn_bfs().join().discovery(property)?;
            // That one need not be the shortest.
            let holds = model.property(property).condition;
            ends::nearest(&model, |state| !holds(&model, state))
        }
        Shows::GetsStuck => ends::search(&model).trace,
    }
}

fn told<A: Debug>(way: Option<&[A]>) -> String {
    way.map_or_else(|| "never happens".to_owned(), |way| format!("{way:?}"))
}
