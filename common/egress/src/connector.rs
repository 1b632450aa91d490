//! Opens connections: resolve and check the host, connect, TLS handshake.

use std::net::IpAddr;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use hyper::Uri;
use hyper::http::uri::Scheme;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::client::Resumption;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tower::Service;

use super::addresses::Reach;
use super::failure::{ExchangeError, FailureKind};
use super::resolver::{FilteringResolver, Resolver};
use super::stream::Stream;

/// Hosts whose TLS sessions are cached for resumption.
const MAX_SESSIONS: usize = 1024;

/// Connects to addresses within one [`Reach`].
#[derive(Clone)]
pub(super) struct Connector {
    tcp: HttpConnector<FilteringResolver>,
    tls: TlsConnector,
    reach: Reach,
    timeout: Duration,
}

impl Connector {
    pub(super) fn new(resolver: Arc<dyn Resolver>, tls: Arc<ClientConfig>, reach: Reach, timeout: Duration) -> Self {
        // Tries the addresses in turn, and both families in parallel if the first is slow (RFC 6555).
        let mut tcp = HttpConnector::new_with_resolver(FilteringResolver::new(resolver, reach));
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        // Divided among the addresses, so that an unresponsive one leaves time for the next.
        tcp.set_connect_timeout(Some(timeout));
        // Without this, hyper would wait forever to write a request to a receiver that reads nothing, even after the
        // timeout or the response.
        #[cfg(target_os = "linux")]
        tcp.set_tcp_user_timeout(Some(timeout));
        Self { tcp, tls: TlsConnector::from(tls), reach, timeout }
    }

    async fn connect(mut self, uri: Uri) -> Result<Stream, ExchangeError> {
        let host = uri.host().unwrap_or_default();
        let host = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host).to_owned();
        // The resolver checks names only, so literal addresses are checked here.
        if host.parse::<IpAddr>().is_ok_and(|address| self.reach.refusal(address).is_some()) {
            return Err(ExchangeError::refused());
        }
        let encrypted = uri.scheme() == Some(&Scheme::HTTPS);
        let tcp = self.tcp.call(uri).await.map_err(|error| ExchangeError::of(&error))?;
        if !encrypted {
            return Ok(Stream::Plain(tcp));
        }
        let name = ServerName::try_from(host)
            .map_err(|_| ExchangeError::new(FailureKind::Tls, "the host name cannot appear in a certificate"))?;
        match self.tls.connect(name, tcp.into_inner()).await {
            Ok(stream) => Ok(Stream::Tls(Box::new(TokioIo::new(stream)))),
            Err(error) => Err(ExchangeError::of_handshake(&error)),
        }
    }
}

impl Service<Uri> for Connector {
    type Response = Stream;
    type Error = ExchangeError;
    type Future = BoxFuture<'static, Result<Stream, ExchangeError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ExchangeError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        // The pool completes an unneeded connection in the background, beyond the request's timeout, so connecting has
        // its own.
        let timeout = self.timeout;
        let connecting = self.clone().connect(uri);
        async move {
            tokio::time::timeout(timeout, connecting).await.unwrap_or_else(|_| Err(ExchangeError::timeout(timeout)))
        }
        .boxed()
    }
}

/// TLS 1.2 or 1.3 with HTTP/1.1, and a certificate from Mozilla's authorities or the given ones.
pub(super) fn tls(authorities: Vec<CertificateDer<'static>>) -> Arc<ClientConfig> {
    let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    roots.add_parsable_certificates(authorities);
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("ring supports TLS 1.2 and 1.3")
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config.resumption = Resumption::in_memory_sessions(MAX_SESSIONS);
    Arc::new(config)
}
