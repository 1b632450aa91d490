//! The calendar against days that were reckoned by hand, and against a reckoning of its own that knows no short cuts.

mod cadences;
mod cycles;
mod days;
mod naive;
mod zones;

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngSeed, TestRunner};

use super::Date;

fn date(text: &str) -> Date {
    text.parse().expect(text)
}

/// Tries a property on random inputs. The seed is printed; with `SEED` in the environment the same inputs come again.
fn check<S: Strategy>(cases: u32, inputs: S, property: impl Fn(S::Value)) {
    let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| getrandom::u64().expect("random bytes"));
    println!("SEED={seed}");
    let config =
        Config { cases, rng_seed: RngSeed::Fixed(seed), failure_persistence: None, verbose: 0, ..Config::default() };
    let outcome = TestRunner::new(config).run(&inputs, |input| {
        property(input);
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("SEED={seed}: {error}");
    }
}
