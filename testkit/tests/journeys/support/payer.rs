//! A cardholder on a payment page: a URL and a browser, without an API key.

use anyhow::{Context, Result};
use reqwest::Method;
use serde_json::Value;
use testkit::{Client, Response};

/// A page as received.
pub(crate) struct Page {
    pub(crate) response: Response,
    pub(crate) html: String,
}

/// A browser at the URL of a page.
#[derive(Clone)]
pub(crate) struct Payer {
    browser: Client,
    path: String,
}

impl Payer {
    /// A payer for the `url` of an invoice or payment link, sent to this API process.
    pub(crate) fn for_object(object: &Value, api: &str) -> Result<Self> {
        let url = object["url"].as_str().with_context(|| format!("no url in {object}"))?;
        let path = url.find("/pay/").map(|at| url[at..].to_owned()).with_context(|| format!("{url} is not a page"))?;
        let browser = Client::new(api)?.header("content-type", "application/x-www-form-urlencoded")?;
        Ok(Self { browser, path })
    }

    /// The path of the page's URL.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// The last segment of the path.
    pub(crate) fn token(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }

    /// The same browser at another path.
    pub(crate) fn at(&self, path: &str) -> Self {
        Self { path: path.to_owned(), ..self.clone() }
    }

    /// The same payer with this client address, as a trusted load balancer forwards it.
    pub(crate) fn with_address(&self, address: &str) -> Result<Self> {
        self.with_header("x-forwarded-for", address)
    }

    /// The page's script, which requests JSON.
    pub(crate) fn script(&self) -> Result<Self> {
        self.with_header("accept", "application/json")
    }

    pub(crate) fn with_header(&self, name: &str, value: &str) -> Result<Self> {
        Ok(Self { browser: self.browser.header(name, value)?, path: self.path.clone() })
    }

    /// The current page.
    pub(crate) async fn open(&self) -> Result<Page> {
        self.read(&self.path).await
    }

    /// The response at the path itself, such as a document.
    pub(crate) async fn response(&self) -> Result<Response> {
        self.browser.get(&self.path).await
    }

    async fn read(&self, path: &str) -> Result<Page> {
        let response = self.browser.get(path).await?;
        let html = String::from_utf8(response.bytes.clone())?;
        Ok(Page { response, html })
    }

    /// Presses the button and returns the response.
    pub(crate) async fn submit(&self, token: &str) -> Result<Response> {
        self.send(&format!("token={token}")).await
    }

    /// Posts a form.
    pub(crate) async fn send(&self, form: &str) -> Result<Response> {
        self.browser.send(Method::POST, &self.path, Some(form.to_owned().into_bytes())).await
    }

    /// Presses the button and follows the redirect.
    pub(crate) async fn pay(&self, token: &str) -> Result<Page> {
        let response = self.submit(token).await?;
        self.follow(&response).await
    }

    /// The page to which a response redirects.
    pub(crate) async fn follow(&self, response: &Response) -> Result<Page> {
        assert_eq!(response.status, 303, "{}", String::from_utf8_lossy(&response.bytes));
        let location = response.header("location").context("no Location")?;
        let (folder, _) = self.path.rsplit_once('/').context("no path")?;
        self.read(&format!("{folder}/{location}")).await
    }
}

impl Page {
    /// Asserts an HTML page with this status that contains all of these texts.
    #[track_caller]
    pub(crate) fn assert_shows(&self, status: u16, texts: &[&str]) {
        assert_eq!(self.response.status, status, "{}", self.html);
        assert_eq!(self.response.header("content-type"), Some("text/html; charset=utf-8"));
        for text in texts {
            assert!(self.html.contains(text), "no {text:?} in {}", self.html);
        }
    }

    /// Whether there is a button to pay.
    pub(crate) fn has_pay_button(&self) -> bool {
        self.html.contains("<button")
    }
}

/// The payment id in the redirect after a form post; `None` if the post was rejected.
pub(crate) fn redirect_payment_id(response: &Response) -> Option<String> {
    assert_eq!(response.status, 303, "{}", String::from_utf8_lossy(&response.bytes));
    response.header("location")?.split_once("?payment=").map(|(_, id)| id.to_owned())
}
