//! The input of the checker: the providers' ledgers, the clients' log, the webhooks received, and the API's responses
//! after the run.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tokio::time::sleep;

use super::{
    access::{Access, Traces},
    endpoints::Delivery,
    fault_log::{FaultLog, RejectedRequests, Window},
    gateway_report::{self, ReportLine},
    journal::Entry,
    leaks,
    ledger::{self, LedgerLine},
    modifiers::Modifiers,
    quiet::QuietPeriod,
    shop::ShopKind,
};
use crate::Client;

/// The state of an account in the API after the run.
#[derive(Clone, Debug, Default)]
pub(super) struct ApiState {
    pub(super) payments: Vec<Value>,
    pub(super) invoices: Vec<Value>,
    /// By invoice, oldest attempt first.
    pub(super) attempts: BTreeMap<String, Vec<Value>>,
    pub(super) links: Vec<Value>,
    pub(super) subscriptions: Vec<Value>,
    pub(super) recurring: Vec<Value>,
    /// Events with a delivery pending: (endpoint, event, event type).
    pub(super) pending: BTreeSet<(usize, String, String)>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Evidence {
    pub(super) class_b: BTreeSet<usize>,
    pub(super) class_c: BTreeSet<usize>,
    /// References that a worker sent after it was stopped for longer than its lease.
    pub(super) late_references: BTreeSet<String>,
    pub(super) ledger: Vec<LedgerLine>,
    pub(super) requests: Vec<Entry>,
    pub(super) api_states: Vec<ApiState>,
    pub(super) deliveries: Vec<Delivery>,
    /// The number of unfinished items by kind.
    pub(super) unfinished: BTreeMap<String, i64>,
    /// Where a secret was found.
    pub(super) leaks: Vec<String>,
    /// The number of texts searched for secrets.
    pub(super) searched: u64,
    /// Processes that exited without having been killed.
    pub(super) unexpected_exits: Vec<String>,
    /// The start of gathering by the run's clock: what was due before must be done.
    pub(super) now: i64,
    /// When the last response of the API had been read: it describes no later time.
    pub(super) api_read_at: i64,
    /// The modifiers of each shop's pages.
    pub(super) modifiers: Vec<Option<Modifiers>>,
    /// The gateway's own report, by shop.
    pub(super) gateway_reports: BTreeMap<usize, Vec<ReportLine>>,
    pub(super) windows: Vec<Window>,
    pub(super) clock_checks: u64,
    pub(super) ready_with_wrong_clock: Vec<String>,
    pub(super) rejected_requests: Vec<RejectedRequests>,
    pub(super) deadlocks: i64,
    /// `BEGIN` statements on connections that were already in a transaction.
    pub(super) nested_transactions: i64,
}

impl Evidence {
    /// A charge sent late by a stopped worker to a provider that accepts requests without a deadline. By then an
    /// inquiry had found nothing and the payment had failed. The service finds the charge in the statement; if it has
    /// settled, an operator must review it.
    pub(super) fn needs_manual_review(&self, line: &LedgerLine) -> bool {
        self.class_b.contains(&line.shop) && self.late_references.contains(&line.reference)
    }

    /// Searches what the run has left for secrets, and for errors that Postgres has logged.
    pub(super) async fn search(&mut self, access: &Access<'_>, traces: &Traces) -> Result<()> {
        let count = |text: &str| i64::try_from(traces.postgres_log.matches(text).count());
        self.deadlocks = count("deadlock detected")?;
        self.nested_transactions = count("there is already a transaction in progress")?;
        let search = leaks::search(access, traces, &self.requests).await?;
        (self.leaks, self.searched) = (search.leaks, search.searched);
        Ok(())
    }

