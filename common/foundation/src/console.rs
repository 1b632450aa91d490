//! Output of command-line programs. A closed pipe, as with `… | head`, is not an error: the command has done its work.
//!
//! Merchants, customers and providers wrote much of what operators read, so everything is escaped that would control
//! their terminal or change how a line is read.

use std::fmt;
use std::io::{self, ErrorKind, Write};

use serde_json::Value;

/// Whether a character would control a terminal, change the direction of text, or be invisible.
pub(crate) fn is_misleading(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(c, '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// A text on one line, with misleading characters as `\u{…}`.
pub fn one_line(text: &str) -> String {
    text.chars().map(|c| if is_misleading(c) { c.escape_unicode().to_string() } else { c.into() }).collect()
}

/// A value as JSON on one line, with misleading characters as `\u…`. Any parser reads the same value.
fn json_line(value: &Value) -> String {
    let mut line = String::new();
    for c in value.to_string().chars() {
        if is_misleading(c) {
            line.extend(c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")));
        } else {
            line.push(c);
        }
    }
    line
}

/// Writes lines to standard output, each as [`one_line`].
///
/// # Errors
/// Any I/O error except a closed pipe.
pub fn print_lines(lines: &[impl AsRef<str>]) -> io::Result<()> {
    print(&lines.iter().map(|line| one_line(line.as_ref())).collect::<Vec<_>>().join("\n"))
}

/// Writes a value to standard output as one line of JSON.
///
/// # Errors
/// Any I/O error except a closed pipe.
pub fn print_json(value: &Value) -> io::Result<()> {
    print(&json_line(value))
}

fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

/// Writes a line to standard error, as [`one_line`], ignoring I/O errors.
pub fn print_error(text: impl fmt::Display) {
    let _ = writeln!(io::stderr(), "{}", one_line(&text.to_string()));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn misleading_characters_are_escaped_and_letters_are_not() {
        let text = "a\r\n\t\u{1b}[2J\u{9b}\u{61c}\u{202e}\u{2066}\u{e0041}漢é";
        let shown = r"a\u{d}\u{a}\u{9}\u{1b}[2J\u{9b}\u{61c}\u{202e}\u{2066}\u{e0041}漢é";
        assert_eq!(one_line(text), shown);
        let line = json_line(&json!({ text: text }));
        assert!(!line.contains(is_misleading), "{line}");
        assert_eq!(serde_json::from_str::<Value>(&line).expect("JSON"), json!({ text: text }));
    }
}
