//! Who operates: by `--as`, or as the machine knows the person.

use anyhow::Result;
use common::audit::Actor;

/// The one that is named, or else `SUDO_USER` or `USER` at this machine.
pub(crate) fn actor(named: Option<&str>) -> Result<Actor> {
    Ok(match named {
        Some(name) => Actor::new(name)?,
        None => Actor::new(&by_machine())?,
    })
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
