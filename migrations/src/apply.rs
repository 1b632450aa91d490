//! How migrations are applied beside processes that go on working.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use sqlx::{
    AssertSqlSafe, Connection, PgConnection, SqlStr,
    migrate::{MigrateError, Migrator},
};
use tokio::time::{Instant, sleep};

/// A migration waits so long for a lock and no longer: whoever wants the same table next stands in line behind it.
const LOCK_TIMEOUT: &str = "SET lock_timeout = '2s'";
/// What changes no row and no table outside of a transaction waits for others as long as it takes: nobody stands behind it.
const NO_LOCK_TIMEOUT: &str = "SET lock_timeout = 0";
/// So long a table may be in use without a gap before this gives up.
const PATIENCE: Duration = Duration::from_secs(15 * 60);
/// Between two attempts others have the tables to themselves.
const PAUSE: Duration = Duration::from_secs(1);

/// Brings the database to the newest of these migrations. A lock that cannot be had soon is let go of and asked for again, so that
/// no table stands still; see docs/upgrading.md. Safe to run from several processes at once: one applies them, and the others find
/// the work done.
///
/// # Errors
/// When the database cannot be reached, a migration fails, one that was applied has been changed since, the database is of a newer
/// version, or a lock was not to be had for a quarter of an hour.
pub async fn apply(migrator: &Migrator, database_url: &str) -> Result<()> {
    let until = Instant::now() + PATIENCE;
    loop {
        let mut connection = PgConnection::connect(database_url).await.context("cannot connect to the database")?;
        let why = match only_one(&mut connection).await? {
            false => "another one is at it".to_owned(),
            true => match attempt(migrator, &mut connection).await {
                Err(error) if must_wait(&error) => error.to_string(),
                done => {
                    done.context("cannot migrate the database")?;
                    return connection.close().await.context("cannot close the connection after migrating");
                }
            },
        };
        if Instant::now() > until {
            bail!("cannot migrate the database: {why}");
        }
        println!("migrations let go, and are tried again in a second: {why}");
        // Its end frees its locks.
        let _ = connection.close().await;
        sleep(PAUSE).await;
    }
}

/// Whether no other migrator is at work. It never waits: an index that another builds would wait for whoever waits here.
async fn only_one(connection: &mut PgConnection) -> Result<bool> {
    sqlx::query_scalar("SELECT pg_try_advisory_lock(hashtextextended('migrate', 0))")
        .fetch_one(connection)
        .await
        .context("cannot ask whether another one migrates the database")
}

async fn attempt(migrator: &Migrator, connection: &mut PgConnection) -> Result<(), MigrateError> {
    for alone in migrator.iter().filter(|migration| migration.no_tx) {
        sqlx::query(LOCK_TIMEOUT).execute(&mut *connection).await?;
        migrator.run_to(alone.version - 1, &mut *connection).await?;
        if !is_applied(migrator, connection, alone.version).await? {
            sqlx::query(NO_LOCK_TIMEOUT).execute(&mut *connection).await?;
            drop_unfinished_indexes(connection, &alone.sql).await?;
            migrator.run_to(alone.version, &mut *connection).await?;
        }
    }
    sqlx::query(LOCK_TIMEOUT).execute(&mut *connection).await?;
    migrator.run(&mut *connection).await
}

async fn is_applied(migrator: &Migrator, connection: &mut PgConnection, version: i64) -> Result<bool, sqlx::Error> {
    let applied = format!("SELECT EXISTS (SELECT FROM {} WHERE version = $1)", migrator.table_name);
    sqlx::query_scalar(AssertSqlSafe(applied)).bind(version).fetch_one(connection).await
}

/// What this `CREATE INDEX CONCURRENTLY IF NOT EXISTS` left when it was cut off: it costs every write, and nothing may read it.
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

/// Whether it failed for nothing but a lock: `lock_not_available`, or `deadlock_detected`.
fn must_wait(error: &MigrateError) -> bool {
    let (MigrateError::Execute(cause) | MigrateError::ExecuteMigration(cause, _)) = error else { return false };
    let code = cause.as_database_error().and_then(|said| said.code());
    matches!(code.as_deref(), Some("55P03" | "40P01"))
}
