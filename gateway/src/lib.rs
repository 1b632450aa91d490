//! The card gateway: a separate product beside the payments API and the only program that handles card numbers. Clients
//! reach it over HTTP only, its tables live in their own schema, and it shares only the foundation modules of `common`.
//! docs/gateway.md is its contract.
//!
//! A module uses only lower layers: `commands` and `config` on top, then `http`, which reads forms and renders
//! responses, then the domain, which takes typed values. In the domain, `processing` is above what it composes
//! (`connections`, `limits`, `threeds`, `receipts`, `acquirer`, `proxy`), and `cards`, `accounts` and `transactions` are below all.

pub mod accounts;
pub mod acquirer;
pub mod amount;
pub mod audit;
pub mod card_input;
pub mod cards;
pub mod commands;
pub mod config;
pub mod connections;
pub mod deadline;
pub mod failure;
pub mod http;
pub mod id;
pub mod inspect;
pub mod key_check;
pub mod limits;
pub mod local_time;
pub mod migrations;
pub mod name_inquiry;
pub mod processing;
pub mod proxy;
pub mod receipts;
pub mod rekey;
pub mod report;
pub mod sweep;
pub mod threeds;
pub mod tokens;
pub mod transactions;
pub mod wallet;

use std::process::ExitCode;

/// The program; see `gateway --help`.
#[tokio::main]
pub async fn start() -> ExitCode {
    match commands::run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            foundation::console::print_error(format_args!("gateway: {error:#}"));
            ExitCode::FAILURE
        }
    }
}
