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
    let output = simulate(&["--first", &first.to_string(), "--seeds", "2"]);
    digest(&output);
}

#[test]
fn a_seed_determines_every_event() {
    let [first, second] = [0, 0].map(|_| simulate(&["--first", "1", "--seeds", "2"]));
    assert_eq!(digest(&first), digest(&second), "the same seeds gave different events");
}

#[test]
fn a_request_that_stripe_has_forgotten_is_found_when_it_is_sent_again() {
    let mutant = simulate(&["--mutants", "forgotten", "--first", "1087", "--seeds", "1"]);
    assert!(mutant.status.success(), "{}", String::from_utf8_lossy(&mutant.stdout));
}

// Many tests of two histories, so that on a busy machine, too, one is seen to end within the time that a suite may be silent.
macro_rules! histories {
    ($($name:ident from $first:literal)*) => {
        $(
            #[test]
            fn $name() {
                histories_lose_no_money($first);
            }
        )*
    };
}

histories! {
    histories_1000_and_1001 from 1000
    histories_1002_and_1003 from 1002
    histories_1004_and_1005 from 1004
    histories_1006_and_1007 from 1006
    histories_1008_and_1009 from 1008
    histories_1010_and_1011 from 1010
    histories_1012_and_1013 from 1012
    histories_1014_and_1015 from 1014
    histories_1016_and_1017 from 1016
    histories_1018_and_1019 from 1018
}
