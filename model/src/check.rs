//! Checks any model.

use std::fmt::Debug;
use std::hash::Hash;
use std::ops::ControlFlow;

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

/// Visits every state once, and checks every property and whether each run can finish.
pub fn check<M>(model: M) -> Report
where
    M: Liveness,
    M::State: Hash,
    M::Action: Clone + Debug,
{
    let properties = model.properties();
    // For each property, the first state that violates it or is an example of it.
    let mut found = vec![None; properties.len()];
    let graph = liveness::explore(&model, |at, state| {
        for (property, first) in properties.iter().zip(&mut found) {
            let is_example = !property.expectation.discovery_is_failure();
            if first.is_none() && (property.condition)(&model, state) == is_example {
                *first = Some(at);
            }
        }
        ControlFlow::Continue(())
    });
    let mut report = Report { states: graph.states(), depth: graph.depth(), passed: 0, violations: Vec::new() };
    for (property, first) in properties.iter().zip(found) {
        if first.is_some() == property.expectation.discovery_is_failure() {
            let trace = first.map(|at| graph.trace_to(at));
            report.violations.push(format!("{}: {}", property.name, describe(trace.as_deref())));
        } else {
            report.passed += 1;
        }
    }
    let liveness = graph.liveness();
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
    M: Liveness,
    M::State: Hash,
    M::Action: Clone,
{
    match symptom {
        Symptom::Breaks(property) => {
            let holds = model.property(property).condition;
            let mut broken = None;
            let graph = liveness::explore(&model, |at, state| {
                if holds(&model, state) {
                    return ControlFlow::Continue(());
                }
                broken = Some(at);
                ControlFlow::Break(())
            });
            broken.map(|at| graph.trace_to(at))
        }
        Symptom::GetsStuck => liveness::explore(&model, |_, _| ControlFlow::Continue(())).liveness().trace,
    }
}

fn describe<A: Debug>(trace: Option<&[A]>) -> String {
    trace.map_or_else(|| "never happens".to_owned(), |trace| format!("{trace:?}"))
}
