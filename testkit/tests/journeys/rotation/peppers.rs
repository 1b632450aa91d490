//! The pepper under which keys are hashed: which keys move, when, and what becomes of those that have not.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use testkit::{Client, Cluster, Kind};

use super::{PEPPER, REHASHED, doctor_says, figures, key, restart_with, with_keys};
use crate::support::{Browser, Merchant, ok, refused, uuid};

/// The hash of a merchant's secret key, and the name of its pepper.
async fn stored(merchant: &Merchant) -> Result<(Vec<u8>, Option<Vec<u8>>)> {
    let query = sqlx::query_as("SELECT key_hash, pepper_id FROM api_keys WHERE id = $1");
    Ok(query.bind(uuid(&merchant.account.secret_key_id)?).fetch_one(&merchant.books.db).await?)
}

async fn not_moved(cluster: &Cluster) -> Result<Vec<String>> {
    let listed = cluster.ctl(&["keys", "list", "--not-moved"]).await?;
    let rows = listed["keys"].as_array().context("a list")?;
    Ok(rows.iter().filter_map(|row| row["id"].as_str()).map(str::to_owned).collect())
}

async fn uses(merchant: &Merchant) -> Result<()> {
    ok(&merchant.api.get("/v1/payments").await?);
    Ok(())
}

#[tokio::test]
async fn a_key_moves_when_it_is_used_and_is_refused_if_it_was_not() -> Result<()> {
    let mut cluster = with_keys("a", "c").api(1).start().await?;
    let (active, idle) = (Merchant::new(&cluster).await?, Merchant::new(&cluster).await?);
    let before = stored(&active).await?;
    uses(&active).await?;
    assert_eq!(stored(&active).await?, before, "without a rotation nothing is written");

    // The new one is on its way: it is known, and nothing moves.
    restart_with(&mut cluster, &[(PEPPER[1], &key("d"))]).await?;
    uses(&active).await?;
    assert_eq!(stored(&active).await?, before);

    restart_with(&mut cluster, &[(PEPPER[0], &key("d")), (PEPPER[1], &key("c"))]).await?;
    uses(&active).await?;
    let after = stored(&active).await?;
    assert!(after.0 != before.0 && after.1 != before.1 && after.1.is_some());
    uses(&active).await?;
    assert_eq!(stored(&active).await?, after, "once");
    // A key that is issued now needs no move.
    let new = cluster.ctl(&["keys", "create", "--account", &active.account.id, "--kind", "secret"]).await?;
    let left = not_moved(&cluster).await?;
    assert!(!left.contains(&new["id"].as_str().context("an id")?.to_owned()));
    assert!(!left.contains(&active.account.secret_key_id));
    assert!(left.contains(&idle.account.secret_key_id), "{left:?}");
    assert_eq!(left.len(), 3, "a secret key and two publishable ones: {left:?}");

    assert_eq!(figures(&cluster.ctl(&["keys", "rehash"]).await?, REHASHED), [2, 0, 1]);
    assert_eq!(figures(&cluster.ctl(&["keys", "rehash"]).await?, REHASHED), [0, 0, 1]);
    assert_eq!(not_moved(&cluster).await?, [idle.account.secret_key_id.as_str()]);
    let records = cluster.ctl(&["audit", "list"]).await?;
    let told = records["audit"].as_array().context("records")?;
    let told: Vec<&Value> = told.iter().filter(|record| record["action"] == "keys.rehash").collect();
    assert_eq!(told.len(), 1);
    assert_eq!(told[0]["detail"]["rehashed"], 2);

    restart_with(&mut cluster, &[(PEPPER[1], "")]).await?;
    uses(&active).await?;
    for account in [&active.account, &idle.account] {
        Browser::of(&cluster, account)?.session().await?;
    }
    refused(&idle.api.get("/v1/payments").await?, 401, "authentication_failed");
    doctor_says(&cluster, "key pepper", "bad", "1 keys are refused").await?;

    // Going back is as good as going on.
    restart_with(&mut cluster, &[(PEPPER[1], &key("c"))]).await?;
    uses(&idle).await?;
    assert!(not_moved(&cluster).await?.is_empty());
    doctor_says(&cluster, "key pepper", "ok", "OLD_KEY_PEPPERS may go").await
}

#[tokio::test]
async fn keys_of_the_release_before_move_too() -> Result<()> {
    let mut cluster = with_keys("a", "c").api(1).start().await?;
    let merchant = Merchant::new(&cluster).await?;
    // As it writes them.
    sqlx::query("UPDATE api_keys SET pepper_id = NULL").execute(&merchant.books.db).await?;
    uses(&merchant).await?;
    doctor_says(&cluster, "key pepper", "ok", "").await?;
    restart_with(&mut cluster, &[(PEPPER[0], &key("d")), (PEPPER[1], &key("c"))]).await?;
    uses(&merchant).await?;
    assert_eq!(figures(&cluster.ctl(&["keys", "rehash"]).await?, REHASHED), [1, 0, 0]);
    restart_with(&mut cluster, &[(PEPPER[1], "")]).await?;
    uses(&merchant).await?;
    Browser::of(&cluster, &merchant.account)?.session().await.map(drop)
}

#[tokio::test]
async fn processes_of_two_steps_do_not_move_a_key_to_and_fro() -> Result<()> {
    let mut cluster = with_keys("a", "c").env(PEPPER[1], &key("d")).api(1).start().await?;
    let merchant = Merchant::new(&cluster).await?;
    cluster.set_env(PEPPER[0], &key("d"));
    cluster.set_env(PEPPER[1], &key("c"));
    cluster.add(Kind::Api).await?;
    for statement in [
        "CREATE TABLE moves (id uuid)",
        "GRANT ALL ON moves TO PUBLIC",
        "CREATE FUNCTION moved() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO moves VALUES (NEW.id); RETURN NEW; END'",
        "CREATE TRIGGER moved AFTER UPDATE OF key_hash ON api_keys FOR EACH ROW EXECUTE FUNCTION moved()",
    ] {
        sqlx::query(statement).execute(&merchant.books.db).await?;
    }
    let apis = [0, 1].map(|api| cluster.api_url(api));
    let clients = apis.iter().map(|url| Client::new(url)?.bearer(&merchant.account.secret_key));
    let clients = clients.collect::<Result<Vec<_>>>()?;
    for _ in 0..20 {
        for client in &clients {
            ok(&client.get("/v1/payments").await?);
        }
    }
    let moves: i64 = sqlx::query_scalar("SELECT count(*) FROM moves").fetch_one(&merchant.books.db).await?;
    assert!((1..=2).contains(&moves), "{moves} moves: each process tries once a minute");
    let made = clients[1].post("/v1/customers", json!({"email": "ada@example.com"})).await?;
    assert_eq!(made.status, 201);
    Ok(())
}
