//! The Postgres roles of the programs. They own nothing and have only the privileges on rows that their programs need.
//! Each migration grants the privileges again, so that they cover new tables and earlier grants do not remain.

use anyhow::{Context, Result, bail, ensure};
use percent_encoding::percent_decode_str;
use postgres_protocol::password::scram_sha_256;
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use url::Url;

/// Privileges of api, worker, scheduler and `ctl`. The audit log is append-only. Functions that run as the owner
/// create and drop partitions, and analyze tables.
pub const PROGRAMS: &[&str] = &[
    "GRANT USAGE ON SCHEMA public, mock TO {role}",
    "REVOKE ALL ON ALL TABLES IN SCHEMA public, mock FROM {role}",
    "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public, mock TO {role}",
    "GRANT USAGE ON ALL SEQUENCES IN SCHEMA public, mock TO {role}",
    "REVOKE UPDATE, DELETE ON audit_log FROM {role}",
    "REVOKE INSERT, UPDATE, DELETE ON _sqlx_migrations FROM {role}",
    "REVOKE EXECUTE ON FUNCTION ensure_monthly_partitions(regclass, timestamptz, integer),
        drop_monthly_partitions(regclass, timestamptz), analyze_grown_tables(), clear_oldest_requests() FROM PUBLIC",
    "GRANT EXECUTE ON FUNCTION ensure_monthly_partitions(regclass, timestamptz, integer),
        drop_monthly_partitions(regclass, timestamptz), analyze_grown_tables(), clear_oldest_requests() TO {role}",
    ACCOUNTS_STAY,
];

/// Rows stay in their account: no program changes `account_id`, so the role may update all other columns only. A column
/// that may be NULL is set later, such as when a proxy number is first used. The last statement of a list.
pub const ACCOUNTS_STAY: &str = "DO $do$ DECLARE role regrole := $role${role}$role$; changeable record; BEGIN
    FOR changeable IN
        SELECT c.oid::regclass AS name, string_agg(quote_ident(a.attname), ', ') AS columns
        FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
        WHERE c.relkind IN ('r', 'p') AND has_table_privilege(role, c.oid, 'UPDATE') AND a.attname <> 'account_id'
          AND EXISTS (SELECT FROM pg_attribute o WHERE o.attrelid = c.oid AND o.attname = 'account_id' AND o.attnotnull)
        GROUP BY c.oid
    LOOP
        EXECUTE format('REVOKE UPDATE ON %s FROM %s', changeable.name, role);
        EXECUTE format('GRANT UPDATE (%s) ON %s TO %s', changeable.columns, changeable.name, role);
    END LOOP;
END $do$";

/// Read access to everything except the gateway's schema: for listing commands of `ctl`, and for reports.
pub const READER: &[&str] = &[
    "GRANT USAGE ON SCHEMA public, mock TO {role}",
    "REVOKE ALL ON ALL TABLES IN SCHEMA public, mock FROM {role}",
    "GRANT SELECT ON ALL TABLES IN SCHEMA public, mock TO {role}",
];

/// Before Postgres 15 every role could create tables in `public`.
const REVOKE_PUBLIC_CREATE: &str = "DO $$ BEGIN
    IF has_schema_privilege('public', 'public', 'CREATE') THEN REVOKE CREATE ON SCHEMA public FROM PUBLIC; END IF;
END $$";

/// Executes `grants` for the role of `url`; `{role}` in them stands for its name. Creates the role if it does not
/// exist, and sets the password of `url` if the role cannot log in with it. `owner` is the URL of the schema's owner.
///
/// # Errors
/// If `url` lacks a user name or password, or its role has more privileges than its programs need: the owner, a
/// superuser or a member of either. If the role does not exist and the owner may not create roles.
pub async fn grant(owner: &str, url: &str, grants: &[&str]) -> Result<()> {
    let login = Login::parse(url)?;
    let mut connection = PgConnection::connect(owner).await.context("cannot connect as the owner")?;
    login.ensure(&mut connection, url).await.with_context(|| format!("role {}", login.name))?;
    let mut all = connection.begin().await?;
    for statement in [REVOKE_PUBLIC_CREATE].iter().chain(grants) {
        let statement = statement.replace("{role}", &login.quoted());
        sqlx::raw_sql(AssertSqlSafe(statement))
            .execute(&mut *all)
            .await
            .with_context(|| format!("role {}", login.name))?;
    }
    all.commit().await?;
    Ok(connection.close().await?)
}

struct Login {
    name: String,
    password: String,
}

impl Login {
    fn parse(url: &str) -> Result<Self> {
        // The parser's error does not contain the URL, and so no password.
        let url = Url::parse(url).context("the URL of the role")?;
        let decoded = |text: &str| Ok::<_, anyhow::Error>(percent_decode_str(text).decode_utf8()?.into_owned());
        let (name, password) = (decoded(url.username())?, decoded(url.password().unwrap_or_default())?);
        ensure!(!name.is_empty() && !password.is_empty(), "the URL of the role must have a user name and a password");
        Ok(Self { name, password })
    }

    fn quoted(&self) -> String {
        format!("\"{}\"", self.name.replace('"', "\"\""))
    }

    /// Creates the role, or sets its password, if it cannot log in. Sends only a hash, because the server may log
    /// statements.
    async fn ensure(&self, owner: &mut PgConnection, url: &str) -> Result<()> {
        self.require_limited_privileges(owner).await?;
        let login_error = match PgConnection::connect(url).await {
            Ok(connection) => return Ok(connection.close().await?),
            Err(error) => error,
        };
        let exists: bool = sqlx::query_scalar("SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = $1)")
            .bind(&self.name)
            .fetch_one(&mut *owner)
            .await?;
        let verb = if exists { "ALTER" } else { "CREATE" };
        let (role, hash) = (self.quoted(), scram_sha_256(self.password.as_bytes()));
        let statement = format!("{verb} ROLE {role} LOGIN PASSWORD '{hash}'");
        if let Err(error) = sqlx::raw_sql(AssertSqlSafe(statement)).execute(&mut *owner).await {
            bail!("it cannot log in ({login_error}), and the owner cannot change that: {error}");
        }
        self.require_limited_privileges(owner).await
    }

    /// A role with all privileges would silently defeat the restrictions.
    async fn require_limited_privileges(&self, owner: &mut PgConnection) -> Result<()> {
        let has_too_many: bool = sqlx::query_scalar(
            "SELECT coalesce(bool_or(r.rolsuper OR r.rolcreaterole OR r.rolbypassrls OR pg_has_role(r.oid, current_user, 'MEMBER')), false)
             FROM pg_roles r WHERE r.rolname = $1",
        )
        .bind(&self.name)
        .fetch_one(owner)
        .await?;
        ensure!(
            !has_too_many,
            "it has more privileges than its programs need: it is the owner, a superuser or a member of either"
        );
        Ok(())
    }
}
