//! Rotation of the pepper that keys are hashed with: when keys are rehashed, and what happens to those that are not.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use testkit::{Client, Cluster, ProcessKind};

use super::{PEPPER, REHASHED, assert_doctor, counts, key, restart_with, with_keys};
use crate::support::{Browser, Merchant, ok, refused, uuid};

/// The hash of a merchant's secret key, and the id of its pepper.
async fn stored(merchant: &Merchant) -> Result<(Vec<u8>, Option<Vec<u8>>)> {
    let query = sqlx::query_as("SELECT key_hash, pepper_id FROM api_keys WHERE id = $1");
    Ok(query.bind(uuid(&merchant.account.secret_key_id)?).fetch_one(&merchant.books.db).await?)
}

async fn not_rehashed(cluster: &Cluster) -> Result<Vec<String>> {
    let listed = cluster.ctl(&["keys", "list", "--not-moved"]).await?;
    let rows = listed["keys"].as_array().context("a list")?;
    Ok(rows.iter().filter_map(|row| row["id"].as_str()).map(str::to_owned).collect())
}

async fn use_key(merchant: &Merchant) -> Result<()> {
    ok(&merchant.api.get("/v1/payments").await?);
    Ok(())
}

#[tokio::test]
async fn keys_are_rehashed_on_use_and_rejected_otherwise() -> Result<()> {
    let mut cluster = with_keys("a", "c").api(1).start().await?;
    let (active, idle) = (Merchant::new(&cluster).await?, Merchant::new(&cluster).await?);
    let before = stored(&active).await?;
    use_key(&active).await?;
    assert_eq!(stored(&active).await?, before, "without a rotation nothing is written");

    // Step one: the new pepper is accepted, but keys are not rehashed yet.
    restart_with(&mut cluster, &[(PEPPER[1], &key("d"))]).await?;
    use_key(&active).await?;
    assert_eq!(stored(&active).await?, before);

    restart_with(&mut cluster, &[(PEPPER[0], &key("d")), (PEPPER[1], &key("c"))]).await?;
    use_key(&active).await?;
    let after = stored(&active).await?;
    assert!(after.0 != before.0 && after.1 != before.1 && after.1.is_some());
    use_key(&active).await?;
    assert_eq!(stored(&active).await?, after, "a key is rehashed once");
    // New keys are hashed with the new pepper.
    let new = cluster.ctl(&["keys", "create", "--account", &active.account.id, "--kind", "secret"]).await?;
    let left = not_rehashed(&cluster).await?;
    assert!(!left.contains(&new["id"].as_str().context("an id")?.to_owned()));
    assert!(!left.contains(&active.account.secret_key_id));
    assert!(left.contains(&idle.account.secret_key_id), "{left:?}");
    assert_eq!(left.len(), 3, "a secret key and two publishable keys: {left:?}");

    assert_eq!(counts(&cluster.ctl(&["keys", "rehash"]).await?, REHASHED), [2, 0, 1]);
    assert_eq!(counts(&cluster.ctl(&["keys", "rehash"]).await?, REHASHED), [0, 0, 1]);
    assert_eq!(not_rehashed(&cluster).await?, [idle.account.secret_key_id.as_str()]);
    let records = cluster.ctl(&["audit", "list"]).await?;
    let records = records["audit"].as_array().context("records")?;
    let rehashes: Vec<&Value> = records.iter().filter(|record| record["action"] == "keys.rehash").collect();
    assert_eq!(rehashes.len(), 1);
    assert_eq!(rehashes[0]["detail"]["rehashed"], 2);

    restart_with(&mut cluster, &[(PEPPER[1], "")]).await?;
    use_key(&active).await?;
    for account in [&active.account, &idle.account] {
        Browser::for_account(&cluster, account)?.session().await?;
    }
    refused(&idle.api.get("/v1/payments").await?, 401, "authentication_failed");
    assert_doctor(&cluster, "key pepper", "bad", "1 keys are refused").await?;

    // The old pepper can be configured again.
    restart_with(&mut cluster, &[(PEPPER[1], &key("c"))]).await?;
    use_key(&idle).await?;
    assert!(not_rehashed(&cluster).await?.is_empty());
    assert_doctor(&cluster, "key pepper", "ok", "OLD_KEY_PEPPERS can be removed").await
}

#[tokio::test]
async fn keys_of_the_previous_release_are_rehashed() -> Result<()> {
    let mut cluster = with_keys("a", "c").api(1).start().await?;
    let merchant = Merchant::new(&cluster).await?;
    // The previous release stores no pepper id.
    sqlx::query("UPDATE api_keys SET pepper_id = NULL").execute(&merchant.books.db).await?;
    use_key(&merchant).await?;
    assert_doctor(&cluster, "key pepper", "ok", "").await?;
    restart_with(&mut cluster, &[(PEPPER[0], &key("d")), (PEPPER[1], &key("c"))]).await?;
    use_key(&merchant).await?;
    assert_eq!(counts(&cluster.ctl(&["keys", "rehash"]).await?, REHASHED), [1, 0, 0]);
    restart_with(&mut cluster, &[(PEPPER[1], "")]).await?;
    use_key(&merchant).await?;
    Browser::for_account(&cluster, &merchant.account)?.session().await.map(drop)
}

#[tokio::test]
async fn processes_of_different_steps_do_not_rehash_back_and_forth() -> Result<()> {
    let mut cluster = with_keys("a", "c").env(PEPPER[1], &key("d")).api(1).start().await?;
    let merchant = Merchant::new(&cluster).await?;
    cluster.set_env(PEPPER[0], &key("d"));
    cluster.set_env(PEPPER[1], &key("c"));
    cluster.add(ProcessKind::Api).await?;
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
    assert!((1..=2).contains(&moves), "{moves} moves: each process rehashes a key at most once a minute");
    let made = clients[1].post("/v1/customers", json!({"email": "ada@example.com"})).await?;
    assert_eq!(made.status, 201);
    Ok(())
}
