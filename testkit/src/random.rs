//! Random decisions that a seed determines: SplitMix64, by Steele, Lea and Flood (2014).

/// The seed of a random test, printed so that a failure can be repeated: the number in `SEED`, or else always the same
/// one, so that a test fails for a change of the code and never by chance. `SEED=random` draws a new one.
///
/// # Panics
/// When `SEED` is neither a number nor `random`, or the system has no random bytes.
pub fn seed() -> u64 {
    const FIXED: u64 = 20_261_126;
    let seed = match std::env::var("SEED").as_deref() {
        Err(_) | Ok("") => FIXED,
        Ok("random") => getrandom::u64().expect("the system has random bytes"),
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("SEED={text} is neither a number nor \"random\"")),
    };
    println!("SEED={seed}");
    seed
}

/// A stream of random numbers. Whatever makes decisions on its own has a stream of its own, so that they do not affect
/// each other.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The stream of this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// One of many streams of a seed.
    pub fn stream(seed: u64, number: u64) -> Self {
        Self::new(seed ^ number.wrapping_mul(0xA076_1D64_78BD_642F)).fork()
    }

    /// A stream that is independent of this one.
    pub fn fork(&mut self) -> Self {
        Self(self.word())
    }

    /// The next 64 bits.
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        word ^ (word >> 31)
    }

    /// Fills `bytes`.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.word().to_le_bytes()[..chunk.len()]);
        }
    }

    /// A number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.word() % end.max(1)
    }

    /// A random index for a list of this length.
    pub fn index(&mut self, count: usize) -> usize {
        usize::try_from(self.below(count as u64)).expect("below a usize")
    }

    /// A number from `first` to `last`, both included.
    pub fn between(&mut self, first: u64, last: u64) -> u64 {
        first + self.below(last - first + 1)
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// True with this probability in percent.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of the choices.
    pub fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.index(choices.len())]
    }

    /// Shuffles in place.
    pub fn shuffle<T>(&mut self, all: &mut [T]) {
        for i in (1..all.len()).rev() {
            all.swap(i, self.index(i + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_reproducible_and_streams_differ() {
        let draw = |seed, number| {
            let mut random = Random::stream(seed, number);
            [random.word(), random.word(), random.word()]
        };
        assert_eq!(draw(1, 2), draw(1, 2));
        assert_ne!(draw(1, 2), draw(1, 3));
        assert_ne!(draw(1, 2), draw(2, 2));
    }
}
