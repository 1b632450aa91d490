//! The URL of a webhook receiver. Validated strictly at registration, and again at each delivery.

use std::fmt;

use foundation::web_url::{self, MAX_LENGTH};
use hyper::Uri;
use url::{Host, Url};

use super::{Policy, addresses};

/// Bytes of a host name, and of each of its labels (RFC 1035).
const MAX_NAME: usize = 253;
const MAX_LABEL: usize = 63;

/// A validated URL with its policy. The host has not been resolved yet.
#[derive(Clone)]
pub struct Target {
    uri: Uri,
    allow_loopback: bool,
}

/// Why a URL is refused, worded to follow the field name: `url must use https`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidUrl {
    /// Longer than [`MAX_LENGTH`].
    #[error("must be at most {MAX_LENGTH} characters long")]
    TooLong,
    /// Not an absolute http or https URL in strict syntax.
    #[error("must be an absolute URL such as https://example.com/hooks")]
    Malformed,
    /// http, although the policy requires https.
    #[error("must use https")]
    Unencrypted,
    /// A user name or password. It would be stored and displayed as part of the URL.
    #[error("must not contain a user name or password")]
    Userinfo,
    /// A fragment, which is never sent.
    #[error("must not contain a fragment")]
    Fragment,
    /// Port 0, on which nothing can listen. Every other port is allowed.
    #[error("must not use port 0")]
    Port,
    /// The host is not a valid DNS name.
    #[error("must have a valid host name or a public address")]
    Host,
    /// A refused address, in any spelling.
    #[error("must not use {0}")]
    Address(&'static str),
}

impl From<web_url::InvalidUrl> for InvalidUrl {
    fn from(error: web_url::InvalidUrl) -> Self {
        match error {
            web_url::InvalidUrl::TooLong => Self::TooLong,
            web_url::InvalidUrl::Malformed => Self::Malformed,
        }
    }
}

impl Target {
    /// Parses a URL, and checks its host as far as possible without resolving it.
    ///
    /// # Errors
    /// What the merchant must correct.
    pub fn parse(text: &str, policy: Policy) -> Result<Self, InvalidUrl> {
        let mut url = web_url::parse(text)?;
        if url.scheme() == "http" && !policy.allow_http {
            return Err(InvalidUrl::Unencrypted);
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(InvalidUrl::Userinfo);
        }
        if url.fragment().is_some() {
            return Err(InvalidUrl::Fragment);
        }
        if url.port() == Some(0) {
            return Err(InvalidUrl::Port);
        }
        if let Some(name) = check_host(&url, policy)? {
            url.set_host(Some(&name)).map_err(|_| InvalidUrl::Host)?;
        }
        let uri = Uri::try_from(url.as_str()).map_err(|_| InvalidUrl::Malformed)?;
        Ok(Self { uri, allow_loopback: policy.allow_loopback })
    }

    pub(super) fn uri(&self) -> &Uri {
        &self.uri
    }

    pub(super) fn allows_loopback(&self) -> bool {
        self.allow_loopback
    }

    /// Drops the loopback permission, to test that later stages check it again.
    #[cfg(test)]
    pub(super) fn without_loopback(self) -> Self {
        Self { allow_loopback: false, ..self }
    }
}

/// Checks the host. Returns a name with a trailing dot without it: it is the same host, and certificates and most
/// servers do not match the form with the dot.
fn check_host(url: &Url, policy: Policy) -> Result<Option<String>, InvalidUrl> {
    let address = match url.host() {
        None => return Err(InvalidUrl::Host),
        Some(Host::Ipv4(address)) => address.into(),
        Some(Host::Ipv6(address)) => address.into(),
        Some(Host::Domain(name)) => {
            let bare = name.strip_suffix('.').unwrap_or(name);
            if !is_name(bare) {
                return Err(InvalidUrl::Host);
            }
            // Always loopback (RFC 6761), whatever a resolver returns.
            let local = bare == "localhost" || bare.ends_with(".localhost");
            if local && !policy.allow_loopback {
                return Err(InvalidUrl::Address(addresses::LOOPBACK));
            }
            return Ok((bare != name).then(|| bare.to_owned()));
        }
    };
    addresses::refusal(address, policy.allow_loopback)
        .map_or(Ok(None), |description| Err(InvalidUrl::Address(description)))
}

