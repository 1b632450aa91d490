//! A real browser for tests: a headless Chromium with its own profile, and a record of everything it sends.
//!
//! [`browse`] runs a test with a browser and checks the record at its end: no request may have sent a card number or
//! security code to an untrusted origin, and the console must be free of unexpected errors.

mod devtools;
mod events;
mod frame;
mod keys;
mod launch;
mod record;
mod session;
mod site;
mod tab;

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use serde_json::json;

use self::devtools::DevTools;
pub use self::{
    frame::{AccessibleElement, Frame},
    record::{Request, Secret},
    session::Session,
    site::Site,
    tab::{Device, Tab},
};
use crate::{TempDir, child::Child, eventually, process::target_folder};

const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(60);

/// A running browser.
pub struct Browser {
    devtools: Arc<DevTools>,
    device: Device,
    screenshots: PathBuf,
    /// The tab that the browser starts with, until it is used.
    initial_tab: Mutex<Option<String>>,
    tabs: Mutex<Vec<Tab>>,
    secrets: Mutex<Vec<Secret>>,
    trusted_origins: Mutex<Vec<String>>,
    expected_errors: Mutex<Vec<String>>,
    // Fields are dropped in this order: the profile is removed after the browser has ended.
    child: Child,
    profile: TempDir,
}

/// Runs a test with a browser and checks the record at its end.
///
/// # Errors
/// When the test or the check fails.
pub async fn browse(device: Device, test: impl AsyncFnOnce(&Browser) -> Result<()>) -> Result<()> {
    let browser = Browser::start(device).await?;
    let result = test(&browser).await;
    let result = match result {
        Ok(()) => browser.check_record().await,
        Err(error) => {
            browser.save_failure_screenshots().await;
            Err(error)
        }
    };
    // Let the browser shut down by itself, so that it leaves no files behind. The result of the check takes precedence.
    let shutdown = browser.shut_down().await;
    result.and(shutdown)
}

impl Browser {
    async fn start(device: Device) -> Result<Self> {
        let profile = TempDir::in_memory()?;
        let (child, devtools) = launch::launch(profile.path())?;
        let mut browser = Self {
            devtools,
            device,
            screenshots: screenshots()?,
            initial_tab: Mutex::default(),
            tabs: Mutex::default(),
            secrets: Mutex::default(),
            trusted_origins: Mutex::default(),
            expected_errors: Mutex::default(),
            child,
            profile,
        };
        let ready = browser.devtools.call("", "Target.setAutoAttach", events::attach_to_all()).await;
        ready.with_context(|| format!("cannot start the browser: {}", launch::log_tail(browser.profile.path())))?;
        browser.initial_tab = Mutex::new(tab::first_target(&browser.devtools).await?);
        Ok(browser)
    }

