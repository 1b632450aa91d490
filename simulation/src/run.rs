//! Runs a history: the system, its clients and its faults, until everything is quiet.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;
use foundation::telemetry::MetricsHandle;
use serde::{Deserialize, Serialize};
use tokio::runtime::Builder;
use tokio::time::sleep;

use crate::auditor::{self, State};
use crate::check::{self, Evidence};
use crate::client::{self, Responses};
use crate::clock;
use crate::history::{Fault, History, Provider, SECOND};
use crate::issuers::{Issuers, Phase};
use crate::operators;
use crate::random::Random;
use crate::receiver::{self, Receiver};
use crate::servers::Servers;
use crate::shop::{self, Shop};
use crate::stripe;
use crate::system::{GATEWAY, POSTGRES, REDIS, Role, STRIPE, System};
use crate::world::{Outage, ProcessId, Service, World};

/// The time for all due work to complete after the last fault has ended.
const QUIET_LIMIT: u64 = 3 * 86_400 * SECOND;
/// How late a timer may fire after that, compared with the time between two checks. Each firing costs hundreds of events,
/// because every tick and every poll of every process has become due.
const MAX_DRIFT: u64 = 4;
/// What the card gateway adds to each sale, in minor units.
const FEE: u32 = 50;
/// The longest time between two checks if the card gateway is used.
const LONGEST_WAIT: u64 = 2 * 3_600 * SECOND;
/// An outage is long if it lasts for more than that.
const LONG_OUTAGE: u64 = 60 * SECOND;
/// When the simulator first looks for unfinished work.
const FIRST_QUIET_CHECK: u64 = 5 * SECOND;

/// The result of a history.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Report {
    /// Equal for equal runs.
    pub digest: String,
    /// A sentence for each.
    pub violations: Vec<String>,
    /// How often each operation got which status.
    pub statuses: BTreeMap<String, BTreeMap<String, u64>>,
    /// The faults that began, by name. One that concerns a process that is down, or a statement that is never sent, has
    /// no effect. `lost batch` counts those of `batch` that had one.
    pub faults: BTreeMap<String, u64>,
    /// The events on the virtual network.
    pub events: u64,
    /// Virtual time in microseconds.
    pub virtual_us: u64,
    /// Real time in microseconds.
    pub real_us: u64,
    /// How many processes of Postgres were used at once, by startup packet.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub backends: Vec<(Vec<u8>, usize)>,
}

/// Something that happens at a virtual time.
#[derive(Clone, Copy, Debug)]
enum Due {
    Fault(Fault),
    Restart(Role),
    EndOutage(SocketAddr),
    EndProviderFault,
    EndFee,
}

/// Runs `history` with empty servers. `lines` keeps the events as text.
///
/// # Errors
/// If Postgres or Redis fails.
pub fn run(
    history: &History,
    servers: &mut Servers,
    metrics: MetricsHandle,
    lines: bool,
) -> Result<(Report, Vec<String>)> {
    let began = Instant::now();
    let mut system = System::new(history.seed, servers, metrics)?;
    system.world.trace.lines = lines.then(Vec::new);
    let receiver = Receiver::new(Random::new(history.seed));
    let (shop, secret) = prepare(&mut system, receiver.clone(), history)?;
    let (mut agenda, account, key) = (Agenda::new(history, shop.clone()), shop.account, shop.key.clone());
    let (issuers, stripe_is_healthy) = start_stripe(&mut system, &shop, history);
    let ended = shop.clone();
    system.configure_provider(&format!("recovery_class = '{}'", history.class))?;

    let responses: Responses = Arc::new(Mutex::new(vec![None; history.requests.len()]));
    let (requests, kept) = (history.requests.clone(), Arc::clone(&responses));
    let begin = clock::now_us();
    let client = system.world.start("client", 0, move || client::run(requests, shop, kept));
    for timed in &history.faults {
        agenda.add(begin + timed.at, Due::Fault(timed.fault));
    }
    while !system.world.has_ended(client) || !agenda.due.is_empty() {
        if system.world.has_ended(client) {
            agenda.pass_long_outage(&mut system);
        }
        agenda.step(&mut system, u64::MAX)?;
    }
    system.world.drift_us = 0;

    receiver.heal();
    stripe_is_healthy.store(true, Ordering::Relaxed);
    agenda.heal(&mut system, history.roles())?;
    let mut unfinished = finish(&mut system, &mut agenda, &issuers)?;
    let (mut noticed, supports_references) = (Vec::new(), !history.uses(Provider::Mock) || history.class != 'C');
    if history.operators {
        let shop = ended.clone();
        noticed = system.complete("operator", move || operators::resolve(shop))?;
        unfinished.append(&mut finish(&mut system, &mut agenda, &issuers)?);
    }
    noticed.extend(system.complete("operator", move || operators::compare(account, supports_references))?);
    let state = read_state(&mut system, &mut agenda, &key, &responses)?;
    let virtual_us = clock::now_us() - clock::BEGIN_US;
    agenda.faults.insert("lost batch".to_owned(), system.world.lost_batches);
    let (trace, backends) = system.world.end()?;
    let responses = responses.lock().unwrap_or_else(PoisonError::into_inner);
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let (url, at_stripe) = (servers.database_url(), stripe::books(&ended));
    let (ledger, books) = runtime.block_on(check::read_books(&url, at_stripe, noticed))?;
    let deliveries = receiver.deliveries();
    let evidence = Evidence { history, responses: &responses, state, deliveries, secret, ledger, books };
    let mut violations = check::check(&evidence);
    if !unfinished.is_empty() {
        violations.push(format!("work is unfinished three days after the last fault: {}", unfinished.join("; ")));
    }
    let report = Report {
        digest: format!("{:016x}", trace.digest()),
        violations,
        statuses: check::statuses(history, &responses),
        faults: agenda.faults,
        events: trace.events,
        virtual_us,
        real_us: u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX),
        backends: backends.needed().iter().map(|(startup, count)| (startup.clone(), *count)).collect(),
    };
    Ok((report, trace.lines.unwrap_or_default()))
}

