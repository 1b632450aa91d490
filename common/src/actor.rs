//! Who operates.

use crate::error::{Error, Result};

/// The longest name of an operator.
const MAX_NAME: usize = 200;

/// An operator, by the name under which the audit log knows him. It is what he says, and no proof.
#[derive(Clone, Debug)]
pub struct Actor(String);

impl Actor {
    /// By this name, or else `SUDO_USER` or `USER` at this machine.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an empty or an overlong name, and for one that breaks the line.
    pub fn named(name: Option<&str>) -> Result<Self> {
        name.map_or_else(|| Self::new(&by_machine()), Self::new)
    }

    /// By this name.
    ///
    /// # Errors
    /// As [`Actor::named`].
    pub fn new(name: &str) -> Result<Self> {
        let name = name.trim();
        let fits = (1..=MAX_NAME).contains(&name.chars().count()) && !name.contains(char::is_control);
        if fits {
            Ok(Self(name.to_owned()))
        } else {
            Err(Error::invalid("as", "as is 1 to 200 characters on one line"))
        }
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.0
    }
}

fn by_machine() -> String {
    let given = |name| std::env::var(name).ok().filter(|value| is_plain(value));
    let user = given("SUDO_USER").or_else(|| given("USER")).unwrap_or_else(|| "unknown".to_owned());
    let named =
        std::fs::read_to_string("/proc/sys/kernel/hostname").or_else(|_| std::fs::read_to_string("/etc/hostname"));
    let host = named.ok().map(|name| name.trim().to_owned()).filter(|name| is_plain(name));
    let host = host.or_else(|| given("HOSTNAME")).unwrap_or_else(|| "unknown".to_owned());
    format!("{user}@{host}")
}

fn is_plain(name: &str) -> bool {
    (1..=64).contains(&name.len()) && !name.contains(|c: char| c.is_control() || c.is_whitespace())
}
