//! Texts and bytes.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

/// Characters that mean something somewhere, and some that look as if they did.
const ODD: [char; 40] = [
    '\0',
    '\u{1}',
    '\t',
    '\n',
    '\r',
    ' ',
    '"',
    '\'',
    '\\',
    '/',
    '%',
    '&',
    '=',
    '+',
    '-',
    '.',
    ',',
    ':',
    ';',
    '@',
    '#',
    '?',
    '*',
    '(',
    ')',
    '[',
    ']',
    '{',
    '}',
    '<',
    '0',
    '9',
    'a',
    'Z',
    '_',
    '\u{7f}',
    'é',
    '１',
    '\u{202e}',
    '\u{1f600}',
];

fn character() -> BoxedStrategy<char> {
    prop_oneof![3 => select(&ODD[..]), 1 => any::<char>()].boxed()
}

/// Bytes that are shown as text where they are, so that a finding can be read.
#[derive(Clone, PartialEq, Eq)]
pub struct Bytes(pub Vec<u8>);

impl std::ops::Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl std::fmt::Debug for Bytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "b\"{}\"", self.0.escape_ascii())
    }
}

/// Any text, short as a rule.
pub fn texts() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => vec(character(), 0..40).prop_map(String::from_iter),
        2 => any::<String>(),
        1 => (character(), 250usize..3_000).prop_map(|(c, count)| String::from_iter(std::iter::repeat_n(c, count))),
    ]
}

/// Any bytes, a thousand at most.
pub fn noise() -> impl Strategy<Value = Bytes> {
    vec(any::<u8>(), 0..1_000).prop_map(Bytes)
}

/// One change of a sequence, whatever it is made of.
#[derive(Clone, Debug)]
enum Edit<T> {
    Insert(Index, T),
    Replace(Index, T),
    Delete(Index),
    Swap(Index, Index),
    Cut(Index),
    /// A part of it comes twice.
    Twice(Index, Index),
}

fn edit<T: Clone + std::fmt::Debug + 'static>(item: BoxedStrategy<T>) -> impl Strategy<Value = Edit<T>> {
    let place = any::<Index>;
    prop_oneof![
        3 => (place(), item.clone()).prop_map(|(at, item)| Edit::Insert(at, item)),
        4 => (place(), item).prop_map(|(at, item)| Edit::Replace(at, item)),
        2 => place().prop_map(Edit::Delete),
        2 => (place(), place()).prop_map(|(one, other)| Edit::Swap(one, other)),
        1 => place().prop_map(Edit::Cut),
        1 => (place(), place()).prop_map(|(from, to)| Edit::Twice(from, to)),
    ]
}

fn apply<T: Clone>(items: &mut Vec<T>, edit: Edit<T>) {
    let count = items.len();
    match edit {
        Edit::Insert(at, item) => items.insert(at.index(count + 1), item),
        Edit::Cut(at) => items.truncate(at.index(count + 1)),
        Edit::Replace(..) | Edit::Delete(_) | Edit::Swap(..) | Edit::Twice(..) if count == 0 => {}
        Edit::Replace(at, item) => items[at.index(count)] = item,
        Edit::Delete(at) => drop(items.remove(at.index(count))),
        Edit::Swap(one, other) => items.swap(one.index(count), other.index(count)),
        Edit::Twice(from, to) => {
            let (from, to) = (from.index(count), to.index(count));
            let part = items[from.min(to)..=from.max(to)].to_vec();
            items.splice(from..from, part);
        }
    }
}

/// The text as it is, or with one to three changes.
pub fn mutated(text: impl Into<String>) -> impl Strategy<Value = String> {
    let text: Vec<char> = text.into().chars().collect();
    vec(edit(character()), 0..4).prop_map(move |edits| {
        let mut text = text.clone();
        edits.into_iter().for_each(|edit| apply(&mut text, edit));
        String::from_iter(text)
    })
}

/// The text with changes, and never as it is.
pub fn changed(text: impl Into<String>) -> impl Strategy<Value = String> {
    let text = text.into();
    let other = text.clone();
    mutated(text).prop_filter("it is unchanged", move |text| *text != other)
}

/// The bytes as they are, or with one to three changes.
pub fn mutated_bytes(bytes: impl Into<Vec<u8>>) -> impl Strategy<Value = Bytes> {
    edited_bytes(Just(Bytes(bytes.into())))
}

/// Bytes that come from elsewhere, as they are or with one to three changes.
pub fn edited_bytes(bytes: impl Strategy<Value = Bytes>) -> impl Strategy<Value = Bytes> {
    (bytes, vec(edit(any::<u8>().boxed()), 0..4)).prop_map(|(mut bytes, edits)| {
        edits.into_iter().for_each(|edit| apply(&mut bytes.0, edit));
        bytes
    })
}
