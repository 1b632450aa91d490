//! The clients. Each repeats one kind of work, with choices determined by the seed.

mod billing;
pub(super) mod caller;
mod cards;
mod cycles;
mod future_dates;
mod links;
mod pages;
mod payments;
pub(super) mod state;

use std::{
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use anyhow::Result;
use tokio::{task::JoinSet, time::sleep};

use self::{caller::Caller, state::LoadState};
use super::shop::ShopKind;
use crate::random::Random;

#[derive(Clone, Copy, Debug)]
enum Role {
    Payer,
    Challenged,
    Billing,
    Links,
    Cycles,
    FutureDates,
    Pages,
}

/// The roles of a merchant's clients.
fn roles(kind: ShopKind) -> &'static [Role] {
    use Role::{Billing, Challenged, Cycles, FutureDates, Links, Pages, Payer};
    match kind {
        ShopKind::Mock('C') => &[Payer, Payer, Billing],
        ShopKind::Mock('B') => &[Payer, Payer, Payer, Billing, Links, Pages],
        ShopKind::Mock(_) => &[Payer, Payer, Payer, Billing, Links, FutureDates],
        ShopKind::Gateway => &[Payer, Payer, Challenged, Billing, Links, Pages, FutureDates],
        ShopKind::Moved => &[Payer, Billing],
        ShopKind::Fee => &[Payer, Payer, Billing],
        ShopKind::Stripe => &[Payer, Payer, Billing, Links],
        ShopKind::Clock(_) => &[Cycles],
    }
}

/// Starts all clients. Each ends after its current request once the load has ended.
pub(super) fn start(load: &Arc<LoadState>, seed: u64) -> Result<JoinSet<()>> {
    let mut clients = JoinSet::new();
    let mut stream = 100;
    for (index, shop) in load.shops.iter().enumerate() {
        for role in roles(shop.kind) {
            stream += 1;
            let caller = Caller::new(load, index, Random::stream(seed, stream))?;
            clients.spawn(run_client(caller, *role));
        }
    }
    Ok(clients)
}

/// The limit for slow machines.
const WARM_UP_TIMEOUT: Duration = Duration::from_secs(60);

/// Waits until every client has its customers and cards: faults before that would meet no load.
pub(super) async fn warm_up(load: &LoadState, clients: &JoinSet<()>) {
    let began = Instant::now();
    while load.warmed_up_clients.load(Ordering::Relaxed) < clients.len() && began.elapsed() < WARM_UP_TIMEOUT {
        sleep(Duration::from_millis(100)).await;
    }
    println!("all clients are ready after {:.0} s", began.elapsed().as_secs_f64());
}

/// Ends the load. Every request completes within half a minute; clients that are still retrying are aborted.
pub(super) async fn finish(load: &LoadState, mut clients: JoinSet<()>) {
    load.end();
    println!("the load has ended");
    let ending = async { while clients.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(Duration::from_secs(35), ending).await;
    clients.shutdown().await;
}

async fn run_client(mut caller: Caller, role: Role) {
    let customers = cards::customers(&mut caller).await;
    caller.load.warmed_up_clients.fetch_add(1, Ordering::Relaxed);
    let mut cycles = cycles::Cycles::default();
    let mut future_dates = future_dates::FutureDates::default();
    while !caller.load.has_ended() {
        match role {
            Role::Payer => payments::pay(&mut caller, &customers).await,
            Role::Challenged => payments::challenged(&mut caller).await,
            Role::Billing => billing::bill(&mut caller, &customers).await,
            Role::Links => links::pay_link(&mut caller).await,
            Role::Cycles => cycles.step(&mut caller).await,
            Role::FutureDates => future_dates.step(&mut caller, &customers).await,
            Role::Pages => pages::pay_during_collection(&mut caller, &customers).await,
        }
        caller.pause(50, 700).await;
    }
}
