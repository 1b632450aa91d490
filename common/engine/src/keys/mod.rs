//! The configured keys and the stored data: the check at start, and re-encryption under a new key.

pub mod key_check;
pub mod reencrypt;
