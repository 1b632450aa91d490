//! HTTP requests to URLs chosen by merchants, sent from inside our network.
//!
//! Prevents server-side request forgery: only public addresses are reachable (`addresses`, `resolver`), no request
//! takes longer than its timeout, and memory use is bounded for any response (`client`, `response`). One call sends at
//! most one request; retries are the caller's decision. Hosts configured by the operator are reached without the
//! address checks (`trusted_client`). See docs/architecture.md, Outbound requests.

mod addresses;
mod client;
mod connector;
mod failure;
mod resolver;
mod response;
mod stream;
mod target;
#[cfg(test)]
mod tests;
mod trusted_client;

pub use addresses::is_public;
pub use client::Egress;
pub use failure::{Failure, FailureKind};
pub use hyper::HeaderMap;
pub use hyper::body::Bytes;
pub use resolver::{Resolver, SystemResolver};
pub use response::TruncatedResponse;
pub use target::{InvalidUrl, Target};
pub use tokio_rustls::rustls::pki_types::CertificateDer;
pub use trusted_client::{HttpResponse, NoResponse, TrustedClient};

/// What an account may use besides https to the public internet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// http too, for test data.
    pub allow_http: bool,
    /// 127.0.0.0/8 and ::1 too, if the operator permits it. Allows no other address.
    pub allow_loopback: bool,
}
