//! The program `simulate`, as a user runs it.

use std::process::Command;

/// What it prints; it must succeed.
fn simulate(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_simulate")).args(arguments).output().expect("the program starts");
    let [printed, errors] = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert!(output.status.success(), "{printed}\n{errors}");
    printed
}

#[test]
fn a_seed_determines_every_event() {
    let [first, second] = [0, 0].map(|_| {
        let printed = simulate(&["--first", "1", "--seeds", "4"]);
        printed.lines().find(|line| line.starts_with("digest: ")).expect("a digest").to_owned()
    });
    assert_eq!(first, second, "the same seeds gave different events");
}

#[test]
fn a_request_that_stripe_has_forgotten_is_found_when_it_is_sent_again() {
    simulate(&["--mutants", "forgotten", "--first", "1087", "--seeds", "1"]);
}

/// Fixed seeds, so that a failure is about the change that is tested. `./dev simulate` runs random ones.
fn five_histories_lose_no_money(first: u64) {
    simulate(&["--first", &first.to_string(), "--seeds", "5"]);
}

#[test]
fn histories_1000_to_1004_lose_no_money() {
    five_histories_lose_no_money(1000);
}

#[test]
fn histories_1005_to_1009_lose_no_money() {
    five_histories_lose_no_money(1005);
}

#[test]
fn histories_1010_to_1014_lose_no_money() {
    five_histories_lose_no_money(1010);
}

#[test]
fn histories_1015_to_1019_lose_no_money() {
    five_histories_lose_no_money(1015);
}
