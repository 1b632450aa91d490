//! A document: that of a tab, or one within it. What is looked for is waited for.

use anyhow::{Context, Result, anyhow, bail, ensure};
use serde_json::{Value, json};

use super::{seen::Place, tab::Tab, until};

/// A document by its place in the page, not by what was loaded there: it stays the same when the page is left and another
/// is loaded.
#[derive(Clone, Debug)]
pub struct Frame<'a> {
    tab: &'a Tab,
    /// The selectors of the elements that hold it, outermost first.
    path: Vec<String>,
}

/// How a screen reader is told of an element.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spoken {
    /// Such as `textbox`, `button`, `alert`.
    pub role: String,
    /// The label, wherever it comes from.
    pub name: String,
    /// More about it, such as the text of an error.
    pub description: String,
    /// Whether what was entered is wrong.
    pub invalid: bool,
    /// Whether it must be filled in.
    pub required: bool,
}

impl<'a> Frame<'a> {
    pub(super) fn top(tab: &'a Tab) -> Self {
        Self { tab, path: Vec::new() }
    }

    /// The document within the element at `selector`.
    #[must_use]
    pub fn within(&self, selector: &str) -> Self {
        let mut path = self.path.clone();
        path.push(selector.to_owned());
        Self { tab: self.tab, path }
    }

    /// The value of a JavaScript expression, now. A promise is waited for.
    ///
    /// # Errors
    /// When it throws, or the document is gone.
    pub async fn value(&self, script: &str) -> Result<Value> {
        let result = self.evaluate(script, true).await?;
        Ok(result.get("value").cloned().unwrap_or(Value::Null))
    }

    /// Waits until an expression is true.
    ///
    /// # Errors
    /// When it never is.
    pub async fn wait(&self, script: &str) -> Result<()> {
        until(script, async || Ok((self.value(script).await? == true).then_some(()))).await
    }

    /// What `function` makes of the first element at `selector`, once there is one.
    ///
    /// # Errors
    /// When there never is.
    pub async fn of(&self, selector: &str, function: &str) -> Result<Value> {
        let script = on(selector, &format!("[({function})(element)]"));
        until(selector, async || Ok(self.value(&script).await?.get_mut(0).map(Value::take))).await
    }

    /// The text of an element as it is shown.
    ///
    /// # Errors
    /// When there is no such element.
    pub async fn text(&self, selector: &str) -> Result<String> {
        Ok(self.of(selector, "e => e.innerText").await?.as_str().unwrap_or_default().trim().to_owned())
    }

    /// Waits until the text of one of the elements at `selector` has `text` in it.
    ///
    /// # Errors
    /// When none ever has; with what is on the page instead.
    pub async fn shows(&self, selector: &str, text: &str) -> Result<()> {
        let script = format!(
            "[...document.querySelectorAll({})].some(element => element.innerText.includes({}))",
            json!(selector),
            json!(text)
        );
        let shown = until(text, async || Ok((self.value(&script).await? == true).then_some(()))).await;
        if shown.is_err() {
            let page = self.value(WORDS).await.unwrap_or_default();
            bail!("no {text:?} in {selector}; the page says {page}");
        }
        Ok(())
    }

    /// How many elements there are at `selector` now.
    ///
    /// # Errors
    /// When the document is gone.
    pub async fn count(&self, selector: &str) -> Result<u64> {
        let count = self.value(&format!("document.querySelectorAll({}).length", json!(selector))).await?;
        count.as_u64().context("a number")
    }

    /// An attribute of an element, if it has it.
    ///
    /// # Errors
    /// When there is no such element.
    pub async fn attribute(&self, selector: &str, name: &str) -> Result<Option<String>> {
        let value = self.of(selector, &format!("e => e.getAttribute({})", json!(name))).await?;
        Ok(value.as_str().map(str::to_owned))
    }

    /// What stands in a field.
    ///
    /// # Errors
    /// When there is no such field.
    pub async fn entered(&self, selector: &str) -> Result<String> {
        Ok(self.of(selector, "e => e.value").await?.as_str().unwrap_or_default().to_owned())
    }

    /// The element that keys go to, as `#id` or else by its tag.
    ///
    /// # Errors
    /// When the document is gone.
    pub async fn focused(&self) -> Result<String> {
        let script = "(e => e.id ? '#' + e.id : e.tagName.toLowerCase())(document.activeElement)";
        Ok(self.value(script).await?.as_str().unwrap_or_default().to_owned())
    }

    /// Clicks on the middle of an element, once it can be clicked there.
    ///
    /// # Errors
    /// When it never can: it is not there, switched off, has no size, or is covered.
    pub async fn click(&self, selector: &str) -> Result<()> {
        let (x, y) = until(&format!("{selector} to be clicked"), async || {
            self.value(&on(selector, SCROLL)).await?;
            self.drawn().await?;
            let inside = self.value(&on(selector, MIDDLE)).await?;
            let Some(mut at) = point(&inside) else { return Ok(None) };
            let mut frame = self.clone();
            while let Some(holder) = frame.path.pop() {
                let corner = frame.value(&on(&holder, CORNER)).await?;
                let Some(corner) = point(&corner) else { return Ok(None) };
                at = (at.0 + corner.0, at.1 + corner.1);
            }
            Ok(Some(at))
        })
        .await?;
        for kind in ["mouseMoved", "mousePressed", "mouseReleased"] {
            let button = if kind == "mouseMoved" { "none" } else { "left" };
            let event = json!({"type": kind, "x": x, "y": y, "button": button, "clickCount": 1});
            self.tab.call("Input.dispatchMouseEvent", event).await?;
        }
        Ok(())
    }

