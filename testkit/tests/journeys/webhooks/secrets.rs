//! Secrets: shown when they are made and never again, sealed in the table, and two at a time at most.

use std::collections::HashSet;

use anyhow::{Context, Result};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use reqwest::Method;
use serde_json::json;
use sqlx::Row;
use testkit::Answer;

use super::{ENDPOINTS, endpoint, hook, merchant, secret, still};
use crate::support::{Merchant, created, id, not_found, ok, together, uuid, without};

/// The random bytes of a secret.
fn bytes(secret: &str) -> Result<Vec<u8>> {
    let text = secret.strip_prefix("whsec_").with_context(|| format!("{secret} is no secret"))?;
    Ok(STANDARD.decode(text)?)
}

/// The present and the former secret of an endpoint as the table has them, and whether the former one ends in a day.
struct Sealed {
    present: Vec<u8>,
    former: Option<Vec<u8>>,
    for_a_day: Option<bool>,
}

async fn sealed(merchant: &Merchant, endpoint: &str) -> Result<Sealed> {
    let row = sqlx::query(
        "SELECT secret, previous_secret, previous_secret_until - clock_timestamp() BETWEEN interval '23 hours'
            AND interval '24 hours' AS for_a_day FROM webhook_endpoints WHERE id = $1",
    )
    .bind(uuid(endpoint)?)
    .fetch_one(&merchant.books.db)
    .await?;
    Ok(Sealed { present: row.get("secret"), former: row.get("previous_secret"), for_a_day: row.get("for_a_day") })
}

async fn rotate(merchant: &Merchant, endpoint: &str) -> Result<Answer> {
    merchant.api.send(Method::POST, &format!("{ENDPOINTS}/{endpoint}/rotate_secret"), None).await
}

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    haystack.windows(needle.len()).any(|window| window == needle)
}

#[tokio::test]
async fn a_secret_is_shown_once_and_sealed() -> Result<()> {
    let merchant = merchant().await?;
    let answer = merchant.api.post(ENDPOINTS, hook()).await?;
    let (shown, endpoint) = (secret(created(&answer))?, id(&answer.body)?);
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
    let stored = sealed(&merchant, &endpoint).await?;
    for plain in [random.as_slice(), shown.as_bytes(), b"whsec_"] {
        assert!(!contains(&stored.present, plain), "the secret lies open in the table");
    }
    assert!(stored.former.is_none());

    let other = merchant.api.post(ENDPOINTS, hook()).await?;
    assert_ne!(secret(created(&other))?, shown);
    Ok(())
}

#[tokio::test]
async fn a_rotation_keeps_the_former_secret_for_a_day() -> Result<()> {
    let merchant = merchant().await?;
    let made = merchant.api.post(ENDPOINTS, hook()).await?;
    let (first, endpoint) = (secret(created(&made))?, id(&made.body)?);
    let mut before = sealed(&merchant, &endpoint).await?;
    let mut shown = HashSet::from([first]);
    for rotation in 1..=3 {
        let answer = rotate(&merchant, &endpoint).await?;
        assert_eq!(without(ok(&answer).clone(), "secret"), without(made.body.clone(), "secret"));
        assert_eq!(bytes(&secret(&answer.body)?)?.len(), 32);
        assert!(shown.insert(secret(&answer.body)?), "a new one each time");
        let after = sealed(&merchant, &endpoint).await?;
        assert_eq!(
            after.former.as_ref(),
            Some(&before.present),
            "rotation {rotation}: the present one becomes the former"
        );
        assert_ne!(after.present, before.present);
        assert_eq!(after.for_a_day, Some(true));
        before = after;
    }
    let path = format!("{ENDPOINTS}/{endpoint}");
    assert_eq!(ok(&merchant.api.get(&path).await?), &without(made.body, "secret"));
    ok(&merchant.api.delete(&path).await?);
    not_found(&rotate(&merchant, &endpoint).await?);
    Ok(())
}

#[tokio::test]
async fn rotations_at_once_are_one_after_another() -> Result<()> {
    let merchant = merchant().await?;
    let endpoint = endpoint(&merchant).await?;
    let answers = together(8, async |_| rotate(&merchant, &endpoint).await).await?;
    let shown = answers.iter().map(|answer| secret(ok(answer))).collect::<Result<HashSet<_>>>()?;
    assert_eq!(shown.len(), 8);
    let stored = sealed(&merchant, &endpoint).await?;
    assert!(stored.former.is_some_and(|former| former != stored.present));
    Ok(())
}

