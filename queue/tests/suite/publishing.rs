//! Pushing, with and without Redis.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use queue::{Depth, Pool, Publisher, Queue, Wake, run};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use uuid::Uuid;

use crate::rig::{FAST, Rig, TIMEOUT, Tally, eventually, gated_pool, ids, recording_pool, wakes};

const QUEUE: Queue = Queue::new("publishing");

#[tokio::test(flavor = "multi_thread")]
async fn wake_ups_arrive_unchanged() {
    let rig = Rig::start().await;
    let arrived = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&arrived);
    let handler = move |wake: Wake| {
        seen.lock().unwrap().push(wake);
        async {}
    };
    let consumer = rig.consume(Pool { timing: FAST, ..Pool::new(QUEUE, 1, handler) });
    let pushed = [
        Wake { id: Uuid::from_u128(1), request_id: None },
        Wake { id: Uuid::from_u128(u128::MAX), request_id: Some("req_1 \"é\"\r\n".to_owned()) },
    ];
    rig.publisher.push(QUEUE, &pushed).await.unwrap();
    rig.publisher.push(QUEUE, &[]).await.unwrap();
    eventually("both arrive", async || arrived.lock().unwrap().len() == 2).await;
    assert_eq!(*arrived.lock().unwrap(), pushed);
    consumer.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn queues_do_not_block_each_other() {
    const OTHER: Queue = Queue::new("publishing_other");
    let rig = Rig::start().await;
    let tally = Tally::default();
    let (gate, other_tally) = (Arc::new(Semaphore::new(0)), Tally::default());
    let stuck = gated_pool(OTHER, 1, &gate, &other_tally);
    rig.push(OTHER, &ids(3)).await;
    let pushed = ids(1);
    let shutdown = async {
        while other_tally.started() == 0 {
            sleep(Duration::from_millis(20)).await;
        }
        rig.push_until_handled(QUEUE, &pushed, &tally).await;
        assert_eq!(other_tally.distinct(), 0);
        gate.add_permits(3);
    };
    let pools = vec![stuck, recording_pool(QUEUE, 1, Duration::ZERO, &tally)];
    let redis = queue::Redis::new(&rig.redis.url()).unwrap();
    let stopped = timeout(2 * TIMEOUT, run(&redis, pools, shutdown, TIMEOUT)).await.expect("both queues are read");
    assert_eq!(stopped.unfinished, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn pushes_fail_within_their_timeout_without_redis_and_recover() {
    let mut rig = Rig::start().await;
    rig.publisher.ping().await.unwrap();
    rig.redis.kill9().unwrap();
    // One publisher that was connected, and one that never was.
    let publishers = [rig.publisher.clone(), Publisher::connect(&queue::Redis::new(&rig.redis.url()).unwrap())];
    for publisher in &publishers {
        let failures = async {
            assert!(publisher.push(QUEUE, &wakes(&ids(1))).await.is_err());
            assert!(publisher.reply("nobody", Uuid::nil()).await.is_err());
            assert!(publisher.ping().await.is_err());
            assert!(publisher.depth(QUEUE).await.is_err());
        };
        timeout(TIMEOUT, failures).await.expect("no call waits for Redis");
    }
    rig.redis.restart().await.unwrap();
    for publisher in &publishers {
        publisher.push(QUEUE, &wakes(&ids(1))).await.expect("the first push after the restart succeeds");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_push_after_an_unnoticed_restart_succeeds() {
    let mut rig = Rig::start().await;
    rig.publisher.ping().await.unwrap();
    rig.redis.kill9().unwrap();
    rig.redis.restart().await.unwrap();
    rig.publisher.push(QUEUE, &wakes(&ids(1))).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn depth_distinguishes_waiting_from_pending() {
    let rig = Rig::start().await;
    assert_eq!(rig.depth(QUEUE).await, Depth::default(), "the queue is unused");
    rig.push(QUEUE, &ids(5)).await;
    sleep(Duration::from_millis(20)).await;
    let depth = rig.depth(QUEUE).await;
    assert_eq!((depth.waiting, depth.pending), (5, 0));
    assert!(depth.oldest_age_ms >= 20);
    let gate = Arc::new(Semaphore::new(0));
    let consumer = rig.consume(gated_pool(QUEUE, 2, &gate, &Tally::default()));
    eventually("two are started", async || {
        let depth = rig.depth(QUEUE).await;
        (depth.waiting, depth.pending) == (3, 2)
    })
    .await;
    gate.add_permits(2);
    consumer.stop().await;
}

#[test]
fn invalid_urls_are_rejected() {
    for invalid in ["nonsense", "http://127.0.0.1", "redis://127.0.0.1:port"] {
        assert!(queue::Redis::new(invalid).is_err(), "{invalid}");
    }
}
