//! Migrations are applied while the previous release is serving: a migration that waits for a lock blocks no other
//! query, an interrupted one is repeated, and none breaks the previous release.

use std::{fs, path::Path, time::Duration};

use anyhow::{Context, Result, ensure};
use sqlx::{Connection, PgConnection, migrate::Migrator};
use testkit::{Database, TempDir};
use tokio::time::{sleep, timeout};

/// Much longer than the lock timeout of a migration.
const TIMEOUT: Duration = Duration::from_secs(20);

/// The last migration in each folder before the first release: no previous release has to work beside these.
const LAST_BEFORE_FIRST_RELEASE: [(&str, u32); 2] = [("migrations/migrations", 20), ("gateway/migrations", 6)];

/// A database without a schema, and a migrator for these files.
async fn prepared(files: &[(&str, &str)]) -> Result<(Database, TempDir, Migrator)> {
    let database = Database::create().await?;
    let mut connection = PgConnection::connect(database.url()).await?;
    sqlx::raw_sql("DROP TABLE _sqlx_migrations; CREATE TABLE busy (id bigint, name text)")
        .execute(&mut connection)
        .await?;
    let folder = TempDir::new()?;
    for (name, text) in files {
        fs::write(folder.path().join(name), text)?;
    }
    let migrator = Migrator::new(folder.path()).await?;
    Ok((database, folder, migrator))
}

#[tokio::test]
async fn a_migration_waiting_for_a_table_lock_blocks_no_reader() -> Result<()> {
    let (database, _folder, migrator) = prepared(&[("1_more.sql", "ALTER TABLE busy ADD COLUMN more text")]).await?;
    let mut first_reader = PgConnection::connect(database.url()).await?;
    let mut reader = PgConnection::connect(database.url()).await?;
    let mut transaction = first_reader.begin().await?;
    sqlx::query("SELECT FROM busy").execute(&mut *transaction).await?;

    let migrating = async { timeout(TIMEOUT * 2, migrations::apply(&migrator, database.url())).await? };
    let second_reader = async {
        let waiting =
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'ALTER TABLE busy%'
                       AND datname = current_database()";
        let mut watch = PgConnection::connect(database.url()).await?;
        while sqlx::query_scalar::<_, i64>(waiting).fetch_one(&mut watch).await? == 0 {
            sleep(Duration::from_millis(20)).await;
        }
        // The first transaction stays open until this query returns.
        let read = sqlx::query("SELECT FROM busy").execute(&mut reader);
        timeout(TIMEOUT, read).await.context("a query waits behind a migration that itself waits")??;
        transaction.commit().await?;
        anyhow::Ok(())
    };
    tokio::try_join!(migrating, second_reader)?;
    sqlx::query("SELECT more FROM busy").execute(&mut reader).await?;
    Ok(())
}

#[tokio::test]
async fn an_interrupted_index_build_is_repeated() -> Result<()> {
    let statement = "CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS busy_name ON busy (name)";
    let file = format!("-- no-transaction\n{statement}");
    let (database, _folder, migrator) = prepared(&[("1_name.sql", &file)]).await?;
    let mut connection = PgConnection::connect(database.url()).await?;
    sqlx::query("INSERT INTO busy VALUES (1, 'a'), (2, 'a')").execute(&mut connection).await?;
    let refused = migrations::apply(&migrator, database.url()).await.expect_err("two rows have the same name");
    ensure!(format!("{refused:#}").contains("busy_name"), "{refused:#}");
    let valid =
        "SELECT i.indisvalid FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid WHERE c.relname = 'busy_name'";
    assert_eq!(sqlx::query_scalar::<_, bool>(valid).fetch_all(&mut connection).await?, [false]);

    sqlx::query("DELETE FROM busy WHERE id = 2").execute(&mut connection).await?;
    let (first, second) = (migrations::apply(&migrator, database.url()), migrations::apply(&migrator, database.url()));
    tokio::try_join!(first, second)?;
    assert_eq!(sqlx::query_scalar::<_, bool>(valid).fetch_all(&mut connection).await?, [true]);

    // As if the connection broke after the index was built and before the migration was recorded.
    sqlx::query("DELETE FROM _sqlx_migrations").execute(&mut connection).await?;
    migrations::apply(&migrator, database.url()).await?;
    assert_eq!(sqlx::query_scalar::<_, bool>(valid).fetch_all(&mut connection).await?, [true]);
    Ok(())
}

