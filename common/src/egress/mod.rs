//! HTTP requests to addresses that merchants choose, sent from inside our network.
//!
//! Whoever names the address must gain nothing by it: reach nothing that the internet does not reach (`addresses`,
//! `resolver`), hold us no longer than the time-out, and cost little memory whatever the answer (`client`, `answer`). One
//! post is at most one request on the wire: a second try is the caller's decision.
//! Hosts that the operator names are reached the same way, without that judgement (`trusted`).
//! See docs/architecture.md, "Requests to strangers".

mod addresses;
mod answer;
mod client;
mod connector;
mod failure;
mod resolver;
mod stream;
mod target;
#[cfg(test)]
mod tests;
mod trusted;

pub use addresses::is_public;
pub use answer::Received;
pub use client::Egress;
pub use failure::{Failure, FailureKind};
pub use hyper::HeaderMap;
pub use hyper::body::Bytes;
pub use resolver::{Resolver, SystemResolver};
pub use target::{MAX_LENGTH, Target, Unfit};
pub use tokio_rustls::rustls::pki_types::CertificateDer;
pub use trusted::{Said, Trusted, Unanswered};

/// What is allowed beyond https to the public internet, by whom the address belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// http too, where nothing but test data is sent.
    pub allow_http: bool,
    /// 127.0.0.0/8 and ::1 too, where the operator says that they lead to nothing of value. It opens no other address.
    pub allow_loopback: bool,
}