#[tokio::test]
async fn the_operator_sees_endpoints_and_rotates_secrets() -> Result<()> {
    let (cluster, merchant, stranger) = (still().await?, merchant().await?, merchant().await?);
    let (one, other, foreign) = (endpoint(&merchant).await?, endpoint(&merchant).await?, endpoint(&stranger).await?);
    let deleted = endpoint(&merchant).await?;
    ok(&merchant.api.delete(&format!("{ENDPOINTS}/{deleted}")).await?);
    ok(&merchant.api.post(&format!("{ENDPOINTS}/{one}"), json!({"status": "disabled"})).await?);

    let account = merchant.account.id.as_str();
    let listed = cluster.ctl(&["webhooks", "list", "--account", account]).await?;
    let rows = listed["endpoints"].as_array().context("no endpoints")?;
    let shown: Vec<_> = rows.iter().map(|row| (row["id"].as_str(), row["status"].as_str())).collect();
    assert_eq!(shown, [(Some(other.as_str()), Some("enabled")), (Some(one.as_str()), Some("disabled"))]);
    assert_eq!((&rows[1]["disabled_reason"], &rows[1]["url"]), (&json!("merchant"), &hook()["url"]));
    assert_eq!(rows[0]["account"], account);
    assert!(!listed.to_string().contains("secret\""), "{listed}");
    let all = cluster.ctl(&["webhooks", "list"]).await?.to_string();
    assert!(all.contains(&one) && all.contains(&foreign) && !all.contains(&deleted));

    let before = sealed(&merchant, &one).await?;
    let rotated = cluster.ctl(&["webhooks", "rotate-secret", &one]).await?;
    assert_eq!(rotated["id"], one.as_str());
    assert_eq!(bytes(&secret(&rotated)?)?.len(), 32);
    let after = sealed(&merchant, &one).await?;
    assert_eq!(after.former.as_ref(), Some(&before.present));

    // The merchant may have none but the former: nobody ends it by mistake.
    let refused =
        cluster.ctl(&["webhooks", "rotate-secret", &one]).await.expect_err("a former secret signs").to_string();
    assert!(refused.contains("--again") && refused.contains("the former secret signs until"), "{refused}");
    let still = sealed(&merchant, &one).await?;
    assert_eq!((&still.present, &still.former), (&after.present, &after.former));
    let again = cluster.ctl(&["webhooks", "rotate-secret", &one, "--again"]).await?;
    assert_ne!(secret(&again)?, secret(&rotated)?);
    assert_eq!(sealed(&merchant, &one).await?.former, Some(after.present));
    sqlx::query("UPDATE webhook_endpoints SET previous_secret_until = now() WHERE id = $1")
        .bind(uuid(&one)?)
        .execute(&merchant.books.db)
        .await?;
    cluster.ctl(&["webhooks", "rotate-secret", &one]).await.context("none signs any more")?;
    for unknown in [deleted.as_str(), "we_01ARZ3NDEKTSV4RRFFQ69G5FAV"] {
        assert!(cluster.ctl(&["webhooks", "rotate-secret", unknown]).await.is_err());
    }
    Ok(())
}

#[tokio::test]
async fn an_operator_whose_rotation_may_have_been_committed_is_told_so() -> Result<()> {
    let (cluster, merchant) = (still().await?, merchant().await?);
    let endpoint = endpoint(&merchant).await?;
    // The commit fails, and not the statements before it.
    for statement in [
        "CREATE OR REPLACE FUNCTION refuse_commit() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'lost'; END $$".to_owned(),
        format!(
            "CREATE CONSTRAINT TRIGGER refuse_commit AFTER INSERT ON audit_log DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
             WHEN (NEW.object = '{endpoint}') EXECUTE FUNCTION refuse_commit()"
        ),
    ] {
        sqlx::query(sqlx::AssertSqlSafe(statement)).execute(&merchant.books.db).await?;
    }
    let failed = cluster.ctl(&["webhooks", "rotate-secret", &endpoint]).await.expect_err("no answer").to_string();
    assert!(failed.contains("may have been rotated") && failed.contains("--again"), "{failed}");
    sqlx::query("DROP TRIGGER refuse_commit ON audit_log").execute(&merchant.books.db).await?;
    cluster.ctl(&["webhooks", "rotate-secret", &endpoint]).await.context("this one had not been")?;
    Ok(())
}
