//! The gateway over HTTP: the real process, a real Postgres, and a merchant.

mod account;
mod attempts;
mod audit;
mod browsers;
mod changes;
mod codes;
mod contract;
mod fee;
mod key_check;
mod keys;
mod limits;
mod races;
mod receipts;
mod recovery;
mod references;
mod report;
mod rotation;
mod secrets;
mod support;
mod threeds;
mod vault;
mod wallet;