/// Starts to deliver Stripe's events, if it is used. Returns its issuers, and what ends its faults.
fn start_stripe(system: &mut System, shop: &Shop, history: &History) -> (Issuers, Arc<AtomicBool>) {
    let (issuers, is_healthy) = (Issuers::new(shop.clone(), history.seed), Arc::new(AtomicBool::new(false)));
    if history.uses(Provider::Stripe) {
        let (shop, random) = (shop.clone(), Random::new(!history.seed));
        let (issuers, is_healthy) = (issuers.clone(), Arc::clone(&is_healthy));
        system.world.start("stripe's events", 0, move || async move {
            stripe::deliver_events(shop, random, issuers, is_healthy).await;
        });
    }
    (issuers, is_healthy)
}

/// Waits for all work, and then for that which follows from what issuers do with charges that have settled. Returns what
/// is unfinished.
fn finish(system: &mut System, agenda: &mut Agenda, issuers: &Issuers) -> Result<Vec<String>> {
    loop {
        let unfinished = agenda.wait_until_quiet(system)?;
        if !unfinished.is_empty() || !issuers.have_work() {
            return Ok(unfinished);
        }
        let acting = issuers.clone();
        system.complete("issuers", move || async move {
            acting.act(Phase::Settled);
            Ok(())
        })?;
    }
}

/// Reads what the API shows, again if an event was written meanwhile or work has begun.
fn read_state(system: &mut System, agenda: &mut Agenda, key: &str, responses: &Responses) -> Result<State> {
    let named = check::named(&responses.lock().unwrap_or_else(PoisonError::into_inner));
    loop {
        let before = system.world.observer.query(check::EVENTS)?;
        let days = system.world.observer.query(check::DISPUTE_DAYS)?;
        let (key, named) = (key.to_owned(), named.clone());
        let state = system.complete("auditor", || async move { Ok(auditor::read(&key, &named, &days).await) })?;
        let observer = &mut system.world.observer;
        let is_unchanged = observer.query(check::EVENTS)? == before && observer.query(check::UNFINISHED)?.is_empty();
        if is_unchanged || !agenda.wait_until_quiet(system)?.is_empty() {
            return Ok(state);
        }
    }
}

/// Starts all processes, and creates an account with a webhook endpoint. Returns the account and the endpoint's secret.
fn prepare(system: &mut System, receiver: Receiver, history: &History) -> Result<(Shop, String)> {
    let address = SocketAddr::from(receiver::ADDRESS);
    let endpoint = system.world.start("endpoint", 0, move || async move {
        if let Err(error) = receiver.run().await {
            tracing::error!(%error, "the endpoint failed");
        }
    });
    system.world.publish(address, Service::Process(endpoint, address.port()));
    let (connected, at_stripe) = (history.clone(), Arc::clone(&system.stripe));
    let shop = system.complete("account", move || shop::open(connected, at_stripe))?;
    for role in history.roles() {
        system.start(*role);
    }
    // The balancer sends requests once api is ready.
    let ready = clock::now_us() + SECOND;
    while clock::now_us() < ready {
        system.world.step(ready)?;
    }
    let owned = shop.key.clone();
    let secret = system.complete("merchant", || async move { client::create_endpoint(&owned).await })?;
    Ok((shop, secret))
}

