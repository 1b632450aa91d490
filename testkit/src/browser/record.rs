//! What left the browser, and whether a card was in it.

/// Something that a page sent over the network, whole.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The method; `SEND` for a message of a web socket.
    pub method: String,
    /// The address, with its query.
    pub url: String,
    /// `name: value`, those of the network stack included.
    pub headers: Vec<String>,
    /// What was posted; empty if nothing was.
    pub body: Vec<u8>,
    /// Ties it to what is told of it later.
    pub(super) id: String,
    /// The body is still asked for, or the browser would not give it.
    pub(super) body_missing: Option<String>,
}

impl Request {
    /// Scheme, host and port, as a page's origin is written.
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

    /// The part that carries this, if one does.
    #[must_use]
    pub fn part_with(&self, secret: &Secret) -> Option<&'static str> {
        if secret.is_in(&self.url) {
            return Some("URL");
        }
        // A length is no message, and three digits may happen to be one.
        let telling = |header: &&String| !header.to_ascii_lowercase().starts_with("content-length:");
        if self.headers.iter().filter(telling).any(|header| secret.is_in(header)) {
            return Some("headers");
        }
        secret.is_in(&self.text()).then_some("body")
    }
}

/// What must not leave the browser, or only to one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Secret {
    /// A card number, found however its digits are grouped.
    Number(String),
    /// A security code, found where it stands by itself.
    Code(String),
}

impl Secret {
    /// Whether it stands in `text`: plain, encoded for a URL (twice even), or in groups.
    #[must_use]
    pub fn is_in(&self, text: &str) -> bool {
        let once = decoded(text);
        let twice = decoded(&once);
        [text, &once, &twice].into_iter().any(|text| match self {
            Self::Number(number) => joined(text).contains(&joined(number)),
            Self::Code(code) => stands_alone(text, code),
        })
    }
}

/// Without what people and programs put between the digits of a number.
fn joined(text: &str) -> String {
    let mut joined = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_ascii_alphanumeric() || !(c.is_whitespace() || "-+._,;/|\"'[]".contains(c)) {
            joined.push(c);
        }
    }
    joined
}

/// Not as a part of a longer word or number: an id or a port may well hold the same three digits.
fn stands_alone(text: &str, code: &str) -> bool {
    let part = |c: char| c.is_alphanumeric();
    text.match_indices(code).any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + code.len()..]);
        !before.chars().next_back().is_some_and(part) && !after.chars().next().is_some_and(part)
    })
}

/// With `%xx` and `+` resolved.
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
        Secret::Number("4242 4242 4242 4242".into())
    }

    fn code() -> Secret {
        Secret::Code("739".into())
    }

    #[test]
    fn a_number_is_found_in_every_dress() {
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
            assert!(number().is_in(text), "{text}");
        }
        for text in ["", "4242", "card=4242&last4=4242", "424242424242424", "4242424242424x242"] {
            assert!(!number().is_in(text), "{text}");
        }
    }

    #[test]
    fn a_code_is_found_where_it_stands_alone() {
        for text in ["cvc=739", "{\"cvc\":\"739\"}", "a=1&b=%37%33%39&c", "739"] {
            assert!(code().is_in(text), "{text}");
        }
        for text in ["7390", "http://127.0.0.1:17391/", "pay_01K739Z", "73 9"] {
            assert!(!code().is_in(text), "{text}");
        }
    }

    #[test]
    fn a_request_says_which_part_has_it() {
        let plain = Request { url: "http://127.0.0.1:1/a?b=c".into(), method: "POST".into(), ..Request::default() };
        assert_eq!((plain.origin(), plain.path()), ("http://127.0.0.1:1", "/a"));
        assert_eq!(plain.part_with(&code()), None);
        let with_url = Request { url: "http://a/?739".into(), ..plain.clone() };
        assert_eq!(with_url.part_with(&code()), Some("URL"));
        let with_header = Request { headers: vec!["Referer: http://a/?739".into()], ..plain.clone() };
        assert_eq!(with_header.part_with(&code()), Some("headers"));
        let with_length = Request { headers: vec!["Content-Length: 739".into()], ..plain.clone() };
        assert_eq!(with_length.part_with(&code()), None);
        let with_body = Request { body: b"cvc=739".to_vec(), ..plain };
        assert_eq!(with_body.part_with(&code()), Some("body"));
    }
}
