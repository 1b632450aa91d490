//! What a proxy has seen of the requests, in particular those to the card gateway.

use std::{
    collections::BTreeSet,
    sync::{Mutex, PoisonError},
    time::Instant,
};

const REFERENCE: &str = "reference_id=";
const USERNAME: &str = "username=";
/// Only reads.
const REPORT_PATH: &str = "/apis/report.php";
/// The gateway's paths that charge a card.
const CHARGE_PATHS: [&str; 2] = ["/apis/sale.php", "/apis/authorize.php"];

/// The reference of the last charge requested on a connection; `None` if its last request was something else.
pub(super) type LastCharge = Mutex<Option<String>>;

#[derive(Debug, Default)]
pub(super) struct Observations {
    watched: Vec<String>,
    /// The watched words that were sent.
    pub(super) sent: BTreeSet<String>,
    /// The references of requests whose responses were dropped, delayed, slowed down or replaced.
    pub(super) lost: BTreeSet<String>,
    rejected: Vec<(Instant, String)>,
}

impl Observations {
    pub(super) fn watch(&mut self, words: Vec<String>) {
        self.watched = words;
        self.sent.clear();
    }

    /// Records a part of a request.
    pub(super) fn add_sent(&mut self, bytes: &[u8], last_charge: &LastCharge) {
        let contains = |word: &str| bytes.windows(word.len()).any(|window| window == word.as_bytes());
        self.sent.extend(self.watched.iter().filter(|word| contains(word)).cloned());
        let text = String::from_utf8_lossy(bytes);
        let mut last_charge = last_charge.lock().unwrap_or_else(PoisonError::into_inner);
        if text.starts_with("POST /") || text.starts_with("GET /") {
            *last_charge = CHARGE_PATHS.iter().any(|path| text.contains(path)).then(String::new);
        }
        if let (Some(at), Some(reference)) = (text.find(REFERENCE), last_charge.as_mut()) {
            text[at + REFERENCE.len()..].split('&').next().unwrap_or_default().trim().clone_into(reference);
        }
    }

    pub(super) fn add_lost(&mut self, last_charge: &LastCharge) {
        self.lost.extend(last_charge.lock().unwrap_or_else(PoisonError::into_inner).clone());
    }

    /// Records the user name of a rejected request, unless it only reads.
    pub(super) fn add_rejected(&mut self, request: &Request) {
        if !request.head.lines().next().unwrap_or_default().contains(REPORT_PATH) {
            let name = request.body.split('&').find_map(|field| field.strip_prefix(USERNAME)).unwrap_or_default();
            self.rejected.push((Instant::now(), name.to_owned()));
        }
    }

    /// The user name of each modifying request that was rejected since then.
    pub(super) fn rejected(&self, since: Instant) -> Vec<String> {
        self.rejected.iter().filter(|(at, _)| *at >= since).map(|(_, name)| name.clone()).collect()
    }
}

pub(super) struct Request {
    head: String,
    body: String,
}

/// The request in these bytes once it is complete.
pub(super) fn complete_request(bytes: &[u8]) -> Option<Request> {
    let text = String::from_utf8_lossy(bytes);
    let (head, body) = text.split_once("\r\n\r\n")?;
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    (body.len() >= length.unwrap_or(0)).then(|| Request { head: head.to_owned(), body: body.to_owned() })
}
