//! Many entries, few permits, and slow handlers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use queue::{Pool, Queue, Timing, Wake};
use tokio::time::sleep;

use crate::rig::{FAST, Random, Rig, Tally, eventually, ids, recording_pool, wakes};

const QUEUE: Queue = Queue::new("limits");

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_thousand_entries_are_each_handled_once() {
    let rig = Rig::start().await;
    let tally = Tally::default();
    let all = ids(100_000);
    for batch in all.chunks(5_000) {
        rig.publisher.push(QUEUE, &wakes(batch)).await.unwrap();
    }
    assert_eq!(rig.publisher.depth(QUEUE).await.unwrap().waiting, 100_000);
    let consumers = [0, 1].map(|_| rig.consume(recording_pool(QUEUE, 64, Duration::ZERO, &tally)));
    eventually("all are handled", async || tally.distinct() == all.len()).await;
    for consumer in consumers {
        assert_eq!(consumer.stop().await.unfinished, 0);
    }
    assert_eq!(tally.max(), 1);
    let depth = rig.publisher.depth(QUEUE).await.unwrap();
    assert_eq!((depth.waiting, depth.pending, depth.oldest_age_ms), (0, 0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrency_reaches_its_limit_and_never_exceeds_it() {
    const LIMIT: usize = 5;
    let rig = Rig::start().await;
    let tally = Tally::default();
    let (running, max) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let random = Arc::new(std::sync::Mutex::new(Random::new()));
    let (recorded, observed_max) = (tally.clone(), Arc::clone(&max));
    let handler = move |wake: Wake| {
        let (recorded, running, max) = (recorded.clone(), Arc::clone(&running), Arc::clone(&observed_max));
        let duration = random.lock().unwrap().millis(20);
        async move {
            max.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            sleep(duration).await;
            running.fetch_sub(1, Ordering::SeqCst);
            recorded.record(wake.id);
        }
    };
    let consumer = rig.consume(Pool { timing: FAST, ..Pool::new(QUEUE, LIMIT, handler) });
    let all = ids(500);
    for batch in all.chunks(7) {
        rig.publisher.push(QUEUE, &wakes(batch)).await.unwrap();
        let depth = rig.publisher.depth(QUEUE).await.unwrap();
        // Handled entries count as pending until they are acknowledged.
        assert!(depth.pending <= 2 * LIMIT as u64, "{depth:?}: nothing is read ahead");
    }
    // A lost connection must not leak permits.
    rig.flush().await;
    rig.push_until_handled(QUEUE, &all, &tally).await;
    consumer.stop().await;
    assert_eq!(max.load(Ordering::SeqCst), LIMIT);
}

#[tokio::test(flavor = "multi_thread")]
async fn handlers_slower_than_the_visibility_timeout_run_once() {
    let rig = Rig::start().await;
    let tally = Tally::default();
    let slow = FAST.visibility * 3;
    let consumers = [0, 1, 2].map(|_| rig.consume(recording_pool(QUEUE, 4, slow, &tally)));
    rig.publisher.push(QUEUE, &wakes(&ids(12))).await.unwrap();
    eventually("all are handled", async || tally.distinct() == 12).await;
    for consumer in consumers {
        consumer.stop().await;
    }
    assert_eq!(tally.max(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn consumers_do_not_reclaim_their_own_entries() {
    let rig = Rig::start().await;
    let tally = Tally::default();
    // Entries are not renewed, as during a stall of Redis.
    let timing = Timing { renew_every: Duration::from_secs(3_600), ..FAST };
    let consumer = rig.consume(Pool { timing, ..recording_pool(QUEUE, 4, FAST.visibility * 3, &tally) });
    rig.publisher.push(QUEUE, &wakes(&ids(2))).await.unwrap();
    eventually("both are handled", async || tally.distinct() == 2).await;
    consumer.stop().await;
    assert_eq!(tally.max(), 1);
}
