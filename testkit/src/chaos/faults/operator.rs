//! Changes of provider accounts that an operator makes under load.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tokio::time::{sleep, timeout};

use crate::{
    GatewayAccount,
    chaos::{
        shop::{ShopKind, gateway_id_and_app_key},
        system::System,
    },
};

const CTL_TIMEOUT: Duration = Duration::from_secs(3);
/// Longer for a key rotation, because the printed keys must not be lost.
const ROTATION_TIMEOUT: Duration = Duration::from_secs(20);
/// The time in which all operator commands can be completed after the faults.
const TASKS_TIMEOUT: Duration = Duration::from_secs(60);

/// An operator command that is retried until it succeeds.
#[derive(Clone, Debug)]
enum Task {
    /// Stores a shop's new gateway credentials in its account.
    Connect(usize, GatewayAccount),
    /// Makes a shop's pages use the current key.
    SwitchPages(usize),
    /// Moves a shop's account back to the card gateway.
    MoveBack(usize),
}

/// Commands that could not be completed yet.
#[derive(Default)]
pub(super) struct Operator(Vec<Task>);

impl Operator {
    /// Rotates the keys of a gateway account and stores them in the shop's account. Returns false if it must be retried.
    pub(super) async fn rotate_keys(&mut self, system: &System, target: usize) -> Result<bool> {
        let accounts = system.shops.iter().enumerate();
        let accounts: Vec<_> = accounts.filter_map(|(index, shop)| Some((index, shop.gateway_account()?))).collect();
        if accounts.is_empty() {
            return Ok(true);
        }
        let (shop, account) = &accounts[target % accounts.len()];
        let arguments = ["account", "rotate-keys", "--username", &account.username];
        let rotating = system.cluster.run_gateway(&arguments);
        let Ok(Ok(printed)) = timeout(ROTATION_TIMEOUT, rotating).await else { return Ok(false) };
        let account: GatewayAccount = serde_json::from_value(printed)?;
        system.shops[*shop].add_secrets([account.api_key.clone(), account.secret_key.clone()]);
        self.0.push(Task::Connect(*shop, account));
        self.run_tasks(system).await;
        Ok(true)
    }

    /// Directs new payments of an account to the mock. Returns false if it must be retried.
    pub(super) async fn move_account(&self, system: &System, target: usize) -> bool {
        let Some(shop) = moved_shop(system, target) else { return true };
        set_provider(system, shop, "mock").await
    }

    pub(super) fn move_back(&mut self, system: &System, target: usize) {
        self.0.extend(moved_shop(system, target).map(Task::MoveBack));
    }

    /// Runs the commands in order, until one fails.
    pub(super) async fn run_tasks(&mut self, system: &System) {
        while let Some(task) = self.0.first().cloned() {
            let done = match &task {
                Task::Connect(shop, account) => connect(system, *shop, account).await,
                Task::SwitchPages(shop) => switch_pages(system, *shop).await,
                Task::MoveBack(shop) => set_provider(system, *shop, "card_gateway").await,
            };
            if !done {
                return;
            }
            self.0.remove(0);
            if let Task::Connect(shop, _) = task {
                self.0.insert(0, Task::SwitchPages(shop));
            }
        }
    }

    /// Completes all commands after the load.
    pub(super) async fn finish(&mut self, system: &System) -> Result<()> {
        let began = Instant::now();
        while !self.0.is_empty() {
            ensure!(began.elapsed() < TASKS_TIMEOUT, "{} operator commands could not be completed", self.0.len());
            self.run_tasks(system).await;
            sleep(Duration::from_millis(300)).await;
        }
        Ok(())
    }
}

fn moved_shop(system: &System, target: usize) -> Option<usize> {
    let moved: Vec<usize> =
        (0..system.shops.len()).filter(|shop| system.shops[*shop].kind == ShopKind::Moved).collect();
    moved.get(target % moved.len().max(1)).copied()
}

async fn set_provider(system: &System, shop: usize, provider: &str) -> bool {
    let arguments = ["accounts", "set", &system.shops[shop].account.id, "--provider", provider];
    timeout(CTL_TIMEOUT, system.cluster.ctl(&arguments)).await.is_ok_and(|result| result.is_ok())
}

async fn connect(system: &System, shop: usize, account: &GatewayAccount) -> bool {
    let connecting = system.cluster.connect(&system.shops[shop].account, account, &[]);
    let done = timeout(CTL_TIMEOUT, connecting).await.is_ok_and(|result| result.is_ok());
    if done {
        system.shops[shop].set_gateway_account(account.clone());
    }
    done
}

/// The pages switch after the API knows the keys.
async fn switch_pages(system: &System, shop: usize) -> bool {
    let Some(account) = system.shops[shop].gateway_account() else { return true };
    let reading = timeout(CTL_TIMEOUT, gateway_id_and_app_key(&system.db, &account.username)).await;
    let Ok(Ok((_, app_key))) = reading else { return false };
    system.shops[shop].set_app_key(app_key);
    true
}
