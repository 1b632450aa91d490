//! Notification of waiting requests.

use std::time::Duration;

use queue::{Replies, Waiter};
use tokio::time::timeout;
use uuid::Uuid;

use crate::host_name::HostName;
use crate::rig::{Rig, TIMEOUT, eventually, metrics};

/// Listens, and waits until the first subscription is established.
async fn listening(rig: &Rig) -> Replies {
    listening_at(rig, &rig.redis.url()).await
}

async fn listening_at(rig: &Rig, url: &str) -> Replies {
    let replies = Replies::start(&queue::Redis::new(url).unwrap(), "here");
    let mut waiter = replies.register(Uuid::nil());
    // A new subscription wakes all waiters, but it may have been established before the registration.
    while timeout(Duration::from_millis(100), waiter.notified()).await.is_err() {
        rig.publisher.reply("here", Uuid::nil()).await.unwrap();
    }
    replies
}

async fn notified(waiter: &mut Waiter) {
    timeout(TIMEOUT, waiter.notified()).await.expect("the waiter was not notified");
}

async fn stays_asleep(waiter: &mut Waiter) -> bool {
    timeout(Duration::from_millis(200), waiter.notified()).await.is_err()
}

#[tokio::test(flavor = "multi_thread")]
async fn replies_wake_exactly_the_waiters_of_their_id() {
    let rig = Rig::start().await;
    let replies = listening(&rig).await;
    let (one, other) = (Uuid::from_u128(1), Uuid::from_u128(2));
    let (mut first, mut second, mut third) = (replies.register(one), replies.register(one), replies.register(other));
    rig.publisher.reply("elsewhere", one).await.unwrap();
    assert!(stays_asleep(&mut first).await);
    rig.publisher.reply("here", one).await.unwrap();
    notified(&mut first).await;
    // A reply before the call to notified() counts, but only once.
    notified(&mut second).await;
    assert!(stays_asleep(&mut second).await);
    assert!(stays_asleep(&mut third).await);
    drop(first);
    rig.publisher.reply("here", one).await.unwrap();
    notified(&mut second).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn replies_that_are_posted_at_the_same_time_wake_their_waiters() {
    let rig = Rig::start().await;
    let replies = listening(&rig).await;
    let mut waiters: Vec<_> = (1..=100).map(|id| replies.register(Uuid::from_u128(id))).collect();
    for id in 1..=100 {
        rig.publisher.post_reply("here".to_owned(), Uuid::from_u128(id));
    }
    for waiter in &mut waiters {
        notified(waiter).await;
        assert!(timeout(Duration::ZERO, waiter.notified()).await.is_err(), "once");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_subscription_wakes_all_waiters() {
    let mut rig = Rig::start().await;
    let replies = listening(&rig).await;
    for _ in 0..2 {
        let mut waiters = [replies.register(Uuid::from_u128(1)), replies.register(Uuid::from_u128(2))];
        rig.redis.kill9().unwrap();
        assert!(stays_asleep(&mut waiters[0]).await);
        rig.redis.restart().await.unwrap();
        for waiter in &mut waiters {
            notified(waiter).await;
        }
        rig.publisher.reply("here", Uuid::from_u128(2)).await.unwrap();
        notified(&mut waiters[1]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn subscriptions_survive_silence() {
    let rig = Rig::start().await;
    let replies = listening(&rig).await;
    let mut waiter = replies.register(Uuid::from_u128(1));
    let pings = rig.calls("ping").await;
    eventually("the connection is pinged", async || rig.calls("ping").await > pings).await;
    rig.publisher.reply("here", Uuid::from_u128(1)).await.unwrap();
    notified(&mut waiter).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn subscriptions_survive_a_stall() {
    let mut rig = Rig::start().await;
    let name = HostName::of(rig.redis.port()).await;
    let replies = listening_at(&rig, &name.url(&rig.redis)).await;
    let mut waiter = replies.register(Uuid::from_u128(1));
    let connections = name.connections();
    rig.redis.pause().unwrap();
    // The ping times out.
    eventually("the listener reconnects", async || name.connections() > connections).await;
    rig.redis.resume().unwrap();
    notified(&mut waiter).await;
    rig.publisher.reply("here", Uuid::from_u128(1)).await.unwrap();
    notified(&mut waiter).await;
}

#[tokio::test]
async fn dropped_replies_are_counted() {
    let (recorder, rig) = (metrics(), Rig::start().await);
    // The task that sends them runs only while this one waits.
    for id in 0..10_005 {
        rig.publisher.post_reply("nobody".to_owned(), Uuid::from_u128(id));
    }
    let rendered = recorder.render();
    let dropped = rendered.lines().find(|line| line.starts_with("queue_replies_dropped_total "));
    assert_eq!(dropped, Some("queue_replies_dropped_total 5"));
}
