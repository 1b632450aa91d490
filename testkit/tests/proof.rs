//! The switches of mutants and failpoints are in builds for debugging alone.

use std::path::Path;
use std::process::Command;

use testkit::TempDir;

const TRIES_THEM: &str = r#"
#![allow(dead_code)]
#[path = "SWITCH"]
mod switch;
fn main() {
    for rule in switch::Rule::ALL {
        assert!(switch::holds(*rule), "{rule:?} can be left out");
    }
    assert_eq!(switch::at("perform.claimed"), None);
    assert_eq!(switch::clock_offset_seconds(), 0.0);
}
"#;

/// A release has no such builds: neither ours nor that of the image.
#[test]
fn what_is_shipped_is_built_without_debug_assertions() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("testkit lies in the repository");
    let read = |name: &str| std::fs::read_to_string(root.join(name)).expect(name);
    assert!(!read("Cargo.toml").contains("debug-assertions"), "a profile switches the switches on");
    assert!(read("Dockerfile").contains("cargo build --release"), "the image is built in another way");
}

/// Built as a release is, the file needs neither the crate `fail` nor anything else, and hears no orders.
#[test]
fn a_release_build_can_be_told_to_do_nothing_wrong() {
    let folder = TempDir::new().expect("a folder");
    let switch = Path::new(env!("CARGO_MANIFEST_DIR")).join("../common/src/proof/switch.rs");
    let (source, program) = (folder.path().join("release.rs"), folder.path().join("release"));
    std::fs::write(&source, TRIES_THEM.replace("SWITCH", &switch.display().to_string())).expect("written");
    let build = |assertions: &str| {
        let mut rustc = Command::new("rustc");
        rustc
            .args(["--edition", "2024", "-C", &format!("debug-assertions={assertions}"), "-o"])
            .arg(&program)
            .arg(&source);
        rustc.output().expect("rustc")
    };
    let built = build("on");
    assert!(!built.status.success(), "for debugging it needs its crates, so this test looks at the right file");
    let built = build("off");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let every_rule = "gate";
    let offset = folder.path().join("offset");
    std::fs::write(&offset, "3600").expect("written");
    let told = Command::new(&program)
        .env("LEFT_OUT", every_rule)
        .env("FAILPOINTS", "perform.claimed=return(abort)")
        .env("CLOCK_OFFSET_FILE", &offset)
        .output();
    let told = told.expect("it starts");
    assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
}
