//! How large the database is, and which tables make it so. Postgres asks the file system; no row is read.

use sqlx::PgPool;

use crate::error::Result;

/// Tables that are told of at most, the largest first. There are some fifty of ours; what else somebody has put beside them makes
/// no figures without end.
const TABLES: i64 = 100;

/// How large the database is.
#[derive(Debug)]
pub struct Size {
    /// All of it, whoever's it is.
    pub bytes: i64,
    /// Our tables, the mock's, and the card gateway's where it lies in the same database.
    pub tables: Vec<TableSize>,
}

/// How large a table is.
#[derive(Debug)]
pub struct TableSize {
    /// Its name; of another schema than ours with that before it.
    pub table: String,
    /// With its indexes, what stands apart of its rows, and its partitions.
    pub bytes: i64,
}

/// How large the database is. The cost follows the number of tables and of files.
///
/// # Errors
/// Only the database's.
pub async fn size(db: &PgPool) -> Result<Size> {
    let bytes = sqlx::query_scalar!(r#"SELECT pg_database_size(current_database()) AS "bytes!""#).fetch_one(db).await?;
    // A table that is dropped meanwhile has no size.
    let tables = sqlx::query_as!(
        TableSize,
        r#"SELECT CASE WHEN n.nspname = current_schema() THEN '' ELSE n.nspname || '.' END || whole.relname AS "table!",
                  coalesce(sum(pg_total_relation_size(part.oid)), 0)::bigint AS "bytes!"
           FROM pg_class part JOIN pg_class whole ON whole.oid = coalesce(pg_partition_root(part.oid), part.oid)
           JOIN pg_namespace n ON n.oid = whole.relnamespace
           WHERE part.relkind = 'r' AND n.nspname IN (current_schema(), 'mock', 'gateway')
           GROUP BY n.nspname, whole.relname ORDER BY 2 DESC LIMIT $1"#,
        TABLES,
    )
    .fetch_all(db)
    .await?;
    Ok(Size { bytes, tables })
}
