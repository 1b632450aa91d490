//! The events that a test executable prints with `--format json`.

use serde::Deserialize;

/// One line of output. Lines of other kinds are output of the programs under test.
#[derive(Debug, Deserialize, PartialEq)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Event {
    Suite(Suite),
    Test(Test),
}

#[derive(Debug, Deserialize, PartialEq)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(super) enum Suite {
    Started,
    Ok { filtered_out: usize },
    Failed { filtered_out: usize },
}

#[derive(Debug, Deserialize, PartialEq)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(super) enum Test {
    Started {
        name: String,
    },
    Ok {
        name: String,
        #[serde(default)]
        exec_time: f64,
    },
    Failed {
        name: String,
        #[serde(default)]
        exec_time: f64,
        #[serde(default)]
        stdout: String,
        /// What differs from the expected panic, where a test expects one.
        #[serde(default)]
        message: String,
    },
    Ignored {
        name: String,
    },
    /// It has been running for a minute. It may still end.
    Timeout,
}

/// The event in this line, if it is one.
pub(super) fn parse(line: &str) -> Option<Event> {
    serde_json::from_str(line).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_of_libtest_are_understood() {
        let started = r#"{ "type": "suite", "event": "started", "test_count": 3 }"#;
        assert_eq!(parse(started), Some(Event::Suite(Suite::Started)));
        let failed = r#"{ "type": "test", "name": "a::b", "event": "failed", "exec_time": 0.5, "stdout": "panicked" }"#;
        let (name, stdout) = ("a::b".to_owned(), "panicked".to_owned());
        let expected = Test::Failed { name, exec_time: 0.5, stdout, message: String::new() };
        assert_eq!(parse(failed), Some(Event::Test(expected)));
        let end = r#"{ "type": "suite", "event": "failed", "passed": 2, "failed": 1, "ignored": 0, "measured": 0, "filtered_out": 4, "exec_time": 0.6 }"#;
        assert_eq!(parse(end), Some(Event::Suite(Suite::Failed { filtered_out: 4 })));
        assert_eq!(parse("listening on 127.0.0.1:80"), None);
        assert_eq!(parse("{\"level\":\"INFO\"}"), None);
    }
}
