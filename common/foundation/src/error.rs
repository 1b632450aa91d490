//! Errors, independent of HTTP. `api` maps them to responses in one file.

use std::borrow::Cow;
use std::fmt;

use crate::card_number::excerpt;

/// The result of a command.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a command had no effect.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The input is invalid; `param` names the field, as a path such as `customFields[0]`.
    #[error("{message}")]
    Invalid {
        /// The invalid field; empty if it is none in particular (a malformed body).
        param: Cow<'static, str>,
        /// A readable description.
        message: Cow<'static, str>,
    },
    /// The account has no such object; another account may have it.
    #[error("{0}")]
    NotFound(MissingObject),
    /// The state of the object does not allow the command.
    #[error("{0}")]
    Conflict(Cow<'static, str>),
    /// The key lacks the entitlement, or the account does not allow it.
    #[error("{0} is not enabled for this key")]
    NotEntitled(&'static str),
    /// The account is not connected to the provider that the command requires.
    #[error("{0} is not available: an operator must first connect the account to its provider")]
    NotConnected(&'static str),
    /// The provider never supports it.
    #[error("{0} is not supported by the provider")]
    NotSupported(&'static str),
    /// This process has too much to do to try it now.
    #[error("{0}")]
    Busy(&'static str),
    /// Postgres failed or returned an unexpected result.
    #[error("database: {0}")]
    Database(#[from] sqlx::Error),
    /// An error in our own code or data.
    #[error("internal: {0}")]
    Internal(Cow<'static, str>),
}

/// The type and id of a missing object. An unknown object and another account's give the same error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingObject {
    what: &'static str,
    name: String,
}

impl fmt::Display for MissingObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, name } = self;
        if name.is_empty() { write!(f, "no such {what}") } else { write!(f, "no such {what}: {name}") }
    }
}

impl Error {
    /// The account has no such object. `name` is the id as it was sent; empty if it is a secret.
    pub fn no_such(what: &'static str, name: impl fmt::Display) -> Self {
        Self::NotFound(MissingObject { what, name: excerpt(&name.to_string()) })
    }

    pub fn invalid(param: impl Into<Cow<'static, str>>, message: impl Into<Cow<'static, str>>) -> Self {
        Self::Invalid { param: param.into(), message: message.into() }
    }

    pub fn conflict(message: impl Into<Cow<'static, str>>) -> Self {
        Self::Conflict(message.into())
    }

    pub fn internal(message: impl Into<Cow<'static, str>>) -> Self {
        Self::Internal(message.into())
    }
}
