//! A client of the API that behaves like a merchant's server: it waits, times out, and retries with the same key.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use anyhow::Result;
use reqwest::Method;
use serde_json::Value;
use tokio::time::sleep;

use super::state::LoadState;
use crate::{
    Client,
    chaos::{
        journal::Entry,
        shop::{ORIGIN, Shop},
    },
    random::Random,
};

/// Longer than the API waits for a worker.
pub(in crate::chaos) const TIMEOUT: Duration = Duration::from_secs(30);
/// Attempts of a request that may be retried.
const MAX_ATTEMPTS: usize = 12;

/// A response: its status, and its body as JSON.
#[derive(Clone, Debug)]
pub(super) struct Response {
    pub(super) status: u16,
    pub(super) body: Value,
}

/// A client of one merchant.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    pub(super) load: Arc<LoadState>,
    pub(super) shop: usize,
    pub(super) random: Random,
    clients: Vec<Client>,
    form_clients: Vec<Client>,
    browser_clients: Vec<Client>,
}

impl Caller {
    pub(super) fn new(load: &Arc<LoadState>, shop: usize, random: Random) -> Result<Self> {
        let bearer = |api: &String| Client::new(api)?.bearer(&load.shops[shop].account.secret_key);
        let form = |api: &String| Client::new(api)?.header("content-type", "application/x-www-form-urlencoded");
        let clients = load.apis.urls().map(bearer).collect::<Result<_>>()?;
        let form_clients = load.apis.urls().map(form).collect::<Result<_>>()?;
        let publishable = &load.shops[shop].account.publishable_key;
        let browser = |api: &String| Client::new(api)?.bearer(publishable)?.header("origin", ORIGIN);
        let browser_clients = load.apis.urls().map(browser).collect::<Result<_>>()?;
        Ok(Self { load: Arc::clone(load), shop, random, clients, form_clients, browser_clients })
    }

    pub(super) fn shop(&self) -> &Shop {
        &self.load.shops[self.shop]
    }

    /// A random api process among those that a load balancer would use.
    fn api(&mut self) -> usize {
        self.load.apis.ready_from(self.random.index(self.load.apis.len()))
    }

    /// The same for the gateways.
    pub(super) fn gateway(&mut self) -> String {
        let start = self.random.index(self.load.gateways.len());
        self.load.gateways.url(self.load.gateways.ready_from(start)).to_owned()
    }

    /// Waits a random number of milliseconds.
    pub(super) async fn pause(&mut self, first: u64, last: u64) {
        sleep(Duration::from_millis(self.random.between(first, last))).await;
    }

    /// Sends one request and logs it with its response. Sometimes the client times out early.
    pub(super) async fn call(
        &mut self,
        method: Method,
        path: &str,
        key: Option<&str>,
        body: Value,
    ) -> Option<Response> {
        let api = self.api();
        let client = self.clients[api].clone();
        let client = key.and_then(|key| client.header("idempotency-key", key).ok()).unwrap_or(client);
        let bytes = if body.is_null() { None } else { Some(body.to_string().into_bytes()) };
        self.send_and_log(client, method, path, key, body, bytes).await
    }

    /// A request from a merchant's page, authenticated by the publishable key; `None` unless it returns 201.
    pub(super) async fn post_from_page(&mut self, path: &str, body: Value) -> Option<Value> {
        let api = self.api();
        let client = self.browser_clients[api].clone();
        let bytes = Some(body.to_string().into_bytes());
        let response = self.send_and_log(client, Method::POST, path, None, body, bytes).await?;
        (response.status == 201).then_some(response.body)
    }

    /// Posts a form of a payment page.
    pub(super) async fn post_form(&mut self, path: &str, form: &str) -> Option<Response> {
        let api = self.api();
        let client = self.form_clients[api].clone();
        let bytes = Some(form.to_owned().into_bytes());
        self.send_and_log(client, Method::POST, path, None, Value::from(form), bytes).await
    }

    async fn send_and_log(
        &mut self,
        client: Client,
        method: Method,
        path: &str,
        key: Option<&str>,
        body: Value,
        bytes: Option<Vec<u8>>,
    ) -> Option<Response> {
        let times_out_early =
            method == Method::POST && self.random.percent(4) && !self.load.full_timeouts.load(Ordering::Relaxed);
        let timeout = if times_out_early { Duration::from_millis(self.random.between(20, 1500)) } else { TIMEOUT };
        let request = format!("{method} {path}");
        let sent = self.load.clock.now();
        let response = tokio::time::timeout(timeout, client.send(method, path, bytes)).await.ok().and_then(Result::ok);
        // This is how a balancer says that it has lost the response of an api.
        let response = response.filter(|response| ![502, 504].contains(&response.status) || !response.body.is_null());
        let text = response.as_ref().map(|response| String::from_utf8_lossy(&response.bytes).into_owned());
        self.load.journal.add(Entry {
            sent,
            ended: self.load.clock.now(),
            shop: self.shop,
            request,
            key: key.map(str::to_owned),
            body,
            status: response.as_ref().map(|response| response.status),
            response: text.unwrap_or_default(),
        });
        let response = response?;
        Some(Response { status: response.status, body: response.body })
    }

    pub(super) async fn post(&mut self, path: &str, body: Value) -> Option<Response> {
        self.call(Method::POST, path, None, body).await
    }

    /// Retries until the status is below 500. Only for requests that are safe to repeat.
    pub(super) async fn call_with_retries(
        &mut self,
        method: Method,
        path: &str,
        key: Option<&str>,
        body: Value,
    ) -> Option<Response> {
        for _ in 0..MAX_ATTEMPTS {
            if let Some(response) = self.call(method.clone(), path, key, body.clone()).await
                && response.status < 500
            {
                return Some(response);
            }
            self.pause(200, 1500).await;
        }
        None
    }

    /// The current state of an object.
    pub(super) async fn get(&mut self, path: &str) -> Option<Value> {
        let response = self.call_with_retries(Method::GET, path, None, Value::Null).await?;
        (response.status == 200).then_some(response.body)
    }

    /// Creates an object and returns its id. Retries may create duplicates, which do no harm here.
    pub(super) async fn create(&mut self, path: &str, body: Value) -> Option<String> {
        let response = self.call_with_retries(Method::POST, path, None, body).await?;
        response.body["id"].as_str().map(str::to_owned)
    }
}
