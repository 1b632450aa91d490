//! A Redis that answers and takes no writes, and one whose name leads to another by now.

use std::sync::Arc;
use std::time::Duration;

use queue::{PushError, Queue};
use testkit::Redis;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::rig::{Consumer, Rig, Tally, eventually, ids, noting, wakes};

const QUEUE: Queue = Queue::new("refusing");

/// It follows a server at which nobody is.
const BECOME_A_REPLICA: &str = "REPLICAOF 127.0.0.1 1";

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_answers_and_takes_nothing_is_not_there() {
    let rig = Rig::start().await;
    rig.publisher.ping().await.unwrap();
    for (refuse, take) in [
        (BECOME_A_REPLICA, "REPLICAOF NO ONE"),
        ("CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0"),
        ("ACL SETUSER default -xadd", "ACL SETUSER default +xadd"),
    ] {
        rig.redis.order(refuse).await.unwrap();
        assert!(matches!(rig.publisher.push(QUEUE, &wakes(&ids(1))).await, Err(PushError::Redis(_))), "{refuse}");
        assert!(matches!(rig.publisher.ping().await, Err(PushError::Redis(_))), "{refuse}");
        rig.publisher.time().await.expect("it answers");
        rig.redis.order(take).await.unwrap();
        rig.publisher.ping().await.expect(take);
    }
    let tried: u64 = redis::cmd("XLEN").arg("queue:{tried}").query_async(&mut rig.raw().await).await.unwrap();
    assert_eq!(tried, 1, "trying leaves no more than this");
}

/// A name that leads to one server and then to another: connections that are there stay where they are.
struct Name {
    leads_to: Arc<watch::Sender<u16>>,
    port: u16,
}

impl Name {
    async fn of(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let name = Self { leads_to: Arc::new(watch::Sender::new(port)), port: listener.local_addr().unwrap().port() };
        let leads_to = Arc::clone(&name.leads_to);
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let port = *leads_to.borrow();
                tokio::spawn(async move {
                    let mut server = TcpStream::connect(("127.0.0.1", port)).await?;
                    copy_bidirectional(&mut client, &mut server).await
                });
            }
        });
        name
    }

    /// The address of this server by the name.
    fn url(&self, server: &Redis) -> String {
        server.url().replace(&format!(":{}/", server.port()), &format!(":{}/", self.port))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn where_the_name_leads_to_another_redis_the_old_one_is_left() {
    let (old, new) = (Rig::start().await, Rig::start().await);
    // The same password at both.
    let url = old.redis.url();
    let (_, password) = url.split_once("://:").unwrap();
    let (password, _) = password.split_once('@').unwrap();
    let order = format!("CONFIG SET requirepass {password}");
    new.redis.order(&order).await.unwrap();
    let name = Name::of(old.redis.port()).await;
    let url = name.url(&old.redis);
    let publisher = queue::Publisher::connect(&queue::Redis::new(&url).unwrap());
    let tally = Tally::default();
    let consumer = Consumer::start(url, noting(QUEUE, 4, Duration::from_millis(2), &tally));
    publisher.push(QUEUE, &wakes(&ids(3))).await.unwrap();
    let all_is_acknowledged = async || {
        let depth = publisher.depth(QUEUE).await.unwrap();
        depth.waiting + depth.pending == 0
    };
    eventually("all are handled", async || tally.distinct() == 3).await;
    eventually("all are acknowledged at the old one", all_is_acknowledged).await;

    name.leads_to.send_replace(new.redis.port());
    old.redis.order(BECOME_A_REPLICA).await.unwrap();
    publisher.push(QUEUE, &wakes(&ids(6)[3..])).await.expect("the first push finds the new one");
    eventually("all are handled", async || tally.distinct() == 6).await;
    eventually("all are acknowledged at the new one", all_is_acknowledged).await;
    assert_eq!(tally.most(), 1);
    assert_eq!(consumer.stop().await.unfinished, 0);
}
