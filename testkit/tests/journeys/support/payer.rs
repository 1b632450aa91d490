//! A cardholder on a payment page: an address and a browser, and no key.

use anyhow::{Context, Result};
use reqwest::Method;
use serde_json::Value;
use testkit::{Answer, Client};

/// A page as it came.
pub(crate) struct Page {
    pub(crate) answer: Answer,
    pub(crate) html: String,
}

/// A browser at the address of a page.
#[derive(Clone)]
pub(crate) struct Payer {
    browser: Client,
    path: String,
}

impl Payer {
    /// Opens the address that an invoice or a link shows, at the api that is to answer.
    pub(crate) fn of(object: &Value, api: &str) -> Result<Self> {
        let url = object["url"].as_str().with_context(|| format!("no url in {object}"))?;
        let path = url.find("/pay/").map(|at| url[at..].to_owned()).with_context(|| format!("{url} is no page"))?;
        let browser = Client::new(api)?.header("content-type", "application/x-www-form-urlencoded")?;
        Ok(Self { browser, path })
    }

    /// What follows the name of the api in the address.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// The last part of the address.
    pub(crate) fn token(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }

    /// The same browser at another address.
    pub(crate) fn at(&self, path: &str) -> Self {
        Self { path: path.to_owned(), ..self.clone() }
    }

    /// The same payer from there, as a balancer says that we believe.
    pub(crate) fn from(&self, address: &str) -> Result<Self> {
        Ok(Self { browser: self.browser.header("x-forwarded-for", address)?, path: self.path.clone() })
    }

    /// The script of the page, which asks for JSON.
    pub(crate) fn script(&self) -> Result<Self> {
        Ok(Self { browser: self.browser.header("accept", "application/json")?, path: self.path.clone() })
    }

    /// The page as it stands.
    pub(crate) async fn open(&self) -> Result<Page> {
        self.read(&self.path).await
    }

    async fn read(&self, path: &str) -> Result<Page> {
        let answer = self.browser.get(path).await?;
        let html = String::from_utf8(answer.bytes.clone())?;
        Ok(Page { answer, html })
    }

    /// Presses the button, and says what came back.
    pub(crate) async fn submit(&self, token: &str) -> Result<Answer> {
        self.send(&format!("token={token}")).await
    }

    /// Posts a form.
    pub(crate) async fn send(&self, form: &str) -> Result<Answer> {
        self.browser.send(Method::POST, &self.path, Some(form.to_owned().into_bytes())).await
    }

    /// Presses the button, and follows to the page where the browser is sent.
    pub(crate) async fn pay(&self, token: &str) -> Result<Page> {
        let answer = self.submit(token).await?;
        self.follow(&answer).await
    }

    /// The page where the browser is sent.
    pub(crate) async fn follow(&self, answer: &Answer) -> Result<Page> {
        assert_eq!(answer.status, 303, "{}", String::from_utf8_lossy(&answer.bytes));
        let place = answer.header("location").context("no Location")?;
        let (folder, _) = self.path.rsplit_once('/').context("no path")?;
        self.read(&format!("{folder}/{place}")).await
    }
}

impl Page {
    /// It is a page, in this status, that shows all of this.
    #[track_caller]
    pub(crate) fn shows(&self, status: u16, texts: &[&str]) {
        assert_eq!(self.answer.status, status, "{}", self.html);
        assert_eq!(self.answer.header("content-type"), Some("text/html; charset=utf-8"));
        for text in texts {
            assert!(self.html.contains(text), "no {text:?} in {}", self.html);
        }
    }

    /// Whether there is a button to pay.
    pub(crate) fn can_be_paid(&self) -> bool {
        self.html.contains("<button")
    }
}

/// The payment that a browser is sent back with; none if it was refused.
pub(crate) fn payment_made(answer: &Answer) -> Option<String> {
    assert_eq!(answer.status, 303, "{}", String::from_utf8_lossy(&answer.bytes));
    answer.header("location")?.split_once("?payment=").map(|(_, id)| id.to_owned())
}
