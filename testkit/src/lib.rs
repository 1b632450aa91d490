//! Private servers and whole clusters: a Postgres, a Redis and the real binaries, started as processes for tests, fault
//! injection and the sandbox.
//!
//! This crate finds, starts, watches and ends those processes. It knows nothing of the domain: tests talk to a cluster
//! as merchants and operators do, over HTTP and through `ctl`.

mod account;
mod child;
mod client;
mod cluster;
mod database;
pub mod files;
mod gateway_account;
mod owner;
mod polling;
mod ports;
mod process;
mod roles;
mod template;
mod test_logs;
mod watchdog;

pub mod bench;
pub mod browser;
pub mod chaos;
pub mod docker;
pub mod fuzz;
pub mod integration_examples;
pub mod limits;
pub mod mail_server;
pub mod pdf;
pub mod postgres;
pub mod prometheus;
pub mod proxy;
pub mod random;
pub mod receiver;
pub mod redis;
pub mod sandbox;
pub mod stripe;
pub mod test_run;
pub mod tls;
pub mod tools;

pub use account::{Account, CommandOutput, PortalUser};
pub use client::{Client, Response, form};
pub use cluster::{Builder, Cluster};
pub use database::{Database, Shared, shared};
pub use files::TempDir;
pub use gateway_account::GatewayAccount;
pub use polling::eventually;
pub use postgres::Postgres;
pub use process::{Process, ProcessKind};
pub use prometheus::Prometheus;
pub use redis::Redis;
pub use roles::Roles;
