//! Providers that are out, and what an operator changes about accounts at providers while they are in use.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use tokio::time::{sleep, timeout};

use super::{Hand, SentInVain};
use crate::{
    GatewayAccount,
    chaos::{
        proxy::{Mode, Proxy},
        schedule::Step,
        world::{Line, newest_app_key},
    },
};

/// The operator's tool waits for no longer.
const REACHED_WITHIN: Duration = Duration::from_secs(3);
/// What holds new keys is waited for: keys that nobody has seen are good for nobody.
const ROTATED_WITHIN: Duration = Duration::from_secs(20);
/// A provider that turns everything away is known as such after so long.
const KNOWN_AFTER: Duration = Duration::from_secs(5);
/// After the faults everything that an operator has begun can be finished within so long.
const FINISHED_WITHIN: Duration = Duration::from_secs(60);

/// What an operator has begun and finishes as soon as it can be done.
#[derive(Clone, Debug)]
pub(super) enum Order {
    /// Tells a shop's account the keys that the gateway has for it.
    Connect(usize, GatewayAccount),
    /// Has a shop's pages name the key of now.
    Publish(usize),
    /// Moves a shop's account to the card gateway.
    MoveBack(usize),
}

impl Hand<'_> {
    /// The accounts whose mock is told to err.
    pub(super) fn on_mock(&self) -> Vec<&str> {
        let on_mock = self.world.shops.iter().filter(|shop| matches!(shop.line, Line::Mock(_)));
        on_mock.map(|shop| shop.account.id.as_str()).collect()
    }

    /// Orders something of the mock; whether it could be reached.
    pub(super) async fn mock(&self, target: usize, faults: &[&str]) -> bool {
        let on_mock = self.on_mock();
        let account = on_mock[target % on_mock.len()];
        // What is not said again ends.
        let out: &[&str] = if self.mock_is_out && !faults.contains(&"--refuse") { &["--refuse"] } else { &[] };
        let arguments = [&["mock", "set", account], faults, out].concat();
        timeout(REACHED_WITHIN, self.stage.cluster.ctl(&arguments)).await.is_ok_and(|told| told.is_ok())
    }

    pub(super) fn begin_to_turn_away(&mut self) {
        self.gateway(Mode::TurnAway);
        self.turning_away = Some(Instant::now() + KNOWN_AFTER);
    }

    /// Counts what was sent although everything was turned away for a while.
    pub(super) fn end_turning_away(&mut self) {
        self.gateway(Mode::Pass);
        let Some(since) = self.turning_away.take() else { return };
        let milliseconds = Instant::now().saturating_duration_since(since).as_millis();
        let mut requests: BTreeMap<String, usize> = self.at_gateway().map(|(_, name)| (name, 0)).collect();
        for name in self.stage.wires.gateway.iter().flat_map(|proxy: &Proxy| proxy.turned_away(since)) {
            *requests.entry(name).or_default() += 1;
        }
        for (account, requests) in requests {
            println!("           {requests} requests of {account} were turned away in the last {milliseconds} ms");
            self.fired.sent_in_vain.push(SentInVain { account, requests, milliseconds });
        }
    }

    /// All accounts on the mock at once.
    pub(super) async fn mock_goes_out(&mut self) -> bool {
        self.mock_is_out = true;
        for target in 0..self.on_mock().len() {
            if !self.mock(target, &["--refuse"]).await {
                return false;
            }
        }
        true
    }

    /// Shops whose money settles at the gateway, with the name of their account there.
    fn at_gateway(&self) -> impl Iterator<Item = (usize, String)> {
        let shops = self.world.shops.iter().enumerate();
        shops.filter_map(|(index, shop)| Some((index, shop.known()?.username)))
    }

    /// New keys of an account at the gateway, which our account is then told.
    pub(super) async fn rotate_keys(&mut self, step: &Step) -> Result<bool> {
        let shops: Vec<(usize, String)> = self.at_gateway().collect();
        if shops.is_empty() {
            return Ok(true);
        }
        let (shop, name) = &shops[step.target % shops.len()];
        let arguments = ["account", "rotate-keys", "--username", name];
        let rotating = self.stage.cluster.run_gateway(&arguments);
        let Ok(Ok(printed)) = timeout(ROTATED_WITHIN, rotating).await else { return Ok(false) };
        let known: GatewayAccount = serde_json::from_value(printed)?;
        self.world.keep_secret([known.api_key.clone(), known.secret_key.clone()]);
        self.orders.push(Order::Connect(*shop, known));
        self.carry_out().await;
        Ok(true)
    }

    /// New money of an account goes to the mock from now on.
    pub(super) async fn move_account(&mut self, step: &Step) -> bool {
        let Some(shop) = self.moved(step) else { return true };
        self.moves_to(shop, "mock").await
    }

    pub(super) fn move_back(&mut self, step: &Step) {
        self.orders.extend(self.moved(step).map(Order::MoveBack));
    }

    fn moved(&self, step: &Step) -> Option<usize> {
        let moved: Vec<usize> =
            (0..self.world.shops.len()).filter(|shop| self.world.shops[*shop].line == Line::Moved).collect();
        moved.get(step.target % moved.len().max(1)).copied()
    }

    async fn moves_to(&self, shop: usize, provider: &str) -> bool {
        let arguments = ["accounts", "set", &self.world.shops[shop].account.id, "--provider", provider];
        timeout(REACHED_WITHIN, self.stage.cluster.ctl(&arguments)).await.is_ok_and(|told| told.is_ok())
    }

    /// Does what is to be done in its order, until something cannot be done yet.
    pub(super) async fn carry_out(&mut self) {
        while let Some(order) = self.orders.first().cloned() {
            let done = match &order {
                Order::Connect(shop, known) => self.connect(*shop, known).await,
                Order::Publish(shop) => self.publish(*shop).await,
                Order::MoveBack(shop) => self.moves_to(*shop, "card_gateway").await,
            };
            if !done {
                return;
            }
            self.orders.remove(0);
            if let Order::Connect(shop, _) = order {
                self.orders.insert(0, Order::Publish(shop));
            }
        }
    }

    async fn connect(&self, shop: usize, known: &GatewayAccount) -> bool {
        let connecting = self.stage.cluster.connect(&self.world.shops[shop].account, known, &[]);
        let done = timeout(REACHED_WITHIN, connecting).await.is_ok_and(|told| told.is_ok());
        if done {
            self.world.shops[shop].knows(known.clone());
        }
        done
    }

    /// The pages follow once the API knows the keys.
    async fn publish(&self, shop: usize) -> bool {
        let Some(known) = self.world.shops[shop].known() else { return true };
        let reading = timeout(REACHED_WITHIN, newest_app_key(&self.stage.db, &known.username)).await;
        let Ok(Ok((_, app_key))) = reading else { return false };
        self.world.shops[shop].publishes(app_key);
        true
    }

    /// After the load: nothing is left half done.
    pub(super) async fn finish_orders(&mut self) -> Result<()> {
        let began = Instant::now();
        while !self.orders.is_empty() {
            ensure!(began.elapsed() < FINISHED_WITHIN, "an operator could not finish {} orders", self.orders.len());
            self.carry_out().await;
            sleep(Duration::from_millis(300)).await;
        }
        Ok(())
    }
}
