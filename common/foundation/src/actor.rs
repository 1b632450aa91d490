//! The operator who runs a command.

use crate::error::{Error, Result};

/// Maximum length of an operator's name.
const MAX_NAME: usize = 200;

/// An operator's name in the audit log, if known. It is not verified.
#[derive(Clone, Debug)]
pub struct Actor(Option<String>);

impl Actor {
    /// Uses this name, or else `SUDO_USER` or `USER` and the host name.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the name is empty, too long or contains control characters.
    pub fn named(name: Option<&str>) -> Result<Self> {
        let from_environment = || from_environment().map_or(Ok(Self(None)), |name| Self::new(&name));
        name.map_or_else(from_environment, Self::new)
    }

    /// Uses this name.
    ///
    /// # Errors
    /// As [`Actor::named`].
    pub fn new(name: &str) -> Result<Self> {
        let name = name.trim();
        let valid = (1..=MAX_NAME).contains(&name.chars().count()) && !name.contains(char::is_control);
        if valid {
            Ok(Self(Some(name.to_owned())))
        } else {
            Err(Error::invalid("as", "as must be 1 to 200 characters on one line"))
        }
    }

    /// The name.
    ///
    /// # Errors
    /// [`Error::Invalid`] if neither the operator nor the environment provides one, as in a container. Only commands
    /// that change something need it.
    pub fn name(&self) -> Result<&str> {
        self.0
            .as_deref()
            .ok_or_else(|| Error::invalid("as", "specify your name with --as; it is written to the audit log"))
    }
}

fn from_environment() -> Option<String> {
    let variable = |name| std::env::var(name).ok().filter(|value| is_plain(value));
    let user = variable("SUDO_USER").or_else(|| variable("USER"))?;
    let host =
        std::fs::read_to_string("/proc/sys/kernel/hostname").or_else(|_| std::fs::read_to_string("/etc/hostname"));
    let host = host.ok().map(|name| name.trim().to_owned()).filter(|name| is_plain(name));
    let host = host.or_else(|| variable("HOSTNAME")).unwrap_or_else(|| "unknown".to_owned());
    Some(format!("{user}@{host}"))
}

fn is_plain(name: &str) -> bool {
    (1..=64).contains(&name.len()) && !name.contains(|c: char| c.is_control() || c.is_whitespace())
}
