//! The URL of a receiver: read strictly when it is registered, and again each time something is sent.

use std::fmt;

use hyper::Uri;
use url::{Host, Url};

use super::{Policy, addresses};

/// Bytes of a URL at most.
pub const MAX_LENGTH: usize = 2048;
/// Bytes of a name at most, and of each of its labels (RFC 1035).
const MAX_NAME: usize = 253;
const MAX_LABEL: usize = 63;

/// A URL that may be posted to, and what its policy allows. Nothing has been looked up yet.
#[derive(Clone)]
pub struct Target {
    uri: Uri,
    allow_loopback: bool,
}

/// Why a URL is refused, as what it must be: `url must use https`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// Longer than [`MAX_LENGTH`].
    #[error("must be at most {MAX_LENGTH} bytes long")]
    TooLong,
    /// No absolute URL of http or https, or one that only a forgiving reader understands.
    #[error("must be an absolute URL such as https://example.com/hooks")]
    Malformed,
    /// http, where the policy wants https.
    #[error("must use https")]
    Unencrypted,
    /// A name or password before the host. It would be kept and shown as part of the URL.
    #[error("must not contain a user name or password")]
    Userinfo,
    /// A part after `#`, which is never sent.
    #[error("must not contain a fragment")]
    Fragment,
    /// Port 0, at which nothing can listen. Every other is allowed: receivers listen where they like.
    #[error("must not use port 0")]
    Port,
    /// A host that is no name of the DNS.
    #[error("must have the name or the public address of a host")]
    Host,
    /// An address, in whatever spelling, that must not be connected to.
    #[error("must not lead to {0}")]
    Address(&'static str),
}

impl Target {
    /// Reads a URL as browsers do (WHATWG), except that nothing is forgiven, and judges its host as far as it can be judged
    /// without looking it up.
    ///
    /// # Errors
    /// What is wrong with it, fit for the merchant's eyes.
    pub fn parse(text: &str, policy: Policy) -> Result<Self, Unfit> {
        if text.len() > MAX_LENGTH {
            return Err(Unfit::TooLong);
        }
        // A browser drops line breaks, reads `\` as `/` and does without slashes. Others may not, and would see another host.
        if text.chars().any(|c| c.is_control() || c.is_whitespace() || c == '\\') {
            return Err(Unfit::Malformed);
        }
        let mut url = Url::parse(text).map_err(|_| Unfit::Malformed)?;
        let scheme = url.scheme();
        let slashes = text[scheme.len()..].bytes().skip(1).take_while(|b| *b == b'/').count();
        if !matches!(scheme, "http" | "https") || slashes != 2 {
            return Err(Unfit::Malformed);
        }
        if scheme == "http" && !policy.allow_http {
            return Err(Unfit::Unencrypted);
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Unfit::Userinfo);
        }
        if url.fragment().is_some() {
            return Err(Unfit::Fragment);
        }
        if url.port() == Some(0) {
            return Err(Unfit::Port);
        }
        if let Some(name) = judge(&url, policy)? {
            url.set_host(Some(&name)).map_err(|_| Unfit::Host)?;
        }
        let uri = Uri::try_from(url.as_str()).map_err(|_| Unfit::Malformed)?;
        Ok(Self { uri, allow_loopback: policy.allow_loopback })
    }

    pub(super) fn uri(&self) -> &Uri {
        &self.uri
    }

    pub(super) fn allows_loopback(&self) -> bool {
        self.allow_loopback
    }

    /// The same without the permission that it was read with, to see that nobody else relies on this reading.
    #[cfg(test)]
    pub(super) fn without_loopback(self) -> Self {
        Self { allow_loopback: false, ..self }
    }
}

/// Judges the host. A name that ends in a dot is answered without it: it is the same host, and certificates and most
/// servers know it only so.
fn judge(url: &Url, policy: Policy) -> Result<Option<String>, Unfit> {
    let address = match url.host() {
        None => return Err(Unfit::Host),
        Some(Host::Ipv4(address)) => address.into(),
        Some(Host::Ipv6(address)) => address.into(),
        Some(Host::Domain(name)) => {
            let bare = name.strip_suffix('.').unwrap_or(name);
            if !is_name(bare) {
                return Err(Unfit::Host);
            }
            // Always this machine (RFC 6761), whatever a resolver says.
            let local = bare == "localhost" || bare.ends_with(".localhost");
            if local && !policy.allow_loopback {
                return Err(Unfit::Address(addresses::LOOPBACK));
            }
            return Ok((bare != name).then(|| bare.to_owned()));
        }
    };
    addresses::refusal(address, policy.allow_loopback).map_or(Ok(None), |what| Err(Unfit::Address(what)))
}

/// Labels of letters, digits, hyphens and, since some do have them, underscores. The parser has made everything small, and
/// ASCII of other scripts.
fn is_name(name: &str) -> bool {
    let is_label = |label: &str| {
        (1..=MAX_LABEL).contains(&label.len())
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
    };
    name.len() <= MAX_NAME && name.split('.').all(is_label)
}

impl fmt::Debug for Target {
    /// Without path and query, which may hold secrets.
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

    fn parse(text: &str, policy: Policy) -> Result<String, Unfit> {
        Target::parse(text, policy).map(|target| target.uri.to_string())
    }

