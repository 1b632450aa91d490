//! Payment pages, the card field and merchants' sites in a real browser, against real processes.
//!
//! Each test has its own browser. At the end [`testkit::browser::browse`] fails the test if a card number or security
//! code was sent to an untrusted origin, or if the console has an unexpected error. Screenshots are in
//! `target/browser`.

mod access;
mod documents;
mod elements;
mod harness_tests;
mod pages;
mod portal;
mod stripe;
mod support;
