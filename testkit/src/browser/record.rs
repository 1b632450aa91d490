//! A request that left the browser, and the search for card data in it.

/// A complete request sent by a page.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The method; `SEND` for a WebSocket message.
    pub method: String,
    /// The URL with its query.
    pub url: String,
    /// `name: value`, including headers added by the network stack.
    pub headers: Vec<String>,
    /// The request body; empty if there was none.
    pub body: Vec<u8>,
    /// The protocol's request id, by which later events refer to it.
    pub(super) id: String,
    /// Set while the body is still being requested, or if the browser does not return it.
    pub(super) body_missing: Option<String>,
}

impl Request {
    /// Scheme, host and port, as in an `Origin` header.
    #[must_use]
    pub fn origin(&self) -> &str {
        let host = self.url.find("://").map_or(0, |at| at + 3);
        let end = self.url[host..].find(['/', '?', '#']).map_or(self.url.len(), |at| host + at);
        &self.url[..end]
    }

    /// The path, without the query.
    #[must_use]
    pub fn path(&self) -> &str {
        self.url[self.origin().len()..].split(['?', '#']).next().unwrap_or_default()
    }

    /// The body as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The part of the request that contains the secret, if any.
    #[must_use]
    pub fn part_containing(&self, secret: &Secret) -> Option<&'static str> {
        if secret.occurs_in(&self.url) {
            return Some("URL");
        }
        // A `Content-Length` may happen to equal the three digits.
        let is_searched = |header: &&String| !header.to_ascii_lowercase().starts_with("content-length:");
        if self.headers.iter().filter(is_searched).any(|header| secret.occurs_in(header)) {
            return Some("headers");
        }
        secret.occurs_in(&self.text()).then_some("body")
    }
}

/// A value that may be sent to trusted origins only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Secret {
    /// A card number, found with any grouping of its digits.
    CardNumber(String),
    /// A security code, found as a separate word.
    SecurityCode(String),
}

impl Secret {
    /// Whether `text` contains it: plain, URL-encoded (even twice), or in groups.
    #[must_use]
    pub fn occurs_in(&self, text: &str) -> bool {
        let once = decoded(text);
        let twice = decoded(&once);
        [text, &once, &twice].into_iter().any(|text| match self {
            Self::CardNumber(number) => without_separators(text).contains(&without_separators(number)),
            Self::SecurityCode(code) => is_separate_word(text, code),
        })
    }
}

/// Removes the separators that people and programs put between digits.
fn without_separators(text: &str) -> String {
    let mut without_separators = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_ascii_alphanumeric() || !(c.is_whitespace() || "-+._,;/|\"'[]".contains(c)) {
            without_separators.push(c);
        }
    }
    without_separators
}

/// Whether `code` occurs outside a longer word or number: ids and ports may contain the same three digits.
fn is_separate_word(text: &str, code: &str) -> bool {
    let is_word_char = |c: char| c.is_alphanumeric();
    text.match_indices(code).any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + code.len()..]);
        !before.chars().next_back().is_some_and(is_word_char) && !after.chars().next().is_some_and(is_word_char)
    })
}

/// Decodes `%xx` and `+`.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        let pair = after.get(..2).and_then(|pair| std::str::from_utf8(pair).ok());
        match (first, pair.and_then(|pair| u8::from_str_radix(pair, 16).ok())) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            (b'+', _) => bytes.push(b' '),
            _ => bytes.push(*first),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number() -> Secret {
        Secret::CardNumber("4242 4242 4242 4242".into())
    }

    fn code() -> Secret {
        Secret::SecurityCode("739".into())
    }

    #[test]
    fn card_numbers_are_found_in_every_format() {
        for text in [
            "4242424242424242",
            "number=4242+4242+4242+4242&exp=12",
            "{\"number\":\"4242 4242 4242 4242\"}",
            "4242-4242-4242-4242",
            "[\"4242\",\"4242\",\"4242\",\"4242\"]",
            "?n=4242%204242%204242%204242",
            "?n=%34242424242424242",
            "?u=%3Fn%3D4242%25204242%25204242%25204242",
            "4242\u{a0}4242\u{a0}4242\u{a0}4242",
        ] {
            assert!(number().occurs_in(text), "{text}");
        }
        for text in ["", "4242", "card=4242&last4=4242", "424242424242424", "4242424242424x242"] {
            assert!(!number().occurs_in(text), "{text}");
        }
    }

    #[test]
    fn security_codes_are_found_as_separate_words() {
        for text in ["cvc=739", "{\"cvc\":\"739\"}", "a=1&b=%37%33%39&c", "739"] {
            assert!(code().occurs_in(text), "{text}");
        }
        for text in ["7390", "http://127.0.0.1:17391/", "pay_01K739Z", "73 9"] {
            assert!(!code().occurs_in(text), "{text}");
        }
    }

    #[test]
    fn the_part_containing_a_secret_is_reported() {
        let plain = Request { url: "http://127.0.0.1:1/a?b=c".into(), method: "POST".into(), ..Request::default() };
        assert_eq!((plain.origin(), plain.path()), ("http://127.0.0.1:1", "/a"));
        assert_eq!(plain.part_containing(&code()), None);
        let with_url = Request { url: "http://a/?739".into(), ..plain.clone() };
        assert_eq!(with_url.part_containing(&code()), Some("URL"));
        let with_header = Request { headers: vec!["Referer: http://a/?739".into()], ..plain.clone() };
        assert_eq!(with_header.part_containing(&code()), Some("headers"));
        let with_length = Request { headers: vec!["Content-Length: 739".into()], ..plain.clone() };
        assert_eq!(with_length.part_containing(&code()), None);
        let with_body = Request { body: b"cvc=739".to_vec(), ..plain };
        assert_eq!(with_body.part_containing(&code()), Some("body"));
    }
}
