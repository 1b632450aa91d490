//! Migrations are applied while the former release serves: nobody stands behind one that waits, what was cut off is taken up again,
//! and none does what the former release could not live with.

use std::{fs, path::Path, time::Duration};

use anyhow::{Context, Result, ensure};
use sqlx::{Connection, PgConnection, migrate::Migrator};
use testkit::{Database, TempDir};
use tokio::time::{sleep, timeout};

/// Far longer than a migration waits for a lock.
const PATIENCE: Duration = Duration::from_secs(20);

/// What had been applied before anybody could be served by a former release.
const BEFORE_THE_FIRST: [(&str, u32); 2] = [("migrations/migrations", 20), ("gateway/migrations", 6)];

/// A database without a schema, and migrations of a test's own.
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
async fn nobody_stands_behind_a_migration_that_waits_for_a_table() -> Result<()> {
    let (database, _folder, migrator) = prepared(&[("1_more.sql", "ALTER TABLE busy ADD COLUMN more text")]).await?;
    let mut long = PgConnection::connect(database.url()).await?;
    let mut reader = PgConnection::connect(database.url()).await?;
    let mut reading = long.begin().await?;
    sqlx::query("SELECT FROM busy").execute(&mut *reading).await?;

    let migrating = async { timeout(PATIENCE * 2, migrations::apply(&migrator, database.url())).await? };
    let others = async {
        let waiting =
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'ALTER TABLE busy%'
                       AND datname = current_database()";
        let mut watch = PgConnection::connect(database.url()).await?;
        while sqlx::query_scalar::<_, i64>(waiting).fetch_one(&mut watch).await? == 0 {
            sleep(Duration::from_millis(20)).await;
        }
        // The first transaction is still open, and will be until this has an answer.
        let read = sqlx::query("SELECT FROM busy").execute(&mut reader);
        timeout(PATIENCE, read).await.context("whoever came after the migration waits for whoever was before it")??;
        reading.commit().await?;
        anyhow::Ok(())
    };
    tokio::try_join!(migrating, others)?;
    sqlx::query("SELECT more FROM busy").execute(&mut reader).await?;
    Ok(())
}

#[tokio::test]
async fn an_index_that_was_cut_off_is_built_again() -> Result<()> {
    let statement = "CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS busy_name ON busy (name)";
    let file = format!("-- no-transaction\n{statement}");
    let (database, _folder, migrator) = prepared(&[("1_name.sql", &file)]).await?;
    let mut connection = PgConnection::connect(database.url()).await?;
    sqlx::query("INSERT INTO busy VALUES (1, 'a'), (2, 'a')").execute(&mut connection).await?;
    let refused = migrations::apply(&migrator, database.url()).await.expect_err("two rows have one name");
    ensure!(format!("{refused:#}").contains("busy_name"), "{refused:#}");
    let valid =
        "SELECT i.indisvalid FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid WHERE c.relname = 'busy_name'";
    assert_eq!(sqlx::query_scalar::<_, bool>(valid).fetch_all(&mut connection).await?, [false]);

    sqlx::query("DELETE FROM busy WHERE id = 2").execute(&mut connection).await?;
    let (first, second) = (migrations::apply(&migrator, database.url()), migrations::apply(&migrator, database.url()));
    tokio::try_join!(first, second)?;
    assert_eq!(sqlx::query_scalar::<_, bool>(valid).fetch_all(&mut connection).await?, [true]);

    // The connection broke between the index and its note.
    sqlx::query("DELETE FROM _sqlx_migrations").execute(&mut connection).await?;
    migrations::apply(&migrator, database.url()).await?;
    assert_eq!(sqlx::query_scalar::<_, bool>(valid).fetch_all(&mut connection).await?, [true]);
    Ok(())
}

