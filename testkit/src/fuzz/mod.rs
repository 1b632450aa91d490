//! Random input for parsers: bytes, texts and JSON that are right but for a few changes. What comes follows from a seed alone.

mod json;
mod text;

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngSeed, TestRunner};

pub use json::{anything, json};
pub use text::{Bytes, changed, edited_bytes, mutated, mutated_bytes, noise, texts};

/// Tries a property on random inputs: 256 of them, or as many as `PROPTEST_CASES` says. The seed is printed; with `SEED` in
/// the environment the same inputs come again.
///
/// # Panics
/// When the property does, with the smallest input for which it does and with the seed.
pub fn check<S: Strategy>(inputs: S, property: impl Fn(S::Value)) {
    check_cases(Config::default().cases, inputs, property);
}

/// The same for so many inputs.
///
/// # Panics
/// As [`check`].
pub fn check_cases<S: Strategy>(cases: u32, inputs: S, property: impl Fn(S::Value)) {
    let seed = seed();
    // Nothing is written into the sources: a finding becomes a test of its own.
    let outcome = TestRunner::new(Config { cases, ..config(seed) }).run(&inputs, |input| {
        property(input);
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("SEED={seed}: {error}");
    }
}

/// Inputs one after the other, for a journey.
pub struct Source {
    /// From which all of them follow.
    pub seed: u64,
    runner: TestRunner,
}

impl Source {
    /// Of the seed in `SEED`, or of a random one. It is printed.
    #[must_use]
    pub fn from_env() -> Self {
        let seed = seed();
        Self { seed, runner: TestRunner::new(config(seed)) }
    }

    /// The next input.
    ///
    /// # Panics
    /// When the strategy refuses all that it draws.
    pub fn draw<S: Strategy>(&mut self, inputs: &S) -> S::Value {
        inputs.new_tree(&mut self.runner).expect("inputs are not refused").current()
    }
}

fn seed() -> u64 {
    let given = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = given.unwrap_or_else(|| getrandom::u64().expect("random bytes"));
    println!("SEED={seed}");
    seed
}

fn config(seed: u64) -> Config {
    Config { rng_seed: RngSeed::Fixed(seed), failure_persistence: None, verbose: 0, ..Config::default() }
}
