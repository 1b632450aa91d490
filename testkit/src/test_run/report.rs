//! The last lines of a run: each failed or flaky test with its assertion, the slowest tests, and the totals.

use std::{fmt::Write, path::PathBuf};

/// More flaky tests than these fail a run.
pub(super) const MAX_FLAKY: usize = 5;
/// The whole report stays below a hundred lines.
const MAX_SHOWN: usize = 7;
const MESSAGE_LINES: usize = 8;
const LINE_CHARS: usize = 400;
const SLOWEST: usize = 10;

/// A test that failed at its first run.
#[derive(Debug)]
pub(super) struct Failed {
    pub(super) name: String,
    pub(super) output: String,
    pub(super) log: PathBuf,
    /// It passed when it ran again alone.
    pub(super) is_flaky: bool,
}

/// What all suites did.
#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) passed: usize,
    pub(super) skipped: usize,
    pub(super) failed: Vec<Failed>,
    /// Names and durations in seconds, the longest first.
    pub(super) durations: Vec<(String, f64)>,
}

impl Report {
    fn flaky(&self) -> usize {
        self.failed.iter().filter(|test| test.is_flaky).count()
    }

    /// Whether the run fails.
    pub(super) fn is_failure(&self) -> bool {
        let flaky = self.flaky();
        self.failed.len() > flaky || flaky > MAX_FLAKY || self.is_empty()
    }

    fn is_empty(&self) -> bool {
        self.passed == 0 && self.failed.is_empty()
    }

    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        // Failed tests first, because the number shown is limited.
        let ordered = self.failed.iter().filter(|test| !test.is_flaky);
        for test in ordered.chain(self.failed.iter().filter(|test| test.is_flaky)).take(MAX_SHOWN) {
            let kind = if test.is_flaky { "FLAKY" } else { "FAILED" };
            let _ = writeln!(text, "{kind} {}\n{}    log: {}", test.name, message(&test.output), test.log.display());
        }
        for test in self.failed.iter().skip(MAX_SHOWN).take(SLOWEST) {
            let _ = writeln!(text, "also failed at its first run: {}", test.name);
        }
        let _ = writeln!(text, "slowest tests:");
        for (name, seconds) in self.durations.iter().take(SLOWEST) {
            let _ = writeln!(text, "{seconds:8.1} s  {name}");
        }
        let flaky = self.flaky();
        if flaky > 0 {
            let _ = writeln!(text, "{flaky} flaky (at most {MAX_FLAKY}): passed only when run again alone");
        }
        if self.is_empty() {
            let _ = writeln!(text, "no test has run");
        }
        let _ = write!(
            text,
            "{} passed, {} failed, {} skipped",
            self.passed + flaky,
            self.failed.len() - flaky,
            self.skipped
        );
        text
    }
}

/// The panic message, with both sides of an assertion, indented. The backtrace and the logs of processes, which follow
/// it, are left out.
fn message(output: &str) -> String {
    const END: [&str; 3] = ["stack backtrace:", "note: run with", "--- end of"];
    let is_message = |line: &str| line.contains("panicked at") || line.starts_with("Error: ");
    let start = output.lines().position(is_message).unwrap_or_default();
    let lines = output.lines().skip(start).take_while(|line| !END.iter().any(|end| line.starts_with(end)));
    let lines = lines.filter(|line| !line.trim().is_empty()).take(MESSAGE_LINES);
    lines.map(|line| format!("    {}\n", line.chars().take(LINE_CHARS).collect::<String>())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "SEED=7\n\nthread 'a::b' (12) panicked at src/a.rs:3:5:\nassertion `left == right` failed: amounts\n  left: 1\n right: 2\n--- end of /logs/api-0.log ---\nINFO started\n";

    fn failed(name: &str, is_flaky: bool) -> Failed {
        Failed { name: name.to_owned(), output: OUTPUT.to_owned(), log: PathBuf::from("/logs"), is_flaky }
    }

    #[test]
    fn the_report_names_tests_and_both_sides_of_their_assertions() {
        let durations = vec![("slow".to_owned(), 12.0), ("quick".to_owned(), 0.1)];
        let failed = vec![failed("now and then", true), failed("a::b", false)];
        let report = Report { passed: 8, skipped: 3, failed, durations };
        let text = report.text();
        let first: Vec<_> = text.lines().take(6).collect();
        let assertion =
            ["    assertion `left == right` failed: amounts", "      left: 1", "     right: 2", "    log: /logs"];
        assert_eq!(
            first,
            [&["FAILED a::b", "    thread 'a::b' (12) panicked at src/a.rs:3:5:"][..], &assertion].concat()
        );
        assert!(text.contains("FLAKY now and then\n"), "{text}");
        assert!(text.find("slow\n") < text.find("quick\n"), "{text}");
        assert!(
            text.ends_with("\n1 flaky (at most 5): passed only when run again alone\n9 passed, 1 failed, 3 skipped"),
            "{text}"
        );
        assert!(report.is_failure());
    }

    #[test]
    fn five_flaky_tests_pass_and_six_fail() {
        let flaky = |count| Report { failed: (0..count).map(|_| failed("a", true)).collect(), ..Report::default() };
        assert!(!flaky(MAX_FLAKY).is_failure());
        assert!(flaky(MAX_FLAKY + 1).is_failure());
    }

    #[test]
    fn a_run_without_tests_fails() {
        assert!(Report::default().is_failure());
    }

    #[test]
    fn the_report_has_less_than_a_hundred_lines() {
        let long = (0..500).map(|n| format!("panicked at {n}\n")).collect::<String>();
        let failed = (0..300).map(|n| Failed {
            name: n.to_string(),
            output: long.clone(),
            log: PathBuf::new(),
            is_flaky: false,
        });
        let report = Report { failed: failed.collect(), ..Report::default() };
        let lines = report.text().lines().count();
        assert!((50..100).contains(&lines), "{lines}");
    }
}
