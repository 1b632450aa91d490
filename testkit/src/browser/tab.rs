//! A tab: navigation, emulation and screenshots.

use std::{fs, ops::Deref, path::PathBuf, sync::Arc};

use anyhow::{Context, Result, bail, ensure};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::json;

use super::{devtools::DevTools, frame::Frame, session::Session};
use crate::eventually;

/// A window size and kind of device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Device {
    /// 1280 × 900.
    Desktop,
    /// 390 × 844, with touch input.
    Phone,
    /// 320 × 568, with touch input: the narrowest in use.
    SmallPhone,
}

impl Device {
    /// The errors of [`Tab::screenshot`].
    pub const ALL: [Self; 2] = [Self::Desktop, Self::Phone];

    /// The name used in file names of screenshots.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Desktop => "desktop",
            Self::Phone => "phone",
            Self::SmallPhone => "small-phone",
        }
    }

    fn size(self) -> (u32, u32) {
        match self {
            Self::Desktop => (1280, 900),
            Self::Phone => (390, 844),
            Self::SmallPhone => (320, 568),
        }
    }
}

/// A tab. Use a [`Frame`] to work with its page.
#[derive(Clone, Debug)]
pub struct Tab {
    session: Session,
    device: Device,
    screenshots: PathBuf,
}

impl Deref for Tab {
    type Target = Session;

    fn deref(&self) -> &Session {
        &self.session
    }
}

/// Opens a new tab.
pub(super) async fn new_target(devtools: &DevTools) -> Result<String> {
    let target = devtools.call("", "Target.createTarget", json!({"url": "about:blank"})).await?;
    Ok(target["targetId"].as_str().context("the tab has no id")?.to_owned())
}

/// The tab that the browser starts with, if any.
pub(super) async fn first_target(devtools: &DevTools) -> Result<Option<String>> {
    let open = devtools.call("", "Target.getTargets", json!({})).await?;
    let mut open = open["targetInfos"].as_array().into_iter().flatten();
    let first = open.find(|target| target["type"] == "page" && target["url"] == "about:blank");
    Ok(first.and_then(|target| target["targetId"].as_str()).map(str::to_owned))
}

impl Tab {
    /// The tab of a target, once its session exists.
    pub(super) async fn of(
        devtools: &Arc<DevTools>,
        target: String,
        device: Device,
        screenshots: PathBuf,
    ) -> Result<Self> {
        let id = eventually("a tab", async || Ok(devtools.events().session_of(&target))).await?;
        let session = Session { devtools: Arc::clone(devtools), target, id, scripts_enabled: true };
        let tab = Self { session, device, screenshots };
        tab.resize(device).await?;
        Ok(tab)
    }

    /// Navigates to a URL and waits until the page has loaded.
    ///
    /// # Errors
    /// When the navigation fails.
    pub async fn open(&self, url: &str) -> Result<()> {
        let response = self.call("Page.navigate", json!({"url": url})).await?;
        ensure!(response.get("errorText").is_none(), "{url}: {}", response["errorText"]);
        self.wait_until_loaded().await
    }

    /// Reloads the page. A posted form is posted again.
    ///
    /// # Errors
    /// When the browser is gone.
    pub async fn reload(&self) -> Result<()> {
        // Marks the old document to tell it from the new one.
        self.top().value("document.body.dataset.old = true").await?;
        self.call("Page.reload", json!({})).await?;
        eventually("the reloaded page", async || {
            Ok((self.top().value("document.body.dataset.old === undefined").await? == true).then_some(()))
        })
        .await?;
        self.wait_until_loaded().await
    }

    /// Goes back in the history.
    ///
    /// # Errors
    /// When there is no earlier page.
    pub async fn back(&self) -> Result<()> {
        let history = self.call("Page.getNavigationHistory", json!({})).await?;
        let now = history["currentIndex"].as_u64().context("no history")?;
        let before = now.checked_sub(1).context("nothing to go back to")?;
        let entry = &history["entries"][usize::try_from(before)?]["id"];
        self.call("Page.navigateToHistoryEntry", json!({"entryId": entry})).await.map(drop)
    }

    /// Blocks requests to URLs with these prefixes. An empty list lifts all blocks.
    ///
    /// # Errors
    /// When the browser is gone.
    pub async fn block_urls(&self, prefixes: &[&str]) -> Result<()> {
        let patterns: Vec<_> = prefixes.iter().map(|prefix| format!("{prefix}*")).collect();
        self.call("Network.setBlockedURLs", json!({"urls": patterns})).await.map(drop)
    }

    /// Lets requests to matching URLs (`*` matches anything) reach the server but drops the responses. `None` stops
    /// that.
    ///
    /// # Errors
    /// When the browser is gone.
    pub async fn drop_responses(&self, pattern: Option<&str>) -> Result<()> {
        let Some(pattern) = pattern else { return self.call("Fetch.disable", json!({})).await.map(drop) };
        let patterns = json!([{"urlPattern": pattern, "requestStage": "Response"}]);
        self.call("Fetch.enable", json!({"patterns": patterns})).await.map(drop)
    }

