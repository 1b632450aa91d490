//! Many entries, few permits, slow handlers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use queue::{Pool, Queue, Timing, Wake};
use tokio::time::sleep;

use crate::rig::{Dice, QUICK, Rig, Tally, eventually, ids, noting, wakes};

const QUEUE: Queue = Queue::new("limits");

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_thousand_entries_are_all_handled_once() {
    let rig = Rig::start().await;
    let tally = Tally::default();
    let all = ids(100_000);
    for batch in all.chunks(5_000) {
        rig.publisher.push(QUEUE, &wakes(batch)).await.unwrap();
    }
    assert_eq!(rig.publisher.depth(QUEUE).await.unwrap().waiting, 100_000);
    let consumers = [0, 1].map(|_| rig.consume(noting(QUEUE, 64, Duration::ZERO, &tally)));
    eventually("all are handled", async || tally.distinct() == all.len()).await;
    for consumer in consumers {
        assert_eq!(consumer.stop().await.unfinished, 0);
    }
    assert_eq!(tally.most(), 1);
    let depth = rig.publisher.depth(QUEUE).await.unwrap();
    assert_eq!((depth.waiting, depth.pending, depth.oldest_age_ms), (0, 0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrency_reaches_its_limit_and_never_exceeds_it() {
    const LIMIT: usize = 5;
    let rig = Rig::start().await;
    let tally = Tally::default();
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let dice = Arc::new(std::sync::Mutex::new(Dice::new()));
    let (noted, seen) = (tally.clone(), Arc::clone(&most));
    let handler = move |wake: Wake| {
        let (noted, running, seen) = (noted.clone(), Arc::clone(&running), Arc::clone(&seen));
        let takes = dice.lock().unwrap().millis(20);
        async move {
            seen.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            sleep(takes).await;
            running.fetch_sub(1, Ordering::SeqCst);
            noted.note(wake.id);
        }
    };
    let consumer = rig.consume(Pool { timing: QUICK, ..Pool::new(QUEUE, LIMIT, handler) });
    let all = ids(500);
    for batch in all.chunks(7) {
        rig.publisher.push(QUEUE, &wakes(batch)).await.unwrap();
        let depth = rig.publisher.depth(QUEUE).await.unwrap();
        // What is acknowledged a moment from now still counts as pending.
        assert!(depth.pending <= 2 * LIMIT as u64, "{depth:?}: nothing is read ahead");
    }
    // A lost connection must not lose permits either.
    rig.flush().await;
    rig.push_until_handled(QUEUE, &all, &tally).await;
    consumer.stop().await;
    assert_eq!(most.load(Ordering::SeqCst), LIMIT);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_slower_than_the_visibility_is_called_once() {
    let rig = Rig::start().await;
    let tally = Tally::default();
    let slow = QUICK.visibility * 3;
    let consumers = [0, 1, 2].map(|_| rig.consume(noting(QUEUE, 4, slow, &tally)));
    rig.publisher.push(QUEUE, &wakes(&ids(12))).await.unwrap();
    eventually("all are handled", async || tally.distinct() == 12).await;
    for consumer in consumers {
        consumer.stop().await;
    }
    assert_eq!(tally.most(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_is_not_handed_what_it_still_holds() {
    let rig = Rig::start().await;
    let tally = Tally::default();
    // Renewing has failed for long, as while Redis stands still.
    let timing = Timing { renew_every: Duration::from_secs(3_600), ..QUICK };
    let consumer = rig.consume(Pool { timing, ..noting(QUEUE, 4, QUICK.visibility * 3, &tally) });
    rig.publisher.push(QUEUE, &wakes(&ids(2))).await.unwrap();
    eventually("both are handled", async || tally.distinct() == 2).await;
    consumer.stop().await;
    assert_eq!(tally.most(), 1);
}
