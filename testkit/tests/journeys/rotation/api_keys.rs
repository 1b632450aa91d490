//! Rotation of API keys: the old and the new key both work during the grace period.

use anyhow::{Context, Result};
use reqwest::Method;
use serde_json::{Value, json};
use testkit::Client;

use super::assert_doctor;
use crate::signing::{Signed, live};
use crate::support::{Merchant, ORIGIN, cluster, merchant, ok, refused, uuid};

fn text<'a>(object: &'a Value, field: &str) -> Result<&'a str> {
    object[field].as_str().with_context(|| format!("{field} of {object}"))
}

async fn rotate(key: &str, options: &[&str]) -> Result<Value> {
    cluster().await?.ctl(&[&["keys", "rotate", key], options].concat()).await
}

/// A key's row in the output of `ctl keys list`.
async fn listed(merchant: &Merchant, key: &str) -> Result<Value> {
    let listed = cluster().await?.ctl(&["keys", "list", "--account", &merchant.account.id]).await?;
    let mut rows = listed["keys"].as_array().context("a list")?.iter();
    rows.find(|row| row["id"] == key).cloned().context("the key")
}

async fn execute(merchant: &Merchant, statement: &'static str, key: &str) -> Result<()> {
    sqlx::query(statement).bind(uuid(key)?).execute(&merchant.books.db).await?;
    Ok(())
}

const EXPIRE: &str = "UPDATE api_keys SET expires_at = clock_timestamp() WHERE id = $1";

#[tokio::test]
async fn both_keys_work_until_the_old_key_expires() -> Result<()> {
    let merchant = merchant().await?;
    let arguments = ["keys", "create", "--account", &merchant.account.id, "--kind", "secret"];
    let arguments = [&arguments[..], &["--entitlement", "payments.list", "--entitlement", "plans.list"]].concat();
    let former = cluster().await?.ctl(&arguments).await?;
    let former_id = text(&former, "id")?;
    let rotated = rotate(former_id, &["--grace", "7d"]).await?;
    assert_eq!(rotated["former"], former["id"]);
    let [former_row, new_row] = [former_id, text(&rotated, "id")?].map(|id| listed(&merchant, id));
    let (former_row, new_row) = (former_row.await?, new_row.await?);
    assert_eq!(new_row["entitlements"], former_row["entitlements"]);
    assert_eq!((&new_row["kind"], &new_row["expires_at"]), (&json!("secret"), &Value::Null));
    assert_eq!(former_row["expires_at"], rotated["former_expires_at"]);

    let api = |key: &Value| Client::new(merchant.api.base())?.bearer(text(key, "key")?);
    for key in [&former, &rotated] {
        ok(&api(key)?.get("/v1/payments").await?);
        refused(&api(key)?.get("/v1/customers").await?, 403, "capability_not_enabled");
    }
    // A second rotation does not extend the expiry.
    let rotated_again = rotate(former_id, &["--grace", "300d"]).await?;
    assert_eq!(rotated_again["former_expires_at"], rotated["former_expires_at"]);
    execute(&merchant, EXPIRE, former_id).await?;
    refused(&api(&former)?.get("/v1/payments").await?, 401, "authentication_failed");
    ok(&api(&rotated)?.get("/v1/payments").await?);

    let records = cluster().await?.ctl(&["audit", "list", "--account", &merchant.account.id]).await?;
    let records = records["audit"].as_array().context("records")?;
    let rotations: Vec<_> = records.iter().filter(|record| record["action"] == "keys.rotate").collect();
    assert_eq!((rotations.len(), &rotations[1]["object"]), (2, &rotated["id"]));
    assert_eq!(rotations[1]["detail"]["former"], former["id"]);
    assert!(!json!(records).to_string().contains(text(&rotated, "key")?));
    Ok(())
}

