//! Signatures of live requests: RFC 9421 HTTP Message Signatures with `hmac-sha256`, over an RFC 9530 Content-Digest
//! (docs/api.md, Signing). Does no I/O: the caller must check that the nonce is new.

use std::collections::HashSet;

use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName};
use hmac::{Hmac, KeyInit, Mac};
use sfv::{BareItem, Dictionary, FieldType, InnerList, ListEntry, Parser};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// How far the signer's clock may be off, in seconds, either way.
pub(crate) const MAX_SKEW_SECONDS: i64 = 300;
const MAX_NONCE: usize = 128;

/// Why a signature is invalid; the 401 contains it.
type SignatureError = &'static str;

/// The head of a request, whose signature is right.
#[derive(Debug)]
pub(crate) struct SignedHead {
    nonce: String,
    /// The SHA-256 of the body, if the signature covers it.
    digest: Option<Vec<u8>>,
}

impl SignedHead {
    /// Checks that this body was signed, and returns the nonce.
    ///
    /// # Errors
    /// The signature does not cover the body, or was created for another one.
    pub(crate) fn verify_body(self, body: &[u8]) -> Result<String, SignatureError> {
        match self.digest {
            None if body.is_empty() => Ok(self.nonce),
            None => Err("the signature of a request with a body must cover content-digest"),
            Some(digest) if bool::from(Sha256::digest(body)[..].ct_eq(&digest)) => Ok(self.nonce),
            Some(_) => Err("Content-Digest does not match the body"),
        }
    }
}

/// Verifies the signature of a request, for which its body need not be read. `now` is in seconds since 1970.
///
/// # Errors
/// The signature is missing or invalid.
pub(crate) fn verify_head(parts: &Parts, key_id: &str, secret: &str, now: i64) -> Result<SignedHead, SignatureError> {
    let (inputs, signatures) = match (field(&parts.headers, "signature-input"), field(&parts.headers, "signature")) {
        (Some(inputs), Some(signatures)) => (inputs, signatures),
        _ => return Err("this key requires request signing (RFC 9421)"),
    };
    let inputs: Dictionary = Parser::new(&inputs).parse().map_err(|_| "Signature-Input is malformed")?;
    let signatures: Dictionary = Parser::new(&signatures).parse().map_err(|_| "Signature is malformed")?;
    let (label, input) = inputs
        .iter()
        .find_map(|(label, entry)| match entry {
            ListEntry::InnerList(list) if parameter(list, "keyid") == Some(key_id) => Some((label, list)),
            ListEntry::InnerList(_) | ListEntry::Item(_) => None,
        })
        .ok_or("no signature has this key's id as keyid")?;
    let Some(ListEntry::Item(signature)) = signatures.get(label) else {
        return Err("Signature has no entry for the label in Signature-Input");
    };
    let BareItem::ByteSequence(signature) = &signature.bare_item else { return Err("Signature is malformed") };

    check_time(input, now)?;
    if parameter(input, "alg").is_some_and(|alg| alg != "hmac-sha256") {
        return Err("alg must be hmac-sha256");
    }
    let covered = covered(input)?;
    check_coverage(&covered, &parts.headers)?;
    let base = signature_base(parts, input, &covered)?;
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("HMAC takes any key");
    mac.update(base.as_bytes());
    if !bool::from(mac.finalize().into_bytes()[..].ct_eq(signature)) {
        return Err("the signature does not match the request");
    }
    let digest = covered.contains(&"content-digest").then(|| digest(&parts.headers)).transpose()?;
    let nonce = parameter(input, "nonce").filter(|nonce| (1..=MAX_NONCE).contains(&nonce.len()));
    let nonce = nonce.ok_or("a nonce of 1 to 128 characters is required")?.to_owned();
    Ok(SignedHead { nonce, digest })
}

/// The value of a header field, its lines joined (RFC 9421 §2.1).
fn field(headers: &HeaderMap, name: &str) -> Option<String> {
    let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
    let values: Option<Vec<_>> = headers.get_all(name).iter().map(|value| value.to_str().ok().map(str::trim)).collect();
    values.filter(|values| !values.is_empty()).map(|values| values.join(", "))
}

