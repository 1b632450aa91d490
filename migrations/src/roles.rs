//! The roles of Postgres that the programs log in as. They own nothing: each may do with rows what its programs do, and no more.
//! What they may do is granted anew after each migration, so that it holds for new tables and nothing else is left.

use anyhow::{Context, Result, bail, ensure};
use percent_encoding::percent_decode_str;
use postgres_protocol::password::scram_sha_256;
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use url::Url;

/// What api, worker, scheduler and `ctl` do. The audit log can be read and added to. Partitions are made and dropped by two
/// functions that run as the owner.
pub const PROGRAMS: &[&str] = &[
    "GRANT USAGE ON SCHEMA public, mock TO {role}",
    "REVOKE ALL ON ALL TABLES IN SCHEMA public, mock FROM {role}",
    "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public, mock TO {role}",
    "GRANT USAGE ON ALL SEQUENCES IN SCHEMA public, mock TO {role}",
    "REVOKE UPDATE, DELETE ON audit_log FROM {role}",
    "REVOKE INSERT, UPDATE, DELETE ON _sqlx_migrations FROM {role}",
    "REVOKE EXECUTE ON FUNCTION ensure_monthly_partitions(regclass, timestamptz, integer),
        drop_monthly_partitions(regclass, timestamptz) FROM PUBLIC",
    "GRANT EXECUTE ON FUNCTION ensure_monthly_partitions(regclass, timestamptz, integer),
        drop_monthly_partitions(regclass, timestamptz) TO {role}",
];

/// Reads everything but the gateway's schema: for listing commands of `ctl`, and for reports.
pub const READER: &[&str] = &[
    "GRANT USAGE ON SCHEMA public, mock TO {role}",
    "REVOKE ALL ON ALL TABLES IN SCHEMA public, mock FROM {role}",
    "GRANT SELECT ON ALL TABLES IN SCHEMA public, mock TO {role}",
];

/// Before Postgres 15 anybody could make tables in `public`.
const NOBODY_CREATES: &str = "DO $$ BEGIN
    IF has_schema_privilege('public', 'public', 'CREATE') THEN REVOKE CREATE ON SCHEMA public FROM PUBLIC; END IF;
END $$";

/// Lets the role of `url` do what `grants` say, in which `{role}` stands for its name. The role is made if there is none, and gets
/// the password of `url` if that does not let it in yet. `owner` is the URL of whoever owns the schema.
///
/// # Errors
/// When `url` names no role and password, or a role that may do more than its programs need: the owner, a superuser or a member of
/// either. When the owner may not create roles, and there is none of this name.
pub async fn grant(owner: &str, url: &str, grants: &[&str]) -> Result<()> {
    let login = Login::of(url)?;
    let mut connection = PgConnection::connect(owner).await.context("cannot connect as the owner")?;
    login.ensure(&mut connection, url).await.with_context(|| format!("role {}", login.name))?;
    let mut all = connection.begin().await?;
    for statement in [NOBODY_CREATES].iter().chain(grants) {
        let statement = statement.replace("{role}", &login.quoted());
        sqlx::raw_sql(AssertSqlSafe(statement))
            .execute(&mut *all)
            .await
            .with_context(|| format!("role {}", login.name))?;
    }
    all.commit().await?;
    Ok(connection.close().await?)
}

/// Who logs in.
struct Login {
    name: String,
    password: String,
}

impl Login {
    fn of(url: &str) -> Result<Self> {
        // The error of the parser does not repeat what it was given.
        let url = Url::parse(url).context("the URL of a role")?;
        let decoded = |text: &str| Ok::<_, anyhow::Error>(percent_decode_str(text).decode_utf8()?.into_owned());
        let (name, password) = (decoded(url.username())?, decoded(url.password().unwrap_or_default())?);
        ensure!(!name.is_empty() && !password.is_empty(), "the URL of a role has a user name and a password");
        Ok(Self { name, password })
    }

    fn quoted(&self) -> String {
        format!("\"{}\"", self.name.replace('"', "\"\""))
    }

    /// Makes the role, or gives it the password. The server is sent a hash: its log may keep statements.
    async fn ensure(&self, owner: &mut PgConnection, url: &str) -> Result<()> {
        self.is_no_owner(owner).await?;
        let Err(refused) = PgConnection::connect(url).await else { return Ok(()) };
        let exists: bool = sqlx::query_scalar("SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = $1)")
            .bind(&self.name)
            .fetch_one(&mut *owner)
            .await?;
        let verb = if exists { "ALTER" } else { "CREATE" };
        let (role, hash) = (self.quoted(), scram_sha_256(self.password.as_bytes()));
        let statement = format!("{verb} ROLE {role} LOGIN PASSWORD '{hash}'");
        if let Err(error) = sqlx::raw_sql(AssertSqlSafe(statement)).execute(&mut *owner).await {
            bail!("it cannot log in ({refused}), and the owner cannot change that: {error}");
        }
        self.is_no_owner(owner).await
    }

    /// A role that may do everything would make all of this worthless without anybody noticing.
    async fn is_no_owner(&self, owner: &mut PgConnection) -> Result<()> {
        let too_much: bool = sqlx::query_scalar(
            "SELECT coalesce(bool_or(r.rolsuper OR r.rolcreaterole OR r.rolbypassrls OR pg_has_role(r.oid, current_user, 'MEMBER')), false)
             FROM pg_roles r WHERE r.rolname = $1",
        )
        .bind(&self.name)
        .fetch_one(owner)
        .await?;
        ensure!(!too_much, "it may do more than its programs need: it is the owner, a superuser or a member of either");
        Ok(())
    }
}
