//! The card gateway: a product of its own beside the payments API, and the only program that sees card numbers. It is reached
//! over HTTP alone, keeps its rows in a schema of its own, and shares no more with the rest than the foundations of `common`.
//! docs/gateway.md says what it promises.

pub mod accounts;
pub mod acquirer;
pub mod amount;
pub mod ani;
pub mod app;
pub mod audit;
pub mod cards;
pub mod commands;
pub mod config;
pub mod failure;
pub mod http;
pub mod id;
pub mod inspect;
pub mod key_check;
pub mod limits;
pub mod mail;
pub mod migrations;
pub mod proxy;
pub mod receipts;
pub mod rekey;
pub mod report;
pub mod scripts;
pub mod sweep;
pub mod threeds;
pub mod tokens;
pub mod transactions;
pub mod wallet;
