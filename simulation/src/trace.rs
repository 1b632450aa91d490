//! What happened in a simulation, as a digest and, on request, as lines.

use std::fmt::Display;

use crate::clock;

/// The events of a simulation. Two runs of the same seed have the same digest.
#[derive(Debug, Default)]
pub struct Trace {
    digest: u64,
    /// How many events there were.
    pub events: u64,
    /// The events as text, if they are kept.
    pub lines: Option<Vec<String>>,
}

impl Trace {
    /// Adds an event.
    pub fn record(&mut self, kind: &str, who: &impl Display, bytes: &[u8]) {
        self.events += 1;
        let now = clock::now_us();
        // FNV-1a.
        for part in [&now.to_le_bytes()[..], kind.as_bytes(), bytes] {
            for byte in part {
                self.digest = (self.digest ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3);
            }
        }
        if let Some(lines) = &mut self.lines {
            let text: String = String::from_utf8_lossy(bytes)
                .chars()
                .map(|c| if c.is_control() { '.' } else { c })
                .take(300)
                .collect();
            lines.push(format!("{now} {kind} {who} {text}"));
        }
    }

    /// The digest of all events so far.
    pub fn digest(&self) -> u64 {
        self.digest
    }
}