fn parameter<'a>(input: &'a InnerList, name: &str) -> Option<&'a str> {
    match input.params.get(name) {
        Some(BareItem::String(text)) => Some(text.as_str()),
        _ => None,
    }
}

fn seconds(input: &InnerList, name: &str) -> Option<i64> {
    match input.params.get(name) {
        Some(BareItem::Integer(seconds)) => Some(i64::from(*seconds)),
        _ => None,
    }
}

fn check_time(input: &InnerList, now: i64) -> Result<(), SignatureError> {
    let created = seconds(input, "created").ok_or("created is required")?;
    if (now - created).abs() > MAX_SKEW_SECONDS {
        return Err("created is more than 300 seconds in the past or future");
    }
    if input.params.contains_key("expires") && seconds(input, "expires").is_none_or(|expires| expires <= now) {
        return Err("the signature has expired");
    }
    Ok(())
}

/// The names of the covered components, in the order signed.
fn covered(input: &InnerList) -> Result<Vec<&str>, SignatureError> {
    let mut seen = HashSet::new();
    input
        .items
        .iter()
        .map(|item| {
            let BareItem::String(name) = &item.bare_item else { return Err("Signature-Input is malformed") };
            let supported = item.params.is_empty() && seen.insert(name.as_str());
            let error = "a component is covered twice or has parameters, which are not supported";
            if supported { Ok(name.as_str()) } else { Err(error) }
        })
        .collect()
}

fn check_coverage(covered: &[&str], headers: &HeaderMap) -> Result<(), SignatureError> {
    let covers = |name: &str| covered.contains(&name);
    if !["@method", "@path", "@query"].into_iter().all(covers) {
        return Err("the signature must cover @method, @path and @query");
    }
    if headers.contains_key("idempotency-key") && !covers("idempotency-key") {
        return Err("the signature must cover the idempotency-key header");
    }
    Ok(())
}

/// RFC 9421 §2.5.
fn signature_base(parts: &Parts, input: &InnerList, covered: &[&str]) -> Result<String, SignatureError> {
    let mut base = String::new();
    for name in covered {
        let value = match *name {
            "@method" => parts.method.as_str().to_owned(),
            "@path" => parts.uri.path().to_owned(),
            "@query" => format!("?{}", parts.uri.query().unwrap_or_default()),
            "@authority" => field(&parts.headers, "host").unwrap_or_default().to_lowercase(),
            derived if derived.starts_with('@') => return Err("the signature covers an unsupported derived component"),
            name => {
                field(&parts.headers, name).ok_or("the signature covers a header that the request does not have")?
            }
        };
        base.push_str(&format!("\"{name}\": {value}\n"));
    }
    let params = vec![ListEntry::InnerList(input.clone())].serialize().ok_or("Signature-Input is malformed")?;
    base.push_str(&format!("\"@signature-params\": {params}"));
    Ok(base)
}

/// RFC 9530 §2, sha-256.
fn digest(headers: &HeaderMap) -> Result<Vec<u8>, SignatureError> {
    let digests = field(headers, "content-digest").ok_or("Content-Digest is required")?;
    let digests: Dictionary = Parser::new(&digests).parse().map_err(|_| "Content-Digest is malformed")?;
    let Some(ListEntry::Item(item)) = digests.get("sha-256") else { return Err("Content-Digest must contain sha-256") };
    let BareItem::ByteSequence(digest) = &item.bare_item else { return Err("Content-Digest is malformed") };
    Ok(digest.clone())
}

#[cfg(test)]
mod tests {
    use axum::http::Request;
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

    use super::*;
    use proptest::prelude::*;
    use testkit::fuzz::{changed, check, mutated, texts};

    fn verify(parts: &Parts, body: &[u8], key_id: &str, secret: &str, now: i64) -> Result<String, SignatureError> {
        verify_head(parts, key_id, secret, now)?.verify_body(body)
    }

    const NOW: i64 = 1_618_884_473;
    const PARAMS: &str = r#";created=1618884473;keyid="key_1";nonce="n1";alg="hmac-sha256""#;

