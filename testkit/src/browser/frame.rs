//! A document: that of a tab, or of a frame in it. Methods wait for the elements that they use.

use anyhow::{Context, Result, anyhow, bail, ensure};
use serde_json::{Value, json};

use super::{events::ExecutionContext, session::Session};
use crate::eventually;

/// A document, identified by its place in the page: it stays valid when another page is loaded there.
#[derive(Clone, Debug)]
pub struct Frame<'a> {
    session: &'a Session,
    /// The selectors of the frame elements, outermost first.
    path: Vec<String>,
}

/// An element as assistive technology sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessibleElement {
    /// Such as `textbox`, `button`, `alert`.
    pub role: String,
    /// The accessible name.
    pub name: String,
    /// The accessible description, such as the text of an error.
    pub description: String,
    pub invalid: bool,
    pub required: bool,
}

impl<'a> Frame<'a> {
    pub(super) fn top(session: &'a Session) -> Self {
        Self { session, path: Vec::new() }
    }

    /// The document of the frame element at `selector`.
    #[must_use]
    pub fn within(&self, selector: &str) -> Self {
        let mut path = self.path.clone();
        path.push(selector.to_owned());
        Self { session: self.session, path }
    }

    /// The current value of a JavaScript expression. Promises are awaited.
    ///
    /// # Errors
    /// When it throws, or the document is gone.
    pub async fn value(&self, script: &str) -> Result<Value> {
        let result = self.evaluate(script, true).await?;
        Ok(result.get("value").cloned().unwrap_or(Value::Null))
    }

    /// Waits until an expression is `true`.
    ///
    /// # Errors
    /// When it does not become true in time.
    pub async fn wait(&self, script: &str) -> Result<()> {
        eventually(script, async || Ok((self.value(script).await? == true).then_some(()))).await
    }

    /// Calls `function` with the first element at `selector`, once there is one.
    ///
    /// # Errors
    /// When no such element appears.
    pub async fn evaluate_on(&self, selector: &str, function: &str) -> Result<Value> {
        let script = with_element(selector, &format!("[({function})(element)]"));
        eventually(selector, async || Ok(self.value(&script).await?.get_mut(0).map(Value::take))).await
    }

    /// The displayed text of an element.
    ///
    /// # Errors
    /// When there is no such element.
    pub async fn text(&self, selector: &str) -> Result<String> {
        Ok(self.evaluate_on(selector, "e => e.innerText").await?.as_str().unwrap_or_default().trim().to_owned())
    }

    /// Waits until one of the elements at `selector` contains `text`.
    ///
    /// # Errors
    /// When none does in time; the error includes the text of the page.
    pub async fn shows(&self, selector: &str, text: &str) -> Result<()> {
        let script = format!(
            "[...document.querySelectorAll({})].some(element => element.innerText.includes({}))",
            json!(selector),
            json!(text)
        );
        let result = eventually(text, async || Ok((self.value(&script).await? == true).then_some(()))).await;
        if result.is_err() {
            let page = self.value(VISIBLE_TEXT).await.unwrap_or_default();
            bail!("{selector} does not contain {text:?}; the page shows {page}");
        }
        Ok(())
    }

    /// The current number of elements at `selector`.
    ///
    /// # Errors
    /// When the document is gone.
    pub async fn count(&self, selector: &str) -> Result<u64> {
        let count = self.value(&format!("document.querySelectorAll({}).length", json!(selector))).await?;
        count.as_u64().context("not a number")
    }

    /// The value of an attribute, if the element has it.
    ///
    /// # Errors
    /// When there is no such element.
    pub async fn attribute(&self, selector: &str, name: &str) -> Result<Option<String>> {
        let value = self.evaluate_on(selector, &format!("e => e.getAttribute({})", json!(name))).await?;
        Ok(value.as_str().map(str::to_owned))
    }

