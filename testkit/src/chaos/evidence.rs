//! What the checker reads: the providers' ledgers, the clients' log, the webhooks received, and the API's answers now.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use sqlx::PgPool;
use tokio::time::sleep;

use super::{
    faults::{Fired, SentInVain, Window},
    journal::Entry,
    modifiers::Modifiers,
    proxy::Proxy,
    receiver::Received,
    settle::Quiet,
    statement::{self, Reported},
    world::{Line, Stage, World},
};
use crate::{Client, postgres};

/// A line of a provider's ledger.
#[derive(Clone, Debug, Default)]
pub(super) struct Booked {
    pub(super) shop: usize,
    pub(super) id: String,
    /// Whether it stands in the gateway's records, and not in the mock's.
    pub(super) at_gateway: bool,
    /// `sale`, `authorize`, `capture`, `void`, `refund`.
    pub(super) kind: String,
    pub(super) parent: Option<String>,
    pub(super) reference: String,
    pub(super) approved: bool,
    /// The provider was interrupted: it has done nothing, and no issuer has refused it.
    pub(super) interrupted: bool,
    pub(super) voided: bool,
    pub(super) amount: i64,
    /// What of the amount the provider has added by itself.
    pub(super) fee: i64,
    pub(super) currency: String,
    pub(super) at: i64,
}

impl Booked {
    pub(super) fn is_charge(&self) -> bool {
        ["sale", "authorize"].contains(&self.kind.as_str())
    }
}

/// What an account's API shows once all is quiet.
#[derive(Clone, Debug, Default)]
pub(super) struct Shown {
    pub(super) payments: Vec<Value>,
    pub(super) invoices: Vec<Value>,
    /// By invoice, the first attempt first.
    pub(super) attempts: BTreeMap<String, Vec<Value>>,
    pub(super) links: Vec<Value>,
    pub(super) subscriptions: Vec<Value>,
    pub(super) recurring: Vec<Value>,
    /// Events that an endpoint is still to be told of again: (endpoint, event, its type).
    pub(super) pending: BTreeSet<(usize, String, String)>,
}

/// Everything that was found.
#[derive(Clone, Debug, Default)]
pub(super) struct Evidence {
    pub(super) class_b: BTreeSet<usize>,
    pub(super) class_c: BTreeSet<usize>,
    /// References that a worker sent after it had been stopped beyond its lease.
    pub(super) late: BTreeSet<String>,
    pub(super) ledger: Vec<Booked>,
    pub(super) requests: Vec<Entry>,
    pub(super) shown: Vec<Shown>,
    pub(super) received: Vec<Received>,
    /// What should have been done by now, by name.
    pub(super) left: BTreeMap<String, i64>,
    /// Where a secret was found.
    pub(super) leaks: Vec<String>,
    /// How many texts were searched for secrets.
    pub(super) searched: u64,
    pub(super) died: Vec<String>,
    /// When gathering began, by the run's clock: what was due by then is shown as done.
    pub(super) now: i64,
    /// When the last answer of the API had been read: nothing that is shown is of a later time.
    pub(super) shown_by: i64,
    /// What the pages of each shop add to an amount.
    pub(super) modifiers: Vec<Option<Modifiers>>,
    /// What the gateway's own report says, by shop.
    pub(super) reported: BTreeMap<usize, Vec<Reported>>,
    pub(super) windows: Vec<Window>,
    pub(super) asked_for_the_time: u64,
    pub(super) ready_with_a_wrong_clock: Vec<String>,
    pub(super) sent_in_vain: Vec<SentInVain>,
    pub(super) deadlocks: i64,
    /// Transactions that were begun on a connection that was in one.
    pub(super) begun_twice: i64,
}

impl Evidence {
    /// A charge that a late worker was served for, at a provider that takes requests for ever: by then others had found nothing
    /// and ended the payment as failed. Our service finds the charge in the statement; what has settled by then waits for a person.
    pub(super) fn waits_for_a_person(&self, line: &Booked) -> bool {
        self.class_b.contains(&line.shop) && self.late.contains(&line.reference)
    }

