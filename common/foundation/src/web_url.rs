//! URLs that merchants give, parsed as browsers parse them (WHATWG).

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

#[cfg(test)]
mod tests {
    use super::*;

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
}
