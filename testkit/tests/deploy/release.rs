//! The image, and the workflow that publishes it.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::json;

use super::assert_none;
use super::compose::run_script;
use super::environment_variables::{read, root};
use super::yaml::{at, documents, map, text, texts};

const RELEASE: &str = ".github/workflows/release.yml";

#[test]
fn the_image_has_only_what_the_programs_need() {
    let dockerfile = read("Dockerfile");
    let (build, image) = dockerfile.rsplit_once("\nFROM ").expect("two stages");
    assert!(build.contains("ENV CARGO_PROFILE_RELEASE_STRIP=symbols\n"), "symbols make the programs larger");
    let before_stages = build.split("\nFROM ").next().unwrap_or_default();
    assert!(before_stages.ends_with("\nARG BUILDKIT_SBOM_SCAN_CONTEXT=true"), "an SBOM would not list the crates");
    assert!(image.lines().next().is_some_and(|base| base.starts_with("debian:") && base.ends_with("-slim")), "{image}");
    let packages = image.split("--no-install-recommends ").nth(1).and_then(|rest| rest.split(" \\").next());
    let needed = "tzdata fonts-noto-core fonts-droid-fallback fonts-nanum";
    assert_eq!(packages, Some(needed), "the image is to be at most 200 MB");
    assert!(image.contains("rm -rf /var/lib/apt/lists/*"), "package lists make the image larger");
    // The other fonts are deleted, so a document must not use them.
    assert!(image.contains("find /usr/share/fonts/truetype/noto -type f ! -name 'NotoSans*' -delete"));
    let fonts = read("common/documents/src/fonts.rs");
    let noto: Vec<_> = fonts.split('"').filter(|piece| piece.starts_with("Noto ")).collect();
    assert!(noto.len() >= 2 && noto.iter().all(|family| family.starts_with("Noto Sans")), "{noto:?}");
    assert!(image.contains("nanum -type f ! -name NanumGothic.ttf ! -name NanumGothicBold.ttf -delete"));
    assert!(fonts.split('"').filter(|piece| piece.contains("Nanum")).all(|family| family == "NanumGothic"));
}

fn git(folder: &Path, arguments: &[&str]) -> String {
    let mut git = Command::new("git");
    git.args(["-c", "user.name=operator", "-c", "user.email=operator@example.com"]).args(arguments);
    let output = git.current_dir(folder).env("GIT_COMMITTER_DATE", "1700000000 +0300").output().expect("git");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

#[test]
fn the_labels_of_the_image_depend_on_the_commit_alone() {
    let folder = testkit::TempDir::new().expect("a folder");
    let repository = folder.path();
    fs::create_dir(repository.join("deploy")).expect("a folder");
    for file in ["Cargo.toml", "deploy/image"] {
        fs::copy(root().join(file), repository.join(file)).expect("copied");
    }
    for arguments in [&["init", "--quiet"][..], &["add", "."], &["commit", "--quiet", "--message", "The first"]] {
        git(repository, arguments);
    }
    let build = || run_script(repository, &["deploy/image", "--push"], "#!/bin/sh\necho $SOURCE_DATE_EPOCH \"$@\"\n");
    let (ok, printed) = build();
    assert!(ok && printed.starts_with("1700000000 buildx build ") && printed.ends_with(" --push .\n"), "{printed}");
    let manifest = read("Cargo.toml");
    let version = manifest.split("\nversion = \"").nth(1).and_then(|rest| rest.split('"').next()).expect("a version");
    let revision = git(repository, &["rev-parse", "HEAD"]);
    for label in [
        format!("version={version}"),
        format!("revision={revision}"),
        "created=2023-11-14T22:13:20Z".to_owned(),
        "licenses=Apache-2.0".to_owned(),
    ] {
        assert!(printed.contains(&format!(" --label org.opencontainers.image.{label} ")), "no {label}: {printed}");
    }
    assert_eq!(build(), (ok, printed), "the same commit has other labels");
    fs::write(repository.join("new"), "").expect("written");
    let (ok, printed) = build();
    assert!(!ok && printed.contains("commit these changes first"), "{printed}");
}

#[test]
fn every_action_is_pinned_by_commit() {
    let mut wrong = Vec::new();
    let mut seen = 0;
    for entry in fs::read_dir(root().join(".github/workflows")).expect("workflows") {
        let workflow = fs::read_to_string(entry.expect("a file").path()).expect("text");
        let count = |text: &str| workflow.matches(text).count();
        assert_eq!(count("actions/checkout@"), count("persist-credentials: false"), "tests could read the token");
        for line in workflow.lines().filter(|line| line.contains("uses: ")) {
            seen += 1;
            let commit = line.split_once('@').and_then(|(_, rest)| rest.split_once(" # v")).map(|(commit, _)| commit);
            if !commit.is_some_and(|commit| commit.len() == 40 && commit.bytes().all(|b| b.is_ascii_hexdigit())) {
                wrong.push(line.trim().to_owned());
            }
        }
    }
    assert_none("actions that are not pinned by a commit, with the version as a comment", &wrong);
    assert!(seen >= 6, "{seen}");
}

#[test]
fn a_release_publishes_a_tested_version_for_both_architectures() {
    let source = read(RELEASE);
    let release = documents(&source).remove(0);
    let jobs = &release["jobs"];
    assert_eq!(release["permissions"], json!({}));
    for (job, permissions) in [
        ("test", json!({"contents": "read"})),
        ("image", json!({"contents": "read", "packages": "write"})),
        ("publish", json!({"packages": "write"})),
    ] {
        assert_eq!(jobs[job]["permissions"], permissions, "{job}");
    }
    assert_eq!(map(jobs).count(), 3, "another job");
    assert_eq!((&jobs["image"]["needs"], &jobs["publish"]["needs"]), (&json!("test"), &json!("image")));
    let architectures: BTreeSet<String> = texts(jobs, "image.strategy.matrix.include.architecture");
    assert_eq!(architectures, ["amd64", "arm64"].map(str::to_owned).into());
    assert_eq!(release["env"]["IMAGE"], "${{ vars.IMAGE || format('ghcr.io/{0}', github.repository) }}");
    for part in [
        "tags: [\"v*\"]",
        "cancel-in-progress: false",
        "shell: bash\n",
        "((bytes <= 200000000)) || { echo \"::error::the image is larger than 200 MB\"; exit 1; }\n",
        "run: .ci/run",
        "deploy/image --platform \"linux/$ARCHITECTURE\" --sbom=true --provenance=mode=max --push",
        "imagetools create --tag \"$tag\" \"$tag-amd64\" \"$tag-arm64\"",
    ] {
        assert!(source.contains(part), "no {part}");
    }
    for (job, steps) in map(jobs) {
        // An expression in a command would be a part of the program text.
        let commands = at(steps, "steps.run").into_iter().map(text);
        assert!(commands.clone().count() >= 2 && !commands.clone().any(|command| command.contains("${{")), "{job}");
    }
    let tests = documents(&read(".github/workflows/tests.yml")).remove(0);
    assert_eq!(tests["permissions"], json!({"contents": "read"}));
    assert!(read("docs/deploying.md").contains("`.github/workflows/release.yml` has not been run"));
}