    /// The value of an input.
    ///
    /// # Errors
    /// When there is no such field.
    pub async fn input_value(&self, selector: &str) -> Result<String> {
        Ok(self.evaluate_on(selector, "e => e.value").await?.as_str().unwrap_or_default().to_owned())
    }

    /// The element with the keyboard focus, as `#id` or else by its tag.
    ///
    /// # Errors
    /// When the document is gone.
    pub async fn focused(&self) -> Result<String> {
        let script = "(e => e.id ? '#' + e.id : e.tagName.toLowerCase())(document.activeElement)";
        Ok(self.value(script).await?.as_str().unwrap_or_default().to_owned())
    }

    /// Clicks the middle of an element, once it is clickable there.
    ///
    /// # Errors
    /// When it does not become clickable: it is missing, disabled, empty or covered.
    pub async fn click(&self, selector: &str) -> Result<()> {
        let (x, y) = eventually(&format!("{selector} to become clickable"), async || {
            self.value(&with_element(selector, SCROLL)).await?;
            self.wait_until_painted().await?;
            let inside = self.value(&with_element(selector, MIDDLE)).await?;
            let Some(mut at) = point(&inside) else { return Ok(None) };
            let mut frame = self.clone();
            while let Some(frame_element) = frame.path.pop() {
                let corner = frame.value(&with_element(&frame_element, FRAME_ORIGIN)).await?;
                let Some(corner) = point(&corner) else { return Ok(None) };
                at = (at.0 + corner.0, at.1 + corner.1);
            }
            Ok(Some(at))
        })
        .await?;
        for kind in ["mouseMoved", "mousePressed", "mouseReleased"] {
            let button = if kind == "mouseMoved" { "none" } else { "left" };
            let event = json!({"type": kind, "x": x, "y": y, "button": button, "clickCount": 1});
            self.session.call("Input.dispatchMouseEvent", event).await?;
        }
        Ok(())
    }

    /// Clicks an input and replaces its value by typing.
    ///
    /// # Errors
    /// When there is no such field.
    pub async fn enter(&self, selector: &str, text: &str) -> Result<()> {
        eventually(selector, async || {
            // A click on a page that has not been painted yet has no effect; a user would click again.
            self.click(selector).await?;
            Ok((self.value(&with_element(selector, "element === document.activeElement")).await? == true).then_some(()))
        })
        .await?;
        self.session.select_all().await?;
        if text.is_empty() { self.session.press("Backspace").await } else { self.session.type_text(text).await }
    }

    /// Selects the option with this value.
    ///
    /// # Errors
    /// When there is no such option.
    pub async fn choose(&self, selector: &str, value: &str) -> Result<()> {
        let choice = format!(
            "e => {{ e.value = {}; for (const kind of ['input', 'change']) e.dispatchEvent(new Event(kind, \
             {{bubbles: true}})); return e.value }}",
            json!(value)
        );
        let chosen = self.evaluate_on(selector, &choice).await?;
        ensure!(chosen == value, "{selector} has no option {value}");
        Ok(())
    }

    /// The accessibility properties of an element.
    ///
    /// # Errors
    /// When there is no such element.
    pub async fn accessibility(&self, selector: &str) -> Result<AccessibleElement> {
        let (context, remote_object) = self.remote_object(selector).await?;
        let params = json!({"objectId": remote_object, "fetchRelatives": false});
        let response = self.session.devtools.call(&context.session, "Accessibility.getPartialAXTree", params).await?;
        let node = &response["nodes"][0];
        let text = |value: &Value| value["value"].as_str().unwrap_or_default().to_owned();
        let property = |name: &str| {
            let property = node["properties"].as_array()?.iter().find(|property| property["name"] == name)?;
            Some(property["value"]["value"].clone())
        };
        let is_set = |name: &str| property(name).is_some_and(|value| value == true || value == "true");
        Ok(AccessibleElement {
            role: text(&node["role"]),
            name: text(&node["name"]),
            description: text(&node["description"]),
            invalid: is_set("invalid"),
            required: is_set("required"),
        })
    }

