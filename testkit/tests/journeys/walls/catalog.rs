//! The second wall: what the catalog of the database says of every table that has an owner, and that it bites. A mistake in a
//! process that mixes two accounts up is refused by a key, and not booked.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use testkit::{Cluster, Database};

/// Columns that name a row of the same account and have no key to it, each for a reason.
const WITHOUT_A_KEY: &[(&str, &str)] = &[
    // Months of events and of deliveries are dropped whole. A key to a partitioned table would have to be checked row by row.
    ("webhook_pending.event_id", "events are dropped by the month"),
    ("webhook_pending.replay_of", "deliveries are dropped by the month"),
    ("webhook_deliveries.event_id", "events are dropped by the month"),
    ("webhook_deliveries.replay_of", "deliveries are dropped by the month"),
    ("webhook_deliveries.endpoint_id", "written from a pending row, which has the key; it is history"),
];

/// Columns that end like a name and name no row of ours.
const NO_ROWS: &[&str] =
    &["operations.request_id", "customers.external_id", "refunds.external_id", "api_keys.pepper_id"];

/// A foreign key: `(columns) → parent (parents)`.
#[derive(Debug, sqlx::FromRow)]
struct Key {
    name: String,
    child: String,
    columns: Vec<String>,
    parent: String,
    parents: Vec<String>,
    validated: bool,
}

impl Key {
    fn carries_the_account(&self) -> bool {
        let owner = if self.parent == "accounts" { "id" } else { "account_id" };
        // An account's own row is its own owner.
        let own = if self.child == "accounts" { "id" } else { "account_id" };
        self.columns.iter().zip(&self.parents).any(|(child, parent)| child == own && parent == owner)
    }
}