    /// Signs independently of the verifier's code.
    fn signed(covered: &str, params: &str, lines: &[&str]) -> (String, String) {
        let input = format!("({covered}){params}");
        let base = format!("{}\n\"@signature-params\": {input}", lines.join("\n"));
        let mut mac = Hmac::<Sha256>::new_from_slice(b"secret").expect("HMAC takes any key");
        mac.update(base.as_bytes());
        (format!("sig1={input}"), format!("sig1=:{}:", STANDARD.encode(mac.finalize().into_bytes())))
    }

    fn digest_of(body: &str) -> String {
        format!("sha-256=:{}:", STANDARD.encode(Sha256::digest(body.as_bytes())))
    }

    struct Case {
        uri: &'static str,
        body: &'static str,
        headers: Vec<(&'static str, String)>,
    }

    impl Case {
        /// A correctly signed request, which each test modifies.
        fn valid() -> Self {
            let body = r#"{"amount":1}"#;
            let digest = digest_of(body);
            let (input, signature) = signed(
                r#""@method" "@path" "@query" "content-digest""#,
                PARAMS,
                &[
                    r#""@method": POST"#,
                    r#""@path": /v1/payments"#,
                    r#""@query": ?a=b"#,
                    &format!(r#""content-digest": {digest}"#),
                ],
            );
            let headers = vec![("signature-input", input), ("signature", signature), ("content-digest", digest)];
            Self { uri: "/v1/payments?a=b", body, headers }
        }

        fn request(&self) -> Request<()> {
            let mut request = Request::builder().method("POST").uri(self.uri);
            for (name, value) in &self.headers {
                request = request.header(*name, value);
            }
            request.body(()).expect("a request")
        }

        fn verify_at(&self, now: i64, secret: &str) -> Result<String, SignatureError> {
            let (parts, ()) = self.request().into_parts();
            verify(&parts, self.body.as_bytes(), "key_1", secret, now)
        }

        /// Before the body is read.
        fn verify_head(&self) -> Result<SignedHead, SignatureError> {
            let (parts, ()) = self.request().into_parts();
            verify_head(&parts, "key_1", "secret", NOW)
        }

        fn verify(&self) -> Result<String, SignatureError> {
            self.verify_at(NOW, "secret")
        }
    }

    #[test]
    fn a_valid_signature_is_accepted_and_returns_its_nonce() {
        assert_eq!(Case::valid().verify(), Ok("n1".to_owned()));
        assert!(Case::valid().verify_at(NOW + 300, "secret").is_ok());
        assert!(Case::valid().verify_at(NOW - 300, "secret").is_ok());
    }

