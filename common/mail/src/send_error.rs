//! Why an e-mail was not sent.

/// An e-mail was not sent. The reason contains no address, so it may be logged.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
pub struct SendError {
    /// Whether retrying is useless.
    pub permanent: bool,
    /// Whether the server may have accepted the message: it was transmitted, and no reply followed.
    pub unconfirmed: bool,
    pub(super) reason: String,
}

impl SendError {
    pub(super) fn permanent(reason: &str) -> Self {
        Self { permanent: true, unconfirmed: false, reason: reason.to_owned() }
    }

    pub(super) fn transient(reason: &str) -> Self {
        Self { permanent: false, unconfirmed: false, reason: reason.to_owned() }
    }
}
