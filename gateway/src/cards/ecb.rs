//! Card numbers encrypted by callers: AES-128 in ECB mode with PKCS#7 padding, in base64, under the account's
//! 16-character secret key. The contract prescribes ECB; equal blocks encrypt equally, so it protects a number in
//! transit only.

use aes::Aes128;
use aes::cipher::{Block, BlockCipherDecrypt, KeyInit};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use foundation::crypto::Secret;

/// Longer than any card number's ciphertext.
const MAX_BYTES: usize = 64;
const BLOCK: usize = 16;

/// The plaintext, or `None` if it was not encrypted under this key.
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
    use aes::cipher::BlockCipherEncrypt;
    use proptest::prelude::*;
    use testkit::fuzz::{check, mutated, noise, texts};

    // printf %s 4111111111111111 | openssl enc -aes-128-ecb -base64 \
    //   -K "$(printf %s 0123456789abcdef | od -An -tx1 | tr -d ' \n')"
    const KEY: &str = "0123456789abcdef";
    const SEALED: &str = "6h6Wrjjf6OZeo0CyVC0MCTdyIuBhqSTFkc2cJ+oWPtQ=";

    #[test]
    fn ciphertexts_of_openssl_are_decrypted() {
        let key = Secret::new(KEY.to_owned());
        assert_eq!(decrypt(&key, SEALED).expect("a number").expose(), "4111111111111111");
        let other = Secret::new("fedcba9876543210".to_owned());
        assert!(decrypt(&other, SEALED).is_none_or(|text| text.expose() != "4111111111111111"));
        for bad in ["", "4111111111111111", "AAAA", "!!!!", &SEALED[..24], &format!("{SEALED}{SEALED}{SEALED}")] {
            assert!(decrypt(&key, bad).is_none(), "{bad}");
        }
    }

    /// An encryption that shares no code with `decrypt`.
    fn encrypt(key: &str, text: &str) -> String {
        let cipher = Aes128::new_from_slice(key.as_bytes()).expect("16 bytes");
        let padding = BLOCK - text.len() % BLOCK;
        let mut bytes = text.as_bytes().to_vec();
        bytes.extend(std::iter::repeat_n(u8::try_from(padding).expect("a block"), padding));
        for block in bytes.chunks_exact_mut(BLOCK) {
            cipher.encrypt_block(<&mut Block<Aes128>>::try_from(block).expect("a block"));
        }
        BASE64_STANDARD.encode(bytes)
    }

    #[test]
    fn any_short_text_is_decrypted_unchanged() {
        check(("[ -~]{16}", "[0-9]{0,48}"), |(key, text)| {
            let secret = Secret::new(key.clone());
            let read = decrypt(&secret, &encrypt(&key, &text));
            assert_eq!(read.is_some(), text.len() < MAX_BYTES);
            assert!(read.is_none_or(|read| *read.expose() == text));
        });
    }

    #[test]
    fn other_input_yields_nothing_or_a_short_text_and_is_never_printed() {
        let garbage = noise().prop_map(|bytes| BASE64_STANDARD.encode(&bytes.0));
        check((prop_oneof![mutated(SEALED), garbage, texts()], "[ -~]{16}"), |(text, key)| {
            for key in [KEY, &key] {
                let read = decrypt(&Secret::new(key.to_owned()), &text);
                assert!(read.as_ref().is_none_or(|read| read.expose().len() < MAX_BYTES));
                assert!(["None", "Some([secret])"].contains(&format!("{read:?}").as_str()));
            }
        });
    }
}
