//! Checks the models with as many workers as one likes, or shows what each missing rule leads to.

use std::fmt::Debug;
use std::hash::Hash;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use model::check::{check, counterexample};
use model::ends::Ends;
use model::suite::{self, Shows};

/// Tries every order of events in the charge protocol.
#[derive(Parser)]
struct Arguments {
    /// How many workers there are.
    #[arg(long, default_value_t = 2)]
    workers: usize,
    /// Show the shortest way from each missing rule to the harm that it does.
    #[arg(long)]
    flaws: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let well = if arguments.flaws { flaws() } else { protocol(arguments.workers) };
    if well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn protocol(workers: usize) -> bool {
    let mut well = true;
    for (name, model) in suite::refunds(workers) {
        well &= report(name, model);
    }
    for (name, model) in suite::charges(workers).into_iter().chain([suite::broken_promise()]) {
        well &= report(name, model);
    }
    well
}

fn report<M>(name: &str, model: M) -> bool
where
    M: Ends + Clone + Send + Sync + 'static,
    M::State: Clone + Debug + Eq + Hash + Send + Sync + 'static,
    M::Action: Clone + Debug + PartialEq + Send + Sync,
{
    let began = Instant::now();
    let checked = check(model);
    let (states, depth, held) = (checked.states, checked.depth, checked.held);
    println!("{name}: {states} states, depth {depth}, {held} properties hold ({:.1?})", began.elapsed());
    for wrong in &checked.wrong {
        println!("  WRONG {wrong}");
    }
    checked.wrong.is_empty()
}

fn flaws() -> bool {
    let mut well = true;
    for (model, shows) in suite::flawed_charges() {
        well &= show(&format!("{model:?}"), counterexample(model, shows), shows);
    }
    for (model, shows) in suite::flawed_refunds() {
        well &= show(&format!("{model:?}"), counterexample(model, shows), shows);
    }
    well
}

fn show<A: Debug>(model: &str, way: Option<Vec<A>>, shows: Shows) -> bool {
    println!("\n{model}\n  {shows:?}");
    match &way {
        Some(way) => way.iter().enumerate().for_each(|(at, action)| println!("  {:2}. {action:?}", at + 1)),
        None => println!("  NOT FOUND"),
    }
    way.is_some()
}
