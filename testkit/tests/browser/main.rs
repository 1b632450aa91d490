//! What cardholders and merchants' sites live through in a real browser, against real processes.
//!
//! Each test has a browser of its own, which [`testkit::browser::browse`] judges at the end: a card number or security code
//! that was sent where it does not belong fails the test, and so does whatever the console complains of. Pictures of the
//! pages lie in `target/browser`.

mod access;
mod elements;
mod harness;
mod pages;
mod support;
