//! Resolves a name to the addresses that are connected to. A name is resolved once, and the checked addresses are those
//! used for the connection, so DNS rebinding has no effect.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use hyper_util::client::legacy::connect::dns::Name;
use tokio::sync::Semaphore;
use tower::Service;

use super::addresses::Reach;
use super::failure::ExchangeError;

/// Addresses that are tried. A DNS answer with hundreds of addresses must not cause hundreds of connections.
const MAX_ADDRESSES: usize = 8;
/// Look-ups of names that merchants chose, in progress at the same time: half of the runtime's blocking threads, which the
/// look-ups of operators' hosts need too.
pub(super) const MAX_LOOKUPS: usize = 256;

/// Resolves names without checking the addresses.
pub trait Resolver: Send + Sync + 'static {
    /// The addresses of a host in order of preference. An error means that there are none at present.
    fn resolve(&self, host: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>>;
}

/// The resolver of the operating system. It runs on the runtime's blocking threads: a lookup that was abandoned holds
/// its thread until the system's timeout.
#[derive(Clone, Copy, Debug)]
pub struct SystemResolver;

impl Resolver for SystemResolver {
    fn resolve(&self, host: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        async move { Ok(tokio::net::lookup_host((host, 0)).await?.map(|address| address.ip()).collect()) }.boxed()
    }
}

/// Resolves names that merchants chose, up to [`MAX_LOOKUPS`] at the same time, so that names whose servers do not respond
/// leave threads to other look-ups.
pub(super) struct LimitedResolver {
    resolver: Arc<dyn Resolver>,
    free: Arc<Semaphore>,
}

impl LimitedResolver {
    pub(super) fn new(resolver: Arc<dyn Resolver>) -> Self {
        Self { resolver, free: Arc::new(Semaphore::new(MAX_LOOKUPS)) }
    }
}

impl Resolver for LimitedResolver {
    fn resolve(&self, host: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        let (resolver, free) = (self.resolver.clone(), self.free.clone());
        async move {
            let permit = free.acquire_owned().await.map_err(io::Error::other)?;
            let lookup = async move {
                let addresses = resolver.resolve(host).await;
                drop(permit);
                addresses
            };
            // The permit is held until the look-up ends, because one that was abandoned still holds its thread.
            #[expect(clippy::disallowed_methods, reason = "a look-up whose caller is gone has no effect")]
            let lookup = tokio::spawn(lookup);
            lookup.await.map_err(io::Error::other)?
        }
        .boxed()
    }
}

/// Returns only addresses within [`Reach`].
#[derive(Clone)]
pub(super) struct FilteringResolver {
    resolver: Arc<dyn Resolver>,
    reach: Reach,
}

impl FilteringResolver {
    pub(super) fn new(resolver: Arc<dyn Resolver>, reach: Reach) -> Self {
        Self { resolver, reach }
    }

    /// The allowed addresses of a host. Refused ones are skipped, because a name may have a private address for its
    /// owner's network in addition to the public one.
    async fn addresses(self, host: String) -> Result<std::vec::IntoIter<SocketAddr>, ExchangeError> {
        let addresses = self.resolver.resolve(host).await.unwrap_or_default();
        if addresses.is_empty() {
            return Err(ExchangeError::unknown_name());
        }
        let allowed = addresses.into_iter().filter(|address| self.reach.refusal(*address).is_none());
        // The connector sets the port.
        let allowed: Vec<_> = allowed.take(MAX_ADDRESSES).map(|address| SocketAddr::new(address, 0)).collect();
        if allowed.is_empty() { Err(ExchangeError::refused()) } else { Ok(allowed.into_iter()) }
    }
}

impl Service<Name> for FilteringResolver {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = ExchangeError;
    type Future = BoxFuture<'static, Result<Self::Response, ExchangeError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ExchangeError>> {
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
    use crate::FailureKind;

    /// Returns its answers in order, for any name.
    struct Scripted(Mutex<VecDeque<Vec<IpAddr>>>);

