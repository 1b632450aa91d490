//! The keys that encrypt card numbers and accounts' secrets at rest. One seals, and it and former ones open. A ciphertext begins
//! with the id of its key.

use common::crypto::{EncryptionKey, Secret};

/// What every ciphertext with a key's id begins with.
const MARK: u8 = 1;
/// The mark and the id.
const PREFIX_BYTES: usize = 5;

/// A key that seals, and others that only open.
#[derive(Clone)]
pub struct KeyRing {
    current: EncryptionKey,
    others: Vec<EncryptionKey>,
}

impl KeyRing {
    /// Of the current key and others.
    pub const fn new(current: EncryptionKey, others: Vec<EncryptionKey>) -> Self {
        Self { current, others }
    }

    /// Encrypts under the current key, bound to a context.
    pub fn seal(&self, plain: &str, context: &str) -> Vec<u8> {
        [self.prefix().as_slice(), &self.current.seal(plain, context)].concat()
    }

    /// Decrypts what any of the keys has sealed in this context; none if none has. What has no key's id may be from before there
    /// were any, and is tried with each.
    pub fn open(&self, sealed: &[u8], context: &str) -> Option<Secret<String>> {
        let marked = sealed.split_first_chunk::<PREFIX_BYTES>();
        let named = marked.and_then(|(id, rest)| Some((self.keys().find(|key| prefix(key) == *id)?, rest)));
        let opened = named.and_then(|(key, rest)| key.open(rest, context));
        opened.or_else(|| self.keys().find_map(|key| key.open(sealed, context)))
    }

    /// What a ciphertext under the current key begins with.
    pub fn prefix(&self) -> [u8; PREFIX_BYTES] {
        prefix(&self.current)
    }

    fn keys(&self) -> impl Iterator<Item = &EncryptionKey> {
        std::iter::once(&self.current).chain(&self.others)
    }
}

fn prefix(key: &EncryptionKey) -> [u8; PREFIX_BYTES] {
    let [a, b, c, d] = key.id();
    [MARK, a, b, c, d]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(digit: char) -> EncryptionKey {
        EncryptionKey::from_hex(&digit.to_string().repeat(64)).expect("a key")
    }

    fn opens(ring: &KeyRing, sealed: &[u8]) -> bool {
        ring.open(sealed, "row").is_some_and(|plain| plain.expose() == "4242")
    }

    #[test]
    fn a_ciphertext_tells_its_key_and_is_opened_by_it() {
        let (before, after) = (KeyRing::new(key('a'), vec![]), KeyRing::new(key('b'), vec![key('a')]));
        let (old, new) = (before.seal("4242", "row"), after.seal("4242", "row"));
        assert!(old.starts_with(&before.prefix()) && new.starts_with(&after.prefix()));
        assert_ne!(before.prefix(), after.prefix());
        assert!(opens(&before, &old) && opens(&after, &old) && opens(&after, &new));
        assert!(!opens(&before, &new) && !opens(&KeyRing::new(key('b'), vec![]), &old));
        assert!(after.open(&new, "another row").is_none());
        for length in 0..new.len() {
            assert!(after.open(&new[..length], "row").is_none(), "{length}");
        }
    }

    #[test]
    fn what_was_sealed_before_there_were_ids_is_opened() {
        let ring = KeyRing::new(key('b'), vec![key('a')]);
        for key in [key('a'), key('b')] {
            assert!(opens(&ring, &key.seal("4242", "row")));
        }
        // Should its random beginning look like an id, too.
        let unlucky = std::iter::repeat_with(|| key('a').seal("4242", "row")).find(|sealed| sealed[0] == MARK);
        let unlucky = unlucky.expect("one of some hundred");
        assert!(opens(&ring, &unlucky));
    }
}
