//! Secrets that cannot be printed, random values, keyed hashes, and encryption at rest.

mod place;
mod ring;

use std::fmt;

pub use place::Place;
pub use ring::{KeyRing, Peppers, Ring, SealedUnder};

use aes_gcm::aead::{Aead, KeyInit, Payload};
use aes_gcm::{Aes256Gcm, Nonce};
use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// A value that is never printed: its `Debug` output is constant.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret<T>(T);

impl<T> Secret<T> {
    pub const fn new(value: T) -> Self {
        Self(value)
    }

    /// The value, for the code that needs it.
    pub const fn expose(&self) -> &T {
        &self.0
    }
}

impl<T> fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

/// Random bytes from the operating system in lower-case hexadecimal: `bytes` × 8 bits of entropy.
pub fn random_hex(bytes: usize) -> String {
    let mut buffer = vec![0u8; bytes];
    getrandom::fill(&mut buffer).expect("the operating system provides random bytes");
    hex(&buffer)
}

/// Whether a text is this many bytes in lower-case hexadecimal, as [`hex`] writes them.
pub fn is_hex(text: &str, bytes: usize) -> bool {
    text.len() == bytes * 2 && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

/// Lower-case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    use fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        write!(text, "{byte:02x}").expect("writing to a String never fails");
        text
    })
}

/// The reverse of [`hex`], in either case; `None` for any other text.
pub fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    // Checked because from_str_radix accepts a sign.
    if !digits.len().is_multiple_of(2) || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    digits
        .chunks_exact(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
        .collect::<Option<Vec<u8>>>()
}

/// A random number from the operating system.
pub fn random_u32() -> u32 {
    getrandom::u32().expect("the operating system provides random bytes")
}

/// HMAC-SHA256 of a message under a key.
pub fn hmac_sha256(key: &[u8], message: &[u8]) -> [u8; 32] {
    let mut mac = <Hmac<Sha256> as hmac::KeyInit>::new_from_slice(key).expect("HMAC accepts keys of any length");
    mac.update(message);
    mac.finalize().into_bytes().into()
}

/// SHA-256, which suffices for random values such as tokens, and for comparing bodies.
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// Parses a key of 32 bytes in hexadecimal.
fn key_bytes(text: &str) -> Option<[u8; 32]> {
    unhex(text)?.try_into().ok()
}

/// The secret key of API key hashes. Without it neither a dump of the table nor guessed keys are of use.
#[derive(Clone)]
pub struct Pepper(Secret<[u8; 32]>);

impl Pepper {
    /// Parses 64 hexadecimal digits.
    pub fn from_hex(text: &str) -> Option<Self> {
        key_bytes(text).map(|bytes| Self(Secret::new(bytes)))
    }

    /// A prefix of a hash, which identifies the pepper without revealing it.
    pub fn id(&self) -> [u8; 4] {
        let [a, b, c, d, ..] = self.hash("id of this pepper");
        [a, b, c, d]
    }

    pub fn hash(&self, text: &str) -> [u8; 32] {
        hmac_sha256(self.0.expose(), text.as_bytes())
    }

    /// Compares the hash of the text in constant time.
    pub fn matches(&self, text: &str, hash: &[u8]) -> bool {
        self.hash(text).ct_eq(hash).into()
    }
}

/// Encrypts secrets at rest with AES-256-GCM. A random nonce precedes the ciphertext.
#[derive(Clone)]
pub struct EncryptionKey(Secret<[u8; 32]>);

const NONCE_BYTES: usize = 12;

impl EncryptionKey {
    /// Parses 64 hexadecimal digits.
    pub fn from_hex(text: &str) -> Option<Self> {
        key_bytes(text).map(|bytes| Self(Secret::new(bytes)))
    }

    /// A prefix of its hash, which identifies the key without revealing it.
    pub fn id(&self) -> [u8; 4] {
        let [a, b, c, d, ..] = sha256(self.0.expose());
        [a, b, c, d]
    }