#[tokio::test]
async fn an_index_of_a_partitioned_table_is_built_for_each_partition() -> Result<()> {
    let (database, _folder, migrator) = prepared(&[("1_when.sql", "CREATE INDEX cut_when ON ONLY cut (at)")]).await?;
    let mut connection = PgConnection::connect(database.url()).await?;
    let tables = "CREATE TABLE cut (id bigint, at bigint) PARTITION BY RANGE (id);
                  CREATE TABLE cut_1 PARTITION OF cut FOR VALUES FROM (0) TO (10);
                  CREATE TABLE cut_2 PARTITION OF cut DEFAULT; INSERT INTO cut VALUES (1, 2), (20, 3);
                  CREATE INDEX cut_when_cut_1 ON cut_2 (id)";
    sqlx::raw_sql(tables).execute(&mut connection).await?;
    // An index of this name that belongs to nothing is what an interrupted build leaves behind.
    migrations::apply(&migrator, database.url()).await?;
    let built = "SELECT count(*) FILTER (WHERE i.indisvalid) FROM pg_index i
                 WHERE i.indexrelid = ANY (ARRAY['cut_when', 'cut_when_cut_1', 'cut_when_cut_2']::regclass[])";
    assert_eq!(sqlx::query_scalar::<_, i64>(built).fetch_one(&mut connection).await?, 3);
    sqlx::raw_sql("CREATE TABLE cut_3 PARTITION OF cut FOR VALUES FROM (30) TO (40)").execute(&mut connection).await?;
    let new = "SELECT count(*) FROM pg_index WHERE indrelid = 'cut_3'::regclass AND indisvalid";
    assert_eq!(sqlx::query_scalar::<_, i64>(new).fetch_one(&mut connection).await?, 1);
    Ok(())
}

/// Whether a statement needs no reason in a migration: the previous release reads and writes beside it as before.
fn is_compatible(statement: &str, new_tables: &[String]) -> bool {
    let words: Vec<&str> = statement.split_whitespace().collect();
    let is_new = |word: &str| new_tables.iter().any(|table| word.trim_matches(['(', ')', ';', ',']) == table);
    match words.as_slice() {
        ["CREATE", "TABLE" | "FUNCTION" | "SEQUENCE" | "VIEW" | "TYPE", ..] => true,
        ["CREATE", "OR", "REPLACE", "FUNCTION" | "VIEW", ..] => true,
        ["CREATE", "INDEX" | "UNIQUE", ..] => {
            let on = words.iter().position(|word| *word == "ON").and_then(|at| words.get(at + 1));
            // A unique index rejects rows that the previous release may write.
            words.starts_with(&["CREATE", "INDEX", "CONCURRENTLY", "IF", "NOT", "EXISTS"])
                // Only declared: `migrate` builds it.
                || (words[1] == "INDEX" && on == Some(&"ONLY"))
                || on.is_some_and(|table| is_new(table.split('(').next().unwrap_or(table)))
        }
        ["CREATE", "TRIGGER", rest @ ..] => rest.windows(2).any(|pair| pair[0] == "ON" && is_new(pair[1])),
        ["ALTER", "TABLE", table, ..] if is_new(table) => true,
        ["ALTER", "TABLE", _, "SET", set, ..] => set.starts_with('('),
        ["ALTER", "TABLE", _, "VALIDATE", "CONSTRAINT", _] => true,
        ["ALTER", "TABLE", _, "ADD", "CONSTRAINT", rest @ ..] => rest.ends_with(&["NOT", "VALID"]),
        ["ALTER", "TABLE", _, "ADD", "COLUMN", rest @ ..] => {
            // The previous release does not write the column, so it must be nullable or have a constant default.
            let is_compatible_column = |column: &str| {
                let default = column.split(" DEFAULT ").nth(1).and_then(|text| text.split([' ', ',']).next());
                let constant = default.is_none_or(|text| !text.contains('('));
                constant && (!column.contains("NOT NULL") || default.is_some())
            };
            let incompatible =
                ["DROP", "RENAME", "ALTER", "REFERENCES", "UNIQUE", "PRIMARY", "GENERATED", "CONSTRAINT"];
            rest.join(" ").split("ADD COLUMN").all(is_compatible_column)
                && !rest.iter().any(|word| incompatible.contains(word))
        }
        ["INSERT", "INTO", table, ..] | ["COMMENT", "ON", _, table, ..] => is_new(table),
        ["GRANT", ..] | ["ALTER", "FUNCTION", ..] => true,
        _ => false,
    }
}

/// The statements of a file without comments, and whether a comment `-- upgrade: …` before each gives a reason.
fn statements(text: &str) -> Vec<(String, bool)> {
    let (mut statements, mut statement, mut has_reason, mut in_body) = (Vec::new(), String::new(), false, false);
    for line in text.lines() {
        has_reason |= line.trim_start().starts_with("-- upgrade: ");
        let line = line.split("--").next().unwrap_or_default().trim();
        for part in line.split_inclusive(';') {
            // A function body belongs to the statement that creates the function.
            in_body ^= part.matches("$$").count() % 2 == 1;
            statement.push_str(part);
            if !in_body && part.ends_with(';') {
                let whole = statement.split_whitespace().collect::<Vec<_>>().join(" ");
                statements.push((whole.trim_end_matches(';').to_owned(), has_reason));
                (statement, has_reason) = (String::new(), false);
            }
        }
        statement.push(' ');
    }
    statements
}

