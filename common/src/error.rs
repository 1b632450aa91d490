//! What can go wrong, as a closed set without HTTP in it. `api` maps it to answers in one file.

use std::borrow::Cow;

/// The outcome of a command.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a command did nothing.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The input is wrong; `param` names the field, as a path such as `customFields[0]`.
    #[error("{message}")]
    Invalid {
        /// The field at fault; empty where no field is (a malformed body).
        param: Cow<'static, str>,
        /// What is wrong with it, in prose.
        message: Cow<'static, str>,
    },
    /// No such object on this account, another account's included.
    #[error("no such {0}")]
    NotFound(&'static str),
    /// The object is in a state that refuses this.
    #[error("{0}")]
    Conflict(Cow<'static, str>),
    /// The key lacks the entitlement, or the account does not allow it.
    #[error("{0} is not enabled for this key")]
    NotEntitled(&'static str),
    /// The account is not connected to the provider that would have to do it.
    #[error("{0} is not available: the account is not connected to its provider yet, which an operator does")]
    NotConnected(&'static str),
    /// The provider cannot do it, now or ever.
    #[error("{0} is not supported by the provider")]
    NotSupported(&'static str),
    /// Postgres failed, or said something that cannot be.
    #[error("database: {0}")]
    Database(#[from] sqlx::Error),
    /// Something that our own code or data should have made impossible.
    #[error("internal: {0}")]
    Internal(Cow<'static, str>),
}

impl Error {
    /// A field that is wrong.
    pub fn invalid(param: impl Into<Cow<'static, str>>, message: impl Into<Cow<'static, str>>) -> Self {
        Self::Invalid { param: param.into(), message: message.into() }
    }

    /// A state that refuses.
    pub fn conflict(message: impl Into<Cow<'static, str>>) -> Self {
        Self::Conflict(message.into())
    }

    /// What cannot be, and is.
    pub fn internal(message: impl Into<Cow<'static, str>>) -> Self {
        Self::Internal(message.into())
    }
}
