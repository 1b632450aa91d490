//! Redis loses its data, crashes, stalls, and contains invalid entries.

use std::sync::Arc;
use std::time::Duration;

use queue::{Pool, Queue, Timing, Wake};
use testkit::random::{Random, seed};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use crate::rig::{Rig, TIMEOUT, Tally, eventually, gated_pool, ids, metrics, recording_pool, wake};

const QUEUE: Queue = Queue::new("faults");

#[tokio::test(flavor = "multi_thread")]
async fn entries_pushed_again_after_flushall_are_handled() {
    let rig = Rig::start().await;
    let tally = Tally::default();
    let consumer = rig.consume(recording_pool(QUEUE, 8, Duration::from_millis(2), &tally));
    let mut random = Random::new(seed());
    let all = ids(3_000);
    let flushes = async {
        for _ in 0..8 {
            sleep(Duration::from_millis(random.below(400))).await;
            rig.flush().await;
        }
    };
    tokio::join!(rig.push_until_handled(QUEUE, &all, &tally), flushes);
    // Again, after the last FLUSHALL.
    let later = ids(3_010).split_off(3_000);
    rig.push_until_handled(QUEUE, &later, &tally).await;
    assert!(consumer.is_running());
    consumer.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_consumer_survives_flushall() {
    let rig = Rig::start().await;
    let tally = Tally::default();
    let consumer = rig.consume(recording_pool(QUEUE, 8, Duration::ZERO, &tally));
    rig.push_until_handled(QUEUE, &ids(1), &tally).await;
    rig.flush().await;
    // Pushed once: it must be read although the group did not exist at that time.
    rig.push(QUEUE, &ids(2)).await;
    eventually("handled after a FLUSHALL", async || tally.count(ids(2)[1]) == 1).await;
    consumer.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn consumers_survive_a_killed_redis() {
    let mut rig = Rig::start().await;
    let tally = Tally::default();
    let consumer = rig.consume(recording_pool(QUEUE, 8, Duration::from_millis(2), &tally));
    let mut random = Random::new(seed());
    for round in 1..=3 {
        let all = ids(round * 500);
        let _ = timeout(Duration::from_millis(random.below(600)), rig.push_until_handled(QUEUE, &all, &tally)).await;
        rig.redis.kill9().unwrap();
        sleep(Duration::from_millis(random.below(1_500))).await;
        rig.redis.restart().await.unwrap();
        rig.push_until_handled(QUEUE, &all, &tally).await;
    }
    assert!(consumer.is_running());
    consumer.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn consumers_survive_a_stall_of_700_ms() {
    let mut rig = Rig::start().await;
    let tally = Tally::default();
    let consumer = rig.consume(recording_pool(QUEUE, 8, Duration::from_millis(2), &tally));
    let all = ids(2_000);
    for round in 1..=3 {
        let (old, new) = all.split_at((round - 1) * 500);
        rig.push_until_handled(QUEUE, old, &tally).await;
        rig.push(QUEUE, &new[..500]).await;
        rig.redis.pause().unwrap();
        sleep(Duration::from_millis(700)).await;
        rig.redis.resume().unwrap();
    }
    rig.push_until_handled(QUEUE, &all, &tally).await;
    assert!(consumer.is_running());
    consumer.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stall_of_6_s_delivers_nothing_twice() {
    const STALL: Duration = Duration::from_secs(6);
    let production = Timing::default();
    assert!(production.renew_every + STALL < production.visibility);
    let mut rig = Rig::start().await;
    let tally = Tally::default();
    // Twice as long, because a slow machine stalls too.
    let timing = Timing { visibility: 2 * production.visibility, ..production };
    let gate = Arc::new(Semaphore::new(0));
    let consumers = [(); 2].map(|()| rig.consume(Pool { timing, ..gated_pool(QUEUE, 8, &gate, &tally) }));
    rig.push(QUEUE, &ids(16)).await;
    eventually("all are started", async || tally.started() == 16).await;
    rig.redis.pause().unwrap();
    let pushed = timeout(TIMEOUT, rig.publisher.push(QUEUE, &[wake(ids(17)[16])])).await;
    assert!(pushed.expect("a push never hangs").is_err());
    sleep(STALL).await;
    gate.add_permits(16);
    rig.redis.resume().unwrap();
    eventually("all are handled", async || tally.distinct() >= 16).await;
    eventually("all are acknowledged", async || {
        let depth = rig.depth(QUEUE).await;
        depth.waiting + depth.pending == 0
    })
    .await;
    assert_eq!(ids(16).iter().map(|id| tally.count(*id)).max(), Some(1));
    for consumer in consumers {
        consumer.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_entries_go_to_the_dead_stream() {
    const QUEUE: Queue = Queue::new("garbage");
    let metrics = metrics();
    let rig = Rig::start().await;
    let mut raw = rig.raw().await;
    let garbage: [&[&[u8]]; 4] =
        [&[b"id", b"not a uuid"], &[b"x", b"y"], &[b"\xff\x00", b"\xfe"], &[b"id", &[b'a'; 100_000]]];
    let tally = Tally::default();
    let consumer = rig.consume(recording_pool(QUEUE, 4, Duration::ZERO, &tally));
    for (fields, id) in garbage.iter().zip(ids(4)) {
        redis::cmd("XADD").arg(QUEUE.stream()).arg("*").arg(fields).exec_async(&mut raw).await.unwrap();
        rig.push(QUEUE, &[id]).await;
    }
    eventually("the valid entries are handled", async || tally.distinct() == 4).await;
    eventually("nothing is left", async || {
        let depth = rig.depth(QUEUE).await;
        depth.waiting + depth.pending == 0
    })
    .await;
    let dead: Vec<(String, Vec<Vec<u8>>)> =
        redis::cmd("XRANGE").arg(QUEUE.dead_stream()).arg("-").arg("+").query_async(&mut raw).await.unwrap();
    assert_eq!(dead.len(), 4);
    assert_eq!(dead[2].1[2..], [b"\xff\x00".to_vec(), b"\xfe".to_vec()], "unchanged");
    consumer.stop().await;
    let counted = metrics.render();
    for line in [
        r#"queue_dead_total{queue="garbage"} 4"#,
        r#"queue_fetched_total{queue="garbage"} 8"#,
        r#"queue_reclaimed_total{queue="garbage"} 0"#,
        r#"queue_reconnects_total{queue="garbage"} 0"#,
        r#"queue_in_flight{queue="garbage"} 0"#,
        r#"queue_wait_seconds_count{queue="garbage"} 8"#,
    ] {
        assert!(counted.contains(line), "{line} is not in\n{counted}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn entries_delivered_many_times_are_delivered_again_and_counted() {
    const QUEUE: Queue = Queue::new("redelivery_limit_exceeded");
    let metrics = metrics();
    let rig = Rig::start().await;
    rig.push(QUEUE, &ids(2)).await;
    let stream = QUEUE.stream();
    let mut raw = rig.raw().await;
    let mut pipeline = redis::pipe();
    pipeline.cmd("XGROUP").arg(&["CREATE", &stream, "workers", "0"]);
    pipeline.cmd("XREADGROUP").arg(&["GROUP", "workers", "dead", "STREAMS", &stream, ">"]);
    pipeline.exec_async(&mut raw).await.unwrap();
    let entries: Vec<(String, Vec<String>)> =
        redis::cmd("XRANGE").arg(&[&stream, "-", "+"]).query_async(&mut raw).await.unwrap();
    // As if one of them had crashed four processes, and the other one process, long ago.
    for ((entry, _), deliveries) in entries.iter().zip(["4", "1"]) {
        let claim = ["workers", "dead", "0", entry, "IDLE", "3600000", "RETRYCOUNT", deliveries, "JUSTID"];
        redis::cmd("XCLAIM").arg(&stream).arg(&claim).exec_async(&mut raw).await.unwrap();
    }
    let tally = Tally::default();
    let consumer = rig.consume(recording_pool(QUEUE, 4, Duration::ZERO, &tally));
    eventually("both are handled", async || tally.distinct() == 2).await;
    consumer.stop().await;
    let counted = metrics.render();
    for line in [
        r#"queue_reclaimed_total{queue="redelivery_limit_exceeded"} 2"#,
        r#"queue_redelivery_limit_exceeded_total{queue="redelivery_limit_exceeded"} 1"#,
    ] {
        assert!(counted.contains(line), "{line} is not in\n{counted}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn consumers_can_start_before_redis() {
    let mut rig = Rig::start().await;
    rig.redis.kill9().unwrap();
    let tally = Tally::default();
    let consumer = rig.consume(recording_pool(QUEUE, 4, Duration::ZERO, &tally));
    sleep(Duration::from_millis(500)).await;
    rig.redis.restart().await.unwrap();
    rig.push_until_handled(QUEUE, &ids(10), &tally).await;
    consumer.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn consumers_survive_a_key_of_the_wrong_type() {
    let rig = Rig::start().await;
    let mut raw = rig.raw().await;
    redis::cmd("SET").arg(QUEUE.stream()).arg("not a stream").exec_async(&mut raw).await.unwrap();
    let tally = Tally::default();
    let consumer = rig.consume(recording_pool(QUEUE, 4, Duration::ZERO, &tally));
    sleep(Duration::from_millis(500)).await;
    assert!(consumer.is_running());
    redis::cmd("DEL").arg(QUEUE.stream()).exec_async(&mut raw).await.unwrap();
    rig.push_until_handled(QUEUE, &ids(10), &tally).await;
    consumer.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn panicking_handlers_do_not_affect_others() {
    let rig = Rig::start().await;
    let tally = Tally::default();
    let recorded = tally.clone();
    let handler = move |wake: Wake| {
        // Panics both before the future exists and inside it.
        assert!(wake.id.as_u128() % 10 != 3, "an intended panic");
        let recorded = recorded.clone();
        async move {
            assert!(wake.id.as_u128() % 10 != 7, "an intended panic");
            recorded.record(wake.id);
        }
    };
    let consumer = rig.consume(Pool { timing: crate::rig::FAST, ..Pool::new(QUEUE, 2, handler) });
    rig.push(QUEUE, &ids(100)).await;
    eventually("the others are handled", async || tally.distinct() == 80).await;
    eventually("the panicked are acknowledged", async || {
        let depth = rig.depth(QUEUE).await;
        depth.waiting + depth.pending == 0
    })
    .await;
    assert!(consumer.is_running());
    assert_eq!(consumer.stop().await.unfinished, 0);
}