    /// Encrypts with `context` as associated data. Decryption needs the same context, so a ciphertext cannot be moved
    /// to another place.
    pub fn seal(&self, plain: &str, context: &str) -> Vec<u8> {
        let mut nonce = [0u8; NONCE_BYTES];
        getrandom::fill(&mut nonce).expect("the operating system provides random bytes");
        let payload = Payload { msg: plain.as_bytes(), aad: context.as_bytes() };
        let sealed = self.cipher().encrypt(&Nonce::from(nonce), payload).expect("the text is short enough for AES-GCM");
        [nonce.as_slice(), &sealed].concat()
    }

    /// Decrypts; `None` if the text was sealed with another key or context.
    pub fn open(&self, sealed: &[u8], context: &str) -> Option<Secret<String>> {
        let (nonce, ciphertext) = sealed.split_first_chunk::<NONCE_BYTES>()?;
        let payload = Payload { msg: ciphertext, aad: context.as_bytes() };
        let plain = self.cipher().decrypt(&Nonce::from(*nonce), payload).ok()?;
        String::from_utf8(plain).ok().map(Secret::new)
    }

    fn cipher(&self) -> Aes256Gcm {
        Aes256Gcm::new_from_slice(self.0.expose()).expect("the key has 32 bytes")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use proptest::sample::Index;
    use testkit::fuzz::{check, mutated, texts};

    const KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

    #[test]
    fn a_secret_is_not_printed() {
        assert_eq!(format!("{:?}", Secret::new("hunter2")), "[secret]");
    }

    #[test]
    fn keys_are_64_hexadecimal_digits() {
        assert!(Pepper::from_hex(KEY).is_some());
        for bad in ["", "00", &KEY[1..], &format!("{KEY}00"), &KEY.replace('0', "g"), &KEY.replace("00", "+0")] {
            assert!(Pepper::from_hex(bad).is_none(), "{bad}");
            assert!(EncryptionKey::from_hex(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn a_hash_matches_only_its_text() {
        let pepper = Pepper::from_hex(KEY).expect("a key");
        let hash = pepper.hash("svc_sk_test_1");
        assert!(pepper.matches("svc_sk_test_1", &hash));
        assert!(!pepper.matches("svc_sk_test_2", &hash));
        assert!(!pepper.matches("svc_sk_test_1", &hash[..31]));
    }

    #[test]
    fn sealed_text_opens_only_in_its_context() {
        let key = EncryptionKey::from_hex(KEY).expect("a key");
        let sealed = key.seal("whsec_abc", "key_1");
        assert_eq!(key.open(&sealed, "key_1").expect("opens").expose(), "whsec_abc");
        assert!(key.open(&sealed, "key_2").is_none());
        for i in 0..sealed.len() {
            let mut tampered = sealed.clone();
            tampered[i] ^= 1;
            assert!(key.open(&tampered, "key_1").is_none(), "byte {i}");
        }
        assert_ne!(sealed, key.seal("whsec_abc", "key_1"), "each seal uses a new nonce");
    }

    #[test]
    fn only_64_hexadecimal_digits_are_parsed_as_a_key() {
        check(mutated(KEY), |text| {
            let digits = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
            assert_eq!(Pepper::from_hex(&text).is_some(), digits, "{text}");
            assert_eq!(EncryptionKey::from_hex(&text).is_some(), digits, "{text}");
        });
    }

    #[test]
    fn any_text_round_trips_and_any_bit_flip_is_detected() {
        let key = EncryptionKey::from_hex(KEY).expect("a key");
        check((texts(), texts(), any::<Index>(), 0..8u8), |(text, context, at, bit)| {
            let mut sealed = key.seal(&text, &context);
            assert_eq!(key.open(&sealed, &context).expect("opens").expose(), &text);
            assert!(key.open(&sealed, &format!("{context}x")).is_none());
            let at = at.index(sealed.len());
            sealed[at] ^= 1 << bit;
            assert!(key.open(&sealed, &context).is_none(), "byte {at}");
            assert!(key.open(&sealed[..at], &context).is_none(), "cut at {at}");
        });
    }
}