    #[test]
    fn modified_requests_are_rejected() {
        assert!(Case::valid().verify_at(NOW, "other").is_err());
        assert!(Case::valid().verify_at(NOW + 301, "secret").is_err());
        assert!(Case::valid().verify_at(NOW - 301, "secret").is_err());
        assert!(Case { uri: "/v1/payments?a=c", ..Case::valid() }.verify().is_err());
        assert!(Case { uri: "/v1/payment?a=b", ..Case::valid() }.verify().is_err());
        assert!(Case { body: r#"{"amount":2}"#, ..Case::valid() }.verify().is_err());
        for i in 0..3 {
            let mut case = Case::valid();
            case.headers.remove(i);
            assert!(case.verify().is_err(), "without header {i}");
        }
        let mut keyed = Case::valid();
        keyed.headers.push(("idempotency-key", "k".into()));
        assert!(keyed.verify().is_err(), "an idempotency key that is not covered");
    }

    #[test]
    fn only_a_wrong_body_is_found_in_the_body() {
        let other_body = Case { body: r#"{"amount":2}"#, ..Case::valid() };
        assert!(other_body.verify_head().is_ok() && other_body.verify().is_err());
        assert!(Case { uri: "/v1/payments?a=c", ..Case::valid() }.verify_head().is_err());
        for i in 0..3 {
            let mut case = Case::valid();
            case.headers.remove(i);
            assert!(case.verify_head().is_err(), "without header {i}");
        }
    }

    #[test]
    fn required_components_and_parameters_are_enforced() {
        let lines = [r#""@method": POST"#, r#""@path": /v1/payments"#, r#""@query": ?a=b"#];
        let get = |covered: &str, params: &str, lines: &[&str]| {
            let (input, signature) = signed(covered, params, lines);
            Case { body: "", headers: vec![("signature-input", input), ("signature", signature)], ..Case::valid() }
        };
        let all = r#""@method" "@path" "@query""#;
        assert!(get(all, PARAMS, &lines).verify().is_ok());
        assert!(get(r#""@method" "@path""#, PARAMS, &lines[..2]).verify().is_err());
        assert!(get(all, r#";created=1618884473;keyid="key_1""#, &lines).verify().is_err(), "no nonce");
        assert!(get(all, r#";keyid="key_1";nonce="n""#, &lines).verify().is_err(), "no created");
        assert!(get(all, r#";created=1618884473;keyid="key_2";nonce="n""#, &lines).verify().is_err(), "another key");
        assert!(get(all, r#";created=1618884473;keyid="key_1";nonce="n";alg="hmac-sha512""#, &lines).verify().is_err());
        let expired = r#";created=1618884473;expires=1618884473;keyid="key_1";nonce="n""#;
        assert!(get(all, expired, &lines).verify().is_err());
    }

    /// RFC 9421, B.2.5.
    #[test]
    fn the_rfc_test_vector_has_the_same_signature_base() {
        let secret = "uzvJfB4u3N0Jy4T7NZ75MDVcr8zSTInedJtkgcu46YW4XByzNJjxBdtjUkdJPBtbmHhIDi6pcl8jsasjlTMtDQ==";
        let input = r#"("date" "@authority" "content-type");created=1618884473;keyid="test-shared-secret""#;
        let request = Request::builder()
            .method("POST")
            .uri("/foo?param=Value&Pet=dog")
            .header("host", "example.com")
            .header("date", "Tue, 20 Apr 2021 02:07:55 GMT")
            .header("content-type", "application/json")
            .body(())
            .expect("a request");
        let (parts, ()) = request.into_parts();
        let text = format!("sig-b25={input}");
        let parsed: Dictionary = Parser::new(&text).parse().expect("well-formed");
        let Some(ListEntry::InnerList(list)) = parsed.get("sig-b25") else { panic!("an inner list") };
        let base = signature_base(&parts, list, &covered(list).expect("names")).expect("a base");
        let key = STANDARD.decode(secret).expect("base64");
        let mut mac = Hmac::<Sha256>::new_from_slice(&key).expect("HMAC takes any key");
        mac.update(base.as_bytes());
        assert_eq!(STANDARD.encode(mac.finalize().into_bytes()), "pxcQw6G3AjtMBQjwo8XzkZf/bws5LelbaMk5rGIGtE8=");
    }

    /// A change to a signed request.
    #[derive(Clone, Debug)]
    enum Change {
        Method(String),
        Target(String),
        Body(String),
        Header(usize, String),
        Without(usize),
        Second(usize, String),
        Key(String),
        Secret(String),
        Later(i64),
    }

    /// The canonical form of the `sig1` entry: whitespace and other entries do not matter.
    fn canonical(dictionary: &str) -> Option<String> {
        let dictionary: Dictionary = Parser::new(dictionary.trim()).parse().ok()?;
        vec![dictionary.get("sig1")?.clone()].serialize()
    }

    #[test]
    fn any_change_to_signed_content_is_rejected() {
        let body = r#"{"amount":1250,"currency":"USD","paymentToken":"tok_ok"}"#;
        let (key, target) = ("order-1", "/v1/payments?a=b&c=%20d");
        let digest = digest_of(body);
        let (input, signature) = signed(
            r#""@method" "@path" "@query" "content-digest" "idempotency-key" "@authority""#,
            PARAMS,
            &[
                r#""@method": POST"#,
                r#""@path": /v1/payments"#,
                r#""@query": ?a=b&c=%20d"#,
                &format!(r#""content-digest": {digest}"#),
                r#""idempotency-key": order-1"#,
                r#""@authority": api.example"#,
            ],
        );
        let headers = [
            ("signature-input", input),
            ("signature", signature),
            ("content-digest", digest),
            ("idempotency-key", key.to_owned()),
            ("host", "api.example".to_owned()),
        ];
        let sent = headers.clone();
        let header = move |i: usize| changed(sent[i].1.clone()).prop_map(move |value| Change::Header(i, value));
        let changes = prop_oneof![
            1 => changed("POST").prop_map(Change::Method),
            2 => changed(target).prop_map(Change::Target),
            2 => changed(body).prop_map(Change::Body),
            6 => (0..5usize).prop_flat_map(header),
            1 => (0..5usize).prop_map(Change::Without),
            1 => (0..5usize, texts()).prop_map(|(i, value)| Change::Second(i, value)),
            1 => changed("key_1").prop_map(Change::Key),
            1 => changed("secret").prop_map(Change::Secret),
            1 => prop_oneof![301..10_000i64, -10_000..-300i64].prop_map(Change::Later),
        ];
        let verified = |change: Option<&Change>| -> Option<Result<String, SignatureError>> {
            let (mut method, mut uri, mut sent, mut secret) = ("POST", target, body, "secret");
            let (mut now, mut key_id) = (NOW, "key_1");
            let mut headers: Vec<(&str, String)> = headers.to_vec();
            match change {
                None => {}
                Some(Change::Method(other)) => method = other,
                Some(Change::Target(other)) => uri = other,
                Some(Change::Body(other)) => sent = other,
                Some(Change::Header(i, value)) => headers[*i].1.clone_from(value),
                Some(Change::Without(i)) => drop(headers.remove(*i)),
                Some(Change::Second(i, value)) => headers.push((headers[*i].0, value.clone())),
                Some(Change::Key(other)) => key_id = other,
                Some(Change::Secret(other)) => secret = other,
                Some(Change::Later(seconds)) => now += seconds,
            }
            let request = Request::builder().method(method).uri(uri);
            let request =
                headers.iter().fold(request, |request, (name, value)| request.header(*name, value.as_bytes()));
            // An invalid request never reaches the verifier.
            let (parts, ()) = request.body(()).ok()?.into_parts();
            Some(verify(&parts, sent.as_bytes(), key_id, secret, now))
        };
        assert_eq!(verified(None), Some(Ok("n1".to_owned())));
        check(changes, |change| {
            let same = match &change {
                Change::Header(i @ (0 | 1), value) => canonical(value) == canonical(&headers[*i].1),
                Change::Header(2, value) => value.trim() == headers[2].1,
                Change::Header(3, value) => value.trim() == key,
                Change::Header(_, value) => value.trim().eq_ignore_ascii_case("api.example"),
                Change::Second(i @ (0 | 1), value) => {
                    canonical(&format!("{}, {value}", headers[*i].1)) == canonical(&headers[*i].1)
                }
                // RFC 9421 does not distinguish a missing query from an empty one; a fragment is not sent.
                Change::Target(uri) => uri
                    .parse::<axum::http::Uri>()
                    .is_ok_and(|uri| uri.path() == "/v1/payments" && uri.query() == Some("a=b&c=%20d")),
                Change::Method(_) | Change::Body(_) | Change::Without(_) | Change::Second(..) => false,
                // HMAC pads a key with zeros.
                Change::Secret(other) => other.trim_end_matches('\0') == "secret",
                Change::Key(_) | Change::Later(_) => false,
            };
            match verified(Some(&change)) {
                Some(Ok(_)) => assert!(same, "a modified request verified"),
                Some(Err(error)) => assert!(error.len() < 120 && !error.contains("order-1"), "{error}"),
                None => {}
            }
        });
    }

    #[test]
    fn arbitrary_headers_are_rejected_without_the_secret() {
        let fields = || prop_oneof![mutated(format!("sig1=(\"@method\"){PARAMS}")), mutated("sig1=:AAAA:"), texts()];
        check((fields(), fields(), fields(), texts()), |(input, signature, digest, body)| {
            let request = Request::builder().method("POST").uri("/v1/payments");
            let request = request.header("signature-input", input.as_bytes()).header("signature", signature.as_bytes());
            let Ok(request) = request.header("content-digest", digest.as_bytes()).body(()) else { return };
            let (parts, ()) = request.into_parts();
            assert!(verify(&parts, body.as_bytes(), "key_1", "secret", NOW).is_err());
        });
    }
}
