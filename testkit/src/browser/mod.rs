//! A real browser for tests: Chromium without a window, in a profile of its own, and a record of all that leaves it.
//!
//! [`browse`] lends a browser to a test and judges at its end: no request may have carried a card's number or security
//! code to anybody who may not see it, and nothing may have gone wrong in the browser's console.

mod frame;
mod keys;
mod launch;
mod record;
mod seen;
mod site;
mod tab;
mod wire;

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use serde_json::json;
use tokio::time::{Instant, sleep};

use self::wire::Wire;
pub use self::{
    frame::{Frame, Spoken},
    record::{Request, Secret},
    site::Site,
    tab::{Device, Tab},
};
use crate::{TempDir, child::Child, process::profile_folder};

/// Longer than anything takes that is not broken.
const PATIENCE: Duration = Duration::from_secs(60);
const END_PATIENCE: Duration = Duration::from_secs(60);

/// A running browser.
pub struct Browser {
    wire: Arc<Wire>,
    device: Device,
    pictures: PathBuf,
    /// The tab that it starts with, until somebody wants one.
    first: Mutex<Option<String>>,
    tabs: Mutex<Vec<Tab>>,
    secrets: Mutex<Vec<Secret>>,
    confidants: Mutex<Vec<String>>,
    expected: Mutex<Vec<String>>,
    // Fields are dropped in this order: the profile goes when nobody uses it any more.
    child: Child,
    profile: TempDir,
}

/// Lends a browser to a test, and judges at its end.
///
/// # Errors
/// When the test fails, or the verdict is bad.
pub async fn browse(device: Device, test: impl AsyncFnOnce(&Browser) -> Result<()>) -> Result<()> {
    let browser = Browser::start(device).await?;
    let told = test(&browser).await;
    let verdict = match told {
        Ok(()) => browser.verdict().await,
        Err(error) => {
            browser.draw_failure().await;
            Err(error)
        }
    };
    // A browser that ends by itself leaves nothing behind; the verdict counts more than how it ended.
    let ended = browser.end().await;
    verdict.and(ended)
}

impl Browser {
    async fn start(device: Device) -> Result<Self> {
        let profile = TempDir::new()?;
        let (child, wire) = launch::launch(profile.path())?;
        let mut browser = Self {
            wire,
            device,
            pictures: pictures()?,
            first: Mutex::default(),
            tabs: Mutex::default(),
            secrets: Mutex::default(),
            confidants: Mutex::default(),
            expected: Mutex::default(),
            child,
            profile,
        };
        let ready = browser.wire.call("", "Target.setAutoAttach", seen::attach_to_all()).await;
        ready.with_context(|| format!("the browser does not start: {}", launch::log_tail(browser.profile.path())))?;
        browser.first = Mutex::new(tab::first_target(&browser.wire).await?);
        Ok(browser)
    }

