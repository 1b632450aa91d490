//! Output of command-line programs. A closed pipe, as with `… | head`, is not an error: the command has done its work.

use std::fmt;
use std::io::{self, ErrorKind, Write};

/// Writes a line to standard output.
///
/// # Errors
/// Any I/O error except a closed pipe.
pub fn print(text: impl fmt::Display) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

/// Writes a line to standard error, ignoring I/O errors.
pub fn print_error(text: impl fmt::Display) {
    let _ = writeln!(io::stderr(), "{text}");
}
