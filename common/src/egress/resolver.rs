//! From a name to the addresses that are really connected to. There is no second look-up between judging and connecting, so
//! a name server that answers differently the next time gains nothing by it.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use hyper_util::client::legacy::connect::dns::Name;
use tower::Service;

use super::addresses::Reach;
use super::failure::Fault;

/// Addresses that are tried at most: whoever answers with hundreds does not have us knock at hundreds of doors.
const TRIED: usize = 8;

/// Looks names up. It need not judge what it finds.
pub trait Resolver: Send + Sync + 'static {
    /// The addresses of a host, in the order in which to try them. An error means that there are none, or none now.
    fn resolve(&self, host: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>>;
}

/// The operating system's own look-up, with its files, servers and time-outs. It runs on the runtime's threads for blocking
/// work: one that is given up on holds its thread until the system gives up too.
#[derive(Clone, Copy, Debug)]
pub struct SystemResolver;

impl Resolver for SystemResolver {
    fn resolve(&self, host: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        async move { Ok(tokio::net::lookup_host((host, 0)).await?.map(|found| found.ip()).collect()) }.boxed()
    }
}

/// A resolver with the judgement behind it, as the connector wants it.
#[derive(Clone)]
pub(super) struct Judged {
    resolver: Arc<dyn Resolver>,
    reach: Reach,
}

impl Judged {
    pub(super) fn new(resolver: Arc<dyn Resolver>, reach: Reach) -> Self {
        Self { resolver, reach }
    }

    /// Those addresses of a host that may be connected to. The others are left out: a name may have a private address for
    /// its owner's network beside the public one.
    async fn addresses(self, host: String) -> Result<std::vec::IntoIter<SocketAddr>, Fault> {
        let found = self.resolver.resolve(host).await.unwrap_or_default();
        if found.is_empty() {
            return Err(Fault::unknown_name());
        }
        let open = found.into_iter().filter(|address| self.reach.refusal(*address).is_none());
        // The connector puts the URL's port in.
        let open: Vec<_> = open.take(TRIED).map(|address| SocketAddr::new(address, 0)).collect();
        if open.is_empty() { Err(Fault::refused()) } else { Ok(open.into_iter()) }
    }
}

impl Service<Name> for Judged {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = Fault;
    type Future = BoxFuture<'static, Result<Self::Response, Fault>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Fault>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        self.clone().addresses(name.as_str().to_owned()).boxed()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::Mutex;

    use super::*;
    use crate::egress::FailureKind;

    /// Gives its answers one after the other, whatever it is asked.
    struct Scripted(Mutex<VecDeque<Vec<IpAddr>>>);

    impl Resolver for Scripted {
        fn resolve(&self, _: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
            let answer = self.0.lock().unwrap().pop_front().ok_or_else(|| io::Error::other("asked too often"));
            std::future::ready(answer).boxed()
        }
    }

    fn scripted(answers: &[&[&str]], allow_loopback: bool) -> Judged {
        let answers = answers.iter().map(|answer| answer.iter().map(|text| text.parse().unwrap()).collect()).collect();
        let reach = if allow_loopback { Reach::Loopback } else { Reach::Public };
        Judged::new(Arc::new(Scripted(Mutex::new(answers))), reach)
    }

    async fn ask(judged: &Judged) -> Result<Vec<String>, FailureKind> {
        let found = judged.clone().addresses("hooks.example".to_owned()).await;
        found.map(|found| found.map(|address| address.ip().to_string()).collect()).map_err(|fault| fault.kind)
    }

    #[tokio::test]
    async fn refused_addresses_are_left_out_and_the_order_is_kept() {
        let answer: &[&str] = &["10.0.0.1", "2606:4700::1111", "127.0.0.1", "::1", "1.1.1.1", "169.254.169.254"];
        assert_eq!(ask(&scripted(&[answer], false)).await.unwrap(), ["2606:4700::1111", "1.1.1.1"]);
        let with_loopback = ["2606:4700::1111", "127.0.0.1", "::1", "1.1.1.1"];
        assert_eq!(ask(&scripted(&[answer], true)).await.unwrap(), with_loopback);
    }

    #[tokio::test]
    async fn a_name_that_turns_inwards_is_refused_from_then_on() {
        let rebinding = scripted(&[&["1.1.1.1"], &["127.0.0.1"], &["::ffff:10.0.0.1", "0.0.0.0"]], false);
        assert_eq!(ask(&rebinding).await.unwrap(), ["1.1.1.1"]);
        assert_eq!(ask(&rebinding).await, Err(FailureKind::AddressRefused));
        assert_eq!(ask(&rebinding).await, Err(FailureKind::AddressRefused));
    }

    #[tokio::test]
    async fn the_operator_may_name_any_host() {
        let inside: &[&str] = &["10.0.0.1", "127.0.0.1", "1.1.1.1"];
        let found = Mutex::new(VecDeque::from([inside.iter().map(|text| text.parse().unwrap()).collect()]));
        let judged = Judged::new(Arc::new(Scripted(found)), Reach::Anywhere);
        assert_eq!(ask(&judged).await.unwrap(), inside);
    }

    #[tokio::test]
    async fn a_name_without_addresses_is_no_refusal() {
        assert_eq!(ask(&scripted(&[&[]], false)).await, Err(FailureKind::Dns));
        assert_eq!(ask(&scripted(&[], false)).await, Err(FailureKind::Dns));
    }

    #[tokio::test]
    async fn what_is_said_does_not_tell_a_name_inside_from_none() {
        let said = async |found: &[&[&str]]| {
            let fault = scripted(found, false).addresses("redis".to_owned()).await.unwrap_err();
            (fault.kind, fault.message)
        };
        let (inside, nowhere) = (said(&[&["10.0.0.1"]]).await, said(&[&[]]).await);
        assert_ne!(inside.0, nowhere.0, "whoever watches us is told");
        assert_eq!(inside.1, nowhere.1, "and nobody else");
    }

    #[tokio::test]
    async fn few_of_many_addresses_are_tried() {
        let many = vec!["1.1.1.1"; 500];
        assert_eq!(ask(&scripted(&[&many], false)).await.unwrap().len(), TRIED);
    }

    #[tokio::test]
    async fn the_system_knows_this_machine() {
        let found = SystemResolver.resolve("localhost".to_owned()).await.unwrap();
        assert!(!found.is_empty() && found.iter().all(IpAddr::is_loopback), "{found:?}");
    }
}
