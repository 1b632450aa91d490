use std::thread;

use sqlx::{Connection as _, PgConnection, PgPool};
use testkit::Database;
use tokio::runtime::Builder;

use super::*;
use crate::crypto::Secret;
use crate::db;

/// How many connections of the pool have not executed a ROLLBACK last. Blocks the thread, so that a rollback in the
/// background makes no progress meanwhile.
fn not_rolled_back(database: &Database) -> i64 {
    const QUERY: &str = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
                         AND application_name = 'watched' AND (state <> 'idle' OR query <> 'ROLLBACK')";
    let url = database.url().to_owned();
    let counting = async move {
        let mut db = PgConnection::connect(&url).await.expect("a connection");
        sqlx::query_scalar(QUERY).fetch_one(&mut db).await.expect("a number")
    };
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    thread::spawn(move || runtime.block_on(counting)).join().expect("a count")
}

async fn pool(database: &Database, connections: u32) -> PgPool {
    let pool = db::pool(&Secret::new(database.url().to_owned()), connections, "watched").expect("a pool");
    let tables = "CREATE TABLE parent (n integer PRIMARY KEY);
                  CREATE TABLE child (n integer REFERENCES parent DEFERRABLE INITIALLY DEFERRED)";
    sqlx::raw_sql(tables).execute(&pool).await.expect("tables");
    pool
}

async fn insert_child(tx: &mut PgConnection) {
    sqlx::query("INSERT INTO child VALUES (1)").execute(tx).await.expect("inserted");
}

#[tokio::test]
async fn a_request_can_wait_for_the_end_of_dropped_transactions() {
    let database = Database::create().await.expect("a database");
    let pool = pool(&database, 2).await;
    let (one, other) = (db::begin(&pool).await, db::Db::without_queue(pool).begin().await);
    let (mut one, mut other) = (one.expect("begun"), other.expect("begun"));
    let ((), transactions) = watch_transactions(async move {
        insert_child(&mut one).await;
        insert_child(&mut other).await;
    })
    .await;
    assert_eq!(not_rolled_back(&database), 2, "the rollbacks run in the background");
    assert!(!transactions.committed());
    transactions.ended().await;
    assert_eq!(not_rolled_back(&database), 0);
}

#[tokio::test]
async fn a_request_can_wait_for_the_end_of_an_aborted_transaction() {
    let database = Database::create().await.expect("a database");
    let pool = pool(&database, 1).await;
    let mut tx = db::begin(&pool).await.expect("begun");
    let ((), transactions) = watch_transactions(async move {
        insert_child(&mut tx).await;
        sqlx::query("SELECT 1 / 0").execute(&mut *tx).await.expect_err("a failed statement");
    })
    .await;
    assert_eq!(not_rolled_back(&database), 1, "the rollback runs in the background");
    transactions.ended().await;
    assert_eq!(not_rolled_back(&database), 0);
}

#[tokio::test]
async fn a_request_can_wait_for_the_end_of_a_refused_commit() {
    let database = Database::create().await.expect("a database");
    let pool = pool(&database, 1).await;
    let refuse = "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
                  BEGIN RAISE EXCEPTION 'refused' USING ERRCODE = '40P01'; END $$;
                  CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON parent DEFERRABLE INITIALLY DEFERRED
                      FOR EACH ROW EXECUTE FUNCTION refuse()";
    sqlx::raw_sql(refuse).execute(&pool).await.expect("a trigger");
    let refused = async {
        let mut tx = db::begin(&pool).await.expect("begun");
        sqlx::query("INSERT INTO parent VALUES (1)").execute(&mut *tx).await.expect("inserted");
        tx.commit().await.expect_err("a refused commit");
    };
    let ((), transactions) = watch_transactions(refused).await;
    assert!(!transactions.committed());
    assert_eq!(not_rolled_back(&database), 1, "the rollback runs in the background");
    transactions.ended().await;
    assert_eq!(not_rolled_back(&database), 0);
}

#[tokio::test]
async fn a_commit_that_was_not_refused_is_noted() {
    let database = Database::create().await.expect("a database");
    let pool = pool(&database, 2).await;
    let tx = db::begin(&pool).await.expect("begun");
    let (result, transactions) = watch_transactions(tx.commit()).await;
    result.expect("committed");
    assert!(transactions.committed());
    sqlx::query("SELECT 1").execute(&pool).await.expect("the connection is usable");
}