/// Labels of letters, digits, hyphens and underscores, which some hosts use. The parser has already converted the name
/// to lower-case ASCII.
fn is_name(name: &str) -> bool {
    let is_label = |label: &str| {
        (1..=MAX_LABEL).contains(&label.len())
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
    };
    name.len() <= MAX_NAME && name.split('.').all(is_label)
}

impl fmt::Debug for Target {
    /// Omits path and query, which may contain secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let authority = self.uri.authority().map_or("", |authority| authority.as_str());
        write!(f, "Target({}://{authority})", self.uri.scheme_str().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{IpAddr, Ipv4Addr};

    use proptest::prelude::*;
    use testkit::fuzz::{check, mutated, texts};

    const LIVE: Policy = Policy { allow_http: false, allow_loopback: false };
    const TEST: Policy = Policy { allow_http: true, allow_loopback: false };
    const LOCAL: Policy = Policy { allow_http: true, allow_loopback: true };

    fn parse(text: &str, policy: Policy) -> Result<String, InvalidUrl> {
        Target::parse(text, policy).map(|target| target.uri.to_string())
    }

    #[test]
    fn valid_urls_become_canonical() {
        for (text, uri) in [
            ("https://example.com", "https://example.com/"),
            ("HTTPS://EXAMPLE.com:443/Hooks?a=1&b=2", "https://example.com/Hooks?a=1&b=2"),
            ("https://example.com:8443/a/../b", "https://example.com:8443/b"),
            ("https://example.com:65535/", "https://example.com:65535/"),
            ("https://example.com:1/", "https://example.com:1/"),
            ("https://example.com./hooks", "https://example.com/hooks"),
            ("https://my_host.example.com/", "https://my_host.example.com/"),
            ("https://bücher.example/ü?ü", "https://xn--bcher-kva.example/%C3%BC?%C3%BC"),
            ("https://example.com/@user?next=https://a:b@c/", "https://example.com/@user?next=https://a:b@c/"),
            (
                "https://example.com/[a]|{b}\"<c>`^?[a]|{b}\"<c>`^'",
                "https://example.com/[a]|%7Bb%7D%22%3Cc%3E%60^?[a]|{b}%22%3Cc%3E`^%27",
            ),
            ("https://1.1.1.1/", "https://1.1.1.1/"),
            ("https://[2606:4700:0::1111]:8443/x", "https://[2606:4700::1111]:8443/x"),
            ("https://localhost.example.com/", "https://localhost.example.com/"),
            ("https://notlocalhost/", "https://notlocalhost/"),
        ] {
            assert_eq!(parse(text, LIVE).as_deref(), Ok(uri), "{text}");
        }
        assert_eq!(parse("http://example.com/", TEST).as_deref(), Ok("http://example.com/"));
    }

    #[test]
    fn invalid_urls_are_refused_with_a_reason() {
        let long = format!("https://example.com/{}", "x".repeat(MAX_LENGTH));
        let label = format!("https://{}.example/", "x".repeat(64));
        let name = format!("https://{}example/", "x.".repeat(130));
        for (text, error) in [
            (long.as_str(), InvalidUrl::TooLong),
            ("", InvalidUrl::Malformed),
            ("/hooks", InvalidUrl::Malformed),
            ("//example.com/hooks", InvalidUrl::Malformed),
            ("example.com/hooks", InvalidUrl::Malformed),
            ("localhost:8080/hooks", InvalidUrl::Malformed),
            ("ftp://example.com/", InvalidUrl::Malformed),
            ("file:///etc/passwd", InvalidUrl::Malformed),
            ("gopher://example.com/", InvalidUrl::Malformed),
            ("https:example.com", InvalidUrl::Malformed),
            ("https:/example.com", InvalidUrl::Malformed),
            ("https:///example.com/", InvalidUrl::Malformed),
            ("https://", InvalidUrl::Malformed),
            ("https://?x", InvalidUrl::Malformed),
            ("https://exa mple.com/", InvalidUrl::Malformed),
            (" https://example.com/", InvalidUrl::Malformed),
            ("https://example.com/\n", InvalidUrl::Malformed),
            ("https://example.com/a\r\nX-Header: 1", InvalidUrl::Malformed),
            ("https://exa\tmple.com/", InvalidUrl::Malformed),
            ("https:\\\\example.com\\", InvalidUrl::Malformed),
            ("https://1.1.1.1\\@example.com/", InvalidUrl::Malformed),
            ("https://example.com:99999/", InvalidUrl::Malformed),
            ("https://example.com:x/", InvalidUrl::Malformed),
            ("https://1.2.3.4.5/", InvalidUrl::Malformed),
            ("https://256.1.1.1/", InvalidUrl::Malformed),
            ("https://[::1", InvalidUrl::Malformed),
            ("http://example.com/", InvalidUrl::Unencrypted),
            ("http://127.0.0.1/", InvalidUrl::Unencrypted),
            ("https://user@example.com/", InvalidUrl::Userinfo),
            ("https://user:pass@example.com/", InvalidUrl::Userinfo),
            ("https://:pass@example.com/", InvalidUrl::Userinfo),
            ("https://example.com/#part", InvalidUrl::Fragment),
            ("https://example.com/#", InvalidUrl::Fragment),
            ("https://example.com:0/", InvalidUrl::Port),
            ("https://example..com/", InvalidUrl::Host),
            ("https://example.com../", InvalidUrl::Host),
            ("https://./", InvalidUrl::Host),
            ("https://*.example.com/", InvalidUrl::Host),
            ("https://a$b.example.com/", InvalidUrl::Host),
            (label.as_str(), InvalidUrl::Host),
            (name.as_str(), InvalidUrl::Host),
        ] {
            assert_eq!(parse(text, LIVE), Err(error), "{text}");
        }
        assert_eq!(InvalidUrl::Unencrypted.to_string(), "must use https");
        assert_eq!(InvalidUrl::TooLong.to_string(), "must be at most 2048 characters long");
    }

    /// Spellings of the loopback address that a browser would accept.
    const LOOPBACK: [&str; 21] = [
        "127.0.0.1",
        "127.0.0.1.",
        "127.1",
        "127.0.1",
        "0177.0.0.1",
        "0x7f.1",
        "0x7f000001",
        "0X7F.0.0.0x1",
        "2130706433",
        "017700000001",
        "%31%32%37.0.0.1",
        "１２７.0.0.1",
        "127。0。0。1",
        "[::1]",
        "[0:0:0:0:0:0:0:1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "localhost",
        "LOCALHOST",
        "localhost.",
        "a.b.localhost",
    ];

    #[test]
    fn loopback_requires_permission_in_every_spelling() {
        for host in LOOPBACK {
            let text = format!("http://{host}:8080/hooks");
            assert_eq!(parse(&text, TEST), Err(InvalidUrl::Address("a loopback address")), "{host}");
            assert!(parse(&text, LOCAL).is_ok(), "{host}");
            let text = format!("https://{host}/hooks");
            assert_eq!(parse(&text, LIVE), Err(InvalidUrl::Address("a loopback address")), "{host}");
        }
    }

    #[test]
    fn private_addresses_are_refused_in_every_spelling_and_policy() {
        for host in [
            "169.254.169.254",
            "2852039166",
            "0xa9fea9fe",
            "0251.0376.0251.0376",
            "169.254.43518",
            "10.0.0.1",
            "10.1",
            "192.168.1.1",
            "0",
            "0.0.0.0",
            "0x0",
            "255.255.255.255",
            "[::]",
            "[fd00:ec2::254]",
            "[fe80::1]",
            "[::ffff:10.0.0.1]",
            "[::ffff:a9fe:a9fe]",
            "[64:ff9b::10.0.0.1]",
            "[64:ff9b::7f00:1]",
            "[2002:7f00:1::]",
            "[::127.0.0.1]",
        ] {
            for policy in [LIVE, TEST, LOCAL] {
                let parsed = parse(&format!("https://{host}/"), policy);
                assert!(matches!(parsed, Err(InvalidUrl::Address(_))), "{host} gave {parsed:?}");
            }
        }
    }

    #[test]
    fn debug_output_omits_the_path() {
        let target = Target::parse("https://example.com/secret?token=1", LIVE).unwrap();
        assert_eq!(format!("{target:?}"), "Target(https://example.com)");
    }

    fn policies() -> impl Strategy<Value = Policy> {
        proptest::sample::select(vec![LIVE, TEST, LOCAL])
    }

    /// An accepted URL is canonical and does not name a private host.
    #[track_caller]
    fn assert_sound(text: &str, policy: Policy) {
        let Ok(target) = Target::parse(text, policy) else { return };
        let uri = target.uri.to_string();
        assert_eq!(parse(&uri, policy).as_deref(), Ok(uri.as_str()), "{text:?} is not canonical");
        let scheme = target.uri.scheme_str().expect("absolute");
        assert!(scheme == "https" || scheme == "http" && policy.allow_http, "{text:?}");
        let authority = target.uri.authority().expect("absolute").as_str();
        assert!(!authority.contains('@') && !uri.contains('#') && text.chars().count() <= MAX_LENGTH, "{text:?}");
        let host = target.uri.host().expect("absolute").trim_matches(['[', ']']);
        if let Ok(address) = host.parse::<IpAddr>() {
            assert_eq!(addresses::refusal(address, policy.allow_loopback), None, "{text:?}");
        }
        assert!(policy.allow_loopback || host != "localhost" && !host.ends_with(".localhost"), "{text:?}");
        assert!(!uri.contains(|c: char| c.is_whitespace() || c.is_control()), "{text:?}");
        assert_eq!(format!("{target:?}"), format!("Target({scheme}://{authority})"));
    }

    #[test]
    fn accepted_urls_are_canonical_and_not_private() {
        let urls = prop_oneof![
            mutated("https://example.com:8443/hooks?a=1"),
            mutated("http://127.0.0.1/"),
            mutated("https://user:pass@example.com/"),
            mutated("https://[2606:4700::1111]:8443/x"),
            texts(),
            texts().prop_map(|host| format!("https://{host}/")),
        ];
        check((urls, policies()), |(text, policy)| assert_sound(&text, policy));
    }

    #[test]
    fn no_spelling_of_a_private_address_is_accepted() {
        let private =
            proptest::sample::select(vec![[127, 0, 0, 1], [10, 0, 0, 1], [169, 254, 169, 254], [192, 168, 0, 1]]);
        check((private, 0..6usize, policies()), |(octets, spelling, policy)| {
            let [a, b, c, d] = octets;
            let number = u32::from(Ipv4Addr::from(octets));
            let host = match spelling {
                0 => format!("{number}"),
                1 => format!("0x{number:x}"),
                2 => format!("0{number:o}"),
                3 => format!("{a}.{}", number & 0xff_ffff),
                4 => format!("0x{a:x}.0{b:o}.{}", u32::from(c) << 8 | u32::from(d)),
                _ => format!("[::ffff:{a}.{b}.{c}.{d}]"),
            };
            let allowed = policy.allow_loopback && a == 127;
            assert_eq!(parse(&format!("https://{host}/"), policy).is_ok(), allowed, "{host}");
        });
    }
}
