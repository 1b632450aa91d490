//! The schema, as forward-only migrations that are built into the binary.

use anyhow::Result;
use sqlx::migrate::Migrator;

/// The schema's name and the table that notes what was applied stand in `sqlx.toml`.
static MIGRATOR: Migrator = sqlx::migrate!("./migrations");

/// What the gateway does: its own schema alone. Its audit log can be read and added to.
const GATEWAY: &[&str] = &[
    "GRANT USAGE ON SCHEMA gateway TO {role}",
    "REVOKE ALL ON ALL TABLES IN SCHEMA gateway FROM {role}",
    "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA gateway TO {role}",
    "GRANT USAGE ON ALL SEQUENCES IN SCHEMA gateway TO {role}",
    "REVOKE UPDATE, DELETE ON gateway.audit_log FROM {role}",
    "REVOKE INSERT, UPDATE, DELETE ON gateway._sqlx_migrations FROM {role}",
];

/// Brings the schema `gateway` up, as the owner of the database at `owner`, and lets the role of `gateway` do its work there.
///
/// # Errors
/// As [`migrations::apply`] and [`migrations::roles::grant`].
pub async fn run(owner: &str, gateway: Option<&str>) -> Result<()> {
    migrations::apply(&MIGRATOR, owner).await?;
    match gateway {
        Some(url) => migrations::roles::grant(owner, url, GATEWAY).await,
        None => Ok(()),
    }
}
