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

/// Fixed seeds, so that a failure is about the change that is tested. `./dev simulate` runs random ones.
fn histories_lose_no_money(first: u64) {
    let output = simulate(&["--first", &first.to_string(), "--seeds", "5"]);
    digest(&output);
}

#[test]
fn a_seed_determines_every_event() {
    let [first, second] = [0, 0].map(|_| simulate(&["--first", "1", "--seeds", "4"]));
    assert_eq!(digest(&first), digest(&second), "the same seeds gave different events");
}

#[test]
fn a_request_that_stripe_has_forgotten_is_found_when_it_is_sent_again() {
    let mutant = simulate(&["--mutants", "forgotten", "--first", "1087", "--seeds", "1"]);
    assert!(mutant.status.success(), "{}", String::from_utf8_lossy(&mutant.stdout));
}

// Four tests, so that each ends, and is seen to end, within the time that a test may be silent.

#[test]
fn histories_1000_to_1004_lose_no_money() {
    histories_lose_no_money(1000);
}

#[test]
fn histories_1005_to_1009_lose_no_money() {
    histories_lose_no_money(1005);
}

#[test]
fn histories_1010_to_1014_lose_no_money() {
    histories_lose_no_money(1010);
}

#[test]
fn histories_1015_to_1019_lose_no_money() {
    histories_lose_no_money(1015);
}
