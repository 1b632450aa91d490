//! A small HTTP client that sends exactly what it is told, exactly once.

use std::borrow::Borrow;
use std::time::Duration;

use anyhow::{Context, Result};
use reqwest::{
    Method, Url,
    header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
};
use serde_json::Value;

const TIMEOUT: Duration = Duration::from_secs(60);

/// What came back, whatever its status.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// The headers, with names in lower case.
    pub headers: HeaderMap,
    /// The body as JSON; `null` when it is none.
    pub body: Value,
    /// The body as it came.
    pub bytes: Vec<u8>,
}

impl Answer {
    /// The value of the header `name`, if it is there and is text.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// Fields as a form is sent.
///
/// # Panics
/// Never: the address that takes them is one.
#[must_use]
pub fn form<K: AsRef<str>, V: AsRef<str>>(fields: impl IntoIterator<Item: Borrow<(K, V)>>) -> String {
    let mut url = Url::parse("http://form").expect("an address");
    url.query_pairs_mut().extend_pairs(fields);
    url.query().unwrap_or_default().to_owned()
}

/// A base URL and the headers that go with every request. Cheap to clone; clones share connections.
#[derive(Clone, Debug)]
pub struct Client {
    base: String,
    headers: HeaderMap,
    http: reqwest::Client,
}

impl Client {
    /// A client for `base`, such as `http://127.0.0.1:8080`. It never retries, follows no redirect and uses no proxy.
    ///
    /// # Errors
    /// When the client cannot be made.
    pub fn new(base: &str) -> Result<Self> {
        let http = reqwest::Client::builder()
            .retry(reqwest::retry::never())
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .timeout(TIMEOUT)
            .build()?;
        Ok(Self { base: base.trim_end_matches('/').to_owned(), headers: HeaderMap::new(), http })
    }

    /// The same client with `Authorization: Bearer <key>`.
    ///
    /// # Errors
    /// When the key cannot stand in a header.
    pub fn bearer(&self, key: &str) -> Result<Self> {
        self.header("authorization", &format!("Bearer {key}"))
    }

    /// The same client with one more header, or with another value for it.
    ///
    /// # Errors
    /// When the name or the value cannot stand in a header.
    pub fn header(&self, name: &str, value: &str) -> Result<Self> {
        let mut client = self.clone();
        client.headers.insert(HeaderName::try_from(name)?, HeaderValue::try_from(value)?);
        Ok(client)
    }

    /// The base URL, without a slash at the end.
    #[must_use]
    pub fn base(&self) -> &str {
        &self.base
    }

    /// `GET`.
    ///
    /// # Errors
    /// When no answer comes; an answer of any status is none.
    pub async fn get(&self, path: &str) -> Result<Answer> {
        self.send(Method::GET, path, None).await
    }

    /// `DELETE`.
    ///
    /// # Errors
    /// As for [`Client::get`].
    pub async fn delete(&self, path: &str) -> Result<Answer> {
        self.send(Method::DELETE, path, None).await
    }

    /// `POST` of a JSON body.
    ///
    /// # Errors
    /// As for [`Client::get`].
    pub async fn post(&self, path: &str, body: Value) -> Result<Answer> {
        self.send(Method::POST, path, Some(body.to_string().into_bytes())).await
    }

    /// `PUT` of a JSON body.
    ///
    /// # Errors
    /// As for [`Client::get`].
    pub async fn put(&self, path: &str, body: Value) -> Result<Answer> {
        self.send(Method::PUT, path, Some(body.to_string().into_bytes())).await
    }

    /// `PATCH` of a JSON body.
    ///
    /// # Errors
    /// As for [`Client::get`].
    pub async fn patch(&self, path: &str, body: Value) -> Result<Answer> {
        self.send(Method::PATCH, path, Some(body.to_string().into_bytes())).await
    }

    /// Any method with any bytes, which are called `application/json` unless a header of this client says otherwise.
    ///
    /// # Errors
    /// As for [`Client::get`].
    pub async fn send(&self, method: Method, path: &str, body: Option<Vec<u8>>) -> Result<Answer> {
        let url = Url::parse(&format!("{}{path}", self.base)).context("not a URL")?;
        let describe = format!("{method} {url}");
        let mut request = self.http.request(method, url).headers(self.headers.clone());
        if let Some(body) = body {
            if !self.headers.contains_key(CONTENT_TYPE) {
                request = request.header(CONTENT_TYPE, "application/json");
            }
            request = request.body(body);
        }
        let answer = request.send().await.context(describe)?;
        let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
        let bytes = answer.bytes().await?.to_vec();
        let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        Ok(Answer { status, headers, body, bytes })
    }
}
