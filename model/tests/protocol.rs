//! The protocol holds in every order of events, with two workers; and each rule that is left out is missed.

use std::fmt::Debug;
use std::hash::Hash;

use model::check::{check, counterexample};
use model::ends::Ends;
use model::suite::{self, Shows};

fn holds<M>(name: &str, model: M, states: usize)
where
    M: Ends + Clone + Send + Sync + 'static,
    M::State: Clone + Debug + Eq + Hash + Send + Sync + 'static,
    M::Action: Clone + Debug + PartialEq + Send + Sync,
{
    let checked = check(model);
    assert!(checked.wrong.is_empty(), "{name}:\n  {}", checked.wrong.join("\n  "));
    assert!(checked.states >= states, "{name}: only {} states, so the model has lost its way", checked.states);
    // The least has three rules, and some proof that things happen.
    assert!(checked.held > 8, "{name}: only {} properties", checked.held);
}

#[test]
fn a_charge_is_safe_with_every_provider() {
    for (name, model) in suite::charges(2) {
        holds(name, model, 500);
    }
}

#[test]
fn refunds_are_safe_with_a_reference_and_without_one() {
    for (name, model) in suite::refunds(2) {
        holds(name, model, 2_000);
    }
}

fn is_missed<M>(model: M, shows: Shows)
where
    M: Ends + Copy + Debug + Send + Sync + 'static,
    M::State: Clone + Debug + Eq + Hash + Send + Sync + 'static,
    M::Action: Clone + Debug + PartialEq + Send + Sync,
{
    let way = counterexample(model, shows);
    assert!(way.is_some_and(|way| !way.is_empty()), "nothing shows that a rule is missing: {model:?}, {shows:?}");
}

#[test]
fn each_rule_of_a_charge_is_needed() {
    for (model, shows) in suite::flawed_charges() {
        is_missed(model, shows);
    }
}

#[test]
fn each_rule_of_refunds_is_needed() {
    for (model, shows) in suite::flawed_refunds() {
        is_missed(model, shows);
    }
}
