//! URLs and origins that merchants and operators give, parsed as browsers parse them (WHATWG).

use std::fmt;
use std::str::FromStr;

use serde::Serialize;
use url::Url;

/// Characters of a URL.
pub const MAX_LENGTH: usize = 2048;

/// Why a text is not a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidUrl {
    /// Longer than [`MAX_LENGTH`].
    TooLong,
    /// Not an absolute http or https URL.
    Malformed,
}

/// Parses an absolute http or https URL without error recovery. The host of the result is in Punycode, so hosts compare
/// as browsers compare them; the text itself is stored as given.
///
/// # Errors
/// If the text is too long, or if other parsers could read another host from it.
pub fn parse(text: &str) -> Result<Url, InvalidUrl> {
    if text.chars().count() > MAX_LENGTH {
        return Err(InvalidUrl::TooLong);
    }
    // Browsers drop line breaks, read `\` as `/` and accept missing slashes.
    if text.chars().any(|c| c.is_control() || c.is_whitespace() || c == '\\') {
        return Err(InvalidUrl::Malformed);
    }
    let url = Url::parse(text).map_err(|_| InvalidUrl::Malformed)?;
    let scheme = url.scheme();
    let slashes = text[scheme.len()..].bytes().skip(1).take_while(|byte| *byte == b'/').count();
    if matches!(scheme, "http" | "https") && slashes == 2 { Ok(url) } else { Err(InvalidUrl::Malformed) }
}

/// The origin of a web page in the form that browsers send: lower case, in Punycode, without the default port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WebOrigin(String);

/// The text is not an origin. Contains the origin of the URL that it is, if any.
#[derive(Debug, PartialEq, Eq)]
pub struct InvalidOrigin(Option<String>);

impl WebOrigin {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for WebOrigin {
    type Err = InvalidOrigin;

    /// Accepts any spelling of the host and port. The result contains only characters without a meaning in a content
    /// security policy and in HTML.
    fn from_str(text: &str) -> Result<Self, InvalidOrigin> {
        let url = parse(text).map_err(|_| InvalidOrigin(None))?;
        let origin = url.origin().ascii_serialization();
        // A host may contain others: `https://*` is a valid URL.
        if !origin.chars().all(|c| c.is_ascii_alphanumeric() || ":/.-_[]".contains(c)) {
            return Err(InvalidOrigin(None));
        }
        // The serialization of a URL with only an origin ends with its empty path, which the text must not have.
        let is_only_origin = url.as_str().strip_suffix('/') == Some(&origin) && !text.ends_with('/');
        if is_only_origin { Ok(Self(origin)) } else { Err(InvalidOrigin(Some(origin))) }
    }
}

impl std::error::Error for InvalidOrigin {}

impl fmt::Display for InvalidOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(origin) => write!(f, "must be only an origin, without a path or user: {origin}"),
            None => f.write_str("must be an origin such as https://shop.example"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use testkit::fuzz::{check, mutated, texts};

    #[test]
    fn urls_are_absolute_and_read_the_same_by_every_parser() {
        for (text, host) in [
            ("https://shop.example/thanks?a=1#top", "shop.example"),
            ("http://localhost:3000", "localhost"),
            ("HTTPS://Shop.Example", "shop.example"),
            ("https://m\u{fc}ller.example/danke?von=\"a\"&{b}|<c>`", "xn--mller-kva.example"),
        ] {
            assert_eq!(parse(text).expect(text).host_str(), Some(host));
        }
        for bad in [
            "",
            "/thanks",
            "ftp://shop.example",
            "javascript:alert(1)",
            "https:shop.example",
            "https:///shop.example",
            "https:\\\\shop.example",
            "https://:shop.example/",
            "https://a:b:c",
            "https://shop.example/#\n",
            "https://s#\0",
            "https://shop.example/# a",
            " https://shop.example",
        ] {
            assert_eq!(parse(bad), Err(InvalidUrl::Malformed), "{bad:?}");
        }
        let longest = format!("https://m\u{fc}ller.example/{}", "\u{fc}".repeat(MAX_LENGTH - 23));
        assert!(parse(&longest).is_ok());
        assert_eq!(parse(&format!("{longest}x")), Err(InvalidUrl::TooLong));
    }

    #[test]
    fn origins_are_those_that_browsers_send() {
        for (text, sent) in [
            ("https://shop.example", "https://shop.example"),
            ("HTTPS://Shop.EXAMPLE", "https://shop.example"),
            ("https://shop.example:443", "https://shop.example"),
            ("http://shop.example:80", "http://shop.example"),
            ("http://localhost:3000", "http://localhost:3000"),
            ("https://m\u{fc}ller.example", "https://xn--mller-kva.example"),
            ("https://[2001:DB8::1]", "https://[2001:db8::1]"),
            ("http://a_b-c.example", "http://a_b-c.example"),
        ] {
            assert_eq!(text.parse::<WebOrigin>().expect(text).as_str(), sent);
        }
        for (bad, named) in [
            ("", None),
            ("null", None),
            ("*", None),
            ("https://*.example", None),
            ("https://a:b:c", None),
            ("https://a.example https://b.example", None),
            ("https://Shop.example/", Some("https://shop.example")),
            ("https://shop.example:443/a?b#c", Some("https://shop.example")),
            ("https://user:password@shop.example:8443", Some("https://shop.example:8443")),
        ] {
            assert_eq!(bad.parse::<WebOrigin>(), Err(InvalidOrigin(named.map(str::to_owned))), "{bad}");
        }
        for c in "\"';*=()&,$!+`{}~".chars() {
            assert!(format!("https://a{c}b.example").parse::<WebOrigin>().is_err(), "{c}");
        }
    }

    #[test]
    fn accepted_origins_are_safe_in_a_csp_and_in_html() {
        check(prop_oneof![mutated("https://shop.example:8443"), mutated("http://[::1]:80"), texts()], |text| {
            let Ok(origin) = text.parse::<WebOrigin>() else { return };
            let text = origin.as_str();
            assert!(!text.contains(|c: char| c.is_whitespace() || "\"'<>;,*&\\".contains(c)), "{text}");
            assert!(text.starts_with("https://") || text.starts_with("http://"), "{text}");
            assert_eq!(text.parse(), Ok(origin.clone()));
        });
    }
}
