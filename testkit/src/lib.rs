//! Private servers and whole clusters: a Postgres, a Redis and the real binaries, started as processes for tests, for
//! faults and for the one-command start.
//!
//! It owns how those processes are found, started, watched and ended. It knows nothing of the domain: a cluster is
//! spoken to as a merchant or an operator would, over HTTP and through `ctl`.

mod account;
mod child;
mod client;
mod cluster;
mod database;
mod files;
mod gateway_account;
mod owner;
mod ports;
mod process;
mod roles;
mod test_logs;
mod watchdog;

pub mod bench;
pub mod browser;
pub mod chaos;
pub mod examples;
pub mod fuzz;
pub mod postgres;
pub mod prometheus;
pub mod redis;
pub mod sandbox;
pub mod tls;
pub mod tools;

pub use account::{Account, Ended};
pub use client::{Answer, Client, form};
pub use cluster::{Builder, Cluster};
pub use database::{Database, Shared, shared};
pub use files::TempDir;
pub use gateway_account::GatewayAccount;
pub use postgres::Postgres;
pub use process::{Kind, Process};
pub use prometheus::Prometheus;
pub use redis::Redis;
pub use roles::Roles;
