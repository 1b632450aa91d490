//! The paths by which the code of a crate names other parts of that crate.

use std::collections::BTreeMap;

use super::{after, word};

fn continues(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == ':'
}

/// Every path of the code that begins with `start`, without that start. Groups in `{…}` are taken apart.
pub(crate) fn paths(code: &str, start: &str) -> Vec<String> {
    let begins = |at: usize| !code[..at].ends_with(continues) && !code[..at].ends_with("(in ");
    let starts = code.match_indices(start).filter(|(at, _)| begins(*at));
    starts.flat_map(|(at, _)| leaves(&code[at + start.len()..])).map(|(path, _)| path).collect()
}

/// What `use` makes visible: each name with its whole path.
pub(crate) fn imports(code: &str) -> BTreeMap<String, String> {
    let named = |(path, name): (String, String)| (name, path);
    after(code, "use ").flat_map(|rest| leaves(rest.split(';').next().unwrap_or_default())).map(named).collect()
}

/// The paths of the tree at the start of `text`, each with its last name, or the name after `as`.
fn leaves(text: &str) -> Vec<(String, String)> {
    let text = text.trim_start();
    let end = text.find(|c: char| !continues(c)).unwrap_or(text.len());
    let (path, rest) = text.split_at(end);
    if let Some(group) = rest.strip_prefix('{') {
        let below = items(group).into_iter().flat_map(leaves);
        return below.map(|(below, name)| within(path, &below, name)).collect();
    }
    let path = path.trim_end_matches("::");
    if path.is_empty() {
        return Vec::new();
    }
    let name = rest.trim_start().strip_prefix("as ").map(word).or(path.rsplit("::").next()).unwrap_or_default();
    vec![(path.to_owned(), name.to_owned())]
}

/// An item of the group below `path`; `self` is `path` itself.
fn within(path: &str, item: &str, name: String) -> (String, String) {
    if item != "self" {
        return (format!("{path}{item}"), name);
    }
    let path = path.trim_end_matches("::");
    let last = path.rsplit("::").next().unwrap_or_default();
    (path.to_owned(), if name == "self" { last.to_owned() } else { name })
}

/// The items of a group, up to its closing brace.
fn items(group: &str) -> Vec<&str> {
    let (mut depth, mut start, mut items) = (1, 0, Vec::new());
    for (at, c) in group.char_indices() {
        depth += i32::from(c == '{') - i32::from(c == '}');
        if depth == 0 || (depth == 1 && c == ',') {
            items.push(&group[start..at]);
            start = at + 1;
        }
        if depth == 0 {
            break;
        }
    }
    items
}

#[test]
fn paths_are_parsed_in_every_form() {
    let code =
        "use crate::id::A;\nuse crate::{b, c::{D, E as F},\n f::g::{self}};\nlet x = crate::money::Money { minor: 1 };
        pub(in crate::h) use super::super::i;";
    assert_eq!(paths(code, "crate::"), ["id::A", "b", "c::D", "c::E", "f::g", "money::Money"]);
    assert_eq!(paths(code, "super::"), ["super::i"]);
    let imported = imports(code);
    for (name, path) in [("A", "crate::id::A"), ("F", "crate::c::E"), ("g", "crate::f::g"), ("i", "super::super::i")] {
        assert_eq!(imported.get(name).map(String::as_str), Some(path), "{name}");
    }
}
