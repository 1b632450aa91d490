//! Outages of providers, and changes of provider accounts that an operator makes under load.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use tokio::time::{sleep, timeout};

use super::{FaultInjector, RejectedRequests};
use crate::{
    GatewayAccount,
    chaos::{
        proxy::{Mode, Proxy},
        schedule::Step,
        world::{ShopKind, gateway_id_and_app_key},
    },
};

/// The time limit of a `ctl` command.
const CTL_TIMEOUT: Duration = Duration::from_secs(3);
/// Longer for a key rotation, because the printed keys must not be lost.
const ROTATION_TIMEOUT: Duration = Duration::from_secs(20);
/// The time in which a provider that rejects everything must be recognized.
const RECOGNITION_TIME: Duration = Duration::from_secs(5);
/// The time in which all operator commands can be completed after the faults.
const TASKS_TIMEOUT: Duration = Duration::from_secs(60);

/// An operator command that is retried until it succeeds.
#[derive(Clone, Debug)]
pub(super) enum OperatorTask {
    /// Stores a shop's new gateway credentials in its account.
    Connect(usize, GatewayAccount),
    /// Makes a shop's pages use the current key.
    SwitchPages(usize),
    /// Moves a shop's account back to the card gateway.
    MoveBack(usize),
}

impl FaultInjector<'_> {
    /// The accounts at the mock.
    pub(super) fn mock_accounts(&self) -> Vec<&str> {
        let mock_accounts = self.world.shops.iter().filter(|shop| matches!(shop.kind, ShopKind::Mock(_)));
        mock_accounts.map(|shop| shop.account.id.as_str()).collect()
    }

    /// Configures the mock's behavior for an account. Returns whether it succeeded.
    pub(super) async fn configure_mock(&self, target: usize, faults: &[&str]) -> bool {
        let mock_accounts = self.mock_accounts();
        let account = mock_accounts[target % mock_accounts.len()];
        // Options that are not repeated are reset.
        let outage: &[&str] = if self.mock_is_out && !faults.contains(&"--refuse") { &["--refuse"] } else { &[] };
        let arguments = [&["mock", "set", account], faults, outage].concat();
        timeout(CTL_TIMEOUT, self.system.cluster.ctl(&arguments)).await.is_ok_and(|result| result.is_ok())
    }

    pub(super) fn start_rejecting(&mut self) {
        self.set_gateway_mode(Mode::TooManyRequests);
        self.count_rejected_from = Some(Instant::now() + RECOGNITION_TIME);
    }

    /// Counts the requests that were sent although the outage had lasted long enough to be recognized.
    pub(super) fn stop_rejecting(&mut self) {
        self.set_gateway_mode(Mode::Pass);
        let Some(start) = self.count_rejected_from.take() else { return };
        let milliseconds = Instant::now().saturating_duration_since(start).as_millis();
        let mut requests: BTreeMap<String, usize> = self.gateway_shops().map(|(_, name)| (name, 0)).collect();
        for name in self.system.proxies.gateway.iter().flat_map(|proxy: &Proxy| proxy.rejected(start)) {
            *requests.entry(name).or_default() += 1;
        }
        for (account, requests) in requests {
            println!("           rejected {requests} requests of {account} in the last {milliseconds} ms");
            self.fault_log.rejected_requests.push(RejectedRequests { account, requests, milliseconds });
        }
    }

    /// An outage for all accounts at the mock.
    pub(super) async fn start_mock_outage(&mut self) -> bool {
        self.mock_is_out = true;
        for target in 0..self.mock_accounts().len() {
            if !self.configure_mock(target, &["--refuse"]).await {
                return false;
            }
        }
        true
    }

    /// Shops that settle at the gateway, with their user names there.
    fn gateway_shops(&self) -> impl Iterator<Item = (usize, String)> {
        let shops = self.world.shops.iter().enumerate();
        shops.filter_map(|(index, shop)| Some((index, shop.gateway_account()?.username)))
    }

    /// Rotates the keys of a gateway account and stores them in the shop's account.
    pub(super) async fn rotate_keys(&mut self, step: &Step) -> Result<bool> {
        let shops: Vec<(usize, String)> = self.gateway_shops().collect();
        if shops.is_empty() {
            return Ok(true);
        }
        let (shop, name) = &shops[step.target % shops.len()];
        let arguments = ["account", "rotate-keys", "--username", name];
        let rotating = self.system.cluster.run_gateway(&arguments);
        let Ok(Ok(printed)) = timeout(ROTATION_TIMEOUT, rotating).await else { return Ok(false) };
        let gateway_account: GatewayAccount = serde_json::from_value(printed)?;
        self.world.add_secrets([gateway_account.api_key.clone(), gateway_account.secret_key.clone()]);
        self.operator_tasks.push(OperatorTask::Connect(*shop, gateway_account));
        self.run_operator_tasks().await;
        Ok(true)
    }

    /// Directs new payments of an account to the mock.
    pub(super) async fn move_account(&mut self, step: &Step) -> bool {
        let Some(shop) = self.moved_shop(step) else { return true };
        self.set_provider(shop, "mock").await
    }

    pub(super) fn move_back(&mut self, step: &Step) {
        self.operator_tasks.extend(self.moved_shop(step).map(OperatorTask::MoveBack));
    }

    fn moved_shop(&self, step: &Step) -> Option<usize> {
        let moved: Vec<usize> =
            (0..self.world.shops.len()).filter(|shop| self.world.shops[*shop].kind == ShopKind::Moved).collect();
        moved.get(step.target % moved.len().max(1)).copied()
    }

    async fn set_provider(&self, shop: usize, provider: &str) -> bool {
        let arguments = ["accounts", "set", &self.world.shops[shop].account.id, "--provider", provider];
        timeout(CTL_TIMEOUT, self.system.cluster.ctl(&arguments)).await.is_ok_and(|result| result.is_ok())
    }

    /// Runs the commands in order, until one fails.
    pub(super) async fn run_operator_tasks(&mut self) {
        while let Some(task) = self.operator_tasks.first().cloned() {
            let done = match &task {
                OperatorTask::Connect(shop, gateway_account) => self.connect(*shop, gateway_account).await,
                OperatorTask::SwitchPages(shop) => self.switch_pages(*shop).await,
                OperatorTask::MoveBack(shop) => self.set_provider(*shop, "card_gateway").await,
            };
            if !done {
                return;
            }
            self.operator_tasks.remove(0);
            if let OperatorTask::Connect(shop, _) = task {
                self.operator_tasks.insert(0, OperatorTask::SwitchPages(shop));
            }
        }
    }

    async fn connect(&self, shop: usize, gateway_account: &GatewayAccount) -> bool {
        let connecting = self.system.cluster.connect(&self.world.shops[shop].account, gateway_account, &[]);
        let done = timeout(CTL_TIMEOUT, connecting).await.is_ok_and(|result| result.is_ok());
        if done {
            self.world.shops[shop].set_gateway_account(gateway_account.clone());
        }
        done
    }

    /// The pages switch after the API knows the keys.
    async fn switch_pages(&self, shop: usize) -> bool {
        let Some(gateway_account) = self.world.shops[shop].gateway_account() else { return true };
        let reading = timeout(CTL_TIMEOUT, gateway_id_and_app_key(&self.system.db, &gateway_account.username)).await;
        let Ok(Ok((_, app_key))) = reading else { return false };
        self.world.shops[shop].set_app_key(app_key);
        true
    }

    /// Completes all commands after the load.
    pub(super) async fn finish_operator_tasks(&mut self) -> Result<()> {
        let began = Instant::now();
        while !self.operator_tasks.is_empty() {
            ensure!(
                began.elapsed() < TASKS_TIMEOUT,
                "{} operator commands could not be completed",
                self.operator_tasks.len()
            );
            self.run_operator_tasks().await;
            sleep(Duration::from_millis(300)).await;
        }
        Ok(())
    }
}
