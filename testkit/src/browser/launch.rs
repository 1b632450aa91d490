//! Starts a headless Chromium with its own profile.

use std::{
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
    thread,
};

use anyhow::{Context, Result};

use super::devtools::DevTools;
use crate::{
    child::{Child, Signal},
    tools,
};

/// Moves standard input and output to file descriptors 3 and 4, where Chromium expects the DevTools pipes.
const PIPE_SCRIPT: &str = r#"exec "$@" 3<&0 4>&1 0</dev/null 1>/dev/null"#;

const OPTIONS: [&str; 21] = [
    "--headless",
    "--remote-debugging-pipe",
    "--no-first-run",
    "--no-default-browser-check",
    "--no-pings",
    "--no-proxy-server",
    "--lang=en-US",
    "--mute-audio",
    "--password-store=basic",
    "--use-mock-keychain",
    "--disable-background-networking",
    "--disable-breakpad",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--disable-gpu",
    "--disable-features=WebUIOmniboxPopup,WebUIOmniboxAimPopup,WebUIOmniboxFullPopup",
    "--disable-sync",
    // Background tabs must not be throttled.
    "--disable-renderer-backgrounding",
    // The browser can reach nothing but the servers of the test.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1",
];

/// Starts the browser and the thread that reads its messages.
pub(super) fn launch(profile: &Path) -> Result<(Child, Arc<DevTools>)> {
    let tool = tools::chromium()?;
    let program = tool.command();
    let mut command = Command::new("/bin/sh");
    command.args(["-c", PIPE_SCRIPT, "chromium"]).arg(program.get_program());
    command.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.args(OPTIONS).arg(format!("--user-data-dir={}", profile.display()));
    if nix::unistd::geteuid().is_root() {
        // Chromium does not run as root with its sandbox.
        command.arg("--no-sandbox");
    }
    command.arg("about:blank");
    for (name, folder) in [("HOME", ""), ("XDG_CONFIG_HOME", "config"), ("XDG_CACHE_HOME", "cache")] {
        command.env(name, profile.join(folder));
    }
    let log = std::fs::File::create(log_path(profile)).context("cannot create the browser's log")?;
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log);
    let mut child = Child::spawn(&mut command, Signal::SIGKILL)?;
    let (input, output) = child.pipes().context("the browser has no pipes")?;
    let devtools = Arc::new(DevTools::new(input));
    let reader = Arc::clone(&devtools);
    thread::Builder::new().name("browser".into()).spawn(move || reader.read(output))?;
    Ok((child, devtools))
}

/// The last lines of the browser's error output.
pub(super) fn log_tail(profile: &Path) -> String {
    let log = std::fs::read_to_string(log_path(profile)).unwrap_or_default();
    // Without a desktop there is no D-Bus, which Chromium reports many times.
    let lines: Vec<_> = log.lines().filter(|line| !line.contains("dbus/")).collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}

fn log_path(profile: &Path) -> std::path::PathBuf {
    profile.join("stderr.log")
}
