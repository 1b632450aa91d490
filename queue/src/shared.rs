//! A connection for commands that answer at once, shared by all tasks of a process.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redis::aio::{ConnectionLike, ConnectionManager, ConnectionManagerConfig};
use redis::{Client, Cmd, Pipeline, RedisError, RedisFuture, RedisResult, ServerErrorKind, Value};

/// Connects when first used, after each failure anew, and also when the server turns out to be a replica: the name of
/// Redis may lead to another by now, and the manager alone would stay with the one that it has. Cheap to clone.
#[derive(Clone)]
pub struct Connection {
    held: Arc<Held>,
}

struct Held {
    client: Client,
    config: ConnectionManagerConfig,
    /// The connection, and how many there were before it.
    current: Mutex<(u64, ConnectionManager)>,
}

impl Connection {
    /// Must be called inside a Tokio runtime.
    pub(crate) fn lazy(client: Client, config: ConnectionManagerConfig) -> Self {
        let current = Mutex::new((0, manager(&client, &config)));
        Self { held: Arc::new(Held { client, config, current }) }
    }

    fn current(&self) -> (u64, ConnectionManager) {
        self.lock().clone()
    }

    /// Leaves the connection of this number, unless somebody has done so.
    fn leave(&self, number: u64) {
        let mut current = self.lock();
        if current.0 == number {
            *current = (number + 1, manager(&self.held.client, &self.held.config));
        }
    }

    fn lock(&self) -> MutexGuard<'_, (u64, ConnectionManager)> {
        // Nothing under this lock can leave the pair half changed.
        self.held.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn manager(client: &Client, config: &ConnectionManagerConfig) -> ConnectionManager {
    client
        .get_connection_manager_lazy(config.clone())
        .expect("a lazy manager without push messages has nothing that could fail")
}

impl ConnectionLike for Connection {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        Box::pin(async move {
            let (number, mut redis) = self.current();
            let answer = redis.req_packed_command(command).await;
            let by_replica = match &answer {
                Ok(value) => is_by_replica(value),
                Err(error) => is_from_replica(error),
            };
            if by_replica {
                self.leave(number);
            }
            answer
        })
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        Box::pin(async move {
            let (number, mut redis) = self.current();
            let answer: RedisResult<Vec<Value>> = redis.req_packed_commands(pipeline, offset, count).await;
            let by_replica = match &answer {
                Ok(values) => values.iter().any(is_by_replica),
                Err(error) => is_from_replica(error),
            };
            if by_replica {
                self.leave(number);
            }
            answer
        })
    }

    fn get_db(&self) -> i64 {
        self.current().1.get_db()
    }
}

/// A replica takes no writes.
const REPLICA: ServerErrorKind = ServerErrorKind::ReadOnly;

fn is_by_replica(value: &Value) -> bool {
    matches!(value, Value::ServerError(error) if error.kind() == Some(REPLICA))
}

/// Whether a replica has refused this; pipelines and transactions say so of the commands in them.
pub(crate) fn is_from_replica(error: &RedisError) -> bool {
    let errors = error.clone().into_server_errors();
    errors.is_some_and(|errors| errors.iter().any(|(_, error)| error.kind() == Some(REPLICA)))
}
