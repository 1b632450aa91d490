//! How a waiting request learns the outcome.

use std::time::Duration;

use queue::{Replies, Waiter};
use tokio::time::{sleep, timeout};
use uuid::Uuid;

use crate::rig::{PATIENCE, Rig};

/// Listens, and waits until the first subscription stands.
async fn listening(rig: &Rig) -> Replies {
    let replies = Replies::start(&queue::Redis::new(&rig.redis.url()).unwrap(), "here");
    let mut waiter = replies.register(Uuid::nil());
    // The subscription itself wakes; it may also have been there before we registered.
    while timeout(Duration::from_millis(100), waiter.woken()).await.is_err() {
        rig.publisher.reply("here", Uuid::nil()).await.unwrap();
    }
    replies
}

async fn woken(waiter: &mut Waiter) {
    timeout(PATIENCE, waiter.woken()).await.expect("nobody woke the waiter");
}

async fn sleeps(waiter: &mut Waiter) -> bool {
    timeout(Duration::from_millis(200), waiter.woken()).await.is_err()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reply_wakes_all_who_wait_for_its_id_and_nobody_else() {
    let rig = Rig::start().await;
    let replies = listening(&rig).await;
    let (one, other) = (Uuid::from_u128(1), Uuid::from_u128(2));
    let (mut first, mut second, mut third) = (replies.register(one), replies.register(one), replies.register(other));
    rig.publisher.reply("elsewhere", one).await.unwrap();
    assert!(sleeps(&mut first).await);
    rig.publisher.reply("here", one).await.unwrap();
    woken(&mut first).await;
    // Said before it was asked for, and still heard; but once.
    woken(&mut second).await;
    assert!(sleeps(&mut second).await);
    assert!(sleeps(&mut third).await);
    drop(first);
    rig.publisher.reply("here", one).await.unwrap();
    woken(&mut second).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resubscription_wakes_everyone() {
    let mut rig = Rig::start().await;
    let replies = listening(&rig).await;
    for _ in 0..2 {
        let mut waiters = [replies.register(Uuid::from_u128(1)), replies.register(Uuid::from_u128(2))];
        rig.redis.kill9().unwrap();
        assert!(sleeps(&mut waiters[0]).await);
        rig.redis.restart().await.unwrap();
        for waiter in &mut waiters {
            woken(waiter).await;
        }
        rig.publisher.reply("here", Uuid::from_u128(2)).await.unwrap();
        woken(&mut waiters[1]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn listening_outlasts_a_quiet_hour_and_a_stall() {
    let mut rig = Rig::start().await;
    let replies = listening(&rig).await;
    let mut waiter = replies.register(Uuid::from_u128(1));
    // Longer than the silence after which it asks whether the connection is still one.
    sleep(Duration::from_secs(7)).await;
    rig.publisher.reply("here", Uuid::from_u128(1)).await.unwrap();
    woken(&mut waiter).await;
    // Longer than it waits for the answer.
    rig.redis.pause().unwrap();
    sleep(Duration::from_secs(10)).await;
    rig.redis.resume().unwrap();
    woken(&mut waiter).await;
    rig.publisher.reply("here", Uuid::from_u128(1)).await.unwrap();
    woken(&mut waiter).await;
}
