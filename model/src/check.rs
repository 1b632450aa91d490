//! Checks any model.

use std::fmt::Debug;
use std::hash::Hash;

use stateright::{Checker, HasDiscoveries};

use crate::liveness::{self, Liveness};
use crate::suite::Symptom;

/// The result of a check.
#[derive(Debug)]
pub struct Report {
    /// The number of distinct states.
    pub states: usize,
    /// The length of the longest of the shortest paths to a state.
    pub depth: usize,
    /// The number of properties that hold, including examples that were found.
    pub passed: usize,
    /// Descriptions of the violations, each with its trace.
    pub violations: Vec<String>,
}

/// Visits every state and checks every property.
pub fn check<M>(model: M) -> Report
where
    M: Liveness + Clone + Send + Sync + 'static,
    M::State: Clone + Debug + Eq + Hash + Send + Sync + 'static,
    M::Action: Clone + Debug + PartialEq + Send + Sync,
{
    let checker = model.clone().checker().spawn_bfs().join();
    let mut discoveries = checker.discoveries();
    let mut report =
        Report { states: checker.unique_state_count(), depth: checker.max_depth(), passed: 0, violations: Vec::new() };
    for property in model.properties() {
        let trace = discoveries.remove(property.name).map(|path| path.into_actions());
        if trace.is_some() == property.expectation.discovery_is_failure() {
            report.violations.push(format!("{}: {}", property.name, describe(trace.as_deref())));
        } else {
            report.passed += 1;
        }
    }
    let liveness = liveness::check(&model);
    match liveness.trace {
        Some(trace) => {
            let trace = describe(Some(&trace));
            report.violations.push(format!("{} states cannot reach a settled state: {trace}", liveness.stuck));
        }
        None if liveness.settled == 0 => report.violations.push("there is no settled state".to_owned()),
        None => report.passed += 1,
    }
    report
}

/// The shortest trace that shows the symptom of a missing rule.
pub fn counterexample<M>(model: M, symptom: Symptom) -> Option<Vec<M::Action>>
where
    M: Liveness + Clone + Send + Sync + 'static,
    M::State: Clone + Debug + Eq + Hash + Send + Sync + 'static,
    M::Action: Clone + Debug + PartialEq + Send + Sync,
{
    match symptom {
        Symptom::Breaks(property) => {
            let enough = HasDiscoveries::AnyOf([property].into());
            model.clone().checker().finish_when(enough).spawn_bfs().join().discovery(property)?;
            // The trace of stateright is not necessarily the shortest.
            let holds = model.property(property).condition;
            liveness::shortest_trace(&model, |state| !holds(&model, state))
        }
        Symptom::GetsStuck => liveness::check(&model).trace,
    }
}

fn describe<A: Debug>(trace: Option<&[A]>) -> String {
    trace.map_or_else(|| "never happens".to_owned(), |trace| format!("{trace:?}"))
}
