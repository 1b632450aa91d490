//! Generates a function for each text from `locales/`.

use std::env;
use std::process::ExitCode;

use fluent_typed::{BuildOptions, FtlOutputOptions, LintLevel, build_from_locales_folder};

fn main() -> ExitCode {
    let folder = env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    let options = BuildOptions::default()
        .with_prefix("")
        .with_lint_level(LintLevel::Strict)
        .with_output_file_path(&format!("{folder}/l10n.rs"))
        .with_ftl_output(FtlOutputOptions::single_file(&format!("{folder}/translations.ftl")))
        // Texts of merchants are isolated where they are shown.
        .without_bidi_isolation()
        .without_format();
    build_from_locales_folder(options)
}
