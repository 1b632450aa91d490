//! Privileges of the Postgres roles: each role can do only its task.

use anyhow::{Context, Result, ensure};
use migrations::roles;
use reqwest::Url;
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use testkit::{Cluster, Database, Roles};

use crate::support::cluster;

/// SQLSTATE `insufficient_privilege`.
const INSUFFICIENT_PRIVILEGE: &str = "42501";

/// Statements that only the owner or a superuser may run. `{role}` is the tested role.
const OWNER_ONLY: [&str; 12] = [
    "CREATE TABLE public.stray (n integer)",
    "CREATE TABLE gateway.stray (n integer)",
    "CREATE SCHEMA stray",
    "CREATE ROLE stray",
    "CREATE DATABASE stray",
    "CREATE FUNCTION public.stray() RETURNS integer LANGUAGE sql AS 'SELECT 1'",
    "ALTER ROLE {role} SUPERUSER",
    "SET ROLE payments",
    "SET session_replication_role = replica",
    "ALTER SYSTEM SET log_statement = 'all'",
    "COPY (SELECT 1) TO PROGRAM 'true'",
    "SELECT pg_read_file('/etc/passwd')",
];

const PROGRAMS: [&str; 18] = [
    "UPDATE api_keys SET account_id = gen_random_uuid()",
    "UPDATE webhook_deliveries SET account_id = gen_random_uuid()",
    "DROP TABLE payments",
    "TRUNCATE payments",
    "ALTER TABLE payments DROP CONSTRAINT payments_pkey",
    "CREATE INDEX stray ON payments (id)",
    "UPDATE audit_log SET actor = 'nobody'",
    "DELETE FROM audit_log",
    "TRUNCATE audit_log",
    "ALTER TABLE audit_log DISABLE TRIGGER ALL",
    "DROP TRIGGER audit_log_is_only_added_to ON audit_log",
    "DELETE FROM _sqlx_migrations",
    "SELECT number FROM gateway.cards",
    "SELECT username FROM gateway.accounts",
    "DELETE FROM gateway.audit_log",
    "UPDATE gateway.transactions SET amount = 1",
    "DROP SCHEMA gateway CASCADE",
    "DROP FUNCTION drop_monthly_partitions(regclass, timestamptz)",
];

const GATEWAY: [&str; 13] = [
    "UPDATE gateway.cards SET account_id = gen_random_uuid()",
    "SELECT id FROM payments",
    "SELECT signing_secret FROM api_keys",
    "UPDATE operations SET state = 'succeeded'",
    "SELECT id FROM mock.accounts",
    "DELETE FROM audit_log",
    "SELECT drop_monthly_partitions('events', now())",
    "SELECT ensure_monthly_partitions('events', now(), 1)",
    "SELECT analyze_grown_tables()",
    "UPDATE gateway.audit_log SET actor = 'nobody'",
    "DELETE FROM gateway.audit_log",
    "TRUNCATE gateway.transactions",
    "DROP TABLE gateway.cards",
];

const READER: [&str; 6] = [
    "INSERT INTO merchants (id, name, created_at) VALUES (gen_random_uuid(), 'x', now())",
    "UPDATE payments SET amount = 1",
    "DELETE FROM events",
    "INSERT INTO audit_log (actor, action) VALUES ('x', 'x')",
    "SELECT drop_monthly_partitions('events', now())",
    "SELECT number FROM gateway.cards",
];

#[tokio::test]
async fn roles_are_denied_statements_outside_their_task() -> Result<()> {
    let Roles { programs, gateway, reader, .. } = cluster().await?.roles();
    let roles = [
        ("payments_programs", programs, PROGRAMS.as_slice()),
        ("payments_gateway", gateway, &GATEWAY),
        ("payments_reader", reader, &READER),
    ];
    for (role, url, own) in roles {
        let mut connection = PgConnection::connect(url).await?;
        for statement in OWNER_ONLY.iter().chain(own) {
            let result = sqlx::raw_sql(AssertSqlSafe(statement.replace("{role}", role))).execute(&mut connection).await;
            let code = result.as_ref().err().and_then(|error| error.as_database_error()?.code().map(String::from));
            ensure!(code.as_deref() == Some(INSUFFICIENT_PRIVILEGE), "{role}: {statement}: {result:?}");
        }
    }
    Ok(())
}

#[derive(sqlx::FromRow)]
struct Privileges {
    schema: String,
    table: String,
    role: String,
    granted: Option<String>,
    /// The columns that the role may not update, if it may update others.
    unchangeable: Option<String>,
}

