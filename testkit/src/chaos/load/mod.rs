//! The clients. Each does one kind of thing again and again, by numbers of its own from the seed.

mod ahead;
mod billing;
mod cards;
mod cycles;
mod links;
mod pages;
mod payments;

use std::{
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use anyhow::Result;
use tokio::{task::JoinSet, time::sleep};

use super::{
    caller::Caller,
    random::Random,
    world::{Line, World},
};

/// What a client does.
#[derive(Clone, Copy, Debug)]
enum Role {
    Payer,
    Challenged,
    Billing,
    Links,
    Cycles,
    Ahead,
    Pages,
}

/// Who does what for a merchant.
fn roles(line: Line) -> &'static [Role] {
    use Role::{Ahead, Billing, Challenged, Cycles, Links, Pages, Payer};
    match line {
        Line::Mock('C') => &[Payer, Payer, Billing],
        Line::Mock('B') => &[Payer, Payer, Payer, Billing, Links, Pages],
        Line::Mock(_) => &[Payer, Payer, Payer, Billing, Links, Ahead],
        Line::Gateway => &[Payer, Payer, Challenged, Billing, Links, Pages, Ahead],
        Line::Moved => &[Payer, Billing],
        Line::Fee => &[Payer, Payer, Billing],
        Line::Clock(_) => &[Cycles],
    }
}

/// Starts all clients; each ends when the world is over and its last request was answered.
pub(super) fn start(world: &Arc<World>, seed: u64) -> Result<JoinSet<()>> {
    let mut clients = JoinSet::new();
    let mut stream = 100;
    for (shop, of) in world.shops.iter().enumerate() {
        for role in roles(of.line) {
            stream += 1;
            let caller = Caller::new(world, shop, Random::new(seed, stream))?;
            clients.spawn(work(caller, *role));
        }
    }
    Ok(clients)
}

/// At the latest, however slow the machine is.
const WARM_WITHIN: Duration = Duration::from_secs(60);

/// Waits until every client has its customers and cards: what is broken before that meets no load.
pub(super) async fn warm_up(world: &World, clients: &JoinSet<()>) {
    let began = Instant::now();
    while world.warm.load(Ordering::Relaxed) < clients.len() && began.elapsed() < WARM_WITHIN {
        sleep(Duration::from_millis(100)).await;
    }
    println!("all clients are at work after {:.0} s", began.elapsed().as_secs_f64());
}

async fn work(mut caller: Caller, role: Role) {
    let customers = cards::customers(&mut caller).await;
    caller.world.warm.fetch_add(1, Ordering::Relaxed);
    let mut cycles = cycles::Cycles::default();
    let mut ahead = ahead::Ahead::default();
    while !caller.world.is_over() {
        match role {
            Role::Payer => payments::pay(&mut caller, &customers).await,
            Role::Challenged => payments::challenged(&mut caller).await,
            Role::Billing => billing::bill(&mut caller, &customers).await,
            Role::Links => links::sell(&mut caller).await,
            Role::Cycles => cycles.turn(&mut caller).await,
            Role::Ahead => ahead.turn(&mut caller, &customers).await,
            Role::Pages => pages::cross(&mut caller, &customers).await,
        }
        caller.pause(50, 700).await;
    }
}