    /// The process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.pid()
    }

    /// Where its profile is, which goes with it.
    #[must_use]
    pub fn profile(&self) -> &Path {
        self.profile.path()
    }

    /// A new tab.
    ///
    /// # Errors
    /// When the browser is gone.
    pub async fn tab(&self) -> Result<Tab> {
        let first = locked(&self.first).take();
        let target = match first {
            Some(target) => target,
            None => tab::new_target(&self.wire).await?,
        };
        let tab = Tab::of(&self.wire, target, self.device, self.pictures.clone()).await?;
        locked(&self.tabs).push(tab.clone());
        Ok(tab)
    }

    /// From now on nobody may be sent this but those whom [`Browser::trust`] names.
    pub fn keep(&self, secret: Secret) {
        locked(&self.secrets).push(secret);
    }

    /// This origin may be sent what is secret.
    pub fn trust(&self, origin: &str) {
        locked(&self.confidants).push(origin.to_owned());
    }

    /// A complaint with this in it belongs to the test, and must come.
    pub fn expect_complaint(&self, part: &str) {
        locked(&self.expected).push(part.to_owned());
    }

    /// All that left the browser so far, in order.
    #[must_use]
    pub fn requests(&self) -> Vec<Request> {
        self.wire.seen().requests().to_vec()
    }

    /// What went wrong in the console so far: errors, exceptions, breaches of a page's policy.
    #[must_use]
    pub fn complaints(&self) -> Vec<String> {
        self.wire.seen().complaints().to_vec()
    }

    /// Each request that told a secret to somebody who may not see it.
    ///
    /// # Errors
    /// When a request's body could not be read.
    pub async fn leaks(&self) -> Result<Vec<String>> {
        until("the bodies of all requests", async || Ok(self.wire.seen().is_whole().then_some(()))).await?;
        let (secrets, confidants) = (locked(&self.secrets).clone(), locked(&self.confidants).clone());
        let mut leaks = Vec::new();
        for request in self.requests() {
            ensure!(request.body_missing.is_none(), "{} {}: no body", request.method, request.url);
            if confidants.iter().any(|origin| origin == request.origin()) {
                continue;
            }
            let told = secrets.iter().filter_map(|secret| Some((secret, request.part_with(secret)?)));
            leaks.extend(told.map(|(secret, part)| {
                format!("{secret:?} in the {part} of {} {}{}", request.method, request.origin(), request.path())
            }));
        }
        Ok(leaks)
    }

    /// What [`browse`] asks for at the end.
    async fn verdict(&self) -> Result<()> {
        self.catch_up().await;
        let leaks = self.leaks().await?;
        ensure!(leaks.is_empty(), "what is secret left the browser:\n  {}", leaks.join("\n  "));
        let (complaints, expected) = (self.complaints(), locked(&self.expected).clone());
        let is_expected = |complaint: &&String| expected.iter().any(|part| complaint.contains(part));
        let bad: Vec<_> = complaints.iter().filter(|complaint| !is_expected(complaint)).cloned().collect();
        ensure!(bad.is_empty(), "the console complains:\n  {}", bad.join("\n  "));
        for part in expected {
            ensure!(complaints.iter().any(|complaint| complaint.contains(&part)), "nobody complained of {part}");
        }
        Ok(())
    }

    /// Whatever happened before this is told by its end: each tab answers in order.
    async fn catch_up(&self) {
        let sessions = self.wire.seen().sessions();
        for session in sessions {
            // One that has ended since has nothing more to tell.
            let _ = self.wire.call(&session, "Runtime.evaluate", json!({"expression": "0"})).await;
        }
    }

    async fn end(mut self) -> Result<()> {
        self.wire.close();
        let ended = self.child.end_within(END_PATIENCE).await?;
        ensure!(ended.success(), "the browser ended with {ended}: {}", launch::log_tail(self.profile.path()));
        Ok(())
    }

    async fn draw_failure(&self) {
        let tabs = locked(&self.tabs).clone();
        for (i, tab) in tabs.iter().enumerate() {
            // The failure itself is told; a picture of it is a bonus.
            let _ = tab.draw(&format!("{}-failure-{i}.png", tab.pictures())).await;
        }
        self.tell();
    }

    fn tell(&self) {
        for request in self.requests() {
            eprintln!("  {} {}", request.method, request.url);
        }
        for complaint in self.complaints() {
            eprintln!("  complaint: {complaint}");
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
            self.tell();
        }
    }
}

/// Looks until there is something to see, as everything in a browser takes its time.
///
/// # Errors
/// When there never is.
pub async fn eventually<T>(look: impl AsyncFnMut() -> Result<Option<T>>) -> Result<T> {
    until("what the test looks for", look).await
}

/// Looks until there is something to see. A look that fails is one that saw nothing yet: pages come and go.
async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Result<Option<T>>) -> Result<T> {
    let end = Instant::now() + PATIENCE;
    loop {
        let seen = look().await;
        if let Ok(Some(seen)) = seen {
            return Ok(seen);
        }
        if Instant::now() >= end {
            bail!("waited in vain: {what}; the last look said {:?}", seen.err());
        }
        sleep(Duration::from_millis(20)).await;
    }
}

/// `target/browser/<test>`, which names of pictures begin with; the thread of a test bears its name.
fn pictures() -> Result<PathBuf> {
    let target = profile_folder()?.parent().context("a profile in no target folder")?.to_path_buf();
    let folder = target.join("browser");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let test = thread::current().name().unwrap_or("unnamed").replace("::", ".");
    // What is left of a failure long mended would mislead.
    for entry in fs::read_dir(&folder)?.flatten() {
        if entry.file_name().to_string_lossy().starts_with(&format!("{test}-failure-")) {
            let _ = fs::remove_file(entry.path());
        }
    }
    Ok(folder.join(test))
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