    /// What the faults have left to look at.
    pub(super) fn takes(&mut self, fired: &Fired) {
        self.died.clone_from(&fired.died);
        self.windows.clone_from(&fired.windows);
        self.late.clone_from(&fired.late);
        self.asked_for_the_time = fired.asked_for_the_time;
        self.ready_with_a_wrong_clock.clone_from(&fired.ready_with_a_wrong_clock);
        self.sent_in_vain.clone_from(&fired.sent_in_vain);
        self.deadlocks = self.deadlocks.max(fired.deadlocks);
    }
}

/// Gathers it all.
pub(super) async fn gather(stage: &mut Stage, world: &World, quiet: &Quiet) -> Result<Evidence> {
    let of_class = |class| (0..world.shops.len()).filter(|i| world.shops[*i].line == Line::Mock(class)).collect();
    let mut found = Evidence {
        class_b: of_class('B'),
        class_c: of_class('C'),
        requests: world.journal.entries(),
        ledger: ledger(&stage.db, world).await?,
        left: quiet.left.clone(),
        now: world.clock.now(),
        modifiers: world.shops.iter().map(|shop| shop.line.modifiers()).collect(),
        ..Evidence::default()
    };
    for shop in 0..world.shops.len() {
        found.shown.push(shown(world, shop).await.with_context(|| format!("shop {shop}"))?);
    }
    found.shown_by = world.clock.now();
    // Charges go on settling: what was shown has been told, or waits to be told, a moment later.
    sleep(Duration::from_secs(3)).await;
    for shop in 0..world.shops.len() {
        found.shown[shop].pending = pending(world, shop).await?;
    }
    found.received = stage.receiver.received();
    found.reported = statement::read(world).await?;
    found.deadlocks = logged(stage, "deadlock detected")?;
    found.begun_twice = logged(stage, "there is already a transaction in progress")?;
    super::check::canary::search(stage, world, &mut found).await?;
    Ok(found)
}

/// How often the log of Postgres says this. It outlives the counters.
fn logged(stage: &Stage, what: &str) -> Result<i64> {
    let log = postgres::home(&stage.data)?.join("postgres.log");
    let text = String::from_utf8_lossy(&fs::read(&log).with_context(|| log.display().to_string())?).into_owned();
    Ok(i64::try_from(text.matches(what).count())?)
}

/// Approved charges whose answer never came: as the logs tell of the mock, and our proxies of the gateway.
pub(super) async fn charged_and_lost(stage: &Stage, world: &World) -> Result<usize> {
    let mut lost: BTreeSet<String> = stage.wires.gateway.iter().flat_map(Proxy::lost).collect();
    for file in fs::read_dir(stage.cluster.logs())?.flatten() {
        let text = String::from_utf8_lossy(&fs::read(file.path())?).into_owned();
        for line in text.lines().filter(|line| line.contains("told to lose this answer")) {
            let at = line.find("operation=").map(|at| &line[at + "operation=".len()..]);
            lost.extend(at.and_then(|rest| rest.split_whitespace().next()).map(str::to_owned));
        }
    }
    let ledger = ledger(&stage.db, world).await?;
    let charged = ledger.iter().filter(|line| line.is_charge() && line.approved);
    Ok(charged.filter(|line| lost.contains(&line.reference)).count())
}

