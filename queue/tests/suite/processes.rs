//! Consumers in separate processes that are killed or paused.

use std::env;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use queue::{Pool, Queue, Wake, run};
use tokio::time::sleep;
use uuid::Uuid;

use crate::rig::{FAST, Rig, Tally, eventually, ids, recording_pool, wakes};

const QUEUE: Queue = Queue::new("processes");
/// The environment variable with the Redis URL for a child process.
const ADDRESS: &str = "QUEUE_TEST_REDIS";
/// How long a child's handler takes: longer than the visibility timeout.
const HANDLER_DURATION: Duration = Duration::from_secs(4);

/// Not a test, but the program of the child processes. Its handler records in Redis lists what it has started and
/// finished.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "the other tests run it as a child process"]
async fn child() {
    let Ok(address) = env::var(ADDRESS) else { return };
    let lists = redis::Client::open(address.as_str()).unwrap().get_multiplexed_async_connection().await.unwrap();
    let handler = move |wake: Wake| {
        let mut lists = lists.clone();
        async move {
            for (list, pause) in [("started", HANDLER_DURATION), ("finished", Duration::ZERO)] {
                let _ = redis::cmd("RPUSH").arg(list).arg(wake.id.to_string()).exec_async(&mut lists).await;
                sleep(pause).await;
            }
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
    rig.publisher.push(QUEUE, &wakes(&ids(5))).await.unwrap();
    eventually("the child has started all", async || list_len(&rig, "started").await == 5).await;
    process.signal("KILL");
    let tally = Tally::default();
    let consumer = rig.consume(recording_pool(QUEUE, 5, Duration::ZERO, &tally));
    eventually("another consumer handles them", async || tally.distinct() == 5).await;
    consumer.stop().await;
    assert_eq!(tally.max(), 1);
    assert_eq!(rig.publisher.depth(QUEUE).await.unwrap().pending, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_paused_past_the_visibility_timeout_continues() {
    let rig = Rig::start().await;
    let process = Process::start(&rig);
    rig.publisher.push(QUEUE, &wakes(&ids(5))).await.unwrap();
    eventually("the child has started all", async || list_len(&rig, "started").await == 5).await;
    process.signal("STOP");
    let (started, finished) = (Tally::default(), Tally::default());
    let (recorded_started, recorded_finished) = (started.clone(), finished.clone());
    let handler = move |wake: Wake| {
        let (started, finished) = (recorded_started.clone(), recorded_finished.clone());
        async move {
            started.record(wake.id);
            sleep(HANDLER_DURATION).await;
            finished.record(wake.id);
        }
    };
    let consumer = rig.consume(Pool { timing: FAST, ..Pool::new(QUEUE, 5, handler) });
    eventually("another consumer has reclaimed them", async || started.distinct() == 5).await;
    // Both have the entries now, and both finish.
    process.signal("CONT");
    eventually("the child finishes", async || list_len(&rig, "finished").await == 5).await;
    eventually("the other consumer finishes", async || finished.distinct() == 5).await;
    assert_eq!(list_len(&rig, "started").await, 5, "the child does not get its own entries again");
    assert_eq!(finished.max(), 1);
    // Both continue.
    let later: Vec<Uuid> = ids(25).split_off(5);
    rig.publisher.push(QUEUE, &wakes(&later)).await.unwrap();
    eventually("all later entries are handled", async || list_len(&rig, "finished").await + finished.distinct() == 30)
        .await;
    eventually("nothing is left", async || rig.publisher.depth(QUEUE).await.unwrap().pending == 0).await;
    drop(process);
    consumer.stop().await;
}
