//! Key rotation: the current key is used for new data, and all keys for existing data (docs/rotation.md).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{EncryptionKey, Pepper, Place, Secret};

/// Keys of one purpose: the current one, and others that are being introduced or retired.
#[derive(Clone)]
pub struct Ring<K> {
    current: K,
    others: Vec<K>,
}

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

/// The keys that encrypt secrets at rest: the current one seals, all open. Copies share whether they bind.
#[derive(Clone)]
pub struct KeyRing {
    keys: Ring<EncryptionKey>,
    binds: Arc<AtomicBool>,
}

/// How a ciphertext was sealed.
#[derive(Debug)]
pub enum SealedUnder {
    /// With the current key, for its place.
    Current,
    /// With the current key, for its row only, as former versions did; with the plaintext.
    CurrentUnbound(Secret<String>),
    /// With another key of the ring, with the plaintext.
    Other(Secret<String>),
    /// With no key of the ring.
    None,
}

impl KeyRing {
    pub fn new(current: EncryptionKey, others: Vec<EncryptionKey>) -> Self {
        Self { keys: Ring::new(current, others), binds: Arc::default() }
    }

    /// The key for new data.
    pub const fn current(&self) -> &EncryptionKey {
        self.keys.current()
    }

    /// Whether there are other keys, because a rotation is under way.
    pub const fn is_rotating(&self) -> bool {
        self.keys.is_rotating()
    }

    /// From now on secrets are sealed for their place. The former version opens only those sealed for their row.
    pub fn bind(&self) {
        self.binds.store(true, Ordering::Relaxed);
    }

    /// Whether secrets are sealed for their place.
    pub fn binds(&self) -> bool {
        self.binds.load(Ordering::Relaxed)
    }

    /// Encrypts with the current key. The ciphertext has no key id, because the previous release must be able to read
    /// it.
    pub fn seal(&self, plain: &str, place: &Place) -> Vec<u8> {
        self.current().seal(plain, if self.binds() { &place.bound } else { &place.row })
    }

    /// Decrypts by trying each key and form; authenticated encryption rejects the wrong ones.
    pub fn open(&self, sealed: &[u8], place: &Place) -> Option<Secret<String>> {
        self.keys.keys().find_map(|key| key.open(sealed, &place.bound).or_else(|| key.open(sealed, &place.row)))
    }

    /// How the ciphertext was sealed.
    pub fn sealed_under(&self, sealed: &[u8], place: &Place) -> SealedUnder {
        if self.current().open(sealed, &place.bound).is_some() {
            return SealedUnder::Current;
        }
        let unbound = self.current().open(sealed, &place.row).map(SealedUnder::CurrentUnbound);
        let other = || self.open(sealed, place).map_or(SealedUnder::None, SealedUnder::Other);
        unbound.unwrap_or_else(other)
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
    use crate::id::AccountId;
    use testkit::fuzz::{check, texts};

    fn key(digit: char) -> EncryptionKey {
        EncryptionKey::from_hex(&digit.to_string().repeat(64)).expect("a key")
    }

    fn pepper(digit: char) -> Pepper {
        Pepper::from_hex(&digit.to_string().repeat(64)).expect("a pepper")
    }

    fn place(row: &str) -> Place {
        Place::new("api_keys.signing_secret", AccountId::from_uuid(uuid::Uuid::nil()), row)
    }

    /// Rings with the keys of `steps`, unbound and bound.
    fn rings(current: char, others: &[char]) -> [KeyRing; 2] {
        [false, true].map(|binds| {
            let ring = KeyRing::new(key(current), others.iter().map(|digit| key(*digit)).collect());
            if binds {
                ring.bind();
            }
            ring
        })
    }

    #[test]
    fn processes_of_adjacent_rotation_steps_read_each_others_data() {
        // During a step, processes with the keys of the previous step still run, and those that do not bind yet.
        let steps = [rings('a', &[]), rings('a', &['b']), rings('b', &['a']), rings('b', &['c', 'a'])];
        check((texts(), texts()), |(text, row)| {
            let place = place(&row);
            for pair in steps.windows(2) {
                for (writer, reader) in pair[0].iter().flat_map(|one| pair[1].iter().map(move |two| (one, two))) {
                    assert_eq!(reader.open(&writer.seal(&text, &place), &place).expect("opens").expose(), &text);
                    assert_eq!(writer.open(&reader.seal(&text, &place), &place).expect("opens").expose(), &text);
                }
            }
        });
    }

    #[test]
    fn the_sealing_key_is_identified() {
        let ring = KeyRing::new(key('b'), vec![key('c'), key('a')]);
        let [row, another] = [place("row"), place("another row")];
        let under = |digit, sealed_for: &Place, stored_at| {
            ring.sealed_under(&key(digit).seal("whsec_1", &sealed_for.bound), stored_at)
        };
        assert!(matches!(under('b', &row, &row), SealedUnder::Current));
        for digit in ['a', 'c'] {
            assert!(matches!(under(digit, &row, &row), SealedUnder::Other(plain) if plain.expose() == "whsec_1"));
        }
        assert!(matches!(under('d', &row, &row), SealedUnder::None));
        for digit in ['a', 'b', 'c'] {
            assert!(matches!(under(digit, &row, &another), SealedUnder::None), "the place is bound with each key");
        }
        let unbound = ring.sealed_under(&key('b').seal("whsec_1", "row"), &row);
        assert!(matches!(unbound, SealedUnder::CurrentUnbound(plain) if plain.expose() == "whsec_1"));
        assert!(matches!(ring.sealed_under(b"short", &row), SealedUnder::None));
    }

    #[test]
    fn bound_ciphertexts_open_in_their_column_account_and_row_only() {
        let [_, ring] = rings('a', &[]);
        let id = |digit: u128| AccountId::from_uuid(uuid::Uuid::from_u128(digit));
        let sealed = ring.seal("whsec_1", &Place::new("webhook_endpoints.secret", id(1), "we_1"));
        assert!(ring.open(&sealed, &Place::new("webhook_endpoints.secret", id(1), "we_1")).is_some());
        for (column, account, row) in [
            ("webhook_endpoints.previous_secret", 1, "we_1"),
            ("webhook_endpoints.secret", 2, "we_1"),
            ("webhook_endpoints.secret", 1, "we_2"),
        ] {
            assert!(ring.open(&sealed, &Place::new(column, id(account), row)).is_none(), "{column} {account} {row}");
        }
    }

    #[test]
    fn ciphertexts_are_compatible_with_the_previous_release() {
        let (previous, ring) = (key('a'), KeyRing::new(key('a'), vec![key('b')]));
        assert!(ring.open(&previous.seal("whsec_1", "row"), &place("row")).is_some());
        assert!(previous.open(&ring.seal("whsec_1", &place("row")), "row").is_some());
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
