//! Key guessing, and unsupported content types.

use std::time::Instant;

use futures_util::future::join_all;
use reqwest::header::{CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use serde_json::Value;
use testkit::limits::{self, refilled};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{Account, Form, GOOD, World};

/// A gateway that trusts the client address of the test.
fn builder() -> testkit::Builder {
    let (name, value) = limits::SHARED;
    testkit::Cluster::builder().gateway(2).env("TRUSTED_PROXIES", "127.0.0.1").env(name, value)
}

impl World {
    /// Status, headers and code of `account.php`, from an address at one of the processes.
    async fn attempt(&self, process: usize, from: &str, form: &Form) -> (u16, HeaderMap, String) {
        let url = format!("{}/apis/account.php", self.cluster.gateway_url(process));
        let request = self.http().post(url).header("x-forwarded-for", from);
        let response = self.send(request, form).await.expect("a response");
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let reply: Value = response.json().await.expect("JSON");
        (status, headers, reply["response"]["code"].as_str().expect("a code").to_owned())
    }

    /// The response to an attempt of which only the head is sent.
    async fn attempt_without_form(&self, from: &str) -> String {
        let base = self.base();
        let address = base.strip_prefix("http://").expect("an address");
        let mut stream = TcpStream::connect(address).await.expect("a connection");
        let head = format!(
            "POST /apis/account.php HTTP/1.1\r\nHost: gateway\r\nX-Forwarded-For: {from}\r\nContent-Length: 10\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.expect("written");
        let mut response = String::new();
        stream.read_to_string(&mut response).await.expect("a response, and the end of the connection");
        response
    }

    /// The codes of consecutive attempts, alternating between the processes; "429" for a limited one.
    async fn attempts(&self, count: usize, from: impl Fn(usize) -> String, form: &Form) -> Vec<String> {
        let mut codes = Vec::new();
        for nth in 0..count {
            let (status, headers, code) = self.attempt(nth % 2, &from(nth), form).await;
            assert_eq!(status == 429, headers.contains_key(RETRY_AFTER), "{status}");
            assert!(matches!((status, code.as_str()), (200, "00" | "01" | "09") | (429, "UN")), "{status} {code}");
            codes.push(if status == 429 { "429".to_owned() } else { code });
        }
        codes
    }
}

fn wrong(account: &Account) -> Form {
    Form::empty().with("username", &account.username).with("api_key", "gwk_0000")
}

fn count(codes: &[String], code: &str) -> usize {
    codes.iter().filter(|one| *one == code).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_attempts_are_limited_by_address_across_processes() {
    let world = World::of(builder().env("GATEWAY_FAILURE_RATE", "1"), &[]).await;
    let here = |_| "192.0.2.7".to_owned();
    // One process knows the key already.
    assert_eq!(world.attempt(0, "192.0.2.7", &world.keys()).await.2, "00");
    let began = Instant::now();
    let codes = world.attempts(60, here, &wrong(&world.account)).await;
    let accepted = count(&codes, "09");
    assert!((20..=20 + refilled(began.elapsed())).contains(&accepted), "{codes:?}");
    // Unknown user names count together with wrong keys.
    let codes = world.attempts(40, here, &Form::empty().with("username", "unknown").with("api_key", "k")).await;
    assert!(accepted + count(&codes, "01") <= 20 + refilled(began.elapsed()), "{codes:?}");
    for process in [0, 1] {
        let code = world.attempt(process, "192.0.2.7", &world.keys()).await.2;
        assert_eq!(code, "00", "a known key still works, also where it was not used before: {process}");
    }
    let codes = world.attempts(60, |_| "192.0.2.8".to_owned(), &world.keys()).await;
    assert_eq!(count(&codes, "00"), 60, "only failures count: {codes:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_over_its_limit_is_refused_before_its_form_arrives() {
    let world = World::of(builder().env("GATEWAY_FAILURE_RATE", "1"), &[]).await;
    let codes = world.attempts(60, |_| "192.0.2.7".to_owned(), &wrong(&world.account)).await;
    assert!(count(&codes, "429") > 0, "{codes:?}");
    let began = Instant::now();
    let over = join_all((0..20).map(|_| world.attempt_without_form("192.0.2.7"))).await;
    let awaited = over.iter().filter(|response| response.starts_with("HTTP/1.1 408 ")).count();
    assert!(awaited <= refilled(began.elapsed()), "{over:?}");
    let is_limited = |response: &&String| response.starts_with("HTTP/1.1 429 ") && response.contains("retry-after: ");
    assert_eq!(over.iter().filter(is_limited).count(), over.len() - awaited, "{over:?}");
    // A form that does not arrive costs the address a token as well.
    let slow = join_all((0..30).map(|_| world.attempt_without_form("192.0.2.8"))).await;
    assert!(slow.iter().any(|response| response.starts_with("HTTP/1.1 429 ")), "{slow:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn guessing_is_limited_by_user_name_without_locking_out_the_merchant() {
    let world = World::of(builder().env("GATEWAY_USER_FAILURE_RATE", "1"), &[]).await;
    let anywhere = |nth: usize| format!("192.0.2.{}", nth % 4);
    let codes = world.attempts(40, anywhere, &wrong(&world.account)).await;
    // A burst of three, then one attempt a minute from each address, plus refilled tokens.
    assert!((3..=12).contains(&count(&codes, "09")), "{codes:?}");
    let (status, ..) = world.attempt(0, "192.0.2.1", &world.keys()).await;
    assert_eq!(status, 429, "from an address with failures");
    for process in [0, 1] {
        assert_eq!(world.attempt(process, "198.51.100.1", &world.keys()).await.2, "00");
    }
    let other = world.add_account("other", &[]).await;
    assert_eq!(world.attempt(0, "192.0.2.1", &world.keys_of(&other)).await.2, "00", "another user");
}

#[tokio::test(flavor = "multi_thread")]
async fn unsupported_content_types_are_named() {
    let world = World::new().await;
    let form = world.charge(GOOD).encoded();
    for (sent, named) in [
        ("application/json", "application/json"),
        ("multipart/form-data; boundary=x", "multipart/form-data"),
        ("text/plain;charset=UTF-8", "text/plain"),
        ("nonsense", "nonsense"),
    ] {
        for path in ["apis/sale.php", "services/field_token"] {
            let request = world.http().post(format!("{}/{path}", world.base())).header(CONTENT_TYPE, sent);
            let response = request.body(form.clone()).send().await.expect("a response");
            assert_eq!(response.status(), 415, "{sent} {path}");
            let reply: Value = response.json().await.expect("JSON");
            let description = reply["response"]["description"].as_str().expect("text");
            assert_eq!(reply["response"]["code"], "UN", "{reply}");
            assert!(
                description.contains(named) && description.contains("application/x-www-form-urlencoded"),
                "{reply}"
            );
            assert!(!description.contains("boundary"), "{reply}");
        }
    }
    for sent in ["application/x-www-form-urlencoded", "Application/X-WWW-Form-Urlencoded; charset=utf-8"] {
        let request = world.http().post(format!("{}/apis/sale.php", world.base())).header(CONTENT_TYPE, sent);
        let reply: Value =
            request.body(world.charge(GOOD).encoded()).send().await.expect("a response").json().await.expect("JSON");
        assert_eq!(reply["response"]["code"], "00", "{reply}");
    }
    // A request without a content type counts as a form.
    let request = world.http().post(format!("{}/apis/sale.php", world.base())).body(world.charge(GOOD).encoded());
    let reply: Value = request.send().await.expect("a response").json().await.expect("JSON");
    assert_eq!(reply["response"]["code"], "00", "{reply}");
}
