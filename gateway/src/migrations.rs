//! The schema as forward-only migrations, embedded in the binary.

use anyhow::Result;
use sqlx::migrate::Migrator;

/// `sqlx.toml` names the schema and the table of applied migrations.
static MIGRATOR: Migrator = sqlx::migrate!("./migrations");

/// Full access to the gateway's own schema, except that the audit log is append-only and the migrations table
/// read-only.
const GRANTS: &[&str] = &[
    "GRANT USAGE ON SCHEMA gateway TO {role}",
    "REVOKE ALL ON ALL TABLES IN SCHEMA gateway FROM {role}",
    "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA gateway TO {role}",
    "GRANT USAGE ON ALL SEQUENCES IN SCHEMA gateway TO {role}",
    "REVOKE UPDATE, DELETE ON gateway.audit_log FROM {role}",
    "REVOKE INSERT, UPDATE, DELETE ON gateway._sqlx_migrations FROM {role}",
    migrations::roles::ACCOUNTS_STAY,
];

/// Migrates the schema `gateway` as the database owner at `owner`, and grants the role of `gateway` access to it.
///
/// # Errors
/// As [`migrations::apply`] and [`migrations::roles::grant`].
pub async fn run(owner: &str, gateway: Option<&str>) -> Result<()> {
    migrations::apply(&MIGRATOR, owner).await?;
    match gateway {
        Some(url) => migrations::roles::grant(owner, url, GRANTS).await,
        None => Ok(()),
    }
}
