//! Who operates.

use crate::error::{Error, Result};

/// The longest name of an operator.
const MAX_NAME: usize = 200;

/// An operator, by the name under which the audit log knows him, if it is known. It is what he says, and no proof.
#[derive(Clone, Debug)]
pub struct Actor(Option<String>);

impl Actor {
    /// By this name, or else `SUDO_USER` or `USER` at this machine.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an empty or an overlong name, and for one that breaks the line.
    pub fn named(name: Option<&str>) -> Result<Self> {
        let by_machine = || by_machine().map_or(Ok(Self(None)), |name| Self::new(&name));
        name.map_or_else(by_machine, Self::new)
    }

    /// By this name.
    ///
    /// # Errors
    /// As [`Actor::named`].
    pub fn new(name: &str) -> Result<Self> {
        let name = name.trim();
        let fits = (1..=MAX_NAME).contains(&name.chars().count()) && !name.contains(char::is_control);
        if fits {
            Ok(Self(Some(name.to_owned())))
        } else {
            Err(Error::invalid("as", "as is 1 to 200 characters on one line"))
        }
    }

    /// The name.
    ///
    /// # Errors
    /// [`Error::Invalid`] where neither the operator nor the machine has said it, as in a container: who only looks needs none.
    pub fn name(&self) -> Result<&str> {
        self.0.as_deref().ok_or_else(|| Error::invalid("as", "say who you are with --as: it goes into the audit log"))
    }
}

fn by_machine() -> Option<String> {
    let given = |name| std::env::var(name).ok().filter(|value| is_plain(value));
    let user = given("SUDO_USER").or_else(|| given("USER"))?;
    let named =
        std::fs::read_to_string("/proc/sys/kernel/hostname").or_else(|_| std::fs::read_to_string("/etc/hostname"));
    let host = named.ok().map(|name| name.trim().to_owned()).filter(|name| is_plain(name));
    let host = host.or_else(|| given("HOSTNAME")).unwrap_or_else(|| "unknown".to_owned());
    Some(format!("{user}@{host}"))
}

fn is_plain(name: &str) -> bool {
    (1..=64).contains(&name.len()) && !name.contains(|c: char| c.is_control() || c.is_whitespace())
}
