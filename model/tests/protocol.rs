//! With two workers, the protocol holds in every order of events, and omitting any rule breaks it.

use std::collections::{HashSet, VecDeque};
use std::fmt::Debug;
use std::hash::Hash;

use model::charge::{ChargeModel, Class};
use model::check::{check, counterexample};
use model::liveness::Liveness;
use model::refund::{RefundModel, State};
use model::suite::{self, Symptom};
use stateright::{Checker, Model};

fn assert_holds<M>(name: &str, model: M, states: usize)
where
    M: Liveness,
    M::State: Hash,
    M::Action: Clone + Debug,
{
    let report = check(model);
    assert!(report.violations.is_empty(), "{name}:\n  {}", report.violations.join("\n  "));
    assert!(report.states >= states, "{name}: only {} states, so the model does too little", report.states);
    // The smallest model has three rules, and several examples that prove that events happen.
    assert!(report.passed > 8, "{name}: only {} properties", report.passed);
}

#[test]
fn charges_are_safe_with_every_provider_class() {
    for (name, model) in suite::charges(2) {
        assert_holds(name, model, 500);
    }
}

#[test]
fn refunds_are_safe_with_and_without_references() {
    for (name, model) in suite::refunds(2) {
        assert_holds(name, model, 1_000);
    }
}

/// That one state of two with exchanged refunds is explored rests on this.
#[test]
fn refunds_are_interchangeable() {
    for (name, model) in suite::refunds(2) {
        let mut queue: VecDeque<State> = model.init_states().into();
        let mut seen: HashSet<State> = queue.iter().cloned().collect();
        while let Some(state) = queue.pop_front() {
            let successors = |state: &State| {
                let mut next = model.next_states(state);
                next.sort_unstable();
                next
            };
            let next = successors(&state);
            assert_eq!(next, successors(&state.exchanged()), "{name}: {state:?}");
            if seen.len() < 5_000 {
                queue.extend(next.into_iter().filter(|next| model.within_boundary(next) && seen.insert(next.clone())));
            }
        }
    }
}

/// Stateright has its own exploration, and finds as many states.
#[test]
fn an_independent_checker_visits_the_same_states() {
    fn are_equal<M>(model: M)
    where
        M: Liveness + Copy + Debug + Send + Sync + 'static,
        M::State: Clone + Hash + PartialEq + Send + Sync + 'static,
        M::Action: Clone + Debug + PartialEq,
    {
        let states = model.checker().spawn_bfs().join().unique_state_count();
        assert_eq!(check(model).states, states, "{model:?}");
    }
    are_equal(ChargeModel::new(2, Class::Neither));
    are_equal(RefundModel::new(1));
}

fn is_detected<M>(model: M, symptom: Symptom)
where
    M: Liveness + Copy + Debug,
    M::State: Hash,
    M::Action: Clone,
{
    let trace = counterexample(model, symptom);
    assert!(trace.is_some_and(|trace| !trace.is_empty()), "the missing rule was not detected: {model:?}, {symptom:?}");
}

#[test]
fn every_charge_rule_is_necessary() {
    for (model, symptom) in suite::flawed_charges() {
        is_detected(model, symptom);
    }
}

#[test]
fn every_refund_rule_is_necessary() {
    for (model, symptom) in suite::flawed_refunds() {
        is_detected(model, symptom);
    }
}