async fn ledger(db: &PgPool, world: &World) -> Result<Vec<Booked>> {
    type Row = (String, String, Option<String>, Option<String>, bool, bool, bool, i64, i64, String, i64);
    // The time of the acquirer's books is the database's; that of the gateway's own row is the time of one of its processes.
    const AT_GATEWAY: &str =
        "SELECT t.id::text, kind, parent_id::text, reference_id, state = 'approved', state = 'failed', voided, amount, fee, currency,
                (extract(epoch FROM coalesce(b.created_at, t.created_at)) * 1000)::bigint
         FROM gateway.transactions t LEFT JOIN gateway.acquirer_books b ON b.reference = t.id
         WHERE account_id = $1 AND state IN ('approved', 'declined', 'failed') ORDER BY t.created_at";
    const AT_MOCK: &str =
        "SELECT id, kind, parent, reference, approved, false, voided_at IS NOT NULL, amount, 0::bigint, currency,
                (extract(epoch FROM created_at) * 1000)::bigint
         FROM mock.transactions WHERE account = $1 ORDER BY created_at";
    let mut all = Vec::new();
    for (shop, of) in world.shops.iter().enumerate() {
        for (provider, query, at_gateway) in [(of.at_gateway, AT_GATEWAY, true), (of.at_mock, AT_MOCK, false)] {
            let Some(provider) = provider else { continue };
            for row in sqlx::query_as::<_, Row>(query).bind(provider).fetch_all(db).await? {
                let (id, kind, parent, reference, approved, interrupted, voided, amount, fee, currency, at) = row;
                let reference = reference.unwrap_or_default();
                all.push(Booked {
                    shop,
                    id,
                    at_gateway,
                    kind,
                    parent,
                    reference,
                    approved,
                    interrupted,
                    voided,
                    amount,
                    fee,
                    currency,
                    at,
                });
            }
        }
    }
    Ok(all)
}

async fn list(api: &Client, path: &str) -> Result<Vec<Value>> {
    let mut all: Vec<Value> = Vec::new();
    let mut after = String::new();
    loop {
        let mark = if path.contains('?') { '&' } else { '?' };
        let answer = api.get(&format!("{path}{mark}limit=100{after}")).await?;
        ensure!(answer.status == 200, "{path}: {}", answer.body);
        all.extend(answer.body["data"].as_array().context("a list")?.iter().cloned());
        match answer.body["nextCursor"].as_str() {
            Some(cursor) => after = format!("&startingAfter={cursor}"),
            None => return Ok(all),
        }
    }
}

async fn shown(world: &World, shop: usize) -> Result<Shown> {
    let api = Client::new(&world.apis[0])?.bearer(&world.shops[shop].account.secret_key)?;
    let mut shown = Shown {
        payments: list(&api, "/v1/payments").await?,
        invoices: list(&api, "/v1/invoices").await?,
        links: list(&api, "/v1/payment_links").await?,
        subscriptions: list(&api, "/v1/subscriptions").await?,
        recurring: list(&api, "/v1/recurring_invoices").await?,
        ..Shown::default()
    };
    for invoice in &shown.invoices {
        let id = invoice["id"].as_str().unwrap_or_default();
        if invoice["collectAt"].is_string() || invoice["paidAt"].is_string() || invoice["collectionExhausted"] == true {
            shown.attempts.insert(id.to_owned(), list(&api, &format!("/v1/invoices/{id}/attempts")).await?);
        }
    }
    Ok(shown)
}

/// What endpoints are still to be told of.
async fn pending(world: &World, shop: usize) -> Result<BTreeSet<(usize, String, String)>> {
    let api = Client::new(&world.apis[0])?.bearer(&world.shops[shop].account.secret_key)?;
    let mut pending = BTreeSet::new();
    let endpoints = list(&api, "/v1/webhook_endpoints").await?;
    for delivery in list(&api, "/v1/webhook_deliveries?status=pending").await? {
        let of = endpoints.iter().find(|endpoint| endpoint["id"] == delivery["endpointId"]);
        let number = of.and_then(|of| of["url"].as_str()?.rsplit('/').next()?.parse().ok()).unwrap_or(usize::MAX);
        let [event, kind] =
            ["eventId", "eventType"].map(|field| delivery[field].as_str().unwrap_or_default().to_owned());
        pending.insert((number, event, kind));
    }
    Ok(pending)
}
