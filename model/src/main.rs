//! Checks the models with any number of workers, or shows the counterexample for each missing rule.

use std::fmt::Debug;
use std::hash::Hash;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use model::check::{check, counterexample};
use model::liveness::Liveness;
use model::suite::{self, Symptom};

/// Checks the charge protocol in every order of events.
#[derive(Parser)]
struct Arguments {
    /// The number of workers.
    #[arg(long, default_value_t = 2)]
    workers: usize,
    /// Show the shortest counterexample for each missing rule.
    #[arg(long)]
    flaws: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let passed = if arguments.flaws { flaws() } else { protocol(arguments.workers) };
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn protocol(workers: usize) -> bool {
    let mut passed = true;
    for (name, model) in suite::refunds(workers) {
        passed &= print_report(name, model);
    }
    for (name, model) in suite::charges(workers).into_iter().chain([suite::broken_promise()]) {
        passed &= print_report(name, model);
    }
    passed
}

fn print_report<M>(name: &str, model: M) -> bool
where
    M: Liveness,
    M::State: Hash,
    M::Action: Clone + Debug,
{
    let started = Instant::now();
    let report = check(model);
    let (states, depth, passed) = (report.states, report.depth, report.passed);
    println!("{name}: {states} states, depth {depth}, {passed} properties hold ({:.1?})", started.elapsed());
    for violation in &report.violations {
        println!("  VIOLATION {violation}");
    }
    report.violations.is_empty()
}

fn flaws() -> bool {
    let mut passed = true;
    for (model, symptom) in suite::flawed_charges() {
        passed &= print_trace(&format!("{model:?}"), counterexample(model, symptom), symptom);
    }
    for (model, symptom) in suite::flawed_refunds() {
        passed &= print_trace(&format!("{model:?}"), counterexample(model, symptom), symptom);
    }
    passed
}

fn print_trace<A: Debug>(model: &str, trace: Option<Vec<A>>, symptom: Symptom) -> bool {
    println!("\n{model}\n  {symptom:?}");
    match &trace {
        Some(trace) => trace.iter().enumerate().for_each(|(at, action)| println!("  {:2}. {action:?}", at + 1)),
        None => println!("  NOT FOUND"),
    }
    trace.is_some()
}
