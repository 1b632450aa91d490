//! Card numbers that callers have encrypted: AES-128 in ECB with PKCS#7, in base64, under the account's 16 characters. The
//! mode is the contract's: each block of the same text looks the same, so this protects a number on its way and no more.

use aes::Aes128;
use aes::cipher::{Block, BlockCipherDecrypt, KeyInit};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use common::crypto::Secret;

/// Longer than any card number's ciphertext.
const MAX_BYTES: usize = 64;
const BLOCK: usize = 16;

/// The text that was encrypted under this key; none if it was not.
pub fn decrypt(key: &Secret<String>, text: &str) -> Option<Secret<String>> {
    let mut bytes = BASE64_STANDARD.decode(text).ok()?;
    if bytes.is_empty() || bytes.len() > MAX_BYTES || !bytes.len().is_multiple_of(BLOCK) {
        return None;
    }
    let cipher = Aes128::new_from_slice(key.expose().as_bytes()).ok()?;
    for block in bytes.chunks_exact_mut(BLOCK) {
        cipher.decrypt_block(<&mut Block<Aes128>>::try_from(block).ok()?);
    }
    let padding = usize::from(*bytes.last()?);
    let text = bytes.len().checked_sub(padding).filter(|_| (1..=BLOCK).contains(&padding))?;
    let (text, padded) = bytes.split_at(text);
    if padded.iter().any(|byte| usize::from(*byte) != padding) {
        return None;
    }
    String::from_utf8(text.to_vec()).ok().map(Secret::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    // printf %s 4111111111111111 | openssl enc -aes-128-ecb -K "$(printf %s 0123456789abcdef | od -An -tx1 | tr -d ' \n')" -base64
    const KEY: &str = "0123456789abcdef";
    const SEALED: &str = "6h6Wrjjf6OZeo0CyVC0MCTdyIuBhqSTFkc2cJ+oWPtQ=";

    #[test]
    fn what_openssl_encrypts_is_read() {
        let key = Secret::new(KEY.to_owned());
        assert_eq!(decrypt(&key, SEALED).expect("a number").expose(), "4111111111111111");
        let other = Secret::new("fedcba9876543210".to_owned());
        assert!(decrypt(&other, SEALED).is_none_or(|text| text.expose() != "4111111111111111"));
        for bad in ["", "4111111111111111", "AAAA", "!!!!", &SEALED[..24], &format!("{SEALED}{SEALED}{SEALED}")] {
            assert!(decrypt(&key, bad).is_none(), "{bad}");
        }
    }
}
