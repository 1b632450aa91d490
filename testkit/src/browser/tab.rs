//! A tab: an address, a size, a picture.

use std::{fs, path::PathBuf, sync::Arc};

use anyhow::{Context, Result, bail, ensure};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use super::{frame::Frame, until, wire::Wire};

/// The size of a window, and what kind of machine it is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Device {
    /// 1280 × 900.
    Desktop,
    /// 390 × 844, touched and not clicked.
    Phone,
}

impl Device {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Desktop, Self::Phone];

    /// Its name, as in the names of pictures.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Desktop => "desktop",
            Self::Phone => "phone",
        }
    }

    fn size(self) -> (u32, u32) {
        match self {
            Self::Desktop => (1280, 900),
            Self::Phone => (390, 844),
        }
    }
}

/// One tab. What is on it is reached by way of a [`Frame`].
#[derive(Clone)]
pub struct Tab {
    wire: Arc<Wire>,
    target: String,
    session: String,
    device: Device,
    pictures: PathBuf,
    scripts: bool,
}

/// A tab that nobody has yet.
pub(super) async fn new_target(wire: &Wire) -> Result<String> {
    let made = wire.call("", "Target.createTarget", json!({"url": "about:blank"})).await?;
    Ok(made["targetId"].as_str().context("a tab without an id")?.to_owned())
}

/// The tab that a browser starts with, if it does.
pub(super) async fn first_target(wire: &Wire) -> Result<Option<String>> {
    let open = wire.call("", "Target.getTargets", json!({})).await?;
    let mut open = open["targetInfos"].as_array().into_iter().flatten();
    let first = open.find(|target| target["type"] == "page" && target["url"] == "about:blank");
    Ok(first.and_then(|target| target["targetId"].as_str()).map(str::to_owned))
}

impl Tab {
    /// The tab of a target, once it is watched.
    pub(super) async fn of(wire: &Arc<Wire>, target: String, device: Device, pictures: PathBuf) -> Result<Self> {
        let session = until("a tab", async || Ok(wire.seen().session_of(&target))).await?;
        let tab = Self { wire: Arc::clone(wire), target, session, device, pictures, scripts: true };
        tab.resize(device).await?;
        Ok(tab)
    }

    /// Goes to an address, and waits until all of it has loaded.
    ///
    /// # Errors
    /// When nothing answers there.
    pub async fn open(&self, url: &str) -> Result<()> {
        let answer = self.call("Page.navigate", json!({"url": url})).await?;
        ensure!(answer.get("errorText").is_none(), "{url}: {}", answer["errorText"]);
        self.loaded().await
    }

    /// Loads the page again, as the button does. A form that was posted is posted again.
    ///
    /// # Errors
    /// When the browser is gone.
    pub async fn reload(&self) -> Result<()> {
        // The old document must not be taken for the new one.
        self.top().value("document.body.dataset.old = true").await?;
        self.call("Page.reload", json!({})).await?;
        until("the page anew", async || {
            Ok((self.top().value("document.body.dataset.old === undefined").await? == true).then_some(()))
        })
        .await?;
        self.loaded().await
    }

    /// Goes back, as the button does.
    ///
    /// # Errors
    /// When there is nothing to go back to.
    pub async fn back(&self) -> Result<()> {
        let history = self.call("Page.getNavigationHistory", json!({})).await?;
        let now = history["currentIndex"].as_u64().context("no history")?;
        let before = now.checked_sub(1).context("nothing to go back to")?;
        let entry = &history["entries"][usize::try_from(before)?]["id"];
        self.call("Page.navigateToHistoryEntry", json!({"entryId": entry})).await.map(drop)
    }

    /// From now on nothing can be reached whose address begins so, and all can be if there is nothing to begin with.
    ///
    /// # Errors
    /// When the browser is gone.
    pub async fn cut_off(&self, addresses: &[&str]) -> Result<()> {
        let patterns: Vec<_> = addresses.iter().map(|address| format!("{address}*")).collect();
        self.call("Network.setBlockedURLs", json!({"urls": patterns})).await.map(drop)
    }

    /// From now on requests to addresses of this pattern (`*` is anything) are answered, but their answers are lost on the way to
    /// the page; with no pattern all answers arrive again.
    ///
    /// # Errors
    /// When the browser is gone.
    pub async fn drop_answers(&self, pattern: Option<&str>) -> Result<()> {
        let Some(pattern) = pattern else { return self.call("Fetch.disable", json!({})).await.map(drop) };
        let patterns = json!([{"urlPattern": pattern, "requestStage": "Response"}]);
        self.call("Fetch.enable", json!({"patterns": patterns})).await.map(drop)
    }

