//! Keyboard input.

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::session::Session;

const SHIFT: u8 = 8;
const CONTROL: u8 = 2;

/// The key name, code, key code and text of a key.
fn key(name: &str) -> Result<(&str, String, u32, Option<&str>)> {
    Ok(match name {
        "Tab" => ("Tab", "Tab".into(), 9, None),
        "Enter" => ("Enter", "Enter".into(), 13, Some("\r")),
        "Space" => (" ", "Space".into(), 32, Some(" ")),
        "Escape" => ("Escape", "Escape".into(), 27, None),
        "Backspace" => ("Backspace", "Backspace".into(), 8, None),
        "ArrowUp" => ("ArrowUp", "ArrowUp".into(), 38, None),
        "ArrowDown" => ("ArrowDown", "ArrowDown".into(), 40, None),
        _ => {
            let mut chars = name.chars();
            let (Some(c), None) = (chars.next(), chars.next()) else { bail!("unknown key {name}") };
            let code = match c {
                '0'..='9' => format!("Digit{c}"),
                c if c.is_ascii_alphabetic() => format!("Key{}", c.to_ascii_uppercase()),
                _ => String::new(),
            };
            let number = if code.is_empty() { 0 } else { u32::from(c.to_ascii_uppercase()) };
            (name, code, number, Some(name))
        }
    })
}

impl Session {
    /// Presses a key: a character, or `Tab`, `Shift+Tab`, `Enter`, `Space`, `Escape`, `Backspace`, `ArrowUp` or
    /// `ArrowDown`.
    ///
    /// # Errors
    /// When there is no such key, or the browser is gone.
    pub async fn press(&self, name: &str) -> Result<()> {
        let (modifiers, name) = name.strip_prefix("Shift+").map_or((0, name), |name| (SHIFT, name));
        self.dispatch(name, modifiers, &json!([])).await
    }

    /// Types text key by key.
    ///
    /// # Errors
    /// When the browser is gone.
    pub async fn type_text(&self, text: &str) -> Result<()> {
        for c in text.chars() {
            let name = if c == ' ' { "Space".to_owned() } else { c.to_string() };
            self.press(&name).await?;
        }
        Ok(())
    }

    /// Presses Ctrl+A.
    pub(super) async fn select_all(&self) -> Result<()> {
        self.dispatch("a", CONTROL, &json!(["selectAll"])).await
    }

    async fn dispatch(&self, name: &str, modifiers: u8, commands: &Value) -> Result<()> {
        let (key, code, number, text) = key(name)?;
        let mut event = json!({
            "type": "keyDown", "key": key, "code": code, "windowsVirtualKeyCode": number, "modifiers": modifiers,
            "commands": commands,
        });
        if let (Some(text), 0) = (text, modifiers) {
            event["text"] = text.into();
        }
        self.call("Input.dispatchKeyEvent", event.clone()).await.with_context(|| format!("key {name}"))?;
        let event = event.as_object_mut().context("not an object")?;
        event.insert("type".into(), "keyUp".into());
        event.remove("text");
        event.remove("commands");
        self.call("Input.dispatchKeyEvent", json!(event)).await.map(drop)
    }
}