/// What may stand in a migration without a reason: beside it the former release reads and writes as before.
fn is_harmless(statement: &str, made_here: &[String]) -> bool {
    let words: Vec<&str> = statement.split_whitespace().collect();
    let names_new = |word: &str| made_here.iter().any(|table| word.trim_matches(['(', ')', ';', ',']) == table);
    match words.as_slice() {
        ["CREATE", "TABLE" | "FUNCTION" | "SEQUENCE" | "VIEW" | "TYPE", ..] => true,
        ["CREATE", "OR", "REPLACE", "FUNCTION" | "VIEW", ..] => true,
        ["CREATE", "INDEX" | "UNIQUE", ..] => {
            let on = words.iter().position(|word| *word == "ON").and_then(|at| words.get(at + 1));
            // A unique one refuses what the former release may write.
            words.starts_with(&["CREATE", "INDEX", "CONCURRENTLY", "IF", "NOT", "EXISTS"])
                || on.is_some_and(|table| names_new(table.split('(').next().unwrap_or(table)))
        }
        ["CREATE", "TRIGGER", rest @ ..] => rest.windows(2).any(|pair| pair[0] == "ON" && names_new(pair[1])),
        ["ALTER", "TABLE", table, ..] if names_new(table) => true,
        ["ALTER", "TABLE", _, "SET", set, ..] => set.starts_with('('),
        ["ALTER", "TABLE", _, "VALIDATE", "CONSTRAINT", _] => true,
        ["ALTER", "TABLE", _, "ADD", "CONSTRAINT", rest @ ..] => rest.ends_with(&["NOT", "VALID"]),
        ["ALTER", "TABLE", _, "ADD", "COLUMN", rest @ ..] => {
            // Each column may be null or has a default that is no question: the former release does not name it.
            let harmless = |column: &str| {
                let default = column.split(" DEFAULT ").nth(1).and_then(|text| text.split([' ', ',']).next());
                let constant = default.is_none_or(|text| !text.contains('('));
                constant && (!column.contains("NOT NULL") || default.is_some())
            };
            let more = ["DROP", "RENAME", "ALTER", "REFERENCES", "UNIQUE", "PRIMARY", "GENERATED", "CONSTRAINT"];
            rest.join(" ").split("ADD COLUMN").all(harmless) && !rest.iter().any(|word| more.contains(word))
        }
        ["INSERT", "INTO", table, ..] | ["COMMENT", "ON", _, table, ..] => names_new(table),
        ["GRANT", ..] | ["ALTER", "FUNCTION", ..] => true,
        _ => false,
    }
}

/// The statements of a file, without its comments, and which of them give a reason: a comment `-- upgrade: …` before them.
fn statements(text: &str) -> Vec<(String, bool)> {
    let (mut found, mut statement, mut excused, mut body) = (Vec::new(), String::new(), false, false);
    for line in text.lines() {
        excused |= line.trim_start().starts_with("-- upgrade: ");
        let line = line.split("--").next().unwrap_or_default().trim();
        for part in line.split_inclusive(';') {
            // The body of a function is one statement with its head.
            body ^= part.matches("$$").count() % 2 == 1;
            statement.push_str(part);
            if !body && part.ends_with(';') {
                let whole = statement.split_whitespace().collect::<Vec<_>>().join(" ");
                found.push((whole.trim_end_matches(';').to_owned(), excused));
                (statement, excused) = (String::new(), false);
            }
        }
        statement.push(' ');
    }
    found
}

fn offences(text: &str) -> Vec<String> {
    let statements = statements(text);
    let made_here: Vec<String> = statements
        .iter()
        .filter_map(|(statement, _)| statement.strip_prefix("CREATE TABLE "))
        .filter_map(|rest| rest.trim_start_matches("IF NOT EXISTS ").split([' ', '(']).next().map(str::to_owned))
        .collect();
    let mut offences: Vec<String> = statements
        .iter()
        .filter(|(statement, excused)| !excused && !is_harmless(statement, &made_here))
        .map(|(statement, _)| statement.clone())
        .collect();
    let alone = text.starts_with("-- no-transaction");
    if alone != text.contains(" CONCURRENTLY ") || (alone && statements.len() != 1) {
        offences.push("CONCURRENTLY is for a file that begins with -- no-transaction and has one statement".to_owned());
    }
    offences
}

#[test]
fn the_former_release_can_live_with_every_migration() -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("a workspace")?;
    let mut refused = Vec::new();
    for (folder, before) in BEFORE_THE_FIRST {
        for file in fs::read_dir(root.join(folder))? {
            let file = file?;
            let name = file.file_name().into_string().unwrap_or_default();
            let number: u32 = name.split('_').next().unwrap_or_default().parse().with_context(|| name.clone())?;
            if number > before {
                let found = offences(&fs::read_to_string(file.path())?);
                refused.extend(found.into_iter().map(|offence| format!("{name}: {offence}")));
            }
        }
    }
    assert!(refused.is_empty(), "docs/upgrading.md says what a migration may do:\n{}", refused.join("\n"));
    Ok(())
}

#[test]
fn what_would_stop_the_former_release_is_seen() {
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
        assert!(!offences(bad).is_empty(), "{bad}");
    }
    for good in [
        "ALTER TABLE payments ADD COLUMN note text;",
        "ALTER TABLE payments ADD COLUMN note text NOT NULL DEFAULT '';",
        "ALTER TABLE payments ADD CONSTRAINT short CHECK (length(note) < 9) NOT VALID;",
        "ALTER TABLE payments VALIDATE CONSTRAINT short;",
        "-- no-transaction\nCREATE INDEX CONCURRENTLY IF NOT EXISTS payments_note ON payments (note);",
        "ALTER TABLE payments SET (fillfactor = 80);",
        "CREATE TABLE notes (id uuid PRIMARY KEY);\nCREATE INDEX notes_id ON notes (id);\nINSERT INTO notes VALUES (1);",
        "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$\nBEGIN\n    DROP TABLE x;\nEND\n$$;",
        "-- upgrade: nobody has read it since 0.3.\nALTER TABLE payments DROP COLUMN note;",
    ] {
        assert_eq!(offences(good), [""; 0], "{good}");
    }
}