    /// Adds the log of the fault injector.
    pub(super) fn add_fault_log(&mut self, fault_log: &FaultLog) {
        self.unexpected_exits.clone_from(&fault_log.unexpected_exits);
        self.windows.clone_from(&fault_log.windows);
        self.late_references.clone_from(&fault_log.late_references);
        self.clock_checks = fault_log.clock_checks;
        self.ready_with_wrong_clock.clone_from(&fault_log.ready_with_wrong_clock);
        self.rejected_requests.clone_from(&fault_log.rejected_requests);
        self.deadlocks = self.deadlocks.max(fault_log.deadlocks);
    }
}

/// Collects all evidence but what [`Evidence::search`] finds.
pub(super) async fn gather(access: &Access<'_>, requests: Vec<Entry>, quiet: &QuietPeriod) -> Result<Evidence> {
    let shops = access.shops;
    let of_class = |class| (0..shops.len()).filter(|i| shops[*i].kind == ShopKind::Mock(class)).collect();
    let mut evidence = Evidence {
        class_b: of_class('B'),
        class_c: of_class('C'),
        requests,
        ledger: ledger::read(access).await?,
        unfinished: quiet.unfinished.clone(),
        now: access.clock.now(),
        modifiers: shops.iter().map(|shop| shop.kind.modifiers()).collect(),
        ..Evidence::default()
    };
    for shop in 0..shops.len() {
        evidence.api_states.push(read_api_state(access, shop).await.with_context(|| format!("shop {shop}"))?);
    }
    evidence.api_read_at = access.clock.now();
    // Settlement continues: within a moment the webhooks for the state read above are delivered or pending.
    sleep(Duration::from_secs(3)).await;
    for shop in 0..shops.len() {
        evidence.api_states[shop].pending = pending(access, shop).await?;
    }
    evidence.deliveries = access.endpoints.deliveries();
    evidence.gateway_reports = gateway_report::read(access).await?;
    Ok(evidence)
}

async fn list(api: &Client, path: &str) -> Result<Vec<Value>> {
    let mut all: Vec<Value> = Vec::new();
    let mut after = String::new();
    loop {
        let separator = if path.contains('?') { '&' } else { '?' };
        let response = api.get(&format!("{path}{separator}limit=100{after}")).await?;
        ensure!(response.status == 200, "{path}: {}", response.body);
        all.extend(response.body["data"].as_array().context("not a list")?.iter().cloned());
        match response.body["nextCursor"].as_str() {
            Some(cursor) => after = format!("&startingAfter={cursor}"),
            None => return Ok(all),
        }
    }
}

async fn read_api_state(access: &Access<'_>, shop: usize) -> Result<ApiState> {
    let api = access.client(shop)?;
    let mut api_state = ApiState {
        payments: list(&api, "/v1/payments").await?,
        invoices: list(&api, "/v1/invoices").await?,
        links: list(&api, "/v1/payment_links").await?,
        subscriptions: list(&api, "/v1/subscriptions").await?,
        recurring: list(&api, "/v1/recurring_invoices").await?,
        ..ApiState::default()
    };
    for invoice in &api_state.invoices {
        let id = invoice["id"].as_str().unwrap_or_default();
        if invoice["collectAt"].is_string() || invoice["paidAt"].is_string() || invoice["collectionExhausted"] == true {
            api_state.attempts.insert(id.to_owned(), list(&api, &format!("/v1/invoices/{id}/attempts")).await?);
        }
    }
    Ok(api_state)
}

/// Events with a delivery pending.
async fn pending(access: &Access<'_>, shop: usize) -> Result<BTreeSet<(usize, String, String)>> {
    let api = access.client(shop)?;
    let mut pending = BTreeSet::new();
    let endpoints = list(&api, "/v1/webhook_endpoints").await?;
    for delivery in list(&api, "/v1/webhook_deliveries?status=pending").await? {
        let endpoint = endpoints.iter().find(|endpoint| endpoint["id"] == delivery["endpointId"]);
        let number = endpoint
            .and_then(|endpoint| endpoint["url"].as_str()?.rsplit('/').next()?.parse().ok())
            .unwrap_or(usize::MAX);
        let [event, kind] =
            ["eventId", "eventType"].map(|field| delivery[field].as_str().unwrap_or_default().to_owned());
        pending.insert((number, event, kind));
    }
    Ok(pending)
}
