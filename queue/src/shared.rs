//! A connection for commands that do not block, shared by all tasks of a process.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redis::aio::{ConnectionLike, ConnectionManager, ConnectionManagerConfig};
use redis::{Client, Cmd, Pipeline, RedisError, RedisFuture, RedisResult, ServerErrorKind, Value};

/// Connects at the first use, and reconnects after each failure. It also reconnects when the server turns out to be a
/// replica: after a failover the host name resolves to another server, but the manager alone would keep its connection.
/// Cheap to clone.
#[derive(Clone)]
pub struct Connection {
    shared: Arc<Shared>,
}

struct Shared {
    client: Client,
    config: ConnectionManagerConfig,
    /// The connection and its generation.
    current: Mutex<(u64, ConnectionManager)>,
}

impl Connection {
    /// Must be called inside a Tokio runtime.
    pub(crate) fn lazy(client: Client, config: ConnectionManagerConfig) -> Self {
        let current = Mutex::new((0, manager(&client, &config)));
        Self { shared: Arc::new(Shared { client, config, current }) }
    }

    fn current(&self) -> (u64, ConnectionManager) {
        self.lock().clone()
    }

    /// Replaces the connection of this generation, unless another task already has.
    fn replace(&self, generation: u64) {
        let mut current = self.lock();
        if current.0 == generation {
            *current = (generation + 1, manager(&self.shared.client, &self.shared.config));
        }
    }

    fn lock(&self) -> MutexGuard<'_, (u64, ConnectionManager)> {
        // A panic under this lock cannot leave the pair inconsistent.
        self.shared.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn manager(client: &Client, config: &ConnectionManagerConfig) -> ConnectionManager {
    client
        .get_connection_manager_lazy(config.clone())
        .expect("creating a lazy manager without push messages cannot fail")
}

impl ConnectionLike for Connection {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        Box::pin(async move {
            let (generation, mut redis) = self.current();
            let response = redis.req_packed_command(command).await;
            let by_replica = match &response {
                Ok(value) => is_by_replica(value),
                Err(error) => is_from_replica(error),
            };
            if by_replica {
                self.replace(generation);
            }
            response
        })
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        Box::pin(async move {
            let (generation, mut redis) = self.current();
            let response: RedisResult<Vec<Value>> = redis.req_packed_commands(pipeline, offset, count).await;
            let by_replica = match &response {
                Ok(values) => values.iter().any(is_by_replica),
                Err(error) => is_from_replica(error),
            };
            if by_replica {
                self.replace(generation);
            }
            response
        })
    }

    fn get_db(&self) -> i64 {
        self.current().1.get_db()
    }
}

/// Replicas reject writes with this error.
const REPLICA: ServerErrorKind = ServerErrorKind::ReadOnly;

fn is_by_replica(value: &Value) -> bool {
    matches!(value, Value::ServerError(error) if error.kind() == Some(REPLICA))
}

/// Whether a replica rejected the command, or one of the commands of a pipeline or transaction.
pub(crate) fn is_from_replica(error: &RedisError) -> bool {
    let errors = error.clone().into_server_errors();
    errors.is_some_and(|errors| errors.iter().any(|(_, error)| error.kind() == Some(REPLICA)))
}
