//! Names whose servers do not respond.

use std::sync::mpsc;

use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::timeout;

use super::receiver::{OK, Receiver};
use super::*;
use crate::resolver::MAX_LOOKUPS;
use crate::{FailureKind, TrustedClient};

/// More than the runtime has blocking threads.
const NAMES: usize = 600;

/// Each look-up holds a blocking thread, as the system's do, until the test ends them all. Then no name has an address.
struct Unresponsive {
    begun: Arc<AtomicUsize>,
    /// Disconnected by the end.
    end: Arc<Mutex<mpsc::Receiver<()>>>,
}

impl Resolver for Unresponsive {
    fn resolve(&self, _: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        let end = self.end.clone();
        let lookup = spawn_blocking(move || end.lock().unwrap().recv().is_err());
        async move { lookup.await.map(|_| Vec::new()).map_err(io::Error::other) }.boxed()
    }
}

#[tokio::test]
async fn names_whose_servers_do_not_respond_leave_threads_for_operators_hosts() {
    let (end, ended) = mpsc::channel();
    let begun = Arc::new(AtomicUsize::new(0));
    let resolver = Unresponsive { begun: begun.clone(), end: Arc::new(Mutex::new(ended)) };
    let egress = Egress::with(LONG, Clock::system(), Arc::new(resolver), Vec::new());
    let post = |number: usize| {
        let (egress, target) = (egress.clone(), target(&format!("http://hooks-{number}.test:9/"), TEST));
        async move { egress.post(&target, HeaderMap::new(), Bytes::new()).await }
    };
    let mut hanging: JoinSet<_> = (0..NAMES).map(&post).collect();
    eventually("as many look-ups as are allowed have begun", || begun.load(Ordering::SeqCst) >= MAX_LOOKUPS).await;

    let receiver = Receiver::responding(OK).await;
    let trusted = TrustedClient::new(LONG);
    let url = format!("http://localhost:{}/", receiver.port).parse().unwrap();
    assert_eq!(trusted.post_form(url, HeaderMap::new(), "a=1".to_owned()).await.unwrap().status, 200);

    // Requests that were abandoned have not ended their look-ups.
    hanging.shutdown().await;
    assert!(timeout(Duration::from_millis(100), post(NAMES)).await.is_err());
    assert_eq!(begun.load(Ordering::SeqCst), MAX_LOOKUPS);
    drop(end);
    assert_eq!(post(NAMES).await.unwrap_err().kind, FailureKind::Dns);
}
