//! What can go wrong, as a closed set without HTTP in it. `api` maps it to answers in one file.

use std::borrow::Cow;
use std::fmt;

use crate::card_number::shown;

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
    #[error("{0}")]
    NotFound(NoSuch),
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

/// What was looked for, and by which name. The name of an unknown object and of another account's are told alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoSuch {
    what: &'static str,
    name: String,
}

impl fmt::Display for NoSuch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, name } = self;
        if name.is_empty() { write!(f, "no such {what}") } else { write!(f, "no such {what}: {name}") }
    }
}

impl Error {
    /// An object that the account does not have, by its name as it was sent; of a name that is a secret, an empty one.
    pub fn no_such(what: &'static str, name: impl fmt::Display) -> Self {
        Self::NotFound(NoSuch { what, name: shown(&name.to_string()) })
    }

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
