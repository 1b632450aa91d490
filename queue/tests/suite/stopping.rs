//! Graceful shutdown: nothing new starts, and running handlers finish.

use std::sync::Arc;
use std::time::Duration;

use queue::{Pool, Queue, Timing, run};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use crate::rig::{Rig, Tally, eventually, ids, recording_pool, wakes};

const QUEUE: Queue = Queue::new("stopping");

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_finishes_running_handlers_and_starts_no_others() {
    let rig = Rig::start().await;
    let tally = Tally::default();
    let consumer = rig.consume(recording_pool(QUEUE, 4, Duration::from_millis(1_000), &tally));
    rig.publisher.push(QUEUE, &wakes(&ids(10))).await.unwrap();
    eventually("four are started", async || tally.started() == 4).await;
    let stopped = consumer.stop().await;
    assert_eq!((stopped.unfinished, tally.distinct()), (0, 4));
    let depth = rig.publisher.depth(QUEUE).await.unwrap();
    assert_eq!((depth.waiting, depth.pending), (6, 0), "the finished are acknowledged, the rest is untouched");
    let next = rig.consume(recording_pool(QUEUE, 4, Duration::ZERO, &tally));
    eventually("the next process handles the rest", async || tally.distinct() == 10).await;
    next.stop().await;
    assert_eq!(tally.max(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_under_load_neither_loses_nor_repeats_entries() {
    let rig = Rig::start().await;
    let tally = Tally::default();
    let all = ids(20_000);
    rig.publisher.push(QUEUE, &wakes(&all)).await.unwrap();
    while tally.distinct() < all.len() {
        let consumer = rig.consume(recording_pool(QUEUE, 16, Duration::ZERO, &tally));
        sleep(Duration::from_millis(200)).await;
        assert_eq!(consumer.stop().await.unfinished, 0);
    }
    assert_eq!(tally.max(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_consumer_stops_without_waiting_for_its_read() {
    let rig = Rig::start().await;
    let tally = Tally::default();
    let timing = Timing { block: Duration::from_secs(50), ..Timing::default() };
    let consumer = rig.consume(Pool { timing, ..recording_pool(QUEUE, 4, Duration::ZERO, &tally) });
    rig.push_until_handled(QUEUE, &ids(1), &tally).await;
    let clients = || async {
        let list: String = redis::cmd("CLIENT").arg("LIST").query_async(&mut rig.raw().await).await.unwrap();
        list.lines().filter(|line| line.contains("cmd=xreadgroup")).count()
    };
    eventually("a read is blocked", async || clients().await == 1).await;
    let started = Instant::now();
    consumer.stop().await;
    assert!(started.elapsed() < Duration::from_secs(10));
    eventually("its connection is gone", async || clients().await == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn endless_handlers_do_not_block_a_stop() {
    let rig = Rig::start().await;
    let started = Arc::new(Notify::new());
    let pool = Pool::new(QUEUE, 1, {
        let started = Arc::clone(&started);
        move |_| {
            // The handler itself must notify: entries that were only read are released and do not count as unfinished.
            started.notify_one();
            std::future::pending()
        }
    });
    rig.publisher.push(QUEUE, &wakes(&ids(1))).await.unwrap();
    let stop = started.notified();
    let redis = queue::Redis::new(&rig.redis.url()).unwrap();
    let stopped = run(&redis, vec![pool], stop, Duration::from_millis(300)).await;
    assert_eq!(stopped.unfinished, 1);
    assert_eq!(rig.publisher.depth(QUEUE).await.unwrap().pending, 1, "another process will reclaim it");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_does_not_wait_for_an_unavailable_redis() {
    let mut rig = Rig::start().await;
    let tally = Tally::default();
    let consumer = rig.consume(recording_pool(QUEUE, 4, Duration::from_millis(500), &tally));
    rig.publisher.push(QUEUE, &wakes(&ids(4))).await.unwrap();
    eventually("all are started", async || tally.started() == 4).await;
    rig.redis.kill9().unwrap();
    let started = Instant::now();
    assert_eq!(consumer.stop().await.unfinished, 0);
    assert_eq!(tally.distinct(), 4);
    assert!(started.elapsed() < Duration::from_secs(15));
}
