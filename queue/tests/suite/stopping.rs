//! Graceful shutdown: nothing new starts, and running handlers finish.

use std::sync::Arc;
use std::time::Duration;

use queue::{Pool, Queue, Timing, run};
use tokio::sync::{Notify, Semaphore};

use crate::rig::{Rig, TIMEOUT, Tally, eventually, gated_pool, ids, recording_pool, until_handled};

const QUEUE: Queue = Queue::new("stopping");

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_finishes_running_handlers_and_starts_no_others() {
    let rig = Rig::start().await;
    let tally = Tally::default();
    let gate = Arc::new(Semaphore::new(0));
    let consumer = rig.consume(gated_pool(QUEUE, 4, &gate, &tally));
    rig.push(QUEUE, &ids(10)).await;
    eventually("four are started", async || tally.started() == 4).await;
    // The reader waits for a permit after its last read, which ends with TIME.
    eventually("the reader waits", async || rig.clients("time").await == 1).await;
    let finish = async {
        eventually("the reader has stopped", async || rig.clients("time").await == 0).await;
        gate.add_permits(4);
    };
    let (stopped, ()) = tokio::join!(consumer.stop(), finish);
    assert_eq!((stopped.unfinished, tally.distinct()), (0, 4));
    let depth = rig.depth(QUEUE).await;
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
    rig.push(QUEUE, &all).await;
    while tally.distinct() < all.len() {
        let consumer = rig.consume(recording_pool(QUEUE, 16, Duration::ZERO, &tally));
        until_handled(&tally, all.len().min(tally.distinct() + 1_000)).await;
        assert_eq!(consumer.stop().await.unfinished, 0);
    }
    assert_eq!(tally.max(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_consumer_stops_without_waiting_for_its_read() {
    let rig = Rig::start().await;
    let tally = Tally::default();
    let timing = Timing { block: 2 * TIMEOUT, ..Timing::default() };
    let consumer = rig.consume(Pool { timing, ..recording_pool(QUEUE, 4, Duration::ZERO, &tally) });
    rig.push_until_handled(QUEUE, &ids(1), &tally).await;
    eventually("a read is blocked", async || rig.clients("xreadgroup").await == 1).await;
    consumer.stop().await;
    eventually("its connection is gone", async || rig.clients("xreadgroup").await == 0).await;
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
    rig.push(QUEUE, &ids(1)).await;
    let stop = started.notified();
    let redis = queue::Redis::new(&rig.redis.url()).unwrap();
    let stopped = run(&redis, vec![pool], stop, Duration::from_millis(300)).await;
    assert_eq!(stopped.unfinished, 1);
    assert_eq!(rig.depth(QUEUE).await.pending, 1, "another process will reclaim it");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_does_not_wait_for_an_unavailable_redis() {
    let mut rig = Rig::start().await;
    let tally = Tally::default();
    let gate = Arc::new(Semaphore::new(0));
    let consumer = rig.consume(gated_pool(QUEUE, 4, &gate, &tally));
    rig.push(QUEUE, &ids(4)).await;
    eventually("all are started", async || tally.started() == 4).await;
    rig.redis.kill9().unwrap();
    gate.add_permits(4);
    assert_eq!(consumer.stop().await.unfinished, 0);
    assert_eq!(tally.distinct(), 4);
}
