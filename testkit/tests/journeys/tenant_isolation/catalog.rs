//! Foreign keys as the second line of defense: every key between owned tables includes the account, and rejects rows
//! that mix two accounts.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use testkit::Database;

use crate::support::cluster;

/// Columns that refer to a row of the same account without a foreign key, with the reason.
const WITHOUT_FOREIGN_KEY: &[(&str, &str)] = &[
    // Partitions of events and deliveries are dropped; a foreign key to them would be checked row by row.
    ("webhook_pending.event_id", "partitions of events are dropped"),
    ("webhook_pending.replay_of", "partitions of deliveries are dropped"),
    ("webhook_deliveries.event_id", "partitions of events are dropped"),
    ("webhook_deliveries.replay_of", "partitions of deliveries are dropped"),
    ("charge_anomalies.paid_for", "an invoice, a link or a payment, which a trigger copies from the payment"),
    ("payment_methods.awaits_operation_id", "the id of an operation that is not written yet"),
    ("api_keys.user_id", "a user works in all accounts of a merchant"),
    ("user_actions.user_id", "a user works in all accounts of a merchant"),
    ("figure_cursors.event_id", "partitions of events are dropped"),
    ("requests.key_id", "a log, written in batches"),
    ("webhook_deliveries.endpoint_id", "history, copied from a pending row that has the foreign key"),
];

/// Columns that end with `_id` but refer to no row.
const NOT_REFERENCES: &[&str] = &[
    "operations.request_id",
    "customers.external_id",
    "invoices.external_id",
    "payment_links.external_id",
    "payment_methods.external_id",
    "payments.external_id",
    "plans.external_id",
    "recurring_invoices.external_id",
    "refunds.external_id",
    "subscriptions.external_id",
    "api_keys.pepper_id",
];

/// A foreign key: `(columns) → parent (parents)`.
#[derive(Debug, sqlx::FromRow)]
struct ForeignKey {
    name: String,
    child: String,
    columns: Vec<String>,
    parent: String,
    parents: Vec<String>,
    validated: bool,
}

impl ForeignKey {
    fn includes_account(&self) -> bool {
        let owner = if self.parent == "accounts" { "id" } else { "account_id" };
        // A row of accounts is its own owner.
        let own = if self.child == "accounts" { "id" } else { "account_id" };
        self.columns.iter().zip(&self.parents).any(|(child, parent)| child == own && parent == owner)
    }
}

async fn keys(db: &mut PgConnection) -> Result<Vec<ForeignKey>> {
    let query = sqlx::query_as(
        "SELECT c.conname::text AS name, c.conrelid::regclass::text AS child,
             (SELECT array_agg(a.attname::text ORDER BY k.n) FROM unnest(c.conkey) WITH ORDINALITY k (num, n)
              JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = k.num) AS columns,
             c.confrelid::regclass::text AS parent,
             (SELECT array_agg(a.attname::text ORDER BY k.n) FROM unnest(c.confkey) WITH ORDINALITY k (num, n)
              JOIN pg_attribute a ON a.attrelid = c.confrelid AND a.attnum = k.num) AS parents,
             c.convalidated AS validated
         FROM pg_constraint c WHERE c.contype = 'f' AND c.conparentid = 0
           AND c.connamespace = 'public'::regnamespace ORDER BY 2, 1",
    );
    Ok(query.fetch_all(db).await?)
}

/// The columns of every table in this schema that has an owner column.
async fn owned_tables(db: &mut PgConnection, schema: &str) -> Result<BTreeMap<String, Vec<(String, String)>>> {
    let rows: Vec<(String, String, String)> = sqlx::query_as(
        "SELECT c.relname::text, a.attname::text, format_type(a.atttypid, NULL) FROM pg_class c
         JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
         WHERE c.relnamespace = $1::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
           AND (c.relname = 'accounts' OR EXISTS (SELECT FROM pg_attribute o WHERE o.attrelid = c.oid AND o.attname = 'account_id'))",
    )
    .bind(schema)
    .fetch_all(db)
    .await?;
    let mut tables: BTreeMap<String, Vec<_>> = BTreeMap::new();
    for (table, column, kind) in rows {
        tables.entry(table).or_default().push((column, kind));
    }
    Ok(tables)
}

