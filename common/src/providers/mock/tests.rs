//! The contract that every adapter keeps.
