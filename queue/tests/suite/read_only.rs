//! A Redis that responds but rejects writes, and a host name that resolves to another Redis after a failover.

use std::time::Duration;

use queue::{PushError, Queue};

use crate::host_name::HostName;
use crate::rig::{Consumer, Rig, Tally, eventually, ids, recording_pool, wakes};

const QUEUE: Queue = Queue::new("refusing");

/// Makes it the replica of a server that does not exist.
const BECOME_A_REPLICA: &str = "REPLICAOF 127.0.0.1 1";

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_rejects_writes_counts_as_unavailable() {
    let rig = Rig::start().await;
    rig.publisher.ping().await.unwrap();
    for (reject, accept) in [
        (BECOME_A_REPLICA, "REPLICAOF NO ONE"),
        ("CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0"),
        ("ACL SETUSER default -xadd", "ACL SETUSER default +xadd"),
    ] {
        rig.redis.run_command(reject).await.unwrap();
        assert!(matches!(rig.publisher.push(QUEUE, &wakes(&ids(1))).await, Err(PushError::Redis(_))), "{reject}");
        assert!(matches!(rig.publisher.ping().await, Err(PushError::Redis(_))), "{reject}");
        rig.publisher.time().await.expect("it responds");
        rig.redis.run_command(accept).await.unwrap();
        rig.publisher.ping().await.expect(accept);
    }
    let probes: u64 = redis::cmd("XLEN").arg("queue:{tried}").query_async(&mut rig.raw().await).await.unwrap();
    assert_eq!(probes, 1, "pings leave one entry");
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_follow_the_host_name_to_another_redis() {
    let (old, new) = (Rig::start().await, Rig::start().await);
    // Both use the same password.
    let url = old.redis.url();
    let (_, password) = url.split_once("://:").unwrap();
    let (password, _) = password.split_once('@').unwrap();
    let command = format!("CONFIG SET requirepass {password}");
    new.redis.run_command(&command).await.unwrap();
    let name = HostName::of(old.redis.port()).await;
    let url = name.url(&old.redis);
    let publisher = queue::Publisher::connect(&queue::Redis::new(&url).unwrap());
    let tally = Tally::default();
    let consumer = Consumer::start(url, recording_pool(QUEUE, 4, Duration::from_millis(2), &tally));
    publisher.push(QUEUE, &wakes(&ids(3))).await.unwrap();
    let all_acknowledged = async || {
        let depth = publisher.depth(QUEUE).await.unwrap();
        depth.waiting + depth.pending == 0
    };
    eventually("all are handled", async || tally.distinct() == 3).await;
    eventually("all are acknowledged at the old one", all_acknowledged).await;

    name.target.send_replace(new.redis.port());
    old.redis.run_command(BECOME_A_REPLICA).await.unwrap();
    publisher.push(QUEUE, &wakes(&ids(6)[3..])).await.expect("the first push finds the new one");
    eventually("all are handled", async || tally.distinct() == 6).await;
    eventually("all are acknowledged at the new one", all_acknowledged).await;
    assert_eq!(tally.max(), 1);
    assert_eq!(consumer.stop().await.unfinished, 0);
}