    /// Emulates a medium (`screen`, `print`) and media features, such as `("forced-colors", "active")`.
    ///
    /// # Errors
    /// When the browser is gone.
    pub async fn emulate_media(&self, medium: &str, preferences: &[(&str, &str)]) -> Result<()> {
        let features: Vec<_> = preferences.iter().map(|(name, value)| json!({"name": name, "value": value})).collect();
        self.call("Emulation.setEmulatedMedia", json!({"media": medium, "features": features})).await.map(drop)
    }

    /// Gives the tab an authenticator that stores passkeys and verifies its user without asking (WebAuthn).
    ///
    /// # Errors
    /// When the browser is gone.
    pub async fn add_authenticator(&self) -> Result<()> {
        self.call("WebAuthn.enable", json!({})).await?;
        let options = json!({
            "protocol": "ctap2", "transport": "internal", "hasResidentKey": true, "hasUserVerification": true,
            "isUserVerified": true, "automaticPresenceSimulation": true,
        });
        self.call("WebAuthn.addVirtualAuthenticator", json!({"options": options})).await.map(drop)
    }

    /// Disables JavaScript on pages.
    ///
    /// # Errors
    /// When the browser is gone.
    pub async fn disable_scripts(&mut self) -> Result<()> {
        self.session.scripts_enabled = false;
        self.call("Emulation.setScriptExecutionDisabled", json!({"value": true})).await.map(drop)
    }

    /// Waits until the page has loaded completely.
    ///
    /// # Errors
    /// When it does not load in time.
    pub async fn wait_until_loaded(&self) -> Result<()> {
        eventually("a loaded page", async || {
            Ok((self.top().value("document.readyState").await? == "complete").then_some(()))
        })
        .await
    }

    /// The current URL.
    ///
    /// # Errors
    /// When the browser is gone.
    pub async fn url(&self) -> Result<String> {
        let url = self.top().value("location.href").await?;
        Ok(url.as_str().context("no URL")?.to_owned())
    }

    /// Changes the window size.
    ///
    /// # Errors
    /// When the browser is gone.
    pub async fn resize(&self, device: Device) -> Result<()> {
        let (width, height) = device.size();
        let is_phone = device != Device::Desktop;
        let scale = if is_phone { 2 } else { 1 };
        let metrics = json!({"width": width, "height": height, "deviceScaleFactor": scale, "mobile": is_phone});
        self.call("Emulation.setDeviceMetricsOverride", metrics).await?;
        self.call("Emulation.setTouchEmulationEnabled", json!({"enabled": is_phone})).await.map(drop)
    }

    /// Takes a screenshot of the whole page at each size, as `<test>-<step>-<desktop|phone>.png`, and checks that
    /// nothing is wider than the window.
    ///
    /// # Errors
    /// When something is wider, or the file cannot be written.
    pub async fn screenshot(&self, step: &str) -> Result<()> {
        for device in Device::ALL {
            self.resize(device).await?;
            let name = format!("{}-{step}-{}.png", self.screenshots.display(), device.name());
            self.save_screenshot(&name).await?;
            let width = self.top().value("document.documentElement.scrollWidth").await?;
            let width = width.as_u64().context("a width")?;
            if width > u64::from(device.size().0) {
                bail!("{name}: the page is {width} px wide, wider than the window");
            }
        }
        self.resize(self.device).await
    }

    /// Takes a screenshot at the current window size.
    ///
    /// # Errors
    /// When it cannot be written.
    pub async fn screenshot_at_current_size(&self, step: &str) -> Result<()> {
        self.save_screenshot(&format!("{}-{step}.png", self.screenshots.display())).await
    }

    pub(super) async fn save_screenshot(&self, name: &str) -> Result<()> {
        // A background tab is not always painted, and the browser would wait for that forever.
        self.call("Page.bringToFront", json!({})).await?;
        self.top().wait_until_painted().await?;
        let metrics = self.call("Page.getLayoutMetrics", json!({})).await?;
        let size = &metrics["cssContentSize"];
        // One pixel of the image for each of CSS: four times as many cost more than everything else on a phone's page.
        let ratio = self.top().value("devicePixelRatio").await?.as_f64().unwrap_or(1.0);
        let clip = json!({"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1.0 / ratio});
        let screenshot =
            json!({"format": "png", "optimizeForSpeed": true, "captureBeyondViewport": true, "clip": clip});
        let screenshot = match self.call("Page.captureScreenshot", screenshot.clone()).await {
            Ok(screenshot) => screenshot,
            Err(_) => self.call("Page.captureScreenshot", screenshot).await?,
        };
        let bytes = STANDARD.decode(screenshot["data"].as_str().context("the response has no image")?)?;
        fs::write(name, bytes).with_context(|| format!("cannot write {name}"))
    }

    pub(super) fn screenshots(&self) -> String {
        self.screenshots.display().to_string()
    }

    /// The outermost document.
    #[must_use]
    pub fn top(&self) -> Frame<'_> {
        Frame::top(&self.session)
    }

    /// The document of the frame element at `selector`.
    #[must_use]
    pub fn frame(&self, selector: &str) -> Frame<'_> {
        self.top().within(selector)
    }
}
