//! YAML as compose.yaml is written: blocks and one-line forms, quotes, anchors and merges. Every scalar is a text.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Map, Value};

/// Reads a document.
pub(crate) fn read(text: &str) -> Result<Value> {
    let mut lines = Vec::new();
    for line in text.lines() {
        let content = uncommented(line.trim_start()).trim_end();
        if !content.is_empty() {
            lines.push((line.len() - line.trim_start().len(), content.to_owned()));
        }
    }
    let mut reader = Reader { lines, at: 0, anchors: BTreeMap::new() };
    let value = reader.block(0)?;
    ensure!(reader.at == reader.lines.len(), "not understood: {}", reader.lines[reader.at].1);
    Ok(value)
}

/// A line up to its comment.
fn uncommented(content: &str) -> &str {
    let (mut quote, mut before) = (None, ' ');
    for (at, c) in content.char_indices() {
        match quote {
            Some(open) => quote = (c != open || before == '\\').then_some(open),
            None if c == '#' && before == ' ' => return &content[..at],
            None if (c == '"' || c == '\'') && !before.is_alphanumeric() => quote = Some(c),
            None => {}
        }
        before = c;
    }
    content
}

struct Reader {
    /// How deep each line stands, and what it says.
    lines: Vec<(usize, String)>,
    at: usize,
    anchors: BTreeMap<String, Value>,
}

impl Reader {
    /// What stands from here on at this depth or deeper.
    fn block(&mut self, least: usize) -> Result<Value> {
        let Some((depth, content)) = self.lines.get(self.at).cloned() else { return Ok(Value::Null) };
        if depth < least {
            return Ok(Value::Null);
        }
        if content.starts_with("- ") {
            return self.items(depth);
        }
        if key(&content).is_some() {
            return self.map(depth);
        }
        self.at += 1;
        self.inline(&content)
    }

    fn items(&mut self, depth: usize) -> Result<Value> {
        let mut items = Vec::new();
        while let Some((at, content)) = self.lines.get(self.at).cloned()
            && at == depth
            && let Some(item) = content.strip_prefix("- ")
        {
            if key(item).is_some() {
                // A map whose first key stands beside the dash.
                self.lines[self.at] = (depth + 2, item.to_owned());
                items.push(self.map(depth + 2)?);
            } else {
                self.at += 1;
                items.push(self.inline(item)?);
            }
        }
        Ok(items.into())
    }

    fn map(&mut self, depth: usize) -> Result<Value> {
        let (mut map, mut merged) = (Map::new(), Map::new());
        while let Some((at, content)) = self.lines.get(self.at).cloned()
            && at == depth
            && let Some((key, rest)) = key(&content)
        {
            self.at += 1;
            let (anchor, rest) = match rest.strip_prefix('&') {
                Some(named) => {
                    named.split_once(' ').map_or((Some(named), ""), |(name, rest)| (Some(name), rest.trim()))
                }
                None => (None, rest),
            };
            let value = if rest.is_empty() { self.below(depth)? } else { self.inline(rest)? };
            if let Some(anchor) = anchor {
                self.anchors.insert(anchor.to_owned(), value.clone());
            }
            if key == "<<" {
                merged.extend(value.as_object().context("what is merged is a map")?.clone());
            } else {
                ensure!(map.insert(key.to_owned(), value).is_none(), "{key} stands twice");
            }
        }
        merged.extend(map);
        Ok(merged.into())
    }

    /// The value of a key that has nothing beside it: what stands deeper, or a list right below.
    fn below(&mut self, depth: usize) -> Result<Value> {
        let is_list = self.lines.get(self.at).is_some_and(|(at, line)| *at == depth && line.starts_with("- "));
        self.block(if is_list { depth } else { depth + 1 })
    }

    fn inline(&self, text: &str) -> Result<Value> {
        if let Some(name) = text.strip_prefix('*') {
            return self.anchors.get(name).cloned().with_context(|| format!("there is no {name}"));
        }
        let (value, rest) = flow(text, !text.starts_with(['[', '{']))?;
        ensure!(rest.trim().is_empty(), "not understood: {rest}");
        Ok(value)
    }
}

/// `key: rest`, where that is what a line says.
fn key(content: &str) -> Option<(&str, &str)> {
    let (key, rest) = content.split_once(':')?;
    let plain = key.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-./<".contains(&b));
    (plain && (rest.is_empty() || rest.starts_with(' '))).then(|| (key, rest.trim()))
}

/// A value on one line, and what follows it. A scalar that stands `alone` goes to the line's end.
fn flow(text: &str, alone: bool) -> Result<(Value, &str)> {
    let text = text.trim_start();
    match text.chars().next() {
        Some('[') => {
            let (mut items, mut rest) = (Vec::new(), text[1..].trim_start());
            while !rest.starts_with(']') {
                let (item, after) = flow(rest, false)?;
                items.push(item);
                rest = separated(after, ']')?;
            }
            Ok((items.into(), &rest[1..]))
        }
        Some('{') => {
            let (mut map, mut rest) = (Map::new(), text[1..].trim_start());
            while !rest.starts_with('}') {
                let (key, after) = rest.split_once(':').context("a key")?;
                let (value, after) = flow(after, false)?;
                map.insert(key.trim().to_owned(), value);
                rest = separated(after, '}')?;
            }
            Ok((map.into(), &rest[1..]))
        }
        Some('"') => quoted(&text[1..]),
        Some('\'') => {
            let (inside, rest) = text[1..].split_once('\'').context("a quote is open")?;
            Ok((inside.into(), rest))
        }
        _ => {
            let end = if alone { None } else { text.find([',', ']', '}']) }.unwrap_or(text.len());
            Ok((text[..end].trim().into(), &text[end..]))
        }
    }
}

fn separated(after: &str, end: char) -> Result<&str> {
    let after = after.trim_start();
    let next = after.strip_prefix(',').map(str::trim_start);
    let rest = next.unwrap_or(after);
    ensure!(next.is_some() || rest.starts_with(end), "{end} is missing before: {after}");
    ensure!(!rest.is_empty(), "{end} is missing");
    Ok(rest)
}

/// What stands in double quotes, the first of which is passed already.
fn quoted(text: &str) -> Result<(Value, &str)> {
    let (mut inside, mut chars) = (String::new(), text.char_indices());
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Ok((inside.into(), &text[at + 1..])),
            '\\' => match chars.next().context("an escape at the end")?.1 {
                'n' => inside.push('\n'),
                c @ ('\\' | '"') => inside.push(c),
                other => bail!("the escape {other} is not read here"),
            },
            c => inside.push(c),
        }
    }
    bail!("a quote is open: {text}")
}

#[test]
fn the_forms_of_compose_are_read() -> Result<()> {
    let text = "x: &x # why\n  a: {b: 1, c: [\"d, e\", f]}\n  g: \"h\\\\r \\\"i\\\" # j\"\n\nk:\n  <<: *x\n  g: l:m\n  n:\n  - o: p\n    q: r\n  - s\n";
    let x = serde_json::json!({"a": {"b": "1", "c": ["d, e", "f"]}, "g": "h\\r \"i\" # j"});
    let k = serde_json::json!({"a": x["a"], "g": "l:m", "n": [{"o": "p", "q": "r"}, "s"]});
    assert_eq!(read(text)?, serde_json::json!({"x": x, "k": k}));
    assert!(read("a: *b").is_err() && read("a: [b").is_err() && read("a: 1\na: 2").is_err());
    Ok(())
}