    /// The process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.pid()
    }

    /// Its profile folder, removed with it.
    #[must_use]
    pub fn profile(&self) -> &Path {
        self.profile.path()
    }

    /// A new tab.
    ///
    /// # Errors
    /// When the browser is gone.
    pub async fn tab(&self) -> Result<Tab> {
        let initial_tab = lock(&self.initial_tab).take();
        let target = match initial_tab {
            Some(target) => target,
            None => tab::new_target(&self.devtools).await?,
        };
        let tab = Tab::of(&self.devtools, target, self.device, self.screenshots.clone()).await?;
        lock(&self.tabs).push(tab.clone());
        Ok(tab)
    }

    /// From now on only origins passed to [`Browser::trust`] may receive this.
    pub fn add_secret(&self, secret: Secret) {
        lock(&self.secrets).push(secret);
    }

    /// Allows this origin to receive secrets.
    pub fn trust(&self, origin: &str) {
        lock(&self.trusted_origins).push(origin.to_owned());
    }

    /// Lets pages of this origin write to the clipboard. Other browsers than Chromium's headless shell do so on a click.
    ///
    /// # Errors
    /// When the browser is gone.
    pub async fn allow_copying(&self, origin: &str) -> Result<()> {
        let permission = json!({"origin": origin, "permissions": ["clipboardSanitizedWrite"]});
        self.devtools.call("", "Browser.grantPermissions", permission).await.map(drop)
    }

    /// Requires a console error that contains this text.
    pub fn expect_console_error(&self, part: &str) {
        lock(&self.expected_errors).push(part.to_owned());
    }

    /// All requests so far, in order.
    #[must_use]
    pub fn requests(&self) -> Vec<Request> {
        self.devtools.events().requests().to_vec()
    }

    /// Console errors, exceptions and CSP violations so far.
    #[must_use]
    pub fn console_errors(&self) -> Vec<String> {
        self.devtools.events().console_errors().to_vec()
    }

    /// A description of each request that sent a secret to an untrusted origin.
    ///
    /// # Errors
    /// When the body of a request could not be read.
    pub async fn leaks(&self) -> Result<Vec<String>> {
        eventually("the bodies of all requests", async || Ok(self.devtools.events().has_all_bodies().then_some(())))
            .await?;
        let (secrets, trusted_origins) = (lock(&self.secrets).clone(), lock(&self.trusted_origins).clone());
        let mut leaks = Vec::new();
        for request in self.requests() {
            if trusted_origins.iter().any(|origin| origin == request.origin()) {
                continue;
            }
            ensure!(request.body_missing.is_none(), "{} {}: the body is missing", request.method, request.url);
            let matches = secrets.iter().filter_map(|secret| Some((secret, request.part_containing(secret)?)));
            leaks.extend(matches.map(|(secret, part)| {
                format!("{secret:?} in the {part} of {} {}{}", request.method, request.origin(), request.path())
            }));
        }
        Ok(leaks)
    }

    /// The check at the end of [`browse`].
    async fn check_record(&self) -> Result<()> {
        self.drain_events().await;
        let leaks = self.leaks().await?;
        ensure!(leaks.is_empty(), "secrets were sent to untrusted origins:\n  {}", leaks.join("\n  "));
        let (console_errors, expected_errors) = (self.console_errors(), lock(&self.expected_errors).clone());
        let is_expected_error = |error: &&String| expected_errors.iter().any(|part| error.contains(part));
        let bad: Vec<_> = console_errors.iter().filter(|error| !is_expected_error(error)).cloned().collect();
        ensure!(bad.is_empty(), "unexpected console errors:\n  {}", bad.join("\n  "));
        for part in expected_errors {
            ensure!(console_errors.iter().any(|error| error.contains(&part)), "no console error contains {part}");
        }
        Ok(())
    }

    /// A round trip to each tab, after which all earlier events have been recorded: each tab responds in order.
    async fn drain_events(&self) {
        let sessions = self.devtools.events().sessions();
        for session in sessions {
            // A session that has ended since has no more events.
            let _ = self.devtools.call(&session, "Runtime.evaluate", json!({"expression": "0"})).await;
        }
    }

    async fn shut_down(mut self) -> Result<()> {
        self.devtools.close();
        let status = self.child.wait_or_kill(SHUTDOWN_TIMEOUT).await?;
        ensure!(status.success(), "the browser exited with {status}: {}", launch::log_tail(self.profile.path()));
        Ok(())
    }

    async fn save_failure_screenshots(&self) {
        let tabs = lock(&self.tabs).clone();
        for (i, tab) in tabs.iter().enumerate() {
            // The test's error is reported anyway; screenshots are optional.
            let _ = tab.save_screenshot(&format!("{}-failure-{i}.png", tab.screenshots())).await;
        }
        self.print_record();
    }

    fn print_record(&self) {
        for request in self.requests() {
            eprintln!("  {} {}", request.method, request.url);
        }
        for error in self.console_errors() {
            eprintln!("  console error: {error}");
        }
    }
}

impl std::fmt::Debug for Browser {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Browser").field("device", &self.device).finish_non_exhaustive()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if thread::panicking() {
            self.print_record();
        }
    }
}

/// `target/browser/<test>`, the prefix of screenshot names. The test's thread is named after the test.
fn screenshots() -> Result<PathBuf> {
    let folder = target_folder()?.join("browser");
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let test = thread::current().name().unwrap_or("unnamed").replace("::", ".");
    // Remove the screenshots of earlier failures, which would mislead.
    for entry in fs::read_dir(&folder)?.flatten() {
        if entry.file_name().to_string_lossy().starts_with(&format!("{test}-failure-")) {
            let _ = fs::remove_file(entry.path());
        }
    }
    Ok(folder.join(test))
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
