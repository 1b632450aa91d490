//! Keys that are being rotated: one is used for what is new, and it and others for what is there (docs/rotation.md).

use super::{EncryptionKey, Pepper, Secret};

/// Keys of one purpose: the current one, and others that are on their way in or out.
#[derive(Clone)]
pub struct Ring<K> {
    current: K,
    others: Vec<K>,
}

/// The keys that encrypt secrets at rest. One seals, each opens.
pub type KeyRing = Ring<EncryptionKey>;

/// The peppers under which API keys are hashed. One hashes what is new, each is tried.
pub type Peppers = Ring<Pepper>;

impl<K> Ring<K> {
    /// Of the current key and others.
    pub const fn new(current: K, others: Vec<K>) -> Self {
        Self { current, others }
    }

    /// The one that is used for what is new.
    pub const fn current(&self) -> &K {
        &self.current
    }

    /// Whether others are given too: a rotation is under way.
    pub const fn is_rotating(&self) -> bool {
        !self.others.is_empty()
    }

    fn keys(&self) -> impl Iterator<Item = &K> {
        std::iter::once(&self.current).chain(&self.others)
    }
}

/// Under what something is sealed.
#[derive(Debug)]
pub enum SealedUnder {
    /// The current key.
    Current,
    /// Another one of the ring; this is what it opens to.
    Other(Secret<String>),
    /// None of the ring.
    None,
}

impl KeyRing {
    /// Encrypts under the current key, as [`EncryptionKey::seal`] does. A ciphertext does not say which key made it: the release
    /// before this one must be able to read it.
    pub fn seal(&self, plain: &str, context: &str) -> Vec<u8> {
        self.current.seal(plain, context)
    }

    /// Decrypts what any of the keys has sealed in this context; none if none has. They are tried in turn, for a wrong one is
    /// refused.
    pub fn open(&self, sealed: &[u8], context: &str) -> Option<Secret<String>> {
        self.keys().find_map(|key| key.open(sealed, context))
    }

    /// Under which of the keys this is sealed.
    pub fn sealed_under(&self, sealed: &[u8], context: &str) -> SealedUnder {
        if self.current.open(sealed, context).is_some() {
            return SealedUnder::Current;
        }
        self.open(sealed, context).map_or(SealedUnder::None, SealedUnder::Other)
    }
}

impl Peppers {
    /// Whether the text has this hash under any of the peppers; the current one is tried first.
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
    fn at_each_step_of_a_rotation_all_read_what_any_writes() {
        // The processes of a step and of the one before run side by side.
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
    fn it_is_known_under_what_something_is_sealed() {
        let ring = KeyRing::new(key('b'), vec![key('c'), key('a')]);
        let under = |digit, context| ring.sealed_under(&key(digit).seal("whsec_1", "row"), context);
        assert!(matches!(under('b', "row"), SealedUnder::Current));
        for digit in ['a', 'c'] {
            assert!(matches!(under(digit, "row"), SealedUnder::Other(plain) if plain.expose() == "whsec_1"));
        }
        assert!(matches!(under('d', "row"), SealedUnder::None));
        for digit in ['a', 'b', 'c'] {
            assert!(matches!(under(digit, "another row"), SealedUnder::None), "the context binds under each key");
        }
        assert!(matches!(ring.sealed_under(b"short", "row"), SealedUnder::None));
    }

    #[test]
    fn what_the_release_before_has_sealed_is_opened_and_it_opens_ours() {
        let (former, ring) = (key('a'), KeyRing::new(key('a'), vec![key('b')]));
        assert!(ring.open(&former.seal("whsec_1", "row"), "row").is_some());
        assert!(former.open(&ring.seal("whsec_1", "row"), "row").is_some());
    }

    #[test]
    fn a_hash_matches_under_the_peppers_that_are_given_alone() {
        let peppers = Peppers::new(pepper('b'), vec![pepper('a')]);
        for (digit, expected) in [('a', true), ('b', true), ('c', false)] {
            let hash = pepper(digit).hash("svc_sk_test_1");
            assert_eq!(peppers.match_any("svc_sk_test_1", &hash), expected, "{digit}");
            assert!(!peppers.match_any("svc_sk_test_2", &hash));
        }
        assert!(peppers.is_rotating() && !Peppers::new(pepper('b'), vec![]).is_rotating());
    }

    #[test]
    fn keys_have_names_that_are_not_the_keys() {
        assert_ne!(pepper('a').id(), pepper('b').id());
        assert_eq!(pepper('a').id(), pepper('a').id());
        assert_ne!(key('a').id(), [0xaa; 4]);
        assert_ne!(pepper('a').id(), key('a').id(), "whoever has used one secret for both does not learn it here");
    }
}
