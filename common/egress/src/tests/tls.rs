//! Receivers with TLS: which certificates are accepted.
//!
//! authority.pem signed one certificate, for receiver.test. Its private key was discarded.

use tokio::io::AsyncReadExt;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::receiver::{OK, Receiver};
use super::*;
use crate::FailureKind;

pub(super) fn authority() -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(include_bytes!("authority.pem")).unwrap()
}

pub(super) fn acceptor() -> TlsAcceptor {
    let certificate = CertificateDer::from_pem_slice(include_bytes!("receiver.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_slice(include_bytes!("receiver.key.pem")).unwrap();
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    TlsAcceptor::from(Arc::new(config))
}

/// A receiver with the certificate. It records only requests after a successful handshake.
async fn receiver() -> Receiver {
    let acceptor = acceptor();
    Receiver::start(move |peer| {
        let acceptor = acceptor.clone();
        async move {
            let Ok(mut peer) = peer.under(async |stream| acceptor.accept(stream).await).await else { return };
            while peer.read().await && peer.write(OK).await {}
        }
    })
    .await
}

fn trusting_egress() -> Egress {
    Egress::with(LONG, Clock::system(), Arc::new(Names::resolving_to(&["127.0.0.1"])), vec![authority()])
}

async fn post_to(egress: &Egress, host: &str, port: u16) -> Result<TruncatedResponse, Failure> {
    let target = target(&format!("https://{host}:{port}/hooks"), LOCAL);
    egress.post(&target, HeaderMap::new(), Bytes::from_static(b"secret")).await
}

#[tokio::test]
async fn a_valid_certificate_is_accepted_and_the_connection_reused() {
    let receiver = receiver().await;
    let egress = trusting_egress();
    for host in ["receiver.test", "receiver.test.", "RECEIVER.test"] {
        let response = post_to(&egress, host, receiver.port).await.unwrap();
        assert_eq!((response.status, response.body.as_slice()), (200, b"ok".as_slice()));
    }
    assert_eq!((receiver.requests().len(), receiver.connections()), (3, 1));
    assert!(receiver.requests().iter().all(|request| request.body == b"secret"));
}

#[tokio::test]
async fn other_certificates_are_refused() {
    let receiver = receiver().await;
    for (egress, host, why) in [
        (local_egress(LONG), "receiver.test", "UnknownIssuer"),
        (trusting_egress(), "other.test", "not valid for name"),
        (trusting_egress(), "127.0.0.1", "not valid for name"),
    ] {
        let failure = post_to(&egress, host, receiver.port).await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::Tls, "{host}");
        assert!(failure.message.contains(why), "{host}: {}", failure.message);
    }
    receiver.ended(3).await;
    assert!(receiver.requests().is_empty());
}

#[tokio::test]
async fn a_receiver_without_tls_fails_the_handshake() {
    let plain = Receiver::start(|mut peer| async move {
        peer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        peer.closed().await;
    })
    .await;
    let closing = Receiver::start(|_| std::future::ready(())).await;
    for receiver in [plain, closing] {
        let failure = post_to(&trusting_egress(), "receiver.test", receiver.port).await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::Tls, "{}", failure.message);
    }
}

#[tokio::test]
async fn an_endless_handshake_times_out_and_the_connection_is_closed() {
    let receiver = Receiver::start(|mut peer| async move {
        peer.stream.read_u8().await.unwrap();
        pass(LONG).await;
        peer.closed().await;
    })
    .await;
    let failure = post_to(&local_egress(LONG), "receiver.test", receiver.port).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Timeout);
    receiver.ended(1).await;
}
