//! A parser for the YAML that our files use: nested keys, lists with dashes, and inline values left unparsed.

/// A line with content: the path of its key, and its value.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// For example `services.api.command`. List items add nothing to the path.
    pub(crate) path: String,
    /// For example `[api]` or `{name: PUBLIC_URL, value: x}`; empty if the value is on the following lines.
    pub(crate) value: String,
}

/// The entries of a single document; for a file with several, see [`documents`].
pub(crate) fn entries(text: &str) -> Vec<Entry> {
    let mut open: Vec<(usize, String)> = Vec::new();
    let mut entries: Vec<Entry> = Vec::new();
    for line in text.lines() {
        let content = line.trim_start();
        if content.is_empty() || content.starts_with('#') {
            continue;
        }
        let bare = content.trim_start_matches("- ");
        // The key of a list item has the depth of the item's next line.
        let depth = line.len() - bare.len();
        let is_item = bare.len() < content.len();
        let dash = line.len() - content.len();
        open.retain(|(at, _)| *at < if is_item { dash.max(1) } else { depth });
        let key = bare.split_once(':').filter(|(key, rest)| {
            let plain = key.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-./<".contains(&b));
            plain && (rest.is_empty() || rest.starts_with(' '))
        });
        let value = match key {
            Some((key, rest)) => {
                open.push((depth, key.to_owned()));
                rest.trim()
            }
            None => bare,
        };
        let path = open.iter().map(|(_, key)| key.as_str()).collect::<Vec<_>>().join(".");
        entries.push(Entry { path, value: value.trim_matches('"').to_owned() });
    }
    entries
}

/// The documents of a file.
pub(crate) fn documents(text: &str) -> Vec<Vec<Entry>> {
    text.split("\n---\n").map(entries).collect()
}

/// All values at this path.
pub(crate) fn at<'a>(entries: &'a [Entry], path: &'a str) -> impl Iterator<Item = &'a str> {
    entries.iter().filter(move |entry| entry.path == path && !entry.value.is_empty()).map(|entry| entry.value.as_str())
}

/// The values of a key in inline maps, `{key: …}`, anywhere in the text.
pub(crate) fn inline<'a>(value: &'a str, key: &str) -> Vec<&'a str> {
    let starts = |at: usize| at == 0 || value[..at].ends_with(['{', ' ', '[']);
    let mark = format!("{key}: ");
    let matches = value.match_indices(&mark).filter(|(at, _)| starts(*at));
    matches
        .map(|(at, _)| value[at + mark.len()..].split([',', '}', ']']).next().unwrap_or_default().trim_matches('"'))
        .collect()
}

/// The words of `[a, "b", c]`.
pub(crate) fn list(value: &str) -> Vec<String> {
    let inside = value.trim_start_matches('[').trim_end_matches(']');
    let words = inside.split(',').map(|word| word.trim().trim_matches('"').to_owned());
    words.filter(|word| !word.is_empty()).collect()
}

#[test]
fn the_forms_that_our_files_use_are_parsed() {
    let text = "a:\n  b: \"1\"\n  # no\n  c:\n    - d: 2\n      e: [x, \"y\"]\n    - {name: N, value: \"0.0.0.0:1\"}\nf: g:h\n";
    let read: Vec<_> = entries(text).into_iter().map(|entry| (entry.path, entry.value)).collect();
    let expected = [
        ("a", ""),
        ("a.b", "1"),
        ("a.c", ""),
        ("a.c.d", "2"),
        ("a.c.e", "[x, \"y\"]"),
        ("a.c", "{name: N, value: \"0.0.0.0:1\"}"),
        ("f", "g:h"),
    ];
    assert_eq!(read, expected.map(|(path, value)| (path.to_owned(), value.to_owned())));
    assert_eq!(inline("{name: N, value: \"0.0.0.0:1\"}", "value"), ["0.0.0.0:1"]);
    assert_eq!(inline("{secret: {name: s, items: [{key: a, path: a}, {key: b, path: c}]}}", "path"), ["a", "c"]);
    assert_eq!(list("[x, \"y\"]"), ["x", "y"]);
}
