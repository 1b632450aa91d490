//! What every other crate builds on, independent of payments: ids, money, time, calendar, configuration,
//! cryptography, the database, the server, and telemetry.

pub mod actor;
pub mod body;
pub mod calendar;
pub mod card_number;
pub mod clock;
pub mod color;
pub mod concurrency;
pub mod config;
pub mod console;
pub mod country;
pub mod crypto;
pub mod db;
pub mod email;
pub mod error;
pub mod faults;
pub mod filter;
pub mod form;
pub mod header;
pub mod id;
pub mod merchant_data;
pub mod money;
pub mod network;
pub mod page;
pub mod public_url;
pub mod queues;
pub mod rate_limits;
pub mod schema;
pub mod server;
pub mod telemetry;
mod text_column;
pub mod time;
pub mod web_url;
