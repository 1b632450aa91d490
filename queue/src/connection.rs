//! The address of Redis, its TLS trust, and the kinds of connection to it.

use std::io;
use std::time::Duration;

use redis::aio::{ConnectionManagerConfig, MultiplexedConnection, PubSub};
use redis::io::tcp::TcpSettings;
use redis::{AsyncConnectionConfig, Client, IntoConnectionInfo, RedisResult, TlsCertificates};
use tokio::time::timeout;
use tokio_rustls::rustls::crypto::ring;

use crate::shared::Connection;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Longer than the stalls of a Redis that forks or swaps.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);
/// `TCP_USER_TIMEOUT`: unacknowledged data breaks the connection after this time. By default the kernel retransmits for
/// about a quarter of an hour.
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED_TIMEOUT: Duration = Duration::from_secs(10);

/// The URL of Redis is invalid.
#[derive(Debug, thiserror::Error)]
#[error("the URL of Redis is not valid")]
pub struct InvalidUrl(#[source] redis::RedisError);

/// Opens connections to Redis; holds none itself.
#[derive(Clone, Debug)]
pub struct Redis {
    client: Client,
}

impl Redis {
    /// `redis://…`, or `rediss://…` for TLS with the public certificate authorities.
    ///
    /// # Errors
    ///
    /// If the URL is invalid.
    pub fn new(url: &str) -> Result<Self, InvalidUrl> {
        install_crypto_provider();
        let address = url.into_connection_info().map_err(InvalidUrl)?;
        let client = Client::open(address.set_tcp_settings(tcp_settings())).map_err(InvalidUrl)?;
        Ok(Self { client })
    }

    /// `rediss://…` with only these root certificates, in PEM.
    ///
    /// # Errors
    ///
    /// If the URL is invalid or not `rediss`, or `pem` contains no certificate.
    pub fn with_root_certificates(url: &str, pem: &str) -> Result<Self, InvalidUrl> {
        install_crypto_provider();
        let address = url.into_connection_info().map_err(InvalidUrl)?.set_tcp_settings(tcp_settings());
        if !pem.contains("-----BEGIN CERTIFICATE-----") {
            return Err(InvalidUrl((redis::ErrorKind::InvalidClientConfig, "no certificates").into()));
        }
        let certificates = TlsCertificates { client_tls: None, root_cert: Some(pem.as_bytes().to_vec()) };
        Ok(Self { client: Client::build_with_tls(address, certificates).map_err(InvalidUrl)? })
    }

    /// A connection whose commands fail after `limit`, shared by all tasks of a process. It connects at the first use
    /// and reconnects after each failure. Must be called inside a Tokio runtime.
    pub fn connection_with_timeout(&self, limit: Duration) -> Connection {
        self.managed(limit, limit)
    }

    /// A connection for commands that do not block, shared by all tasks of a process. It connects at the first use,
    /// reconnects automatically, and fails fast while Redis is unavailable. Must be called inside a Tokio runtime.
    pub(crate) fn shared(&self) -> Connection {
        self.managed(CONNECT_TIMEOUT, RESPONSE_TIMEOUT)
    }

    fn managed(&self, connect: Duration, respond: Duration) -> Connection {
        let config = ConnectionManagerConfig::new()
            .set_connection_timeout(Some(connect))
            .set_response_timeout(Some(respond))
            // Every command that finds the connection broken makes one attempt. The caller decides about delays between
            // attempts: a request of the API must not sleep, an acknowledgement may.
            .set_number_of_retries(0);
        Connection::lazy(self.client.clone(), config)
    }

    /// A connection for reads that block up to `block`. It has a single owner; dropping it cancels the read.
    pub(crate) async fn blocking(&self, block: Duration) -> RedisResult<MultiplexedConnection> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_TIMEOUT))
            .set_response_timeout(Some(block + Duration::from_secs(4)));
        self.client.get_multiplexed_async_connection_with_config(&config).await
    }

    /// Returns once the subscription to `channel` is confirmed.
    pub(crate) async fn subscribed(&self, channel: &str) -> RedisResult<PubSub> {
        let subscribe = async {
            let mut pubsub = self.client.get_async_pubsub().await?;
            pubsub.subscribe(channel).await?;
            Ok(pubsub)
        };
        within(CONNECT_TIMEOUT, subscribe).await
    }
}

/// Fails `command` after `limit`.
pub(crate) async fn within<T>(limit: Duration, command: impl Future<Output = RedisResult<T>>) -> RedisResult<T> {
    timeout(limit, command).await.map_err(io::Error::from)?
}

/// An error means that a provider is already installed; the whole process uses this one.
fn install_crypto_provider() {
    let _ = ring::default_provider().install_default();
}

fn tcp_settings() -> TcpSettings {
    // A wake-up is one small packet, so delaying it (Nagle's algorithm) gains nothing.
    let settings = TcpSettings::default().set_nodelay(true);
    #[cfg(target_os = "linux")]
    let settings = settings.set_user_timeout(UNACKNOWLEDGED_TIMEOUT);
    settings
}
