//! Endpoint secrets: returned only on creation, stored encrypted, and at most two at a time.

use std::collections::HashSet;

use anyhow::{Context, Result};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use reqwest::Method;
use serde_json::json;
use sqlx::Row;
use testkit::Response;

use super::{ENDPOINTS, cluster_without_workers, endpoint, endpoint_body, merchant, secret};
use crate::support::{Merchant, concurrently, created, id, not_found, ok, uuid, with, without};

/// The random bytes of a secret.
fn bytes(secret: &str) -> Result<Vec<u8>> {
    let text = secret.strip_prefix("whsec_").with_context(|| format!("{secret} is not a secret"))?;
    Ok(STANDARD.decode(text)?)
}

/// The encrypted current and previous secret of an endpoint, and whether the previous one expires in a day.
struct StoredSecrets {
    current: Vec<u8>,
    previous: Option<Vec<u8>>,
    expires_in_a_day: Option<bool>,
}

async fn stored_secrets(merchant: &Merchant, endpoint: &str) -> Result<StoredSecrets> {
    let row = sqlx::query(
        "SELECT secret, previous_secret, previous_secret_until - clock_timestamp() BETWEEN interval '23 hours'
            AND interval '24 hours' AS for_a_day FROM webhook_endpoints WHERE id = $1",
    )
    .bind(uuid(endpoint)?)
    .fetch_one(&merchant.books.db)
    .await?;
    Ok(StoredSecrets {
        current: row.get("secret"),
        previous: row.get("previous_secret"),
        expires_in_a_day: row.get("for_a_day"),
    })
}

async fn rotate(merchant: &Merchant, endpoint: &str) -> Result<Response> {
    merchant.api.send(Method::POST, &format!("{ENDPOINTS}/{endpoint}/rotate_secret"), None).await
}

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    haystack.windows(needle.len()).any(|window| window == needle)
}

#[tokio::test]
async fn secrets_are_shown_once_and_stored_encrypted() -> Result<()> {
    let merchant = merchant().await?;
    let response = merchant.api.post(ENDPOINTS, endpoint_body()).await?;
    let (shown, endpoint) = (secret(created(&response))?, id(&response.body)?);
    let random = bytes(&shown)?;
    assert_eq!(random.len(), 32);
    let path = format!("{ENDPOINTS}/{endpoint}");
    for later in [
        merchant.api.get(&path).await?,
        merchant.api.get(ENDPOINTS).await?,
        merchant.api.post(&path, json!({"status": "enabled"})).await?,
        merchant.api.delete(&path).await?,
    ] {
        ok(&later);
        assert!(!contains(&later.bytes, b"whsec_") && !contains(&later.bytes, b"\"secret\""), "{}", later.body);
    }
    let stored = stored_secrets(&merchant, &endpoint).await?;
    for plain in [random.as_slice(), shown.as_bytes(), b"whsec_"] {
        assert!(!contains(&stored.current, plain), "the secret is stored in plain text");
    }
    assert!(stored.previous.is_none());

    let other = merchant.api.post(ENDPOINTS, endpoint_body()).await?;
    assert_ne!(secret(created(&other))?, shown);
    Ok(())
}

#[tokio::test]
async fn rotations_keep_the_previous_secret_for_a_day() -> Result<()> {
    let merchant = merchant().await?;
    let made = merchant.api.post(ENDPOINTS, endpoint_body()).await?;
    let (first, endpoint) = (secret(created(&made))?, id(&made.body)?);
    let mut before = stored_secrets(&merchant, &endpoint).await?;
    let mut shown = HashSet::from([first]);
    for rotation in 1..=3 {
        let response = rotate(&merchant, &endpoint).await?;
        let expected = with(without(made.body.clone(), "secret"), "version", 1 + rotation);
        assert_eq!(without(ok(&response).clone(), "secret"), expected);
        assert_eq!(bytes(&secret(&response.body)?)?.len(), 32);
        assert!(shown.insert(secret(&response.body)?), "a new secret each time");
        let after = stored_secrets(&merchant, &endpoint).await?;
        // It is sealed again, because a secret opens in its own column only; deliveries show that it still signs.
        assert!(after.previous.is_some() && after.previous != before.previous, "rotation {rotation}");
        assert_ne!(after.previous.as_ref(), Some(&before.current), "rotation {rotation}");
        assert_ne!(after.current, before.current);
        assert_eq!(after.expires_in_a_day, Some(true));
        before = after;
    }
    let path = format!("{ENDPOINTS}/{endpoint}");
    assert_eq!(ok(&merchant.api.get(&path).await?), &with(without(made.body, "secret"), "version", 4));
    ok(&merchant.api.delete(&path).await?);
    not_found(&rotate(&merchant, &endpoint).await?);
    Ok(())
}

