//! Where Redis is, whom it is trusted by, and the kinds of connection to it.

use std::io;
use std::time::Duration;

use redis::aio::{ConnectionManagerConfig, MultiplexedConnection, PubSub};
use redis::io::tcp::TcpSettings;
use redis::{AsyncConnectionConfig, Client, IntoConnectionInfo, RedisResult, TlsCertificates};
use tokio::time::timeout;
use tokio_rustls::rustls::crypto::ring;

use crate::shared::Connection;

/// A connection that is not there within this is not tried further.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// A command not answered within this has failed. Longer than the stalls of a Redis that forks or swaps.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);
/// What was sent and not acknowledged by the other machine within this breaks the connection; the kernel would wait a
/// quarter of an hour.
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED_TIMEOUT: Duration = Duration::from_secs(10);

/// The address of Redis is not one.
#[derive(Debug, thiserror::Error)]
#[error("the address of Redis is not valid")]
pub struct InvalidUrl(#[source] redis::RedisError);

/// Opens connections; holds none.
#[derive(Clone, Debug)]
pub struct Redis {
    client: Client,
}

impl Redis {
    /// At `redis://…`, or at `rediss://…` by TLS, where an authority that the web trusts vouches for it.
    ///
    /// # Errors
    ///
    /// It is no address.
    pub fn new(url: &str) -> Result<Self, InvalidUrl> {
        choose_cryptography();
        let address = url.into_connection_info().map_err(InvalidUrl)?;
        let client = Client::open(address.set_tcp_settings(tcp_settings())).map_err(InvalidUrl)?;
        Ok(Self { client })
    }

    /// At `rediss://…`, where these certificates vouch for it, and nobody else. They are PEM.
    ///
    /// # Errors
    ///
    /// It is no address of a Redis with TLS, or there is no certificate.
    pub fn vouched_for_by(url: &str, pem: &str) -> Result<Self, InvalidUrl> {
        choose_cryptography();
        let address = url.into_connection_info().map_err(InvalidUrl)?.set_tcp_settings(tcp_settings());
        if !pem.contains("-----BEGIN CERTIFICATE-----") {
            return Err(InvalidUrl((redis::ErrorKind::InvalidClientConfig, "no certificates").into()));
        }
        let certificates = TlsCertificates { client_tls: None, root_cert: Some(pem.as_bytes().to_vec()) };
        Ok(Self { client: Client::build_with_tls(address, certificates).map_err(InvalidUrl)? })
    }

    /// A connection for commands that are answered within `limit` or not at all, shared by all tasks of a process. It connects
    /// when first used, and after each failure anew; must be called inside a Tokio runtime.
    pub fn hasty(&self, limit: Duration) -> Connection {
        self.managed(limit, limit)
    }

    /// For commands that answer at once, shared by all tasks of a process: reconnects by itself, and fails fast while
    /// it cannot. Connects when first used; must be called inside a Tokio runtime.
    pub(crate) fn shared(&self) -> Connection {
        self.managed(CONNECT_TIMEOUT, RESPONSE_TIMEOUT)
    }

    fn managed(&self, connect: Duration, respond: Duration) -> Connection {
        let config = ConnectionManagerConfig::new()
            .set_connection_timeout(Some(connect))
            .set_response_timeout(Some(respond))
            // Every command that finds the connection gone starts one attempt. Waiting between attempts is the caller's
            // business: a request of the API must not sleep, an acknowledgement may.
            .set_number_of_retries(0);
        Connection::lazy(self.client.clone(), config)
    }

    /// For reads that block up to `block`: one owner, and dropping it is how such a read is cancelled.
    pub(crate) async fn blocking(&self, block: Duration) -> RedisResult<MultiplexedConnection> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_TIMEOUT))
            .set_response_timeout(Some(block + Duration::from_secs(4)));
        self.client.get_multiplexed_async_connection_with_config(&config).await
    }

    /// For messages on `channel`: subscribed when this returns.
    pub(crate) async fn subscribed(&self, channel: &str) -> RedisResult<PubSub> {
        let subscribe = async {
            let mut pubsub = self.client.get_async_pubsub().await?;
            pubsub.subscribe(channel).await?;
            Ok(pubsub)
        };
        within(CONNECT_TIMEOUT, subscribe).await
    }
}

/// Gives up on `command` after `limit`.
pub(crate) async fn within<T>(limit: Duration, command: impl Future<Output = RedisResult<T>>) -> RedisResult<T> {
    timeout(limit, command).await.map_err(io::Error::from)?
}

/// One source of cryptography for all: whoever has chosen it before has chosen the same.
fn choose_cryptography() {
    let _ = ring::default_provider().install_default();
}

fn tcp_settings() -> TcpSettings {
    // A wake-up is one small packet, and the next is not yet known: nothing is gained by waiting to fill it.
    let settings = TcpSettings::default().set_nodelay(true);
    #[cfg(target_os = "linux")]
    let settings = settings.set_user_timeout(UNACKNOWLEDGED_TIMEOUT);
    settings
}
