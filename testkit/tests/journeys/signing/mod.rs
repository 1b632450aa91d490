//! Requests with live keys must be signed, unchanged, and used once.

mod examples;
mod refusals;
mod replays;

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering},
};

use anyhow::{Context, Result};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use hmac::{Hmac, KeyInit, Mac};
use reqwest::Method;
use sha2::{Digest, Sha256};
use testkit::{Client, Cluster, Response};

use crate::support::{Merchant, ORIGIN, unix_time};

/// Each run has new keys, so a counter gives unique nonces.
static NONCES: AtomicU64 = AtomicU64::new(1);

/// A live account, whose requests the tests sign.
pub(crate) async fn live(cluster: &Cluster) -> Result<Merchant> {
    Merchant::with(cluster, &["--mode", "live", "--provider", "mock", "--allow-mock", "--origin", ORIGIN]).await
}

/// A request and its signature parameters. Each test changes one of them, before or after signing.
#[derive(Clone, Debug)]
pub(crate) struct Signed {
    method: Method,
    path: String,
    query: Option<String>,
    body: Option<String>,
    headers: BTreeMap<String, String>,
    covered: Vec<String>,
    created: i64,
    key_id: String,
    nonce: String,
    secret: String,
}

impl Signed {
    /// A valid, unsigned request.
    pub(crate) fn new(merchant: &Merchant, method: Method, target: &str, body: Option<&str>) -> Result<Self> {
        let (path, query) = target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
        let mut request = Self {
            method,
            path: path.to_owned(),
            query: query.map(str::to_owned),
            body: None,
            headers: BTreeMap::new(),
            covered: ["@method", "@path", "@query"].map(str::to_owned).to_vec(),
            created: unix_time()?,
            key_id: merchant.account.secret_key_id.clone(),
            nonce: format!("nonce-{}", NONCES.fetch_add(1, Ordering::Relaxed)),
            secret: merchant.account.signing_secret.clone().context("live accounts have a signing secret")?,
        };
        if let Some(body) = body {
            request.body = Some(body.to_owned());
            request.header("content-digest", &digest(body));
        }
        Ok(request)
    }

    /// Adds a header that the signature covers.
    fn header(&mut self, name: &str, value: &str) {
        self.headers.insert(name.to_owned(), value.to_owned());
        self.covered.push(name.to_owned());
    }

    /// Adds the signature headers.
    pub(crate) fn sign(mut self) -> Self {
        let names: Vec<_> = self.covered.iter().map(|name| format!("\"{name}\"")).collect();
        let Self { created, key_id, nonce, .. } = &self;
        let names = names.join(" ");
        let input = format!("({names});created={created};keyid=\"{key_id}\";nonce=\"{nonce}\";alg=\"hmac-sha256\"");
        let line = |name: &String| {
            let value = match name.as_str() {
                "@method" => self.method.to_string(),
                "@path" => self.path.clone(),
                "@query" => format!("?{}", self.query.as_deref().unwrap_or_default()),
                name => self.headers.get(name).cloned().unwrap_or_default(),
            };
            format!("\"{name}\": {value}\n")
        };
        let base: String = self.covered.iter().map(line).collect::<String>() + "\"@signature-params\": " + &input;
        let mut mac = Hmac::<Sha256>::new_from_slice(self.secret.as_bytes()).expect("HMAC takes any key");
        mac.update(base.as_bytes());
        let signature = STANDARD.encode(mac.finalize().into_bytes());
        self.headers.insert("signature-input".into(), format!("sig1={input}"));
        self.headers.insert("signature".into(), format!("sig1=:{signature}:"));
        self
    }

    /// Sends the request, signed or not.
    pub(crate) async fn send(&self, api: &Client) -> Result<Response> {
        let mut api = api.clone();
        for (name, value) in &self.headers {
            api = api.header(name, value)?;
        }
        let query = self.query.as_ref().map(|query| format!("?{query}")).unwrap_or_default();
        let body = self.body.as_ref().map(|body| body.clone().into_bytes());
        api.send(self.method.clone(), &format!("{}{query}", self.path), body).await
    }
}

fn digest(body: &str) -> String {
    format!("sha-256=:{}:", STANDARD.encode(Sha256::digest(body.as_bytes())))
}

/// The number of stored customers, to assert that rejected requests have no effect.
async fn customers(merchant: &Merchant) -> Result<i64> {
    let query = "SELECT count(*) FROM customers WHERE account_id = $1";
    Ok(sqlx::query_scalar(query).bind(merchant.books.account).fetch_one(&merchant.books.db).await?)
}