    impl Resolver for Scripted {
        fn resolve(&self, _: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
            let answer = self.0.lock().unwrap().pop_front().ok_or_else(|| io::Error::other("no more answers"));
            std::future::ready(answer).boxed()
        }
    }

    fn scripted(answers: &[&[&str]], allow_loopback: bool) -> FilteringResolver {
        let answers = answers.iter().map(|answer| answer.iter().map(|text| text.parse().unwrap()).collect()).collect();
        let reach = if allow_loopback { Reach::Loopback } else { Reach::Public };
        FilteringResolver::new(Arc::new(Scripted(Mutex::new(answers))), reach)
    }

    async fn resolve(resolver: &FilteringResolver) -> Result<Vec<String>, FailureKind> {
        let addresses = resolver.clone().addresses("hooks.example".to_owned()).await;
        addresses.map(|list| list.map(|address| address.ip().to_string()).collect()).map_err(|error| error.kind)
    }

    #[tokio::test]
    async fn refused_addresses_are_skipped_and_the_order_is_preserved() {
        let answer: &[&str] = &["10.0.0.1", "2606:4700::1111", "127.0.0.1", "::1", "1.1.1.1", "169.254.169.254"];
        assert_eq!(resolve(&scripted(&[answer], false)).await.unwrap(), ["2606:4700::1111", "1.1.1.1"]);
        let with_loopback = ["2606:4700::1111", "127.0.0.1", "::1", "1.1.1.1"];
        assert_eq!(resolve(&scripted(&[answer], true)).await.unwrap(), with_loopback);
    }

    #[tokio::test]
    async fn a_name_rebound_to_a_private_address_is_refused() {
        let rebinding = scripted(&[&["1.1.1.1"], &["127.0.0.1"], &["::ffff:10.0.0.1", "0.0.0.0"]], false);
        assert_eq!(resolve(&rebinding).await.unwrap(), ["1.1.1.1"]);
        assert_eq!(resolve(&rebinding).await, Err(FailureKind::AddressRefused));
        assert_eq!(resolve(&rebinding).await, Err(FailureKind::AddressRefused));
    }

    #[tokio::test]
    async fn operators_may_use_any_host() {
        let inside: &[&str] = &["10.0.0.1", "127.0.0.1", "1.1.1.1"];
        let answers = Mutex::new(VecDeque::from([inside.iter().map(|text| text.parse().unwrap()).collect()]));
        let resolver = FilteringResolver::new(Arc::new(Scripted(answers)), Reach::Anywhere);
        assert_eq!(resolve(&resolver).await.unwrap(), inside);
    }

    #[tokio::test]
    async fn a_name_without_addresses_is_a_dns_failure() {
        assert_eq!(resolve(&scripted(&[&[]], false)).await, Err(FailureKind::Dns));
        assert_eq!(resolve(&scripted(&[], false)).await, Err(FailureKind::Dns));
    }

    #[tokio::test]
    async fn messages_do_not_reveal_internal_host_names() {
        let failure = async |answers: &[&[&str]]| {
            let error = scripted(answers, false).addresses("redis".to_owned()).await.unwrap_err();
            (error.kind, error.message)
        };
        let (internal, unknown) = (failure(&[&["10.0.0.1"]]).await, failure(&[&[]]).await);
        assert_ne!(internal.0, unknown.0, "the metrics distinguish them");
        assert_eq!(internal.1, unknown.1, "the messages do not");
    }

    #[tokio::test]
    async fn the_number_of_addresses_is_limited() {
        let many = vec!["1.1.1.1"; 500];
        assert_eq!(resolve(&scripted(&[&many], false)).await.unwrap().len(), MAX_ADDRESSES);
    }

    #[tokio::test]
    async fn the_system_resolves_localhost() {
        let addresses = SystemResolver.resolve("localhost".to_owned()).await.unwrap();
        assert!(!addresses.is_empty() && addresses.iter().all(IpAddr::is_loopback), "{addresses:?}");
    }
}
