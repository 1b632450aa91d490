//! The size of the database and of its tables. Postgres reads it from the file system, not from rows.

use sqlx::PgPool;

use crate::error::Result;

/// Tables reported, largest first. We have about fifty; the limit bounds the number of metrics if others share the
/// database.
const MAX_TABLES: i64 = 100;

/// The size of the database.
#[derive(Debug)]
pub struct Size {
    /// The whole database, including tables of others.
    pub bytes: i64,
    /// Our tables, the mock's, and the card gateway's if it uses the same database.
    pub tables: Vec<TableSize>,
}

/// The size of a table.
#[derive(Debug)]
pub struct TableSize {
    /// The name, with the schema in front if it is not ours.
    pub table: String,
    /// Including indexes, TOAST and partitions.
    pub bytes: i64,
}

/// Reads the size of the database. The cost depends on the number of tables and files.
///
/// # Errors
/// Database errors only.
pub async fn size(db: &PgPool) -> Result<Size> {
    let bytes = sqlx::query_scalar!(r#"SELECT pg_database_size(current_database()) AS "bytes!""#).fetch_one(db).await?;
    // A table that is dropped concurrently has no size, hence the coalesce.
    let tables = sqlx::query_as!(
        TableSize,
        r#"SELECT CASE WHEN n.nspname = current_schema() THEN '' ELSE n.nspname || '.' END || whole.relname AS "table!",
                  coalesce(sum(pg_total_relation_size(part.oid)), 0)::bigint AS "bytes!"
           FROM pg_class part JOIN pg_class whole ON whole.oid = coalesce(pg_partition_root(part.oid), part.oid)
           JOIN pg_namespace n ON n.oid = whole.relnamespace
           WHERE part.relkind = 'r' AND n.nspname IN (current_schema(), 'mock', 'gateway')
           GROUP BY n.nspname, whole.relname ORDER BY 2 DESC LIMIT $1"#,
        MAX_TABLES,
    )
    .fetch_all(db)
    .await?;
    Ok(Size { bytes, tables })
}