    /// Shows pages as on this medium (`screen`, `print`), for users who prefer this, such as `("forced-colors", "active")`.
    ///
    /// # Errors
    /// When the browser is gone.
    pub async fn prefer(&self, medium: &str, preferences: &[(&str, &str)]) -> Result<()> {
        let features: Vec<_> = preferences.iter().map(|(name, value)| json!({"name": name, "value": value})).collect();
        self.call("Emulation.setEmulatedMedia", json!({"media": medium, "features": features})).await.map(drop)
    }

    /// From now on the scripts of pages do not run, as in a browser where they are switched off.
    ///
    /// # Errors
    /// When the browser is gone.
    pub async fn stop_scripts(&mut self) -> Result<()> {
        self.scripts = false;
        self.call("Emulation.setScriptExecutionDisabled", json!({"value": true})).await.map(drop)
    }

    /// Waits until all of the page has loaded.
    ///
    /// # Errors
    /// When it never has.
    pub async fn loaded(&self) -> Result<()> {
        until(
            "a loaded page",
            async || Ok((self.top().value("document.readyState").await? == "complete").then_some(())),
        )
        .await
    }

    /// The address that is shown.
    ///
    /// # Errors
    /// When the browser is gone.
    pub async fn url(&self) -> Result<String> {
        let url = self.top().value("location.href").await?;
        Ok(url.as_str().context("an address")?.to_owned())
    }

    /// Changes the size of the window.
    ///
    /// # Errors
    /// When the browser is gone.
    pub async fn resize(&self, device: Device) -> Result<()> {
        let (width, height) = device.size();
        let is_phone = device == Device::Phone;
        let scale = if is_phone { 2 } else { 1 };
        let metrics = json!({"width": width, "height": height, "deviceScaleFactor": scale, "mobile": is_phone});
        self.call("Emulation.setDeviceMetricsOverride", metrics).await?;
        self.call("Emulation.setTouchEmulationEnabled", json!({"enabled": is_phone})).await.map(drop)
    }

    /// Takes a picture of the whole page at each size, as `<test>-<step>-<desktop|phone>.png`. Nothing on the page may be
    /// wider than the window.
    ///
    /// # Errors
    /// When something is wider, or the picture cannot be written.
    pub async fn picture(&self, step: &str) -> Result<()> {
        for device in Device::ALL {
            self.resize(device).await?;
            let name = format!("{}-{step}-{}.png", self.pictures.display(), device.name());
            self.draw(&name).await?;
            let width = self.top().value("document.documentElement.scrollWidth").await?;
            let width = width.as_u64().context("a width")?;
            if width > u64::from(device.size().0) {
                bail!("{name}: the page is {width} wide, which is wider than the window");
            }
        }
        self.resize(self.device).await
    }

    /// Takes a picture at the size that the window has.
    ///
    /// # Errors
    /// When it cannot be written.
    pub async fn picture_as_it_is(&self, step: &str) -> Result<()> {
        self.draw(&format!("{}-{step}.png", self.pictures.display())).await
    }

    pub(super) async fn draw(&self, name: &str) -> Result<()> {
        // A tab behind another is not always drawn, and the browser would wait for that without end.
        self.call("Page.bringToFront", json!({})).await?;
        self.top().drawn().await?;
        let metrics = self.call("Page.getLayoutMetrics", json!({})).await?;
        let size = &metrics["cssContentSize"];
        let clip = json!({"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1});
        let picture = json!({"format": "png", "optimizeForSpeed": true, "captureBeyondViewport": true, "clip": clip});
        let picture = match self.call("Page.captureScreenshot", picture.clone()).await {
            Ok(picture) => picture,
            Err(_) => self.call("Page.captureScreenshot", picture).await?,
        };
        let bytes = STANDARD.decode(picture["data"].as_str().context("no picture")?)?;
        fs::write(name, bytes).with_context(|| format!("cannot write {name}"))
    }

    pub(super) fn pictures(&self) -> String {
        self.pictures.display().to_string()
    }

    pub(super) async fn call(&self, method: &str, parameters: Value) -> Result<Value> {
        self.wire.call(&self.session, method, parameters).await
    }

    pub(super) fn wire(&self) -> &Arc<Wire> {
        &self.wire
    }

    pub(super) fn runs_scripts(&self) -> bool {
        self.scripts
    }

    pub(super) fn target(&self) -> &str {
        &self.target
    }

    /// The outermost document.
    #[must_use]
    pub fn top(&self) -> Frame<'_> {
        Frame::top(self)
    }

    /// The document within the element at `selector`.
    #[must_use]
    pub fn frame(&self, selector: &str) -> Frame<'_> {
        self.top().within(selector)
    }
}

impl std::fmt::Debug for Tab {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tab").field("target", &self.target).finish_non_exhaustive()
    }
}