    /// Waits until this document and those around it have been painted: the browser uses the painted state to find the
    /// target of a click.
    pub(super) async fn wait_until_painted(&self) -> Result<()> {
        if !self.session.scripts_enabled {
            return Ok(());
        }
        for depth in 0..=self.path.len() {
            let frame = Self { session: self.session, path: self.path[..depth].to_vec() };
            frame.value("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))").await?;
        }
        Ok(())
    }

    /// The context that runs the scripts of this document.
    async fn context(&self) -> Result<ExecutionContext> {
        let mut id = self.session.target.clone();
        for (depth, frame_element) in self.path.iter().enumerate() {
            let outer = Self { session: self.session, path: self.path[..depth].to_vec() };
            let (context, remote_object) = Box::pin(outer.remote_object(frame_element)).await?;
            let node = self
                .session
                .devtools
                .call(&context.session, "DOM.describeNode", json!({"objectId": remote_object}))
                .await?;
            id = node["node"]["frameId"]
                .as_str()
                .with_context(|| format!("{frame_element} contains no document"))?
                .to_owned();
        }
        self.session
            .devtools
            .events()
            .context_of(&id)
            .with_context(|| format!("no document is loaded in {:?}", self.path))
    }

    /// The remote object id of an element.
    async fn remote_object(&self, selector: &str) -> Result<(ExecutionContext, String)> {
        let context = self.context().await?;
        let script = format!("document.querySelector({})", json!(selector));
        let result = self.evaluate_at(&context, &script, false).await?;
        let remote_object = result["objectId"].as_str().with_context(|| format!("no {selector}"))?;
        Ok((context, remote_object.to_owned()))
    }

    async fn evaluate(&self, script: &str, by_value: bool) -> Result<Value> {
        self.evaluate_at(&self.context().await?, script, by_value).await
    }

    async fn evaluate_at(&self, context: &ExecutionContext, script: &str, by_value: bool) -> Result<Value> {
        let params = json!({
            "expression": script, "contextId": context.id, "returnByValue": by_value, "awaitPromise": true,
            // Allows what pages may do only after user input.
            "userGesture": true,
        });
        let mut response = self.session.devtools.call(&context.session, "Runtime.evaluate", params).await?;
        if let Some(thrown) = response.get("exceptionDetails") {
            let what = thrown["exception"]["description"].as_str().or(thrown["text"].as_str()).unwrap_or_default();
            return Err(anyhow!("{script} threw {what}"));
        }
        Ok(response["result"].take())
    }
}

/// The text of the page without the options of select elements.
const VISIBLE_TEXT: &str = "(body => {
    let words = body.innerText;
    for (const list of body.querySelectorAll('select')) words = words.replace(list.innerText, '');
    return words.replace(/\\s+/g, ' ');
})(document.body)";

/// The middle of `element` in its own frame, if a click there reaches it.
const MIDDLE: &str = "(() => {
    if (element.disabled) return null;
    const box = element.getBoundingClientRect();
    if (box.width === 0 || box.height === 0) return null;
    const x = box.x + box.width / 2, y = box.y + box.height / 2;
    const hit = document.elementFromPoint(x, y);
    return hit && (element.contains(hit) || hit.contains(element)) ? [x, y] : null;
})()";

const SCROLL: &str = "element.scrollIntoView({block: 'center', inline: 'center', behavior: 'instant'})";

/// The origin of the frame inside `element`.
const FRAME_ORIGIN: &str = "(() => {
    const box = element.getBoundingClientRect();
    return [box.x + element.clientLeft, box.y + element.clientTop];
})()";

/// Evaluates `script` with `element` as the first match of `selector`; `null` if there is none.
fn with_element(selector: &str, script: &str) -> String {
    format!("(element => element && {script})(document.querySelector({}))", json!(selector))
}

fn point(value: &Value) -> Option<(f64, f64)> {
    Some((value.get(0)?.as_f64()?, value.get(1)?.as_f64()?))
}
