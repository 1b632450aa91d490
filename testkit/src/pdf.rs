//! Reads documents with the programs of poppler.

use std::fs;

use anyhow::{Result, ensure};

use crate::{TempDir, tools};

/// What a program of poppler prints about a document, such as `pdftotext`.
///
/// # Errors
/// When it is not installed, or cannot read the document.
pub fn read(program: &str, options: &[&str], pdf: &[u8]) -> Result<String> {
    let folder = TempDir::new()?;
    let file = folder.path().join("document.pdf");
    fs::write(&file, pdf)?;
    let mut command = tools::pdf_programs()?.program(program);
    command.args(options).arg(&file);
    if program == "pdftotext" {
        command.arg("-");
    }
    let output = command.output()?;
    ensure!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    // pdfinfo prints some spaces of the structure in Latin-1.
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// How many pages a document has, as `pdfinfo` finds.
///
/// # Errors
/// As [`read`], or if it does not say.
pub fn pages(pdf: &[u8]) -> Result<u64> {
    let about = read("pdfinfo", &[], pdf)?;
    let pages = about.lines().find_map(|line| line.strip_prefix("Pages:")?.trim().parse().ok());
    pages.ok_or_else(|| anyhow::anyhow!("no number of pages in {about}"))
}
