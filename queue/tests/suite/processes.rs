//! Consumers that are processes of their own, killed and paused.

use std::env;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use queue::{Pool, Queue, Wake, run};
use tokio::time::sleep;
use uuid::Uuid;

use crate::rig::{QUICK, Rig, Tally, eventually, ids, noting, wakes};

const QUEUE: Queue = Queue::new("processes");
/// Names the Redis a child is to consume from.
const ADDRESS: &str = "QUEUE_TEST_REDIS";
/// How long a handler of a child takes. Longer than the visibility.
const TAKES: Duration = Duration::from_secs(4);

/// Not a test: the child processes run this one. A handler notes in lists of Redis what it has begun and what it has
/// finished.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "the tests beside it run it as a process"]
async fn child() {
    let Ok(address) = env::var(ADDRESS) else { return };
    let notes = redis::Client::open(address.as_str()).unwrap().get_multiplexed_async_connection().await.unwrap();
    let handler = move |wake: Wake| {
        let mut notes = notes.clone();
        async move {
            for (list, pause) in [("begun", TAKES), ("finished", Duration::ZERO)] {
                let _ = redis::cmd("RPUSH").arg(list).arg(wake.id.to_string()).exec_async(&mut notes).await;
                sleep(pause).await;
            }
        }
    };
    let pool = Pool { timing: QUICK, ..Pool::new(QUEUE, 5, handler) };
    run(&queue::Redis::new(&address).unwrap(), vec![pool], std::future::pending(), Duration::ZERO).await;
}

/// A child that is killed when dropped, paused or not.
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

async fn noted(rig: &Rig, list: &str) -> usize {
    redis::cmd("LLEN").arg(list).query_async(&mut rig.raw().await).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_killed_process_held_comes_to_another() {
    let rig = Rig::start().await;
    let process = Process::start(&rig);
    rig.publisher.push(QUEUE, &wakes(&ids(5))).await.unwrap();
    eventually("the child has begun all", async || noted(&rig, "begun").await == 5).await;
    process.signal("KILL");
    let tally = Tally::default();
    let consumer = rig.consume(noting(QUEUE, 5, Duration::ZERO, &tally));
    eventually("another handles them", async || tally.distinct() == 5).await;
    consumer.stop().await;
    assert_eq!(tally.most(), 1);
    assert_eq!(rig.publisher.depth(QUEUE).await.unwrap().pending, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_paused_past_the_visibility_goes_on_and_so_does_the_queue() {
    let rig = Rig::start().await;
    let process = Process::start(&rig);
    rig.publisher.push(QUEUE, &wakes(&ids(5))).await.unwrap();
    eventually("the child has begun all", async || noted(&rig, "begun").await == 5).await;
    process.signal("STOP");
    let (begun, tally) = (Tally::default(), Tally::default());
    let (noted_begun, noted_tally) = (begun.clone(), tally.clone());
    let handler = move |wake: Wake| {
        let (begun, tally) = (noted_begun.clone(), noted_tally.clone());
        async move {
            begun.note(wake.id);
            sleep(TAKES).await;
            tally.note(wake.id);
        }
    };
    let consumer = rig.consume(Pool { timing: QUICK, ..Pool::new(QUEUE, 5, handler) });
    eventually("another has taken them over", async || begun.distinct() == 5).await;
    // Both have them now, and both finish.
    process.signal("CONT");
    eventually("the child finishes", async || noted(&rig, "finished").await == 5).await;
    eventually("the other finishes", async || tally.distinct() == 5).await;
    assert_eq!(noted(&rig, "begun").await, 5, "the child is not given again what it holds");
    assert_eq!(tally.most(), 1);
    // And both go on.
    let later: Vec<Uuid> = ids(25).split_off(5);
    rig.publisher.push(QUEUE, &wakes(&later)).await.unwrap();
    eventually("all later ones are handled", async || noted(&rig, "finished").await + tally.distinct() == 30).await;
    eventually("nothing is left", async || rig.publisher.depth(QUEUE).await.unwrap().pending == 0).await;
    drop(process);
    consumer.stop().await;
}
