//! A client of the API as merchants write them: it waits, gives up, and asks again with the same key.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anyhow::Result;
use reqwest::Method;
use serde_json::Value;
use tokio::time::{sleep, timeout};

use super::{
    journal::Entry,
    random::Random,
    world::{ORIGIN, Shop, World},
};
use crate::Client;

/// Longer than the API waits for a worker.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);
/// So often a request that may be repeated is repeated.
const TRIES: usize = 12;

/// An answer: its status, and its body as JSON.
#[derive(Clone, Debug)]
pub(super) struct Told {
    pub(super) status: u16,
    pub(super) body: Value,
}

/// A client of one merchant.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    pub(super) world: Arc<World>,
    pub(super) shop: usize,
    pub(super) random: Random,
    clients: Vec<Client>,
    pages: Vec<Client>,
    browsers: Vec<Client>,
}

/// The first from here on that is ready.
fn ready(all: &[AtomicBool], from: usize) -> usize {
    let next = (from..all.len()).chain(0..from).find(|index| all[*index].load(Ordering::Relaxed));
    next.unwrap_or(from)
}

impl Caller {
    pub(super) fn new(world: &Arc<World>, shop: usize, random: Random) -> Result<Self> {
        let bearer = |api: &String| Client::new(api)?.bearer(&world.shops[shop].account.secret_key);
        let form = |api: &String| Client::new(api)?.header("content-type", "application/x-www-form-urlencoded");
        let clients = world.apis.iter().map(bearer).collect::<Result<_>>()?;
        let pages = world.apis.iter().map(form).collect::<Result<_>>()?;
        let publishable = &world.shops[shop].account.publishable_key;
        let browser = |api: &String| Client::new(api)?.bearer(publishable)?.header("origin", ORIGIN);
        let browsers = world.apis.iter().map(browser).collect::<Result<_>>()?;
        Ok(Self { world: Arc::clone(world), shop, random, clients, pages, browsers })
    }

    pub(super) fn shop(&self) -> &Shop {
        &self.world.shops[self.shop]
    }

    /// One of the apis that a balancer leads to, or any if there is none.
    fn api(&mut self) -> usize {
        let any = self.random.index(self.world.apis.len());
        ready(&self.world.ready, any)
    }

    /// Likewise of the gateways.
    pub(super) fn gateway(&mut self) -> String {
        let any = self.random.index(self.world.gateways.len());
        self.world.gateways[ready(&self.world.ready_gateways, any)].clone()
    }

    /// Waits as a client does between two things.
    pub(super) async fn pause(&mut self, first: u64, last: u64) {
        sleep(Duration::from_millis(self.random.between(first, last))).await;
    }

    /// One request, which is noted with its answer. Now and then the client hangs up early.
    pub(super) async fn call(&mut self, method: Method, path: &str, key: Option<&str>, body: Value) -> Option<Told> {
        let api = self.api();
        let client = self.clients[api].clone();
        let client = key.and_then(|key| client.header("idempotency-key", key).ok()).unwrap_or(client);
        let bytes = if body.is_null() { None } else { Some(body.to_string().into_bytes()) };
        self.note(client, method, path, key, body, bytes).await
    }

    /// What a page of the merchant asks for, with the key that all may see; none if that came to nothing.
    pub(super) async fn browse(&mut self, path: &str, body: Value) -> Option<Value> {
        let api = self.api();
        let client = self.browsers[api].clone();
        let bytes = Some(body.to_string().into_bytes());
        let told = self.note(client, Method::POST, path, None, body, bytes).await?;
        (told.status == 201).then_some(told.body)
    }

    /// A form that a browser posts to a page.
    pub(super) async fn submit(&mut self, path: &str, form: &str) -> Option<Told> {
        let api = self.api();
        let client = self.pages[api].clone();
        let bytes = Some(form.to_owned().into_bytes());
        self.note(client, Method::POST, path, None, Value::from(form), bytes).await
    }

    async fn note(
        &mut self,
        client: Client,
        method: Method,
        path: &str,
        key: Option<&str>,
        body: Value,
        bytes: Option<Vec<u8>>,
    ) -> Option<Told> {
        let hasty = method == Method::POST && self.random.percent(4) && !self.world.calm.load(Ordering::Relaxed);
        let patience = if hasty { Duration::from_millis(self.random.between(20, 1500)) } else { PATIENCE };
        let request = format!("{method} {path}");
        let sent = self.world.clock.now();
        let answer = timeout(patience, client.send(method, path, bytes)).await.ok().and_then(Result::ok);
        let text = answer.as_ref().map(|answer| String::from_utf8_lossy(&answer.bytes).into_owned());
        self.world.journal.add(Entry {
            sent,
            ended: self.world.clock.now(),
            shop: self.shop,
            request,
            key: key.map(str::to_owned),
            body,
            status: answer.as_ref().map(|answer| answer.status),
            answer: text.unwrap_or_default(),
        });
        let answer = answer?;
        Some(Told { status: answer.status, body: answer.body })
    }

    pub(super) async fn post(&mut self, path: &str, body: Value) -> Option<Told> {
        self.call(Method::POST, path, None, body).await
    }

    /// What changes nothing, or is safe to repeat: until there is an answer that is none of ours to blame.
    pub(super) async fn insist(&mut self, method: Method, path: &str, key: Option<&str>, body: Value) -> Option<Told> {
        for _ in 0..TRIES {
            if let Some(told) = self.call(method.clone(), path, key, body.clone()).await
                && told.status < 500
            {
                return Some(told);
            }
            self.pause(200, 1500).await;
        }
        None
    }

    /// The object as it stands.
    pub(super) async fn get(&mut self, path: &str) -> Option<Value> {
        let told = self.insist(Method::GET, path, None, Value::Null).await?;
        (told.status == 200).then_some(told.body)
    }

    /// The id of what is made, by whatever number of tries: one too many does no harm.
    pub(super) async fn make(&mut self, path: &str, body: Value) -> Option<String> {
        let told = self.insist(Method::POST, path, None, body).await?;
        told.body["id"].as_str().map(str::to_owned)
    }
}
