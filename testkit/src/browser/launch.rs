//! Starts a Chromium without a window, in a profile of its own.

use std::{
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
    thread,
};

use anyhow::{Context, Result};

use super::wire::Wire;
use crate::{
    child::{Child, Signal},
    tools,
};

/// Gives the browser the pipe that it reads and the one that it writes, at the numbers where it looks for them.
const PIPES: &str = r#"exec "$@" 3<&0 4>&1 0</dev/null 1>/dev/null"#;

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
    // Of several tabs only one is in front; the others must not fall asleep.
    "--disable-renderer-backgrounding",
    // Nothing but the servers of the test is ever asked for.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1",
];

/// Starts the browser, and the thread that listens to it.
pub(super) fn launch(profile: &Path) -> Result<(Child, Arc<Wire>)> {
    let tool = tools::chromium()?;
    let program = tool.command();
    let mut command = Command::new("/bin/sh");
    command.args(["-c", PIPES, "chromium"]).arg(program.get_program());
    command.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.args(OPTIONS).arg(format!("--user-data-dir={}", profile.display()));
    if nix::unistd::geteuid().is_root() {
        // Chromium refuses to be root inside its sandbox.
        command.arg("--no-sandbox");
    }
    command.arg("about:blank");
    for (name, folder) in [("HOME", ""), ("XDG_CONFIG_HOME", "config"), ("XDG_CACHE_HOME", "cache")] {
        command.env(name, profile.join(folder));
    }
    let log = std::fs::File::create(log_of(profile)).context("the browser has no place for its log")?;
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log);
    let mut child = Child::spawn(&mut command, Signal::SIGKILL)?;
    let (input, output) = child.pipes().context("the browser has no pipes")?;
    let wire = Arc::new(Wire::new(input));
    let reader = Arc::clone(&wire);
    thread::Builder::new().name("browser".into()).spawn(move || reader.read(output))?;
    Ok((child, wire))
}

/// The end of what the browser complained about.
pub(super) fn log_tail(profile: &Path) -> String {
    let log = std::fs::read_to_string(log_of(profile)).unwrap_or_default();
    // A machine without a desktop has no message bus, which is said many times over.
    let lines: Vec<_> = log.lines().filter(|line| !line.contains("dbus/")).collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}

fn log_of(profile: &Path) -> std::path::PathBuf {
    profile.join("stderr.log")
}
