//! Many entries, few permits, and slow handlers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use queue::{Pool, Queue, Timing, Wake};
use testkit::random::{Random, seed};
use tokio::sync::Semaphore;
use tokio::time::sleep;

use crate::rig::{FAST, Rig, STEADY, Tally, eventually, gated_pool, ids, recording_pool, until_handled};

const QUEUE: Queue = Queue::new("limits");

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_thousand_entries_are_each_handled_once() {
    let rig = Rig::start().await;
    let tally = Tally::default();
    let all = ids(100_000);
    for batch in all.chunks(5_000) {
        rig.push(QUEUE, batch).await;
    }
    assert_eq!(rig.depth(QUEUE).await.waiting, 100_000);
    let consumers = [0, 1].map(|_| rig.consume(recording_pool(QUEUE, 64, Duration::ZERO, &tally)));
    until_handled(&tally, all.len()).await;
    for consumer in consumers {
        assert_eq!(consumer.stop().await.unfinished, 0);
    }
    assert_eq!(tally.max(), 1);
    let depth = rig.depth(QUEUE).await;
    assert_eq!((depth.waiting, depth.pending, depth.oldest_age_ms), (0, 0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrency_reaches_its_limit_and_never_exceeds_it() {
    const LIMIT: usize = 5;
    let rig = Rig::start().await;
    let tally = Tally::default();
    let (running, max) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let gate = Arc::new(Semaphore::new(0));
    let random = Arc::new(std::sync::Mutex::new(Random::new(seed())));
    let (recorded, observed_max, opened) = (tally.clone(), Arc::clone(&max), Arc::clone(&gate));
    let handler = move |wake: Wake| {
        let (recorded, running, max) = (recorded.clone(), Arc::clone(&running), Arc::clone(&observed_max));
        let gate = Arc::clone(&opened);
        let duration = Duration::from_millis(random.lock().unwrap().below(20));
        async move {
            max.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            drop(gate.acquire().await.unwrap());
            sleep(duration).await;
            running.fetch_sub(1, Ordering::SeqCst);
            recorded.record(wake.id);
        }
    };
    let consumer = rig.consume(Pool { timing: STEADY, ..Pool::new(QUEUE, LIMIT, handler) });
    let all = ids(500);
    let mut pushed = 0;
    for batch in all.chunks(7) {
        rig.push(QUEUE, batch).await;
        pushed += batch.len();
        if pushed == batch.len() {
            // The first handlers wait for each other.
            eventually("the limit is reached", async || max.load(Ordering::SeqCst) == LIMIT).await;
            gate.add_permits(LIMIT);
        }
        let read = pushed - usize::try_from(rig.depth(QUEUE).await.waiting).unwrap();
        // Those handled since the depth was read only loosen the limit.
        assert!(read <= tally.distinct() + LIMIT, "{read} of {pushed}: nothing is read ahead");
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
    let slow = FAST.visibility * 3 / 2;
    let pool = || Pool { timing: FAST, ..recording_pool(QUEUE, 4, slow, &tally) };
    let consumers = [(); 3].map(|()| rig.consume(pool()));
    rig.push(QUEUE, &ids(12)).await;
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
    let timing =
        Timing { visibility: Duration::from_secs(1), renew_every: Duration::from_secs(3_600), ..Timing::default() };
    let timing = Timing { block: Duration::from_millis(100), ..timing };
    let gate = Arc::new(Semaphore::new(0));
    let consumer = rig.consume(Pool { timing, ..gated_pool(QUEUE, 4, &gate, &tally) });
    rig.push(QUEUE, &ids(2)).await;
    eventually("both are started", async || tally.started() == 2).await;
    sleep(timing.visibility).await;
    // The entries are idle for long enough now, and the consumer looks for such entries.
    let attempts = rig.calls("xpending").await;
    eventually("two attempts to reclaim", async || rig.calls("xpending").await >= attempts + 2).await;
    assert_eq!(tally.started(), 2);
    gate.add_permits(2);
    until_handled(&tally, 2).await;
    consumer.stop().await;
}