#[tokio::test]
async fn every_foreign_key_includes_the_account() -> Result<()> {
    let database = Database::create().await?;
    let mut db = PgConnection::connect(database.url()).await?;
    let (keys, tables) = (keys(&mut db).await?, owned_tables(&mut db, "public").await?);
    assert!(keys.len() >= 45 && tables.len() >= 24, "{} keys of {} tables", keys.len(), tables.len());
    let mut problems = Vec::new();
    for key in &keys {
        let both = tables.contains_key(&key.child) && tables.contains_key(&key.parent);
        if both && !key.includes_account() {
            problems.push(format!("{} of {} refers to {} without the account", key.name, key.child, key.parent));
        }
        if !key.validated {
            problems.push(format!("{} of {} is not validated", key.name, key.child));
        }
    }
    let mut exceptions: BTreeSet<_> = WITHOUT_FOREIGN_KEY.iter().map(|(column, _)| (*column).to_owned()).collect();
    let mut not_references: BTreeSet<_> = NOT_REFERENCES.iter().map(|column| (*column).to_owned()).collect();
    for (table, columns) in &tables {
        // Accounts belong to merchants.
        let owner = if table == "accounts" { "merchant_id" } else { "account_id" };
        let has_owner = keys.iter().any(|key| key.child == *table && key.columns.contains(&owner.to_owned()));
        // The objects of the changes have it.
        let is_history = ["requests", "standing_figure_changes", "webhook_deliveries"].contains(&table.as_str());
        if !has_owner && !is_history {
            problems.push(format!("{table} has an owner column without a foreign key"));
        }
        for (column, kind) in columns {
            let full_name = format!("{table}.{column}");
            let is_reference =
                (column.ends_with("_id") && column != owner) || (kind == "uuid" && column != "id" && column != owner);
            let is_covered =
                |key: &ForeignKey| key.child == *table && key.columns.contains(column) && key.includes_account();
            if is_reference
                && !keys.iter().any(is_covered)
                && !exceptions.remove(&full_name)
                && !not_references.remove(&full_name)
            {
                problems.push(format!("{full_name} refers to a row without a foreign key that includes the account"));
            }
        }
    }
    problems.extend(
        exceptions.into_iter().chain(not_references).map(|column| format!("{column} no longer needs an exception")),
    );
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    Ok(())
}

/// With a parent row of another account, each foreign key must reject the child row of this account.
#[tokio::test]
async fn every_foreign_key_rejects_rows_of_other_accounts() -> Result<()> {
    let database = Database::create().await?;
    let mut db = PgConnection::connect(database.url()).await?;
    let tables = owned_tables(&mut db, "public").await?;
    let keys = keys(&mut db).await?;
    let foreign_keys = keys.iter().filter(|key| tables.contains_key(&key.child) && key.columns.len() > 1);
    let mut tested = 0;
    for key in foreign_keys {
        KeyTest { key, db: &mut db }.run_test().await.with_context(|| format!("{key:?}"))?;
        tested += 1;
    }
    assert!(tested >= 34, "only {tested} keys were tested");
    Ok(())
}

const OWN: &str = "00000000-0000-0000-0000-0000000000aa";
const OTHER: &str = "00000000-0000-0000-0000-0000000000bb";
const PARENT_ID: &str = "00000000-0000-0000-0000-0000000000cc";

struct KeyTest<'a> {
    key: &'a ForeignKey,
    db: &'a mut PgConnection,
}

