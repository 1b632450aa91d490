//! Key rotation: the current key is used for new data, and all keys for existing data (docs/rotation.md).

use super::{EncryptionKey, Pepper, Secret};

/// Keys of one purpose: the current one, and others that are being introduced or retired.
#[derive(Clone)]
pub struct Ring<K> {
    current: K,
    others: Vec<K>,
}

/// The keys that encrypt secrets at rest. The current one seals, all open.
pub type KeyRing = Ring<EncryptionKey>;

/// The peppers of API key hashes. The current one hashes new keys, all are tried for verification.
pub type Peppers = Ring<Pepper>;

impl<K> Ring<K> {
    pub const fn new(current: K, others: Vec<K>) -> Self {
        Self { current, others }
    }

    /// The key for new data.
    pub const fn current(&self) -> &K {
        &self.current
    }

    /// Whether there are other keys, because a rotation is under way.
    pub const fn is_rotating(&self) -> bool {
        !self.others.is_empty()
    }

    fn keys(&self) -> impl Iterator<Item = &K> {
        std::iter::once(&self.current).chain(&self.others)
    }
}

/// Which key a ciphertext was sealed with.
#[derive(Debug)]
pub enum SealedUnder {
    /// The current key.
    Current,
    /// Another key of the ring, with the plaintext.
    Other(Secret<String>),
    /// No key of the ring.
    None,
}

impl KeyRing {
    /// Encrypts with the current key, as [`EncryptionKey::seal`] does. The ciphertext has no key id, because the
    /// previous release must be able to read it.
    pub fn seal(&self, plain: &str, context: &str) -> Vec<u8> {
        self.current.seal(plain, context)
    }

    /// Decrypts by trying each key; authenticated encryption rejects the wrong ones.
    pub fn open(&self, sealed: &[u8], context: &str) -> Option<Secret<String>> {
        self.keys().find_map(|key| key.open(sealed, context))
    }

    /// Which key the ciphertext was sealed with.
    pub fn sealed_under(&self, sealed: &[u8], context: &str) -> SealedUnder {
        if self.current.open(sealed, context).is_some() {
            return SealedUnder::Current;
        }
        self.open(sealed, context).map_or(SealedUnder::None, SealedUnder::Other)
    }
}

impl Peppers {
    /// Whether the text has this hash with any of the peppers. Tries the current one first.
    pub fn match_any(&self, text: &str, hash: &[u8]) -> bool {
        self.keys().any(|pepper| pepper.matches(text, hash))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::fuzz::{check, texts};

    fn key(digit: char) -> EncryptionKey {
        EncryptionKey::from_hex(&digit.to_string().repeat(64)).expect("a key")
    }

    fn pepper(digit: char) -> Pepper {
        Pepper::from_hex(&digit.to_string().repeat(64)).expect("a pepper")
    }

    #[test]
    fn processes_of_adjacent_rotation_steps_read_each_others_data() {
        // During a step, processes with the keys of the previous step still run.
        let steps = [
            (key('a'), vec![]),
            (key('a'), vec![key('b')]),
            (key('b'), vec![key('a')]),
            (key('b'), vec![key('c'), key('a')]),
        ];
        let steps = steps.map(|(current, others)| KeyRing::new(current, others));
        check((texts(), texts()), |(text, context)| {
            for pair in steps.windows(2) {
                for (writer, reader) in [(&pair[0], &pair[1]), (&pair[1], &pair[0])] {
                    let opened = reader.open(&writer.seal(&text, &context), &context).expect("opens");
                    assert_eq!(opened.expose(), &text);
                }
            }
        });
    }

    #[test]
    fn the_sealing_key_is_identified() {
        let ring = KeyRing::new(key('b'), vec![key('c'), key('a')]);
        let under = |digit, context| ring.sealed_under(&key(digit).seal("whsec_1", "row"), context);
        assert!(matches!(under('b', "row"), SealedUnder::Current));
        for digit in ['a', 'c'] {
            assert!(matches!(under(digit, "row"), SealedUnder::Other(plain) if plain.expose() == "whsec_1"));
        }
        assert!(matches!(under('d', "row"), SealedUnder::None));
        for digit in ['a', 'b', 'c'] {
            assert!(matches!(under(digit, "another row"), SealedUnder::None), "the context is bound with each key");
        }
        assert!(matches!(ring.sealed_under(b"short", "row"), SealedUnder::None));
    }

    #[test]
    fn ciphertexts_are_compatible_with_the_previous_release() {
        let (previous, ring) = (key('a'), KeyRing::new(key('a'), vec![key('b')]));
        assert!(ring.open(&previous.seal("whsec_1", "row"), "row").is_some());
        assert!(previous.open(&ring.seal("whsec_1", "row"), "row").is_some());
    }

    #[test]
    fn a_hash_matches_only_with_its_pepper() {
        let peppers = Peppers::new(pepper('b'), vec![pepper('a')]);
        for (digit, expected) in [('a', true), ('b', true), ('c', false)] {
            let hash = pepper(digit).hash("svc_sk_test_1");
            assert_eq!(peppers.match_any("svc_sk_test_1", &hash), expected, "{digit}");
            assert!(!peppers.match_any("svc_sk_test_2", &hash));
        }
        assert!(peppers.is_rotating() && !Peppers::new(pepper('b'), vec![]).is_rotating());
    }

    #[test]
    fn key_ids_do_not_reveal_keys() {
        assert_ne!(pepper('a').id(), pepper('b').id());
        assert_eq!(pepper('a').id(), pepper('a').id());
        assert_ne!(key('a').id(), [0xaa; 4]);
        assert_ne!(pepper('a').id(), key('a').id(), "using one secret for both does not show in the ids");
    }
}
