//! A small HTTP client that sends each request exactly as given, exactly once.

use std::borrow::Borrow;
use std::time::Duration;

use anyhow::{Context, Result};
use reqwest::{
    Method, Url,
    header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
};
use serde_json::Value;

const TIMEOUT: Duration = Duration::from_secs(60);

/// A response of any status.
#[derive(Clone, Debug)]
pub struct Response {
    pub status: u16,
    /// The headers, with lower-case names.
    pub headers: HeaderMap,
    /// The body as JSON; `null` if it is not JSON.
    pub body: Value,
    /// The raw body.
    pub bytes: Vec<u8>,
}

impl Response {
    /// The value of the header `name`, if it is present and is text.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// Encodes fields as `application/x-www-form-urlencoded`.
///
/// # Panics
/// Never: the base URL is valid.
#[must_use]
pub fn form<K: AsRef<str>, V: AsRef<str>>(fields: impl IntoIterator<Item: Borrow<(K, V)>>) -> String {
    let mut url = Url::parse("http://form").expect("a valid URL");
    url.query_pairs_mut().extend_pairs(fields);
    url.query().unwrap_or_default().to_owned()
}

/// A base URL and the headers sent with every request. Cheap to clone; clones share connections.
#[derive(Clone, Debug)]
pub struct Client {
    base: String,
    headers: HeaderMap,
    http: reqwest::Client,
}

impl Client {
    /// A client for `base`, such as `http://127.0.0.1:8080`. It never retries, follows no redirects and uses no proxy.
    ///
    /// # Errors
    /// When the client cannot be built.
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
    /// When the key is not a valid header value.
    pub fn bearer(&self, key: &str) -> Result<Self> {
        self.header("authorization", &format!("Bearer {key}"))
    }

    /// The same client with one header added or replaced.
    ///
    /// # Errors
    /// When the name or the value is not valid in a header.
    pub fn header(&self, name: &str, value: &str) -> Result<Self> {
        let mut client = self.clone();
        client.headers.insert(HeaderName::try_from(name)?, HeaderValue::try_from(value)?);
        Ok(client)
    }

    /// The base URL, without a trailing slash.
    #[must_use]
    pub fn base(&self) -> &str {
        &self.base
    }

    /// `GET`.
    ///
    /// # Errors
    /// When no response arrives. A response of any status is not an error.
    pub async fn get(&self, path: &str) -> Result<Response> {
        self.send(Method::GET, path, None).await
    }

    /// `DELETE`.
    ///
    /// # Errors
    /// As for [`Client::get`].
    pub async fn delete(&self, path: &str) -> Result<Response> {
        self.send(Method::DELETE, path, None).await
    }

    /// `POST` with a JSON body.
    ///
    /// # Errors
    /// As for [`Client::get`].
    pub async fn post(&self, path: &str, body: Value) -> Result<Response> {
        self.send(Method::POST, path, Some(body.to_string().into_bytes())).await
    }

    /// Any method with any bytes, sent as `application/json` unless this client sets another content type.
    ///
    /// # Errors
    /// As for [`Client::get`].
    pub async fn send(&self, method: Method, path: &str, body: Option<Vec<u8>>) -> Result<Response> {
        let url = Url::parse(&format!("{}{path}", self.base)).context("not a URL")?;
        let description = format!("{method} {url}");
        let mut request = self.http.request(method, url).headers(self.headers.clone());
        if let Some(body) = body {
            if !self.headers.contains_key(CONTENT_TYPE) {
                request = request.header(CONTENT_TYPE, "application/json");
            }
            request = request.body(body);
        }
        let response = request.send().await.context(description)?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let bytes = response.bytes().await?.to_vec();
        let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        Ok(Response { status, headers, body, bytes })
    }
}
