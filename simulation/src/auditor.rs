//! Reads everything that the API shows after a history.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use reqwest::Client;
use serde_json::Value;
use tokio::time::sleep;

use crate::client::{self, Response};
use crate::history::{self, Content};

/// Below the rate limit of a test key, 25 a second.
const INTERVAL: Duration = Duration::from_millis(50);
const ATTEMPTS: usize = 5;
/// The lists of the account, by path.
const LISTS: [&str; 8] = [
    "/v1/customers",
    "/v1/plans",
    "/v1/payments",
    "/v1/invoices",
    "/v1/payment_links",
    "/v1/subscriptions",
    "/v1/recurring_invoices",
    "/v1/disputes",
];

/// What the API shows.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// Every object of a list, by its id.
    pub objects: BTreeMap<String, Value>,
    /// The lists whose pages contain an object twice.
    pub repeated: BTreeSet<String>,
    /// Objects that differ when retrieved alone: the listed and the retrieved one.
    pub differing: Vec<(Value, Value)>,
    /// The attempts of each invoice.
    pub attempts: BTreeMap<String, Vec<Value>>,
    /// The settlements of the days on which disputed money moved.
    pub settlements: Vec<Value>,
    /// What could not be read.
    pub failed: Vec<String>,
    /// The account's time.
    pub now: String,
}

impl State {
    /// The objects of this type.
    pub fn all<'a>(&'a self, object: &'a str) -> impl Iterator<Item = &'a Value> {
        self.objects.values().filter(move |value| value["object"] == object)
    }
}

/// Reads the lists in pages, the objects `named` alone, and the settlements of these days.
pub async fn read(key: &str, named: &BTreeSet<String>, days: &[String]) -> State {
    let mut auditor = Auditor { client: client::client(), key: key.to_owned(), state: State::default() };
    auditor.state.now = text(&auditor.get("/v1/test_clock").await, "now");
    for path in LISTS {
        auditor.list(path).await;
        for id in auditor.ids(path).iter().filter(|id| named.contains(*id)) {
            let (listed, alone) = (auditor.state.objects[id].clone(), auditor.get(&format!("{path}/{id}")).await);
            if alone != listed {
                auditor.state.differing.push((listed, alone));
            }
        }
    }
    for id in auditor.ids("/v1/customers") {
        auditor.list(&format!("/v1/payment_methods?customerId={id}")).await;
    }
    for id in auditor.ids("/v1/invoices") {
        let attempts = auditor.get(&format!("/v1/invoices/{id}/attempts?limit=100")).await;
        auditor.state.attempts.insert(id, attempts["data"].as_array().cloned().unwrap_or_default());
    }
    for day in days {
        let settlement = auditor.get(&format!("/v1/settlements?day={day}")).await;
        auditor.state.settlements.push(settlement);
    }
    auditor.state
}

fn text(value: &Value, field: &str) -> String {
    value[field].as_str().unwrap_or_default().to_owned()
}

/// A client and what it has read.
struct Auditor {
    client: Client,
    key: String,
    state: State,
}

impl Auditor {
    /// The objects that this list contains.
    fn ids(&self, path: &str) -> Vec<String> {
        let object = path.trim_start_matches("/v1/").trim_end_matches('s');
        self.state.all(object).map(|value| text(value, "id")).collect()
    }

    async fn list(&mut self, path: &str) {
        let separator = if path.contains('?') { '&' } else { '?' };
        let mut page = format!("{path}{separator}limit=20");
        loop {
            let body = self.get(&page).await;
            for object in body["data"].as_array().into_iter().flatten() {
                if self.state.objects.insert(text(object, "id"), object.clone()).is_some() {
                    self.state.repeated.insert(path.to_owned());
                }
            }
            match body["nextCursor"].as_str() {
                Some(cursor) => page = format!("{path}{separator}limit=20&startingAfter={cursor}"),
                None => return,
            }
        }
    }

    async fn get(&mut self, path: &str) -> Value {
        for _ in 0..ATTEMPTS {
            sleep(INTERVAL).await;
            if let Response::Received(response) =
                client::send(&self.client, history::get(path), Content::None, &self.key).await
                && response.status == 200
            {
                return response.json;
            }
        }
        self.state.failed.push(path.to_owned());
        Value::Null
    }
}