#[tokio::test]
async fn rotated_live_keys_get_their_own_signing_secret() -> Result<()> {
    let mut live = live(cluster().await?).await?;
    let rotated = rotate(&live.account.secret_key_id, &[]).await?;
    let read = |live: &Merchant| Signed::new(live, Method::GET, "/v1/customers", None).map(Signed::sign);
    ok(&read(&live)?.send(&live.api).await?);
    let former = live.account.signing_secret.replace(text(&rotated, "signing_secret")?.to_owned());
    assert_ne!(former, live.account.signing_secret);
    live.account.secret_key_id = text(&rotated, "id")?.to_owned();
    live.account.secret_key = text(&rotated, "key")?.to_owned();
    let api = Client::new(live.api.base())?.bearer(&live.account.secret_key)?;
    ok(&read(&live)?.send(&api).await?);
    live.account.signing_secret = former;
    refused(&read(&live)?.send(&api).await?, 401, "authentication_failed");
    Ok(())
}

#[tokio::test]
async fn publishable_keys_can_be_replaced_without_grace() -> Result<()> {
    let merchant = merchant().await?;
    let session = async |key: &str| {
        let api = Client::new(merchant.api.base())?.bearer(key)?.header("origin", ORIGIN)?;
        api.send(Method::POST, "/v1/checkout_sessions", None).await
    };
    let keys = cluster().await?.ctl(&["keys", "list", "--account", &merchant.account.id]).await?;
    let mut keys = keys["keys"].as_array().context("a list")?.iter();
    let former = keys.find(|key| key["kind"] == "publishable").context("a publishable key")?;
    assert_eq!(session(&merchant.account.publishable_key).await?.status, 201);
    let rotated = rotate(text(former, "id")?, &["--grace", "0s"]).await?;
    refused(&session(&merchant.account.publishable_key).await?, 401, "authentication_failed");
    assert_eq!(session(text(&rotated, "key")?).await?.status, 201);
    Ok(())
}

#[tokio::test]
async fn revoked_and_expired_keys_cannot_be_rotated() -> Result<()> {
    let (cluster, merchant) = (cluster().await?, merchant().await?);
    let create = ["keys", "create", "--account", &merchant.account.id, "--kind", "secret"];
    let [revoked, expired] = [cluster.ctl(&create).await?, cluster.ctl(&create).await?];
    cluster.ctl(&["keys", "revoke", text(&revoked, "id")?]).await?;
    execute(&merchant, EXPIRE, text(&expired, "id")?).await?;
    let db = merchant.books.db.clone();
    let count = || sqlx::query_scalar::<_, i64>("SELECT count(*) FROM api_keys WHERE account_id = $1");
    let count = async || count().bind(merchant.books.account).fetch_one(&db).await;
    let count_before = count().await?;
    for key in [text(&revoked, "id")?, text(&expired, "id")?, "key_00000000000000000000000000"] {
        let output = cluster.ctl_output(&["keys", "rotate", key]).await?;
        assert_eq!(output.code, 1, "{output:?}");
    }
    assert_eq!(cluster.ctl_output(&["keys", "rotate", text(&revoked, "id")?, "--grace", "1w"]).await?.code, 2);
    assert_eq!(count().await?, count_before);
    Ok(())
}

#[tokio::test]
async fn doctor_warns_of_rotated_keys_that_expire_soon() -> Result<()> {
    let merchant = merchant().await?;
    let rotated = rotate(&merchant.account.secret_key_id, &["--grace", "2h"]).await?;
    assert_doctor(cluster().await?, "replaced keys", "warn", &merchant.account.secret_key_id).await?;
    let expire_later = "UPDATE api_keys SET expires_at = clock_timestamp() + interval '4 hours' WHERE id = $1";
    execute(&merchant, expire_later, &merchant.account.secret_key_id).await?;
    let (_, text_of_check) = super::doctor_check(cluster().await?, "replaced keys").await?;
    assert!(!text_of_check.contains(&merchant.account.secret_key_id), "{text_of_check}");
    assert!(!text_of_check.contains(text(&rotated, "id")?), "{text_of_check}");
    Ok(())
}