    #[test]
    fn good_urls_are_kept_or_made_canonical() {
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
    fn bad_urls_say_what_they_must_be() {
        let long = format!("https://example.com/{}", "x".repeat(MAX_LENGTH));
        let label = format!("https://{}.example/", "x".repeat(64));
        let name = format!("https://{}example/", "x.".repeat(130));
        for (text, unfit) in [
            (long.as_str(), Unfit::TooLong),
            ("", Unfit::Malformed),
            ("/hooks", Unfit::Malformed),
            ("//example.com/hooks", Unfit::Malformed),
            ("example.com/hooks", Unfit::Malformed),
            ("localhost:8080/hooks", Unfit::Malformed),
            ("ftp://example.com/", Unfit::Malformed),
            ("file:///etc/passwd", Unfit::Malformed),
            ("gopher://example.com/", Unfit::Malformed),
            ("https:example.com", Unfit::Malformed),
            ("https:/example.com", Unfit::Malformed),
            ("https:///example.com/", Unfit::Malformed),
            ("https://", Unfit::Malformed),
            ("https://?x", Unfit::Malformed),
            ("https://exa mple.com/", Unfit::Malformed),
            (" https://example.com/", Unfit::Malformed),
            ("https://example.com/\n", Unfit::Malformed),
            ("https://example.com/a\r\nX-Header: 1", Unfit::Malformed),
            ("https://exa\tmple.com/", Unfit::Malformed),
            ("https:\\\\example.com\\", Unfit::Malformed),
            ("https://1.1.1.1\\@example.com/", Unfit::Malformed),
            ("https://example.com:99999/", Unfit::Malformed),
            ("https://example.com:x/", Unfit::Malformed),
            ("https://1.2.3.4.5/", Unfit::Malformed),
            ("https://256.1.1.1/", Unfit::Malformed),
            ("https://[::1", Unfit::Malformed),
            ("http://example.com/", Unfit::Unencrypted),
            ("http://127.0.0.1/", Unfit::Unencrypted),
            ("https://user@example.com/", Unfit::Userinfo),
            ("https://user:pass@example.com/", Unfit::Userinfo),
            ("https://:pass@example.com/", Unfit::Userinfo),
            ("https://example.com/#part", Unfit::Fragment),
            ("https://example.com/#", Unfit::Fragment),
            ("https://example.com:0/", Unfit::Port),
            ("https://example..com/", Unfit::Host),
            ("https://example.com../", Unfit::Host),
            ("https://./", Unfit::Host),
            ("https://*.example.com/", Unfit::Host),
            ("https://a$b.example.com/", Unfit::Host),
            (label.as_str(), Unfit::Host),
            (name.as_str(), Unfit::Host),
        ] {
            assert_eq!(parse(text, LIVE), Err(unfit), "{text}");
        }
        assert_eq!(Unfit::Unencrypted.to_string(), "must use https");
        assert_eq!(Unfit::TooLong.to_string(), "must be at most 2048 bytes long");
    }

    /// This machine, as a browser would read it.
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
    fn loopback_needs_its_permission_in_every_spelling() {
        for host in LOOPBACK {
            let text = format!("http://{host}:8080/hooks");
            assert_eq!(parse(&text, TEST), Err(Unfit::Address("a loopback address")), "{host}");
            assert!(parse(&text, LOCAL).is_ok(), "{host}");
            let text = format!("https://{host}/hooks");
            assert_eq!(parse(&text, LIVE), Err(Unfit::Address("a loopback address")), "{host}");
        }
    }

    #[test]
    fn addresses_within_are_refused_in_every_spelling_and_by_every_policy() {
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
                assert!(matches!(parsed, Err(Unfit::Address(_))), "{host} gave {parsed:?}");
            }
        }
    }

    #[test]
    fn debugging_shows_no_path() {
        let target = Target::parse("https://example.com/secret?token=1", LIVE).unwrap();
        assert_eq!(format!("{target:?}"), "Target(https://example.com)");
    }

    fn policies() -> impl Strategy<Value = Policy> {
        proptest::sample::select(vec![LIVE, TEST, LOCAL])
    }

    /// Whatever is accepted is what another reader would see, and leads nowhere within.
    #[track_caller]
    fn is_sound(text: &str, policy: Policy) {
        let Ok(target) = Target::parse(text, policy) else { return };
        let uri = target.uri.to_string();
        assert_eq!(parse(&uri, policy).as_deref(), Ok(uri.as_str()), "{text:?} is not canonical");
        let scheme = target.uri.scheme_str().expect("absolute");
        assert!(scheme == "https" || scheme == "http" && policy.allow_http, "{text:?}");
        let authority = target.uri.authority().expect("absolute").as_str();
        assert!(!authority.contains('@') && !uri.contains('#') && text.len() <= MAX_LENGTH, "{text:?}");
        let host = target.uri.host().expect("absolute").trim_matches(['[', ']']);
        if let Ok(address) = host.parse::<IpAddr>() {
            assert_eq!(addresses::refusal(address, policy.allow_loopback), None, "{text:?}");
        }
        assert!(policy.allow_loopback || host != "localhost" && !host.ends_with(".localhost"), "{text:?}");
        assert!(!uri.contains(|c: char| c.is_whitespace() || c.is_control()), "{text:?}");
        assert_eq!(format!("{target:?}"), format!("Target({scheme}://{authority})"));
    }

    #[test]
    fn what_is_accepted_is_canonical_and_leads_nowhere_within() {
        let urls = prop_oneof![
            mutated("https://example.com:8443/hooks?a=1"),
            mutated("http://127.0.0.1/"),
            mutated("https://user:pass@example.com/"),
            mutated("https://[2606:4700::1111]:8443/x"),
            texts(),
            texts().prop_map(|host| format!("https://{host}/")),
        ];
        check((urls, policies()), |(text, policy)| is_sound(&text, policy));
    }

    #[test]
    fn no_spelling_of_an_address_within_is_accepted() {
        let within =
            proptest::sample::select(vec![[127, 0, 0, 1], [10, 0, 0, 1], [169, 254, 169, 254], [192, 168, 0, 1]]);
        check((within, 0..6usize, policies()), |(octets, spelling, policy)| {
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
