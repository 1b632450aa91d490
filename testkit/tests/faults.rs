//! Rules can be disabled and failpoints set only in builds with debug assertions.

use std::path::Path;
use std::process::Command;

use testkit::TempDir;

const PROBE_SOURCE: &str = r#"
#![allow(dead_code)]
#[path = "SWITCH"]
mod switch;
fn main() {
    for rule in switch::Rule::ALL {
        assert!(switch::holds(*rule), "{rule:?} can be disabled");
    }
    assert_eq!(switch::failpoint_action("perform.claimed"), None);
    assert_eq!(switch::clock_offset_seconds(), 0.0);
}
"#;

/// Neither the release profile nor the image enables them.
#[test]
fn release_builds_have_no_debug_assertions() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("testkit is in the repository");
    let read = |name: &str| std::fs::read_to_string(root.join(name)).expect(name);
    assert!(!read("Cargo.toml").contains("debug-assertions"), "a profile enables debug assertions");
    assert!(read("Dockerfile").contains("cargo build --release"), "the image is not built with --release");
}

/// Compiled as in a release, the file needs no other crate and ignores the environment that would disable a rule.
#[test]
fn release_builds_ignore_disabled_rules_failpoints_and_clock_offsets() {
    let folder = TempDir::new().expect("a folder");
    let switch = Path::new(env!("CARGO_MANIFEST_DIR")).join("../common/foundation/src/faults/switch.rs");
    let (source, program) = (folder.path().join("release.rs"), folder.path().join("release"));
    std::fs::write(&source, PROBE_SOURCE.replace("SWITCH", &switch.display().to_string())).expect("written");
    let build = |assertions: &str| {
        let mut rustc = Command::new("rustc");
        rustc
            .args(["--edition", "2024", "-C", &format!("debug-assertions={assertions}"), "-o"])
            .arg(&program)
            .arg(&source);
        rustc.output().expect("rustc")
    };
    let built = build("on");
    assert!(!built.status.success(), "with debug assertions the file needs its crates: is this the right file?");
    let built = build("off");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let offset = folder.path().join("offset");
    std::fs::write(&offset, "3600").expect("written");
    let output = Command::new(&program)
        .env("DISABLED_RULES", "gate")
        .env("FAILPOINTS", "perform.claimed=return(abort)")
        .env("CLOCK_OFFSET_FILE", &offset)
        .output();
    let output = output.expect("the program starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