impl KeyTest<'_> {
    /// Runs in a transaction that is rolled back, without the other constraints of the two tables.
    async fn run_test(&mut self) -> Result<()> {
        self.run("BEGIN").await?;
        self.drop_other_constraints().await?;
        // Insert the other account's parent row without checking its references.
        self.run("SET LOCAL session_replication_role = replica").await?;
        let (child, parent) = (self.key.child.clone(), self.key.parent.clone());
        let parent_values: Vec<_> =
            self.key.parents.iter().map(|column| (column.clone(), self.value(column, OTHER))).collect();
        self.insert(&parent, &parent_values).await?;
        self.run("SET LOCAL session_replication_role = origin").await?;
        self.run("SET CONSTRAINTS ALL IMMEDIATE").await?;

        let columns: Vec<_> = self.key.columns.iter().cloned().zip(self.key.parents.clone()).collect();
        let row = |account: &str| -> Vec<_> {
            columns.iter().map(|(column, parent)| (column.clone(), self.value(parent, account))).collect()
        };
        let (foreign, own) = (row(OWN), row(OTHER));
        self.assert_rejected(async |test| test.insert(&child, &foreign).await).await?;
        // The parent's own account can refer to it.
        self.run("SAVEPOINT control").await?;
        self.insert(&child, &own).await.context("the parent's own account is rejected as well")?;
        // The child row cannot be moved to another account.
        let owner = if child == "accounts" { "id" } else { "account_id" };
        // A table that refers to itself has the parent row, too.
        let not_parent = if child == parent { format!(" AND id <> '{PARENT_ID}'") } else { String::new() };
        let moved = format!("UPDATE {child} SET {owner} = '{OWN}' WHERE {owner} = '{OTHER}'{not_parent}");
        self.assert_rejected(async |test| test.run(&moved).await).await?;
        self.run("ROLLBACK").await
    }

    /// Drops all other constraints of the two tables and of accounts.
    async fn drop_other_constraints(&mut self) -> Result<()> {
        let (child, parent) = (self.key.child.clone(), self.key.parent.clone());
        self.run("SET LOCAL session_replication_role = replica").await?;
        let mut tables = BTreeSet::from([child, parent]);
        tables.insert("accounts".to_owned());
        for table in &tables {
            let other_constraints: Vec<String> = sqlx::query_scalar(
                "SELECT conname::text FROM pg_constraint WHERE conrelid = $1::regclass AND conname <> $2
                   AND (contype = 'c' OR (contype = 'f' AND conparentid = 0))",
            )
            .bind(table)
            .bind(&self.key.name)
            .fetch_all(&mut *self.db)
            .await?;
            for constraint in other_constraints {
                self.run(&format!("ALTER TABLE {table} DROP CONSTRAINT \"{constraint}\"")).await?;
            }
            let not_null: Vec<String> = sqlx::query_scalar(
                "SELECT a.attname::text FROM pg_attribute a WHERE a.attrelid = $1::regclass AND a.attnum > 0 AND a.attnotnull
                   AND NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = a.attrelid AND i.indisprimary AND a.attnum = ANY (i.indkey))",
            )
            .bind(table)
            .fetch_all(&mut *self.db)
            .await?;
            for column in not_null {
                self.run(&format!("ALTER TABLE {table} ALTER \"{column}\" DROP NOT NULL")).await?;
            }
        }
        Ok(())
    }

    /// The value of a parent column: the account, or the parent's id.
    fn value(&self, column: &str, account: &str) -> String {
        let owner = if self.key.parent == "accounts" { "id" } else { "account_id" };
        if column == owner { account.to_owned() } else { PARENT_ID.to_owned() }
    }

    /// Inserts a row with these values, and arbitrary values for the rest of its primary key.
    async fn insert(&mut self, table: &str, values: &[(String, String)]) -> Result<()> {
        let primary: Vec<(String, String)> = sqlx::query_as(
            "SELECT a.attname::text, format_type(a.atttypid, NULL) FROM pg_index i
             JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)
             WHERE i.indrelid = $1::regclass AND i.indisprimary",
        )
        .bind(table)
        .fetch_all(&mut *self.db)
        .await?;
        let mut values = values.to_vec();
        for (column, kind) in primary {
            if !values.iter().any(|(name, _)| *name == column) {
                let value = match kind.as_str() {
                    "uuid" => "00000000-0000-0000-0000-0000000000dd",
                    "bytea" => "\\x00",
                    _ => "1",
                };
                values.push((column, value.to_owned()));
            }
        }
        let columns: Vec<_> = values.iter().map(|(column, _)| format!("\"{column}\"")).collect();
        let literals: Vec<_> = values.iter().map(|(_, value)| format!("'{value}'")).collect();
        self.run(&format!("INSERT INTO {table} ({}) VALUES ({})", columns.join(", "), literals.join(", "))).await
    }

    async fn assert_rejected(&mut self, action: impl AsyncFn(&mut Self) -> Result<()>) -> Result<()> {
        self.run("SAVEPOINT attempt").await?;
        let error = action(self).await.err().context("the row was accepted")?;
        let error = error.downcast_ref::<sqlx::Error>().and_then(sqlx::Error::as_database_error);
        let error = error.context("not a database error")?;
        assert_eq!(error.code().as_deref(), Some("23503"), "{error}");
        assert_eq!(error.constraint(), Some(self.key.name.as_str()), "{error}");
        self.run("ROLLBACK TO SAVEPOINT attempt").await
    }

    async fn run(&mut self, statement: &str) -> Result<()> {
        sqlx::raw_sql(AssertSqlSafe(statement.to_owned())).execute(&mut *self.db).await?;
        Ok(())
    }
}

/// The card gateway has its own accounts in its own schema; its foreign keys include them as well.
#[tokio::test]
async fn gateway_rows_belong_to_one_account() -> Result<()> {
    let mut db = PgConnection::connect(cluster().await?.database_url()).await?;
    let foreign_keys: Vec<(String, String, String)> = sqlx::query_as(
        "SELECT c.conname::text, c.conrelid::regclass::text, pg_get_constraintdef(c.oid) FROM pg_constraint c
         WHERE c.contype = 'f' AND c.connamespace = 'gateway'::regnamespace",
    )
    .fetch_all(&mut db)
    .await?;
    let tables = owned_tables(&mut db, "gateway").await?;
    assert!(tables.len() >= 8 && foreign_keys.len() >= 9, "{tables:?} {foreign_keys:?}");
    let is_owned = |table: &str| tables.contains_key(table.trim_start_matches("gateway."));
    for (name, child, definition) in foreign_keys {
        // A receipt belongs to its transaction; its account column only lets accounts take turns.
        assert!(is_owned(&child) || child == "gateway.receipts", "{child} has no owner");
        let references_accounts = definition.contains("REFERENCES gateway.accounts(id)");
        let includes_account = definition.contains("(account_id, ");
        assert!(references_accounts || includes_account || child == "gateway.receipts", "{name}: {definition}");
    }
    Ok(())
}
