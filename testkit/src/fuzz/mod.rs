//! Random input for parsers: bytes, texts and JSON with a few mutations. A seed determines all of it.

mod json;
mod text;

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngSeed, TestRunner};

use crate::random::seed;

pub use json::{anything, json};
pub use text::{Bytes, changed, edited_bytes, mutated, mutated_bytes, noise, texts};

/// Tests a property with random inputs: 256 of them, or the number in `PROPTEST_CASES`. `SEED`
/// determines them; see [`crate::random::seed`].
///
/// # Panics
/// When the property panics, with the smallest failing input and the seed.
pub fn check<S: Strategy>(inputs: S, property: impl Fn(S::Value)) {
    check_cases(Config::default().cases, inputs, property);
}

/// As [`check`], with this number of inputs.
///
/// # Panics
/// As [`check`].
pub fn check_cases<S: Strategy>(cases: u32, inputs: S, property: impl Fn(S::Value)) {
    let seed = seed();
    // No regression files in the source tree: a finding becomes a test.
    let outcome = TestRunner::new(Config { cases, ..config(seed) }).run(&inputs, |input| {
        property(input);
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("SEED={seed}: {error}");
    }
}

/// A source of single inputs, for journeys.
pub struct Source {
    /// Determines all inputs.
    pub seed: u64,
    runner: TestRunner,
}

impl Source {
    /// Inputs of [`crate::random::seed`].
    #[must_use]
    pub fn from_env() -> Self {
        let seed = seed();
        Self { seed, runner: TestRunner::new(config(seed)) }
    }

    /// The next input.
    ///
    /// # Panics
    /// When the strategy rejects all candidates.
    pub fn draw<S: Strategy>(&mut self, inputs: &S) -> S::Value {
        inputs.new_tree(&mut self.runner).expect("inputs are not refused").current()
    }
}

fn config(seed: u64) -> Config {
    Config { rng_seed: RngSeed::Fixed(seed), failure_persistence: None, verbose: 0, ..Config::default() }
}
