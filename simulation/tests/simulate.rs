//! The program `simulate`, as a user runs it.
//!
//! Fixed seeds, so that a failure is about the change that is tested. `./dev simulate` runs random ones. Each seed from 1000
//! to 1019 is in one test, and each test takes about as long as another.

use std::process::Command;

/// It must succeed.
fn simulate(arguments: &[&str]) {
    let output = Command::new(env!("CARGO_BIN_EXE_simulate")).args(arguments).output().expect("the program starts");
    let [printed, errors] = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert!(output.status.success(), "{printed}\n{errors}");
}

fn lose_no_money(first: u64, count: u64) {
    simulate(&["--first", &first.to_string(), "--seeds", &count.to_string()]);
}

/// The account of the first history moves from the card gateway to Stripe, the second one passes an outage of 25 hours,
/// and the third one begins where an earlier one has ended, with the mock.
#[test]
fn a_seed_determines_every_event() {
    simulate(&["--first", "1008", "--seeds", "3", "--repeat", "3"]);
}

/// A history in which this rule alone prevents harm is found by `simulate --mutants forgotten --first 1020 --seeds 500`.
#[test]
fn a_request_that_stripe_has_forgotten_is_found_when_it_is_sent_again() {
    simulate(&["--mutants", "forgotten", "--first", "1087", "--seeds", "1"]);
}

/// A payer of history 1005, in which nothing fails, leaves the page of the bank.
#[test]
fn a_charge_that_nobody_has_confirmed_is_found() {
    simulate(&["--mutants", "challenge", "--first", "1005", "--seeds", "1"]);
}

/// History 1019 rotates a key while its account is connected to the card gateway.
#[test]
fn two_accounts_at_one_account_of_the_gateway_are_found() {
    simulate(&["--mutants", "account", "--first", "1019", "--seeds", "1"]);
}

#[test]
fn histories_1000_to_1007_lose_no_money() {
    lose_no_money(1000, 8);
}

#[test]
fn histories_1011_to_1019_lose_no_money() {
    lose_no_money(1011, 9);
}
