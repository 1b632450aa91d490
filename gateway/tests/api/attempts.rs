//! Guessing keys, and forms that are none.

use reqwest::header::{CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use serde_json::Value;

use crate::support::{Account, Form, GOOD, World};

/// A gateway that believes the address that a test gives.
fn builder() -> testkit::Builder {
    testkit::Cluster::builder().gateway(2).env("TRUSTED_PROXIES", "127.0.0.1")
}

impl World {
    /// Status, headers and code of `account.php` from an address, at one of the processes.
    async fn tries(&self, process: usize, from: &str, form: &Form) -> (u16, HeaderMap, String) {
        let url = format!("{}/apis/account.php", self.cluster.gateway_url(process));
        let request = self.http().post(url).header("x-forwarded-for", from);
        let answer = self.send(request, form).await.expect("an answer");
        let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
        let said: Value = answer.json().await.expect("JSON");
        (status, headers, said["response"]["code"].as_str().expect("a code").to_owned())
    }

    /// The codes of so many attempts one after the other, each at the next process. One that is limited has "429".
    async fn guesses(&self, count: usize, from: impl Fn(usize) -> String, form: &Form) -> Vec<String> {
        let mut codes = Vec::new();
        for nth in 0..count {
            let (status, headers, code) = self.tries(nth % 2, &from(nth), form).await;
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
async fn attempts_that_fail_are_limited_by_address_for_all_processes() {
    let world = World::of(builder().env("GATEWAY_FAILURE_RATE", "1"), &[]).await;
    let here = |_| "192.0.2.7".to_owned();
    // One process knows the key from before.
    assert_eq!(world.tries(0, "192.0.2.7", &world.keys()).await.2, "00");
    let codes = world.guesses(60, here, &wrong(&world.account)).await;
    assert!((20..50).contains(&count(&codes, "09")) && count(&codes, "429") > 0, "{codes:?}");
    // Names are counted with keys.
    let codes = world.guesses(40, here, &Form::empty().with("username", "nobody").with("api_key", "k")).await;
    assert!(count(&codes, "01") < 20 && count(&codes, "429") > 0, "{codes:?}");
    assert_eq!(world.tries(0, "192.0.2.7", &world.keys()).await.2, "00", "a key that was right is right");
    let codes = world.guesses(60, |_| "192.0.2.8".to_owned(), &world.keys()).await;
    assert_eq!(count(&codes, "00"), 60, "only failures count: {codes:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_users_key_is_guessed_slowly_from_anywhere_and_its_merchant_is_let_in() {
    let world = World::of(builder().env("GATEWAY_USER_FAILURE_RATE", "1"), &[]).await;
    let anywhere = |nth: usize| format!("192.0.2.{}", nth % 4);
    let codes = world.guesses(40, anywhere, &wrong(&world.account)).await;
    // Three at once, then one of each address in a minute, and what came back meanwhile.
    assert!((3..=12).contains(&count(&codes, "09")), "{codes:?}");
    let (status, ..) = world.tries(0, "192.0.2.1", &world.keys()).await;
    assert_eq!(status, 429, "from an address that has guessed");
    for process in [0, 1] {
        assert_eq!(world.tries(process, "198.51.100.1", &world.keys()).await.2, "00");
    }
    let other = world.add_account("other", &[]).await;
    assert_eq!(world.tries(0, "192.0.2.1", &world.keys_of(&other)).await.2, "00", "another user");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_content_type_that_is_no_forms_is_named() {
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
            let answer = request.body(form.clone()).send().await.expect("an answer");
            assert_eq!(answer.status(), 415, "{sent} {path}");
            let said: Value = answer.json().await.expect("JSON");
            let description = said["response"]["description"].as_str().expect("text");
            assert_eq!(said["response"]["code"], "UN", "{said}");
            assert!(description.contains(named) && description.contains("application/x-www-form-urlencoded"), "{said}");
            assert!(!description.contains("boundary"), "{said}");
        }
    }
    for sent in ["application/x-www-form-urlencoded", "Application/X-WWW-Form-Urlencoded; charset=utf-8"] {
        let request = world.http().post(format!("{}/apis/sale.php", world.base())).header(CONTENT_TYPE, sent);
        let said: Value =
            request.body(world.charge(GOOD).encoded()).send().await.expect("an answer").json().await.expect("JSON");
        assert_eq!(said["response"]["code"], "00", "{said}");
    }
    // One that names no type is taken for a form.
    let request = world.http().post(format!("{}/apis/sale.php", world.base())).body(world.charge(GOOD).encoded());
    let said: Value = request.send().await.expect("an answer").json().await.expect("JSON");
    assert_eq!(said["response"]["code"], "00", "{said}");
}