/// What happens at which time, besides the processes' own work.
struct Agenda {
    due: BTreeMap<(u64, u64), Due>,
    added: u64,
    faults: BTreeMap<String, u64>,
    shop: Shop,
    /// The providers with an address, which faults of providers concern besides the mock.
    providers: Vec<SocketAddr>,
    uses_gateway: bool,
}

impl Agenda {
    fn new(history: &History, shop: Shop) -> Self {
        let [uses_gateway, uses_stripe] = [Provider::CardGateway, Provider::Stripe].map(|one| history.uses(one));
        let addresses = [(uses_gateway, GATEWAY), (uses_stripe, STRIPE)];
        Self {
            due: BTreeMap::new(),
            added: 0,
            faults: BTreeMap::new(),
            shop,
            providers: addresses.iter().filter(|(used, _)| *used).map(|(_, at)| SocketAddr::from(*at)).collect(),
            uses_gateway,
        }
    }

    fn add(&mut self, at: u64, due: Due) {
        self.added += 1;
        self.due.insert((at, self.added), due);
    }

    fn run_until(&mut self, system: &mut System, until: u64) -> Result<()> {
        while clock::now_us() < until {
            self.step(system, until)?;
        }
        Ok(())
    }

    /// Runs until all work is finished or for [`QUIET_LIMIT`]. The longer it takes, the more time passes between two
    /// checks, and the later timers may fire: mostly only at the next check. Returns what is unfinished.
    ///
    /// A gateway whose timers fire late takes itself for suspended, and refuses what workers send; and a test clock takes
    /// a step each time they fire. So they are not late while there is something to send, or while a test clock moves.
    fn wait_until_quiet(&mut self, system: &mut System) -> Result<Vec<String>> {
        let mut unfinished = Vec::new();
        let (limit, mut interval, mut drift) = (clock::now_us() + QUIET_LIMIT, FIRST_QUIET_CHECK, 0);
        let mut clock_before = Vec::new();
        while clock::now_us() < limit {
            let is_sending = !self.providers.is_empty() && system.world.observer.query(check::SENDING)? != ["0"];
            let clock = system.world.observer.query(check::CLOCK)?;
            let is_busy = is_sending || clock != clock_before;
            clock_before = clock;
            let (time, late) = if is_busy { (FIRST_QUIET_CHECK, 0) } else { (interval, drift) };
            system.world.drift_us = late;
            self.run_until(system, clock::now_us() + time)?;
            unfinished = system.world.observer.query(check::UNFINISHED)?;
            unfinished.extend(self.unknown_disputes(system)?);
            if unfinished.is_empty() {
                break;
            }
            if !is_busy {
                drift = MAX_DRIFT * interval;
                interval = if self.uses_gateway { (interval * 3).min(LONGEST_WAIT) } else { interval * 3 };
            }
        }
        Ok(unfinished)
    }

    /// A sentence for each dispute at Stripe that our books do not have, or in another status.
    fn unknown_disputes(&self, system: &mut System) -> Result<Vec<String>> {
        let at_stripe = stripe::disputes(&self.shop);
        if at_stripe.is_empty() {
            return Ok(Vec::new());
        }
        let known = system.world.observer.query(check::KNOWN_DISPUTES)?;
        let unknown = at_stripe.iter().map(|(_, dispute)| format!("{} {}", dispute.id, dispute.status));
        Ok(unknown.filter(|dispute| !known.contains(dispute)).map(|dispute| format!("{dispute} is unknown")).collect())
    }

    /// Lets timers fire the later the longer nothing but the end of an outage is due: what fires meanwhile only tries
    /// again what has failed.
    fn pass_long_outage(&self, system: &mut System) {
        let next = self.due.first_key_value().map_or(0, |((at, _), _)| at.saturating_sub(clock::now_us()));
        system.world.drift_us = if next > LONG_OUTAGE && !self.uses_gateway { next / 2 } else { 0 };
    }

