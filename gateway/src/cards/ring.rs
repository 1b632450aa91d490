//! The keys that encrypt card numbers and accounts' secret keys at rest. The current key encrypts; it and former keys
//! decrypt. A ciphertext begins with the id of its key.

use foundation::crypto::{EncryptionKey, Secret};

/// First byte of every ciphertext with a key id.
const MARKER: u8 = 1;
/// The marker and the key id.
const PREFIX_BYTES: usize = 5;

/// The current key, and former keys that only decrypt.
#[derive(Clone)]
pub struct KeyRing {
    current: EncryptionKey,
    former: Vec<EncryptionKey>,
}

impl KeyRing {
    pub const fn new(current: EncryptionKey, former: Vec<EncryptionKey>) -> Self {
        Self { current, former }
    }

    /// Encrypts under the current key, bound to a context.
    pub fn seal(&self, plain: &str, context: &str) -> Vec<u8> {
        [self.prefix().as_slice(), &self.current.seal(plain, context)].concat()
    }

    /// Decrypts with the key that the ciphertext names. Ciphertexts from before key ids were introduced have none, so
    /// every key is tried.
    pub fn open(&self, sealed: &[u8], context: &str) -> Option<Secret<String>> {
        let marked = sealed.split_first_chunk::<PREFIX_BYTES>();
        let named = marked.and_then(|(id, rest)| Some((self.keys().find(|key| prefix(key) == *id)?, rest)));
        let opened = named.and_then(|(key, rest)| key.open(rest, context));
        opened.or_else(|| self.keys().find_map(|key| key.open(sealed, context)))
    }

    /// The prefix of ciphertexts under the current key.
    pub fn prefix(&self) -> [u8; PREFIX_BYTES] {
        prefix(&self.current)
    }

    fn keys(&self) -> impl Iterator<Item = &EncryptionKey> {
        std::iter::once(&self.current).chain(&self.former)
    }
}

fn prefix(key: &EncryptionKey) -> [u8; PREFIX_BYTES] {
    let [a, b, c, d] = key.id();
    [MARKER, a, b, c, d]
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
    fn a_ciphertext_names_its_key_and_is_decrypted_with_it() {
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
    fn ciphertexts_without_a_key_id_are_decrypted() {
        let ring = KeyRing::new(key('b'), vec![key('a')]);
        for key in [key('a'), key('b')] {
            assert!(opens(&ring, &key.seal("4242", "row")));
        }
        // Also if its random first bytes look like a key id.
        let collision = std::iter::repeat_with(|| key('a').seal("4242", "row")).find(|sealed| sealed[0] == MARKER);
        let collision = collision.expect("one of some hundred");
        assert!(opens(&ring, &collision));
    }
}