#[tokio::test]
async fn concurrent_rotations_are_serialized() -> Result<()> {
    let merchant = merchant().await?;
    let endpoint = endpoint(&merchant).await?;
    let responses = concurrently(8, async |_| rotate(&merchant, &endpoint).await).await?;
    let shown = responses.iter().map(|response| secret(ok(response))).collect::<Result<HashSet<_>>>()?;
    assert_eq!(shown.len(), 8);
    let stored = stored_secrets(&merchant, &endpoint).await?;
    assert!(stored.previous.is_some_and(|previous| previous != stored.current));
    Ok(())
}

#[tokio::test]
async fn operators_list_endpoints_and_rotate_secrets() -> Result<()> {
    let (cluster, merchant, other_merchant) = (cluster_without_workers().await?, merchant().await?, merchant().await?);
    let (one, other, foreign) =
        (endpoint(&merchant).await?, endpoint(&merchant).await?, endpoint(&other_merchant).await?);
    let deleted = endpoint(&merchant).await?;
    ok(&merchant.api.delete(&format!("{ENDPOINTS}/{deleted}")).await?);
    ok(&merchant.api.post(&format!("{ENDPOINTS}/{one}"), json!({"status": "disabled"})).await?);

    let account = merchant.account.id.as_str();
    let listed = cluster.ctl(&["webhooks", "list", "--account", account]).await?;
    let rows = listed["endpoints"].as_array().context("no endpoints")?;
    let shown: Vec<_> = rows.iter().map(|row| (row["id"].as_str(), row["status"].as_str())).collect();
    assert_eq!(shown, [(Some(other.as_str()), Some("enabled")), (Some(one.as_str()), Some("disabled"))]);
    assert_eq!((&rows[1]["disabled_reason"], &rows[1]["url"]), (&json!("merchant"), &endpoint_body()["url"]));
    assert_eq!(rows[0]["account"], account);
    assert!(!listed.to_string().contains("secret\""), "{listed}");
    let all = cluster.ctl(&["webhooks", "list"]).await?.to_string();
    assert!(all.contains(&one) && all.contains(&foreign) && !all.contains(&deleted));

    let before = stored_secrets(&merchant, &one).await?;
    let rotated = cluster.ctl(&["webhooks", "rotate-secret", &one]).await?;
    assert_eq!(rotated["id"], one.as_str());
    assert_eq!(bytes(&secret(&rotated)?)?.len(), 32);
    let after = stored_secrets(&merchant, &one).await?;
    assert!(after.previous.is_some() && after.current != before.current);

    // The merchant may still use the previous secret, so a second rotation needs --again.
    let error = cluster
        .ctl(&["webhooks", "rotate-secret", &one])
        .await
        .expect_err("the previous secret still signs")
        .to_string();
    assert!(error.contains("--again") && error.contains("the previous secret signs until"), "{error}");
    let unchanged = stored_secrets(&merchant, &one).await?;
    assert_eq!((&unchanged.current, &unchanged.previous), (&after.current, &after.previous));
    let again = cluster.ctl(&["webhooks", "rotate-secret", &one, "--again"]).await?;
    assert_ne!(secret(&again)?, secret(&rotated)?);
    assert_ne!(stored_secrets(&merchant, &one).await?.previous, after.previous);
    sqlx::query("UPDATE webhook_endpoints SET previous_secret_until = now() WHERE id = $1")
        .bind(uuid(&one)?)
        .execute(&merchant.books.db)
        .await?;
    cluster.ctl(&["webhooks", "rotate-secret", &one]).await.context("the previous secret has expired")?;
    for unknown in [deleted.as_str(), "we_01ARZ3NDEKTSV4RRFFQ69G5FAV"] {
        assert!(cluster.ctl(&["webhooks", "rotate-secret", unknown]).await.is_err());
    }
    Ok(())
}

#[tokio::test]
async fn ambiguous_rotation_commits_are_reported() -> Result<()> {
    let (cluster, merchant) = (cluster_without_workers().await?, merchant().await?);
    let endpoint = endpoint(&merchant).await?;
    // Only the commit fails, not the statements before it.
    for statement in [
        "CREATE OR REPLACE FUNCTION refuse_commit() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'lost'; END $$".to_owned(),
        format!(
            "CREATE CONSTRAINT TRIGGER refuse_commit AFTER INSERT ON audit_log DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
             WHEN (NEW.object = '{endpoint}') EXECUTE FUNCTION refuse_commit()"
        ),
    ] {
        sqlx::query(sqlx::AssertSqlSafe(statement)).execute(&merchant.books.db).await?;
    }
    let failed = cluster.ctl(&["webhooks", "rotate-secret", &endpoint]).await.expect_err("a failed commit").to_string();
    assert!(failed.contains("may have been rotated") && failed.contains("--again"), "{failed}");
    sqlx::query("DROP TRIGGER refuse_commit ON audit_log").execute(&merchant.books.db).await?;
    cluster.ctl(&["webhooks", "rotate-secret", &endpoint]).await.context("the first rotation was not committed")?;
    Ok(())
}
