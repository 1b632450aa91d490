//! The program `simulate`, as a user runs it.

use std::process::{Command, Output};

fn simulate(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_simulate")).args(arguments).output().expect("the program starts")
}

fn digest(output: &Output) -> String {
    let [printed, errors] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    assert!(output.status.success(), "{printed}\n{errors}");
    let digest = printed.lines().find(|line| line.starts_with("digest: "));
    digest.unwrap_or_else(|| panic!("no digest: {}\n{printed}\n{errors}", output.status)).to_owned()
}

#[test]
fn a_seed_determines_every_event_and_histories_lose_no_money() {
    let [first, second] = [0, 0].map(|_| simulate(&["--first", "1", "--seeds", "4"]));
    assert_eq!(digest(&first), digest(&second), "the same seeds gave different events");

    // Without the rule, a request is sent again that Stripe has forgotten.
    let mutant = simulate(&["--mutants", "forgotten", "--first", "1087", "--seeds", "1"]);
    assert!(mutant.status.success(), "{}", String::from_utf8_lossy(&mutant.stdout));

    // Fixed seeds, so that a failure is about the change that is tested. `./dev simulate` runs random ones.
    let histories = simulate(&["--first", "1000", "--seeds", "20"]);
    assert!(histories.status.success(), "{}", String::from_utf8_lossy(&histories.stdout));
}
