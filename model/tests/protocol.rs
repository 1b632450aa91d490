//! With two workers, the protocol holds in every order of events, and omitting any rule breaks it.

use std::fmt::Debug;
use std::hash::Hash;

use model::check::{check, counterexample};
use model::liveness::Liveness;
use model::suite::{self, Symptom};

fn assert_holds<M>(name: &str, model: M, states: usize)
where
    M: Liveness + Clone + Send + Sync + 'static,
    M::State: Clone + Debug + Eq + Hash + Send + Sync + 'static,
    M::Action: Clone + Debug + PartialEq + Send + Sync,
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
        assert_holds(name, model, 2_000);
    }
}

fn is_detected<M>(model: M, symptom: Symptom)
where
    M: Liveness + Copy + Debug + Send + Sync + 'static,
    M::State: Clone + Debug + Eq + Hash + Send + Sync + 'static,
    M::Action: Clone + Debug + PartialEq + Send + Sync,
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