    /// Clicks on a field and types, in place of what stood there.
    ///
    /// # Errors
    /// When there is no such field.
    pub async fn enter(&self, selector: &str, text: &str) -> Result<()> {
        until(selector, async || {
            // A click on a page that is only now being drawn goes nowhere, and a person clicks again.
            self.click(selector).await?;
            Ok((self.value(&on(selector, "element === document.activeElement")).await? == true).then_some(()))
        })
        .await?;
        self.tab.select_all().await?;
        if text.is_empty() { self.tab.press("Backspace").await } else { self.tab.keys(text).await }
    }

    /// Chooses from a list by the value of the option.
    ///
    /// # Errors
    /// When there is no such option.
    pub async fn choose(&self, selector: &str, value: &str) -> Result<()> {
        let choice = format!(
            "e => {{ e.value = {}; for (const kind of ['input', 'change']) e.dispatchEvent(new Event(kind, \
             {{bubbles: true}})); return e.value }}",
            json!(value)
        );
        let chosen = self.of(selector, &choice).await?;
        ensure!(chosen == value, "{selector} has no option {value}");
        Ok(())
    }

    /// How a screen reader is told of an element.
    ///
    /// # Errors
    /// When there is no such element.
    pub async fn spoken(&self, selector: &str) -> Result<Spoken> {
        let (place, object) = self.object(selector).await?;
        let ask = json!({"objectId": object, "fetchRelatives": false});
        let answer = self.tab.wire().call(&place.session, "Accessibility.getPartialAXTree", ask).await?;
        let node = &answer["nodes"][0];
        let text = |value: &Value| value["value"].as_str().unwrap_or_default().to_owned();
        let property = |name: &str| {
            let found = node["properties"].as_array()?.iter().find(|property| property["name"] == name)?;
            Some(found["value"]["value"].clone())
        };
        let holds = |name: &str| property(name).is_some_and(|value| value == true || value == "true");
        Ok(Spoken {
            role: text(&node["role"]),
            name: text(&node["name"]),
            description: text(&node["description"]),
            invalid: holds("invalid"),
            required: holds("required"),
        })
    }

    /// Waits until this document and those around it are drawn as they stand: the browser finds what a click hits by what is
    /// drawn.
    pub(super) async fn drawn(&self) -> Result<()> {
        if !self.tab.runs_scripts() {
            return Ok(());
        }
        for depth in 0..=self.path.len() {
            let frame = Self { tab: self.tab, path: self.path[..depth].to_vec() };
            frame.value("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))").await?;
        }
        Ok(())
    }

    /// Where the scripts of this document run.
    async fn place(&self) -> Result<Place> {
        let mut id = self.tab.target().to_owned();
        for (depth, holder) in self.path.iter().enumerate() {
            let outer = Self { tab: self.tab, path: self.path[..depth].to_vec() };
            let (place, object) = Box::pin(outer.object(holder)).await?;
            let node = self.tab.wire().call(&place.session, "DOM.describeNode", json!({"objectId": object})).await?;
            id = node["node"]["frameId"].as_str().with_context(|| format!("{holder} holds no document"))?.to_owned();
        }
        self.tab.wire().seen().place_of(&id).with_context(|| format!("nothing is loaded in {:?}", self.path))
    }

    /// An element, by the name that the protocol has for it.
    async fn object(&self, selector: &str) -> Result<(Place, String)> {
        let place = self.place().await?;
        let script = format!("document.querySelector({})", json!(selector));
        let found = self.evaluate_at(&place, &script, false).await?;
        let object = found["objectId"].as_str().with_context(|| format!("no {selector}"))?;
        Ok((place, object.to_owned()))
    }

    async fn evaluate(&self, script: &str, by_value: bool) -> Result<Value> {
        self.evaluate_at(&self.place().await?, script, by_value).await
    }

    async fn evaluate_at(&self, place: &Place, script: &str, by_value: bool) -> Result<Value> {
        let ask = json!({
            "expression": script, "contextId": place.context, "returnByValue": by_value, "awaitPromise": true,
            // As after a press of a key, for what a page may do only then.
            "userGesture": true,
        });
        let mut answer = self.tab.wire().call(&place.session, "Runtime.evaluate", ask).await?;
        if let Some(thrown) = answer.get("exceptionDetails") {
            let what = thrown["exception"]["description"].as_str().or(thrown["text"].as_str()).unwrap_or_default();
            return Err(anyhow!("{script} threw {what}"));
        }
        Ok(answer["result"].take())
    }
}

/// What a page says, without the lists to choose from.
const WORDS: &str = "(body => {
    let words = body.innerText;
    for (const list of body.querySelectorAll('select')) words = words.replace(list.innerText, '');
    return words.replace(/\\s+/g, ' ');
})(document.body)";

/// The middle of `element` in its own window, if a click there reaches it.
const MIDDLE: &str = "(() => {
    if (element.disabled) return null;
    const box = element.getBoundingClientRect();
    if (box.width === 0 || box.height === 0) return null;
    const x = box.x + box.width / 2, y = box.y + box.height / 2;
    const hit = document.elementFromPoint(x, y);
    return hit && (element.contains(hit) || hit.contains(element)) ? [x, y] : null;
})()";

const SCROLL: &str = "element.scrollIntoView({block: 'center', inline: 'center', behavior: 'instant'})";

/// Where the window within `element` begins.
const CORNER: &str = "(() => {
    const box = element.getBoundingClientRect();
    return [box.x + element.clientLeft, box.y + element.clientTop];
})()";

/// `script` with the first `element` at `selector`; `null` if there is none.
fn on(selector: &str, script: &str) -> String {
    format!("(element => element && {script})(document.querySelector({}))", json!(selector))
}

fn point(value: &Value) -> Option<(f64, f64)> {
    Some((value.get(0)?.as_f64()?, value.get(1)?.as_f64()?))
}