/// Fails if a new table has no privileges, or privileges for more than its programs.
#[tokio::test]
async fn tables_are_accessible_only_to_their_programs() -> Result<()> {
    // Without a scheduler: the programs use the partitions that it creates through their tables only.
    let cluster = Cluster::builder().gateway(1).start().await?;
    let mut db = PgConnection::connect(cluster.database_url()).await?;
    let privileges: Vec<Privileges> = sqlx::query_as(
        "SELECT n.nspname::text AS schema, c.relname::text AS table, role,
                (SELECT string_agg(p, ' ' ORDER BY p)
                 FROM unnest(ARRAY['DELETE', 'INSERT', 'REFERENCES', 'SELECT', 'TRIGGER', 'TRUNCATE', 'UPDATE']) AS p
                 WHERE has_table_privilege(role, c.oid, p)) AS granted,
                (SELECT string_agg(a.attname, ' ') FROM pg_attribute a
                 WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
                   AND NOT has_column_privilege(role, c.oid, a.attnum, 'UPDATE')
                   AND has_any_column_privilege(role, c.oid, 'UPDATE')) AS unchangeable
         FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace,
              unnest(ARRAY['payments_programs', 'payments_gateway', 'payments_reader']) AS role
         WHERE c.relkind IN ('r', 'p', 'v', 'm') AND n.nspname IN ('public', 'mock', 'gateway')",
    )
    .fetch_all(&mut db)
    .await?;
    ensure!(privileges.len() > 120, "only {} tables", privileges.len() / 3);
    for Privileges { schema, table, role, granted, unchangeable } in privileges {
        let own = match role.as_str() {
            "payments_gateway" => schema == "gateway",
            _ => schema != "gateway",
        };
        let expected = match (own, role.as_str(), table.as_str()) {
            (false, ..) => None,
            (true, "payments_reader", _) | (true, _, "_sqlx_migrations") => Some("SELECT"),
            (true, _, "audit_log") => Some("INSERT SELECT"),
            (true, ..) if unchangeable.as_deref() == Some("account_id") => Some("DELETE INSERT SELECT"),
            (true, ..) => Some("DELETE INSERT SELECT UPDATE"),
        };
        ensure!(granted.as_deref() == expected, "{role} on {schema}.{table}: {granted:?}, expected {expected:?}");
    }
    let moved: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM pg_attribute, unnest(ARRAY['payments_programs', 'payments_gateway']) AS role
         WHERE attname = 'account_id' AND attnotnull AND has_column_privilege(role, attrelid, attnum, 'UPDATE')",
    )
    .fetch_one(&mut db)
    .await?;
    ensure!(moved == 0, "programs may move rows of {moved} tables to another account");
    let owned: i64 = sqlx::query_scalar(
        "SELECT (SELECT count(*) FROM pg_class WHERE relowner = r.oid) + (SELECT count(*) FROM pg_proc WHERE proowner = r.oid)
              + (SELECT count(*) FROM pg_namespace WHERE nspowner = r.oid)
         FROM pg_roles r WHERE rolname = ANY ('{payments_programs,payments_gateway,payments_reader}') ORDER BY 1 DESC LIMIT 1",
    )
    .fetch_one(&mut db)
    .await?;
    ensure!(owned == 0, "a role owns {owned} objects");
    Ok(())
}

/// Roles belong to the whole server, so this test uses its own role names.
#[tokio::test]
async fn roles_are_created_with_passwords_and_without_ownership() -> Result<()> {
    let database = Database::create().await?;
    let owner = database.url();
    let as_role = |name: &str, password: &str| -> Result<String> {
        let mut url = Url::parse(owner)?;
        let set = url.set_username(name).and_then(|()| url.set_password(Some(password)));
        set.ok().context("a URL with a user")?;
        Ok(url.into())
    };
    let first = as_role("a \"role\" of one test", "pass word: 1/@")?;
    roles::grant(owner, &first, roles::READER).await?;
    roles::grant(owner, &first, roles::READER).await?;
    PgConnection::connect(&first).await.context("the first password")?;
    let second = as_role("a \"role\" of one test", "another")?;
    roles::grant(owner, &second, roles::READER).await?;
    PgConnection::connect(&second).await.context("the second password")?;
    ensure!(PgConnection::connect(&first).await.is_err(), "the first password no longer works");

    let mut db = PgConnection::connect(owner).await?;
    sqlx::raw_sql("CREATE ROLE superuser_of_one_test SUPERUSER LOGIN PASSWORD 'x'").execute(&mut db).await?;
    for privileged in [owner.to_owned(), as_role("superuser_of_one_test", "x")?] {
        let result = roles::grant(owner, &privileged, roles::READER).await.map_err(|error| format!("{error:#}"));
        ensure!(
            result.as_ref().is_err_and(|error| error.contains("more privileges than its programs need")),
            "{result:?}"
        );
    }
    sqlx::raw_sql("DROP OWNED BY \"a \"\"role\"\" of one test\"; DROP ROLE \"a \"\"role\"\" of one test\"; DROP ROLE superuser_of_one_test")
        .execute(&mut db)
        .await?;
    Ok(())
}