fn violations(text: &str) -> Vec<String> {
    let statements = statements(text);
    let new_tables: Vec<String> = statements
        .iter()
        .filter_map(|(statement, _)| statement.strip_prefix("CREATE TABLE "))
        .filter_map(|rest| rest.trim_start_matches("IF NOT EXISTS ").split([' ', '(']).next().map(str::to_owned))
        .collect();
    let mut violations: Vec<String> = statements
        .iter()
        .filter(|(statement, has_reason)| !has_reason && !is_compatible(statement, &new_tables))
        .map(|(statement, _)| statement.clone())
        .collect();
    let without_transaction = text.starts_with("-- no-transaction");
    if without_transaction != text.contains(" CONCURRENTLY ") || (without_transaction && statements.len() != 1) {
        violations
            .push("CONCURRENTLY needs a file that begins with -- no-transaction and has one statement".to_owned());
    }
    violations
}

#[test]
fn every_migration_is_compatible_with_the_previous_release() -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("a workspace")?;
    let mut wrong = Vec::new();
    for (folder, last) in LAST_BEFORE_FIRST_RELEASE {
        for file in fs::read_dir(root.join(folder))? {
            let file = file?;
            let name = file.file_name().into_string().unwrap_or_default();
            let number: u32 = name.split('_').next().unwrap_or_default().parse().with_context(|| name.clone())?;
            if number > last {
                let violations = violations(&fs::read_to_string(file.path())?);
                wrong.extend(violations.into_iter().map(|violation| format!("{name}: {violation}")));
            }
        }
    }
    assert!(wrong.is_empty(), "docs/upgrading.md says what a migration may do:\n{}", wrong.join("\n"));
    Ok(())
}

#[test]
fn incompatible_migrations_are_detected() {
    for bad in [
        "ALTER TABLE payments DROP COLUMN note;",
        "ALTER TABLE payments RENAME COLUMN note TO remark;",
        "ALTER TABLE payments ADD COLUMN note text NOT NULL;",
        "ALTER TABLE payments ADD COLUMN a text, ADD COLUMN b text NOT NULL;",
        "ALTER TABLE payments ALTER COLUMN note SET NOT NULL;",
        "ALTER TABLE payments ADD CONSTRAINT short CHECK (length(note) < 9);",
        "CREATE INDEX payments_note ON payments (note);",
        "CREATE INDEX CONCURRENTLY payments_note ON payments (note);",
        "-- no-transaction\nCREATE INDEX CONCURRENTLY payments_note ON payments (note);",
        "-- no-transaction\nCREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS payments_note ON payments (note);",
        "ALTER TABLE payments ADD COLUMN a text, DROP COLUMN b;",
        "ALTER TABLE payments ADD COLUMN a text; DROP TABLE payments;",
        "ALTER TABLE payments ADD COLUMN a timestamptz DEFAULT clock_timestamp();",
        "ALTER TABLE payments ADD COLUMN a text GENERATED ALWAYS AS (note) STORED;",
        "ALTER TABLE payments SET UNLOGGED;",
        "REVOKE ALL ON payments FROM public;",
        "-- no-transaction\nCREATE INDEX CONCURRENTLY IF NOT EXISTS a ON b (c);\nCREATE INDEX CONCURRENTLY IF NOT EXISTS d ON e (f);",
        "DROP TABLE payments;",
        "UPDATE payments SET note = '';",
        "CREATE TABLE notes (id uuid);\nDROP TABLE payments;",
    ] {
        assert!(!violations(bad).is_empty(), "{bad}");
    }
    for good in [
        "ALTER TABLE payments ADD COLUMN note text;",
        "ALTER TABLE payments ADD COLUMN note text NOT NULL DEFAULT '';",
        "ALTER TABLE payments ADD CONSTRAINT short CHECK (length(note) < 9) NOT VALID;",
        "ALTER TABLE payments VALIDATE CONSTRAINT short;",
        "-- no-transaction\nCREATE INDEX CONCURRENTLY IF NOT EXISTS payments_note ON payments (note);",
        "CREATE INDEX events_note ON ONLY events (note);",
        "ALTER TABLE payments SET (fillfactor = 80);",
        "CREATE TABLE notes (id uuid PRIMARY KEY);\nCREATE INDEX notes_id ON notes (id);\nINSERT INTO notes VALUES (1);",
        "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$\nBEGIN\n    DROP TABLE x;\nEND\n$$;",
        "-- upgrade: unused since 0.3.\nALTER TABLE payments DROP COLUMN note;",
    ] {
        assert_eq!(violations(good), [""; 0], "{good}");
    }
}