    fn step(&mut self, system: &mut System, until: u64) -> Result<()> {
        let next = self.due.first_key_value().map(|((at, _), _)| *at);
        if next.is_some_and(|at| at <= clock::now_us())
            && let Some((_, due)) = self.due.pop_first()
        {
            return self.happen(system, due);
        }
        system.world.step(next.unwrap_or(until).min(until))?;
        for killed in system.world.killed() {
            if let Some(role) = system.role(killed) {
                // A supervisor restarts what has died, unless a fault does so later.
                self.add(clock::now_us() + SECOND, Due::Restart(role));
            }
        }
        Ok(())
    }

    fn happen(&mut self, system: &mut System, due: Due) -> Result<()> {
        match due {
            Due::Restart(role) => system.start(role),
            Due::EndOutage(address) => system.world.set_outage(address, None)?,
            Due::EndProviderFault => system.configure_provider("latency_ms = 0, refuse = false")?,
            Due::EndFee => system.set_fee(0)?,
            Due::Fault(fault) => self.begin(system, fault)?,
        }
        Ok(())
    }

    fn begin(&mut self, system: &mut System, fault: Fault) -> Result<()> {
        let name = match fault {
            Fault::Kill { role, restart } => {
                if let Some(process) = system.process(role) {
                    system.world.kill(process)?;
                    system.world.killed();
                    self.add(clock::now_us() + restart, Due::Restart(role));
                }
                "kill"
            }
            Fault::Statement { role, fault } => {
                if_running(system, role, |world, process| world.break_statement(process, fault));
                "statement"
            }
            Fault::Batch { role } => {
                if_running(system, role, World::lose_batch);
                "batch"
            }
            Fault::Pause { role, duration } => {
                if_running(system, role, |world, process| world.pause(process, clock::now_us() + duration));
                "pause"
            }
            Fault::Outage { redis, refused, duration } => {
                self.begin_outage(system, SocketAddr::from(if redis { REDIS } else { POSTGRES }), refused, duration)?;
                "outage"
            }
            Fault::WallClock { role, offset } => {
                system.set_wall_offset(role, offset);
                "wall clock"
            }
            Fault::LostResponses { count } => {
                for address in &self.providers {
                    system.world.lose_responses(*address, count);
                }
                system.configure_provider(&format!("lose_answers = {count}"))?;
                "lost responses"
            }
            Fault::Rotation => {
                self.operate(system, operators::rotate_key);
                "rotation"
            }
            Fault::Move { to } => {
                self.operate(system, move |shop| shop.move_to(to));
                "move"
            }
            Fault::Fee { duration } => {
                system.set_fee(FEE)?;
                self.add(clock::now_us() + duration, Due::EndFee);
                "fee"
            }
            Fault::Provider { latency_ms, duration } => {
                for address in self.providers.clone() {
                    self.begin_outage(system, address, latency_ms.is_none(), duration)?;
                }
                system.configure_provider(&match latency_ms {
                    Some(latency_ms) => format!("latency_ms = {latency_ms}"),
                    None => "refuse = true".to_owned(),
                })?;
                self.add(clock::now_us() + duration, Due::EndProviderFault);
                "provider"
            }
        };
        *self.faults.entry(name.to_owned()).or_default() += 1;
        Ok(())
    }

    /// An operator does something, again until it succeeds: Postgres may be away.
    fn operate<F>(&self, system: &mut System, act: impl Fn(Shop) -> F + Send + 'static)
    where
        F: Future<Output = Result<()>> + 'static,
    {
        let shop = self.shop.clone();
        system.world.start("operator", 0, move || async move {
            while act(shop.clone()).await.is_err() {
                sleep(Duration::from_secs(1)).await;
            }
        });
    }

    fn begin_outage(&mut self, system: &mut System, address: SocketAddr, refused: bool, duration: u64) -> Result<()> {
        let outage = if refused { Outage::Refused } else { Outage::Unresponsive };
        system.world.set_outage(address, Some(outage))?;
        self.add(clock::now_us() + duration, Due::EndOutage(address));
        Ok(())
    }

    /// Ends what no fault ends by itself.
    fn heal(&mut self, system: &mut System, roles: &[Role]) -> Result<()> {
        system.configure_provider("lose_answers = 0")?;
        system.world.end_faults();
        for role in roles.iter().copied() {
            if system.set_wall_offset(role, 0)
                && let Some(process) = system.process(role)
            {
                system.world.kill(process)?;
                system.world.killed();
            }
            system.start(role);
        }
        Ok(())
    }
}

/// Does something to the process in this role, if it runs.
fn if_running(system: &mut System, role: Role, act: impl FnOnce(&mut World, ProcessId)) {
    if let Some(process) = system.process(role) {
        act(&mut system.world, process);
    }
}
