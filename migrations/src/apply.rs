//! Applies migrations while other processes keep running.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use sqlx::{
    AssertSqlSafe, Connection, PgConnection, SqlStr,
    migrate::{MigrateError, Migrator},
};
use tokio::time::{Instant, sleep};

/// How long a migration waits for a lock: other queries of the table queue behind it.
const LOCK_TIMEOUT: &str = "SET lock_timeout = '2s'";
/// Migrations without a transaction, such as `CREATE INDEX CONCURRENTLY`, do not block other queries while they wait.
const NO_LOCK_TIMEOUT: &str = "SET lock_timeout = 0";
/// How long to retry while tables are locked.
const TIMEOUT: Duration = Duration::from_secs(15 * 60);
/// Between attempts, queries that waited for the lock can proceed.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Migrates the database to the newest version. If a lock is not available soon, it gives up its locks and tries again,
/// so that no table is blocked for long; see docs/upgrading.md. Several processes may run this at once: one applies the
/// migrations, and the others find them applied.
///
/// # Errors
/// If the database cannot be reached, a migration fails, an applied migration has changed since, the database has a
/// newer version, or a lock was not available for a quarter of an hour.
pub async fn apply(migrator: &Migrator, database_url: &str) -> Result<()> {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let mut connection = PgConnection::connect(database_url).await.context("cannot connect to the database")?;
        let reason = match try_lock(&mut connection).await? {
            false => "another process is migrating".to_owned(),
            true => match attempt(migrator, &mut connection).await {
                Err(error) if is_lock_conflict(&error) => error.to_string(),
                result => {
                    result.context("cannot migrate the database")?;
                    return connection.close().await.context("cannot close the connection after migrating");
                }
            },
        };
        if Instant::now() > deadline {
            bail!("cannot migrate the database: {reason}");
        }
        eprintln!("migration paused; trying again in a second: {reason}");
        // Closing the connection releases its locks.
        let _ = connection.close().await;
        sleep(RETRY_DELAY).await;
    }
}

/// Tries to become the only migrator. It never waits, because a transaction that waits here would block a
/// `CREATE INDEX CONCURRENTLY` of the migrator that holds the lock.
async fn try_lock(connection: &mut PgConnection) -> Result<bool> {
    sqlx::query_scalar("SELECT pg_try_advisory_lock(hashtextextended('migrate', 0))")
        .fetch_one(connection)
        .await
        .context("cannot acquire the lock for migrations")
}

async fn attempt(migrator: &Migrator, connection: &mut PgConnection) -> Result<(), MigrateError> {
    for migration in migrator.iter().filter(|migration| migration.no_tx) {
        sqlx::query(LOCK_TIMEOUT).execute(&mut *connection).await?;
        migrator.run_to(migration.version - 1, &mut *connection).await?;
        if !is_applied(migrator, connection, migration.version).await? {
            sqlx::query(NO_LOCK_TIMEOUT).execute(&mut *connection).await?;
            drop_unfinished_indexes(connection, &migration.sql).await?;
            migrator.run_to(migration.version, &mut *connection).await?;
        }
    }
    sqlx::query(LOCK_TIMEOUT).execute(&mut *connection).await?;
    migrator.run(&mut *connection).await?;
    build_partition_indexes(connection).await?;
    Ok(())
}

/// Builds the indexes that a migration has declared with `ON ONLY` for a partitioned table, partition by partition and
/// without blocking writes. Postgres does not do this for the whole table.
async fn build_partition_indexes(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    let missing: Vec<(String, String, String)> = sqlx::query_as(
        "SELECT format('DROP INDEX CONCURRENTLY IF EXISTS %I', c.relname || '_' || t.relname),
                format('CREATE INDEX CONCURRENTLY %I ON %s%s', c.relname || '_' || t.relname, t.oid::regclass,
                       substring(pg_get_indexdef(i.indexrelid) FROM ' USING .*')),
                format('ALTER INDEX %s ATTACH PARTITION %I', i.indexrelid::regclass, c.relname || '_' || t.relname)
         FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid AND c.relkind = 'I'
         JOIN pg_inherits h ON h.inhparent = i.indrelid JOIN pg_class t ON t.oid = h.inhrelid
         WHERE NOT i.indisvalid AND NOT EXISTS (
             SELECT FROM pg_inherits a JOIN pg_index p ON p.indexrelid = a.inhrelid
             WHERE a.inhparent = i.indexrelid AND p.indrelid = t.oid)
         ORDER BY 2",
    )
    .fetch_all(&mut *connection)
    .await?;
    for (drop_unfinished, create, attach) in missing {
        sqlx::query(NO_LOCK_TIMEOUT).execute(&mut *connection).await?;
        for statement in [drop_unfinished, create] {
            sqlx::query(AssertSqlSafe(statement)).execute(&mut *connection).await?;
        }
        sqlx::query(LOCK_TIMEOUT).execute(&mut *connection).await?;
        sqlx::query(AssertSqlSafe(attach)).execute(&mut *connection).await?;
    }
    Ok(())
}

async fn is_applied(migrator: &Migrator, connection: &mut PgConnection, version: i64) -> Result<bool, sqlx::Error> {
    let applied = format!("SELECT EXISTS (SELECT FROM {} WHERE version = $1)", migrator.table_name);
    sqlx::query_scalar(AssertSqlSafe(applied)).bind(version).fetch_one(connection).await
}

/// Drops invalid indexes that an interrupted run of this `CREATE INDEX CONCURRENTLY IF NOT EXISTS` left: they slow down
/// writes, cannot be read, and would count as existing.
async fn drop_unfinished_indexes(connection: &mut PgConnection, migration: &SqlStr) -> Result<(), sqlx::Error> {
    let unfinished: Vec<String> = sqlx::query_scalar(
        "SELECT format('DROP INDEX CONCURRENTLY IF EXISTS %I.%I', n.nspname, c.relname)
         FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_namespace n ON n.oid = c.relnamespace
         WHERE NOT i.indisvalid AND c.relkind = 'i' AND position(' ' || c.relname || ' ' IN $1) > 0
           AND NOT EXISTS (SELECT FROM pg_stat_progress_create_index p WHERE p.index_relid = i.indexrelid)",
    )
    .bind(migration.as_str())
    .fetch_all(&mut *connection)
    .await?;
    for statement in unfinished {
        sqlx::query(AssertSqlSafe(statement)).execute(&mut *connection).await?;
    }
    Ok(())
}

/// Whether it failed only because of a lock: `lock_not_available`, or `deadlock_detected`.
fn is_lock_conflict(error: &MigrateError) -> bool {
    let (MigrateError::Execute(cause) | MigrateError::ExecuteMigration(cause, _)) = error else { return false };
    let code = cause.as_database_error().and_then(|error| error.code());
    matches!(code.as_deref(), Some("55P03" | "40P01"))
}
