//! A parser for the YAML of compose.yaml: block and flow style, quotes, anchors and merges. Every scalar is a string.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Map, Value};

pub(crate) fn read(text: &str) -> Result<Value> {
    let mut lines = Vec::new();
    for line in text.lines() {
        let content = without_comment(line.trim_start()).trim_end();
        if !content.is_empty() {
            lines.push((line.len() - line.trim_start().len(), content.to_owned()));
        }
    }
    let mut reader = Reader { lines, at: 0, anchors: BTreeMap::new() };
    let value = reader.block(0)?;
    ensure!(reader.at == reader.lines.len(), "not supported: {}", reader.lines[reader.at].1);
    Ok(value)
}

/// A line without its comment.
fn without_comment(content: &str) -> &str {
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
    /// The indentation and content of each line.
    lines: Vec<(usize, String)>,
    at: usize,
    anchors: BTreeMap<String, Value>,
}

impl Reader {
    /// The value that starts here, if it is indented by at least `minimum`.
    fn block(&mut self, minimum: usize) -> Result<Value> {
        let Some((depth, content)) = self.lines.get(self.at).cloned() else { return Ok(Value::Null) };
        if depth < minimum {
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
                // A map whose first key is on the line of the dash.
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
                merged.extend(value.as_object().context("only a map can be merged")?.clone());
            } else {
                ensure!(map.insert(key.to_owned(), value).is_none(), "duplicate key {key}");
            }
        }
        merged.extend(map);
        Ok(merged.into())
    }

    /// The value of a key on the following lines: indented, or a list at the depth of the key.
    fn below(&mut self, depth: usize) -> Result<Value> {
        let is_list = self.lines.get(self.at).is_some_and(|(at, line)| *at == depth && line.starts_with("- "));
        self.block(if is_list { depth } else { depth + 1 })
    }

    fn inline(&self, text: &str) -> Result<Value> {
        if let Some(name) = text.strip_prefix('*') {
            return self.anchors.get(name).cloned().with_context(|| format!("there is no anchor {name}"));
        }
        let (value, rest) = flow(text, !text.starts_with(['[', '{']))?;
        ensure!(rest.trim().is_empty(), "not supported: {rest}");
        Ok(value)
    }
}

/// The key and the rest of a line `key: rest`.
fn key(content: &str) -> Option<(&str, &str)> {
    let (key, rest) = content.split_once(':')?;
    let plain = key.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-./<".contains(&b));
    (plain && (rest.is_empty() || rest.starts_with(' '))).then(|| (key, rest.trim()))
}

/// A value in flow style, and the text after it. A scalar that is `whole_line` extends to the end of the line.
fn flow(text: &str, whole_line: bool) -> Result<(Value, &str)> {
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
            let (inside, rest) = text[1..].split_once('\'').context("an unclosed quote")?;
            Ok((inside.into(), rest))
        }
        _ => {
            let end = if whole_line { None } else { text.find([',', ']', '}']) }.unwrap_or(text.len());
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

/// A string in double quotes, after its opening quote, and the text after it.
fn quoted(text: &str) -> Result<(Value, &str)> {
    let (mut inside, mut chars) = (String::new(), text.char_indices());
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Ok((inside.into(), &text[at + 1..])),
            '\\' => match chars.next().context("an escape at the end")?.1 {
                'n' => inside.push('\n'),
                c @ ('\\' | '"') => inside.push(c),
                other => bail!("the escape \\{other} is not supported"),
            },
            c => inside.push(c),
        }
    }
    bail!("an unclosed quote: {text}")
}

#[test]
fn the_forms_that_compose_yaml_uses_are_parsed() -> Result<()> {
    let text = "x: &x # why\n  a: {b: 1, c: [\"d, e\", f]}\n  g: \"h\\\\r \\\"i\\\" # j\"\n\nk:\n  <<: *x\n  g: l:m\n  n:\n  - o: p\n    q: r\n  - s\n";
    let x = serde_json::json!({"a": {"b": "1", "c": ["d, e", "f"]}, "g": "h\\r \"i\" # j"});
    let k = serde_json::json!({"a": x["a"], "g": "l:m", "n": [{"o": "p", "q": "r"}, "s"]});
    assert_eq!(read(text)?, serde_json::json!({"x": x, "k": k}));
    assert!(read("a: *b").is_err() && read("a: [b").is_err() && read("a: 1\na: 2").is_err());
    Ok(())
}
