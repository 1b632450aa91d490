//! The keys of the environment beside what is stored: the check at start, and re-encryption under a new key.

pub mod key_check;
pub mod reencrypt;
