//! Tests of the gateway over HTTP, with real processes and a real Postgres.

mod account;
mod attempts;
mod audit;
mod browsers;
mod changes;
mod codes;
mod contract;
mod encoding;
mod fee;
mod hold;
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
