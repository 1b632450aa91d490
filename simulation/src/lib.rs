//! Deterministic simulation: the production code in virtual time on a virtual network.

pub mod auditor;
pub mod card_field;
pub mod check;
pub mod client;
pub mod clock;
pub mod generator;
pub mod history;
pub mod host;
pub mod issuers;
pub mod lane;
pub mod lanes;
pub mod operators;
pub mod receiver;
pub mod run;
pub mod servers;
pub mod shop;
pub mod shrink;
pub mod stripe;
pub mod system;
pub mod trace;
pub mod wire;
pub mod world;

pub use testkit::random;
