//! How the outside names this service. It is part of what is told of invoices and links, in answers and in events, so every
//! process that writes events says it once, at start.

use std::fmt;
use std::sync::OnceLock;

static BASE: OnceLock<String> = OnceLock::new();

/// Says it. What is said first holds.
pub fn set(base: String) {
    BASE.get_or_init(|| base);
}

/// The address of something of ours; the path begins with a slash.
///
/// # Panics
/// If it was never said: a bug that every start would show.
pub fn of(path: fmt::Arguments<'_>) -> String {
    #[cfg(test)]
    set("https://pay.example".to_owned());
    let base = BASE.get().expect("a process that writes events has read PUBLIC_URL at its start");
    format!("{base}{path}")
}
