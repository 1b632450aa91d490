//! Tests of the browser harness itself: its actions, its record of requests, and its shutdown.

mod actions;
mod record;
mod shutdown;
