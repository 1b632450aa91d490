//! Making a connection: look up and judge, connect, shake hands.

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
use super::failure::{FailureKind, Fault};
use super::resolver::{Judged, Resolver};
use super::stream::Stream;

/// Hosts whose TLS sessions are remembered, so that the next handshake costs them and us less.
const SESSIONS: usize = 1024;

/// Makes connections to the addresses that one policy allows.
#[derive(Clone)]
pub(super) struct Connector {
    tcp: HttpConnector<Judged>,
    tls: TlsConnector,
    reach: Reach,
    timeout: Duration,
}

impl Connector {
    pub(super) fn new(resolver: Arc<dyn Resolver>, tls: Arc<ClientConfig>, reach: Reach, timeout: Duration) -> Self {
        // It tries the addresses in turn, and both families at once when the first is slow (RFC 6555).
        let mut tcp = HttpConnector::new_with_resolver(Judged::new(resolver, reach));
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        // Divided among the addresses, so that one that is silent leaves time for the next.
        tcp.set_connect_timeout(Some(timeout));
        // A receiver that takes nothing in may not keep a connection whose request was given up, or answered unread: hyper
        // would wait without end to have it written.
        #[cfg(target_os = "linux")]
        tcp.set_tcp_user_timeout(Some(timeout));
        Self { tcp, tls: TlsConnector::from(tls), reach, timeout }
    }

    async fn connect(mut self, uri: Uri) -> Result<Stream, Fault> {
        let host = uri.host().unwrap_or_default();
        let host = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host).to_owned();
        // An address in the URL is looked up by nobody, so nobody else judges it.
        if host.parse::<IpAddr>().is_ok_and(|address| self.reach.refusal(address).is_some()) {
            return Err(Fault::refused());
        }
        let encrypted = uri.scheme() == Some(&Scheme::HTTPS);
        let tcp = self.tcp.call(uri).await.map_err(|error| Fault::of(&error))?;
        if !encrypted {
            return Ok(Stream::Plain(tcp));
        }
        let name = ServerName::try_from(host)
            .map_err(|_| Fault::new(FailureKind::Tls, "no certificate can name this host"))?;
        match self.tls.connect(name, tcp.into_inner()).await {
            Ok(stream) => Ok(Stream::Tls(Box::new(TokioIo::new(stream)))),
            Err(error) => Err(Fault::of_handshake(&error)),
        }
    }
}

impl Service<Uri> for Connector {
    type Response = Stream;
    type Error = Fault;
    type Future = BoxFuture<'static, Result<Stream, Fault>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Fault>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        // The pool finishes in the background a connection that the request did not need in the end; it too must end.
        let timeout = self.timeout;
        let connecting = self.clone().connect(uri);
        async move { tokio::time::timeout(timeout, connecting).await.unwrap_or_else(|_| Err(Fault::timeout(timeout))) }
            .boxed()
    }
}

/// What handshakes demand: a certificate from Mozilla's list of authorities or the given ones, TLS 1.2 or 1.3, HTTP/1.1.
pub(super) fn tls(authorities: Vec<CertificateDer<'static>>) -> Arc<ClientConfig> {
    let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    roots.add_parsable_certificates(authorities);
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("ring has what TLS 1.2 and 1.3 need")
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config.resumption = Resumption::in_memory_sessions(SESSIONS);
    Arc::new(config)
}