async fn keys(db: &mut PgConnection) -> Result<Vec<Key>> {
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

/// Every column of every table in this schema that has a column for its owner.
async fn owned(db: &mut PgConnection, schema: &str) -> Result<BTreeMap<String, Vec<(String, String)>>> {
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
async fn every_key_carries_the_account() -> Result<()> {
    let database = Database::create().await?;
    let mut db = PgConnection::connect(database.url()).await?;
    let (keys, tables) = (keys(&mut db).await?, owned(&mut db, "public").await?);
    assert!(keys.len() >= 45 && tables.len() >= 24, "{} keys of {} tables", keys.len(), tables.len());
    let mut wrong = Vec::new();
    for key in &keys {
        let both = tables.contains_key(&key.child) && tables.contains_key(&key.parent);
        if both && !key.carries_the_account() {
            wrong.push(format!("{} of {} names a row of {} without its account", key.name, key.child, key.parent));
        }
        if !key.validated {
            wrong.push(format!("{} of {} was never checked against the rows that were there", key.name, key.child));
        }
    }
    let mut excused: BTreeSet<_> = WITHOUT_A_KEY.iter().map(|(column, _)| (*column).to_owned()).collect();
    let mut no_rows: BTreeSet<_> = NO_ROWS.iter().map(|column| (*column).to_owned()).collect();
    for (table, columns) in &tables {
        // Its own rows belong to accounts as well.
        let owner = if table == "accounts" { "merchant_id" } else { "account_id" };
        let is_audit_or_owned = keys.iter().any(|key| key.child == *table && key.columns.contains(&owner.to_owned()));
        let excuse = ["webhook_deliveries"].contains(&table.as_str());
        if !is_audit_or_owned && !excuse {
            wrong.push(format!("{table} has an owner that need not be there"));
        }
        for (column, kind) in columns {
            let named = format!("{table}.{column}");
            let names =
                (column.ends_with("_id") && column != owner) || (kind == "uuid" && column != "id" && column != owner);
            let keyed = |key: &Key| key.child == *table && key.columns.contains(column) && key.carries_the_account();
            if names && !keys.iter().any(keyed) && !excused.remove(&named) && !no_rows.remove(&named) {
                wrong.push(format!("{named} names a row, and no key with the account says so"));
            }
        }
    }
    wrong.extend(excused.into_iter().chain(no_rows).map(|column| format!("{column} needs no exception any more")));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

/// Two accounts, each with a parent; whoever is of one and names the parent of the other is refused by this very key.
#[tokio::test]
async fn every_key_refuses_anothers_row() -> Result<()> {
    let database = Database::create().await?;
    let mut db = PgConnection::connect(database.url()).await?;
    let tables = owned(&mut db, "public").await?;
    let keys = keys(&mut db).await?;
    let walls = keys.iter().filter(|key| tables.contains_key(&key.child) && key.columns.len() > 1);
    let mut proved = 0;
    for key in walls {
        Proof { key, db: &mut db }.bites().await.with_context(|| format!("{key:?}"))?;
        proved += 1;
    }
    assert!(proved >= 34, "only {proved} keys were tried");
    Ok(())
}

const OWN: &str = "00000000-0000-0000-0000-0000000000aa";
const OTHER: &str = "00000000-0000-0000-0000-0000000000bb";
const NAMED: &str = "00000000-0000-0000-0000-0000000000cc";

struct Proof<'a> {
    key: &'a Key,
    db: &'a mut PgConnection,
}

impl Proof<'_> {
    /// In a transaction that ends in nothing, without all other rules of the two tables.
    async fn bites(&mut self) -> Result<()> {
        self.run("BEGIN").await?;
        self.alone().await?;
        // The other's row is there, whatever it refers to.
        self.run("SET LOCAL session_replication_role = replica").await?;
        let (child, parent) = (self.key.child.clone(), self.key.parent.clone());
        let of_parent: Vec<_> =
            self.key.parents.iter().map(|column| (column.clone(), self.value(column, OTHER))).collect();
        self.insert(&parent, &of_parent).await?;
        self.run("SET LOCAL session_replication_role = origin").await?;
        self.run("SET CONSTRAINTS ALL IMMEDIATE").await?;

        let columns: Vec<_> = self.key.columns.iter().cloned().zip(self.key.parents.clone()).collect();
        let row = |account: &str| -> Vec<_> {
            columns.iter().map(|(column, parent)| (column.clone(), self.value(parent, account))).collect()
        };
        let (foreign, right) = (row(OWN), row(OTHER));
        self.is_refused(async |proof| proof.insert(&child, &foreign).await).await?;
        // The account that it belongs to may name it.
        self.run("SAVEPOINT control").await?;
        self.insert(&child, &right).await.context("the row's own account is refused, too")?;
        // And cannot be given to another with it.
        let owner = if child == "accounts" { "id" } else { "account_id" };
        let moved = format!("UPDATE {child} SET {owner} = '{OWN}' WHERE {owner} = '{OTHER}'");
        self.is_refused(async |proof| proof.run(&moved).await).await?;
        self.run("ROLLBACK").await
    }

    /// Takes all other rules away, and makes the accounts that keys of accounts alone ask for.
    async fn alone(&mut self) -> Result<()> {
        let (child, parent) = (self.key.child.clone(), self.key.parent.clone());
        self.run("SET LOCAL session_replication_role = replica").await?;
        let mut tables = BTreeSet::from([child, parent]);
        tables.insert("accounts".to_owned());
        for table in &tables {
            let others: Vec<String> = sqlx::query_scalar(
                "SELECT conname::text FROM pg_constraint WHERE conrelid = $1::regclass AND conname <> $2
                   AND (contype = 'c' OR (contype = 'f' AND conparentid = 0))",
            )
            .bind(table)
            .bind(&self.key.name)
            .fetch_all(&mut *self.db)
            .await?;
            for other in others {
                self.run(&format!("ALTER TABLE {table} DROP CONSTRAINT \"{other}\"")).await?;
            }
            let strict: Vec<String> = sqlx::query_scalar(
                "SELECT a.attname::text FROM pg_attribute a WHERE a.attrelid = $1::regclass AND a.attnum > 0 AND a.attnotnull
                   AND NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = a.attrelid AND i.indisprimary AND a.attnum = ANY (i.indkey))",
            )
            .bind(table)
            .fetch_all(&mut *self.db)
            .await?;
            for column in strict {
                self.run(&format!("ALTER TABLE {table} ALTER \"{column}\" DROP NOT NULL")).await?;
            }
        }
        Ok(())
    }

    /// A column of the parent holds its account, or what names it.
    fn value(&self, column: &str, account: &str) -> String {
        let owner = if self.key.parent == "accounts" { "id" } else { "account_id" };
        if column == owner { account.to_owned() } else { NAMED.to_owned() }
    }

    /// Inserts a row of these values; what else its primary key asks for is made up.
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
            if !values.iter().any(|(known, _)| *known == column) {
                let made = match kind.as_str() {
                    "uuid" => "00000000-0000-0000-0000-0000000000dd",
                    "bytea" => "\\x00",
                    _ => "1",
                };
                values.push((column, made.to_owned()));
            }
        }
        let columns: Vec<_> = values.iter().map(|(column, _)| format!("\"{column}\"")).collect();
        let literals: Vec<_> = values.iter().map(|(_, value)| format!("'{value}'")).collect();
        self.run(&format!("INSERT INTO {table} ({}) VALUES ({})", columns.join(", "), literals.join(", "))).await
    }

    async fn is_refused(&mut self, what: impl AsyncFn(&mut Self) -> Result<()>) -> Result<()> {
        self.run("SAVEPOINT attempt").await?;
        let refused = what(self).await.err().context("it was let through")?;
        let refused = refused.downcast_ref::<sqlx::Error>().and_then(sqlx::Error::as_database_error);
        let refused = refused.context("no refusal of the database")?;
        assert_eq!(refused.code().as_deref(), Some("23503"), "{refused}");
        assert_eq!(refused.constraint(), Some(self.key.name.as_str()), "{refused}");
        self.run("ROLLBACK TO SAVEPOINT attempt").await
    }

    async fn run(&mut self, statement: &str) -> Result<()> {
        sqlx::raw_sql(AssertSqlSafe(statement.to_owned())).execute(&mut *self.db).await?;
        Ok(())
    }
}

/// The card gateway has accounts of its own in a schema of its own. Its keys carry them as well.
#[tokio::test]
async fn the_gateways_rows_have_one_owner() -> Result<()> {
    let cluster = Cluster::builder().gateway(1).start().await?;
    let mut db = PgConnection::connect(cluster.database_url()).await?;
    let names: Vec<(String, String, String)> = sqlx::query_as(
        "SELECT c.conname::text, c.conrelid::regclass::text, pg_get_constraintdef(c.oid) FROM pg_constraint c
         WHERE c.contype = 'f' AND c.connamespace = 'gateway'::regnamespace",
    )
    .fetch_all(&mut db)
    .await?;
    let tables = owned(&mut db, "gateway").await?;
    assert!(tables.len() >= 8 && names.len() >= 9, "{tables:?} {names:?}");
    let is_owned = |table: &str| tables.contains_key(table.trim_start_matches("gateway."));
    for (name, child, definition) in names {
        // A receipt has no account: it is its transaction's, and goes with it.
        assert!(is_owned(&child) || child == "gateway.receipts", "{child} has no owner");
        let of_account = definition.contains("REFERENCES gateway.accounts(id)");
        let carries = definition.contains("(account_id, ");
        assert!(of_account || carries || child == "gateway.receipts", "{name}: {definition}");
    }
    Ok(())
}
