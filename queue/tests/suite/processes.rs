//! Consumers in separate processes that are killed or paused.

use std::env;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use queue::{Pool, Queue, Wake, run};
use tokio::sync::Semaphore;
use tokio::time::sleep;
use uuid::Uuid;

use crate::rig::{FAST, Rig, Tally, eventually, gated_pool, ids, raw, recording_pool};

const QUEUE: Queue = Queue::new("processes");
/// The environment variable with the Redis URL for a child process.
const ADDRESS: &str = "QUEUE_TEST_REDIS";
/// The key in Redis that ends the handlers of a child.
const FINISH: &str = "finish";

/// Not a test, but the program of the child processes. Its handler records in Redis lists what it has started and
/// finished, and waits between the two for a key.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "the other tests run it as a child process"]
async fn child() {
    let Ok(address) = env::var(ADDRESS) else { return };
    let lists = raw(&address).await;
    let handler = move |wake: Wake| {
        let mut lists = lists.clone();
        async move {
            let id = wake.id.to_string();
            redis::cmd("RPUSH").arg("started").arg(&id).exec_async(&mut lists).await.unwrap();
            while !redis::cmd("EXISTS").arg(FINISH).query_async::<bool>(&mut lists).await.unwrap() {
                sleep(Duration::from_millis(20)).await;
            }
            redis::cmd("RPUSH").arg("finished").arg(&id).exec_async(&mut lists).await.unwrap();
        }
    };
    let pool = Pool { timing: FAST, ..Pool::new(QUEUE, 5, handler) };
    run(&queue::Redis::new(&address).unwrap(), vec![pool], std::future::pending(), Duration::ZERO).await;
}

/// A child process that is killed on drop, even while paused.
struct Process(Child);

impl Process {
    fn start(rig: &Rig) -> Self {
        let child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "processes::child", "--ignored", "--nocapture"])
            .env(ADDRESS, rig.redis.url())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Self(child.unwrap())
    }

    fn signal(&self, name: &str) {
        let command = format!("kill -{name} {}", self.0.id());
        assert!(Command::new("sh").args(["-c", &command]).status().unwrap().success());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn list_len(rig: &Rig, list: &str) -> usize {
    redis::cmd("LLEN").arg(list).query_async(&mut rig.raw().await).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn entries_of_a_killed_process_go_to_another() {
    let rig = Rig::start().await;
    let process = Process::start(&rig);
    rig.push(QUEUE, &ids(5)).await;
    eventually("the child has started all", async || list_len(&rig, "started").await == 5).await;
    process.signal("KILL");
    let tally = Tally::default();
    let consumer = rig.consume(Pool { timing: FAST, ..recording_pool(QUEUE, 5, Duration::ZERO, &tally) });
    eventually("another consumer handles them", async || tally.distinct() == 5).await;
    consumer.stop().await;
    assert_eq!(tally.max(), 1);
    assert_eq!(rig.depth(QUEUE).await.pending, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_paused_past_the_visibility_timeout_continues() {
    let rig = Rig::start().await;
    let process = Process::start(&rig);
    rig.push(QUEUE, &ids(5)).await;
    eventually("the child has started all", async || list_len(&rig, "started").await == 5).await;
    process.signal("STOP");
    let (gate, finished) = (Arc::new(Semaphore::new(0)), Tally::default());
    let consumer = rig.consume(Pool { timing: FAST, ..gated_pool(QUEUE, 5, &gate, &finished) });
    eventually("another consumer has reclaimed them", async || finished.started() == 5).await;
    // Both have the entries now, and both finish.
    process.signal("CONT");
    redis::cmd("SET").arg(FINISH).arg("now").exec_async(&mut rig.raw().await).await.unwrap();
    gate.add_permits(5);
    eventually("the child finishes", async || list_len(&rig, "finished").await == 5).await;
    eventually("the other consumer finishes", async || finished.distinct() == 5).await;
    assert_eq!(list_len(&rig, "started").await, 5, "the child does not get its own entries again");
    assert_eq!(finished.max(), 1);
    // Both continue.
    let later: Vec<Uuid> = ids(25).split_off(5);
    rig.push(QUEUE, &later).await;
    eventually("all later entries are handled", async || list_len(&rig, "finished").await + finished.distinct() == 30)
        .await;
    eventually("nothing is left", async || rig.depth(QUEUE).await.pending == 0).await;
    drop(process);
    consumer.stop().await;
}
