//! A stop that is asked for: nothing new begins, what has begun ends.

use std::sync::Arc;
use std::time::Duration;

use queue::{Pool, Queue, Timing, run};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use crate::rig::{Rig, Tally, eventually, ids, noting, wakes};

const QUEUE: Queue = Queue::new("stopping");

#[tokio::test(flavor = "multi_thread")]
async fn what_is_in_flight_finishes_and_nothing_new_begins() {
    let rig = Rig::start().await;
    let tally = Tally::default();
    let consumer = rig.consume(noting(QUEUE, 4, Duration::from_millis(1_000), &tally));
    rig.publisher.push(QUEUE, &wakes(&ids(10))).await.unwrap();
    eventually("four are begun", async || tally.begun() == 4).await;
    let stopped = consumer.stop().await;
    assert_eq!((stopped.unfinished, tally.distinct()), (0, 4));
    let depth = rig.publisher.depth(QUEUE).await.unwrap();
    assert_eq!((depth.waiting, depth.pending), (6, 0), "the finished are acknowledged, the rest is untouched");
    let next = rig.consume(noting(QUEUE, 4, Duration::ZERO, &tally));
    eventually("the next process handles the rest", async || tally.distinct() == 10).await;
    next.stop().await;
    assert_eq!(tally.most(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_under_load_loses_and_doubles_nothing() {
    let rig = Rig::start().await;
    let tally = Tally::default();
    let all = ids(20_000);
    rig.publisher.push(QUEUE, &wakes(&all)).await.unwrap();
    while tally.distinct() < all.len() {
        let consumer = rig.consume(noting(QUEUE, 16, Duration::ZERO, &tally));
        sleep(Duration::from_millis(200)).await;
        assert_eq!(consumer.stop().await.unfinished, 0);
    }
    assert_eq!(tally.most(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_consumer_stops_without_waiting_for_its_read() {
    let rig = Rig::start().await;
    let tally = Tally::default();
    let timing = Timing { block: Duration::from_secs(50), ..Timing::default() };
    let consumer = rig.consume(Pool { timing, ..noting(QUEUE, 4, Duration::ZERO, &tally) });
    rig.push_until_handled(QUEUE, &ids(1), &tally).await;
    let clients = || async {
        let list: String = redis::cmd("CLIENT").arg("LIST").query_async(&mut rig.raw().await).await.unwrap();
        list.lines().filter(|line| line.contains("cmd=xreadgroup")).count()
    };
    eventually("a read waits", async || clients().await == 1).await;
    let begun = Instant::now();
    consumer.stop().await;
    assert!(begun.elapsed() < Duration::from_secs(10));
    eventually("its connection is gone", async || clients().await == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_that_does_not_end_does_not_stop_the_stop() {
    let rig = Rig::start().await;
    let begun = Arc::new(Notify::new());
    let pool = Pool::new(QUEUE, 1, {
        let begun = Arc::clone(&begun);
        move |_| {
            // Told by the handler itself: what was only read is given back, and would not be unfinished.
            begun.notify_one();
            std::future::pending()
        }
    });
    rig.publisher.push(QUEUE, &wakes(&ids(1))).await.unwrap();
    let stop = begun.notified();
    let redis = queue::Redis::new(&rig.redis.url()).unwrap();
    let stopped = run(&redis, vec![pool], stop, Duration::from_millis(300)).await;
    assert_eq!(stopped.unfinished, 1);
    assert_eq!(rig.publisher.depth(QUEUE).await.unwrap().pending, 1, "another process will take it over");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_does_not_wait_for_a_redis_that_is_away() {
    let mut rig = Rig::start().await;
    let tally = Tally::default();
    let consumer = rig.consume(noting(QUEUE, 4, Duration::from_millis(500), &tally));
    rig.publisher.push(QUEUE, &wakes(&ids(4))).await.unwrap();
    eventually("all are begun", async || tally.begun() == 4).await;
    rig.redis.kill9().unwrap();
    let begun = Instant::now();
    assert_eq!(consumer.stop().await.unfinished, 0);
    assert_eq!(tally.distinct(), 4);
    assert!(begun.elapsed() < Duration::from_secs(15));
}
