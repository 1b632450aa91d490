//! A merchant's key is replaced by another: both are good for a while.

use anyhow::{Context, Result};
use reqwest::Method;
use serde_json::{Value, json};
use testkit::Client;

use super::doctor_says;
use crate::signing::{Signed, live};
use crate::support::{Merchant, ORIGIN, cluster, merchant, ok, refused, uuid};

fn text<'a>(object: &'a Value, field: &str) -> Result<&'a str> {
    object[field].as_str().with_context(|| format!("{field} of {object}"))
}

async fn rotate(key: &str, options: &[&str]) -> Result<Value> {
    cluster().await?.ctl(&[&["keys", "rotate", key], options].concat()).await
}

/// A key's row, as `ctl` lists it.
async fn listed(merchant: &Merchant, key: &str) -> Result<Value> {
    let listed = cluster().await?.ctl(&["keys", "list", "--account", &merchant.account.id]).await?;
    let mut rows = listed["keys"].as_array().context("a list")?.iter();
    rows.find(|row| row["id"] == key).cloned().context("the key")
}

async fn execute(merchant: &Merchant, statement: &'static str, key: &str) -> Result<()> {
    sqlx::query(statement).bind(uuid(key)?).execute(&merchant.books.db).await?;
    Ok(())
}

const ENDED: &str = "UPDATE api_keys SET expires_at = clock_timestamp() WHERE id = $1";

#[tokio::test]
async fn both_keys_are_good_until_the_former_ends() -> Result<()> {
    let merchant = merchant().await?;
    let arguments = ["keys", "create", "--account", &merchant.account.id, "--kind", "secret"];
    let arguments = [&arguments[..], &["--entitlement", "payments.list", "--entitlement", "plans.list"]].concat();
    let former = cluster().await?.ctl(&arguments).await?;
    let former_id = text(&former, "id")?;
    let rotated = rotate(former_id, &["--grace", "7d"]).await?;
    assert_eq!(rotated["former"], former["id"]);
    let [of_former, of_new] = [former_id, text(&rotated, "id")?].map(|id| listed(&merchant, id));
    let (of_former, of_new) = (of_former.await?, of_new.await?);
    assert_eq!(of_new["entitlements"], of_former["entitlements"]);
    assert_eq!((&of_new["kind"], &of_new["expires_at"]), (&json!("secret"), &Value::Null));
    assert_eq!(of_former["expires_at"], rotated["former_expires_at"]);

    let api = |key: &Value| Client::new(merchant.api.base())?.bearer(text(key, "key")?);
    for key in [&former, &rotated] {
        ok(&api(key)?.get("/v1/payments").await?);
        refused(&api(key)?.get("/v1/customers").await?, 403, "capability_not_enabled");
    }
    // No later than it was to end before.
    let again = rotate(former_id, &["--grace", "300d"]).await?;
    assert_eq!(again["former_expires_at"], rotated["former_expires_at"]);
    execute(&merchant, ENDED, former_id).await?;
    refused(&api(&former)?.get("/v1/payments").await?, 401, "authentication_failed");
    ok(&api(&rotated)?.get("/v1/payments").await?);

    let records = cluster().await?.ctl(&["audit", "list", "--account", &merchant.account.id]).await?;
    let records = records["audit"].as_array().context("records")?;
    let told: Vec<_> = records.iter().filter(|record| record["action"] == "keys.rotate").collect();
    assert_eq!((told.len(), &told[1]["object"]), (2, &rotated["id"]));
    assert_eq!(told[1]["detail"]["former"], former["id"]);
    assert!(!json!(records).to_string().contains(text(&rotated, "key")?));
    Ok(())
}

#[tokio::test]
async fn a_live_key_gets_a_signing_secret_of_its_own() -> Result<()> {
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
async fn a_publishable_key_is_replaced_at_once_without_grace() -> Result<()> {
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
async fn a_key_that_is_no_more_is_not_replaced() -> Result<()> {
    let (cluster, merchant) = (cluster().await?, merchant().await?);
    let create = ["keys", "create", "--account", &merchant.account.id, "--kind", "secret"];
    let [revoked, ended] = [cluster.ctl(&create).await?, cluster.ctl(&create).await?];
    cluster.ctl(&["keys", "revoke", text(&revoked, "id")?]).await?;
    execute(&merchant, ENDED, text(&ended, "id")?).await?;
    let before = merchant.books.db.clone();
    let count = || sqlx::query_scalar::<_, i64>("SELECT count(*) FROM api_keys WHERE account_id = $1");
    let count = async || count().bind(merchant.books.account).fetch_one(&before).await;
    let had = count().await?;
    for key in [text(&revoked, "id")?, text(&ended, "id")?, "key_00000000000000000000000000"] {
        let refused = cluster.ctl_to_its_end(&["keys", "rotate", key]).await?;
        assert_eq!(refused.code, 1, "{refused:?}");
    }
    assert_eq!(cluster.ctl_to_its_end(&["keys", "rotate", text(&revoked, "id")?, "--grace", "1w"]).await?.code, 2);
    assert_eq!(count().await?, had);
    Ok(())
}

#[tokio::test]
async fn the_doctor_tells_of_a_replaced_key_that_ends_soon() -> Result<()> {
    let merchant = merchant().await?;
    let rotated = rotate(&merchant.account.secret_key_id, &["--grace", "2h"]).await?;
    doctor_says(cluster().await?, "replaced keys", "warn", &merchant.account.secret_key_id).await?;
    let soon = "UPDATE api_keys SET expires_at = clock_timestamp() + interval '4 hours' WHERE id = $1";
    execute(&merchant, soon, &merchant.account.secret_key_id).await?;
    let (_, says) = super::examined(cluster().await?, "replaced keys").await?;
    assert!(!says.contains(&merchant.account.secret_key_id), "{says}");
    assert!(!says.contains(text(&rotated, "id")?), "{says}");
    Ok(())
}
