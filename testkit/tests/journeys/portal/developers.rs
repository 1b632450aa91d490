//! Keys, origins, endpoints and the test clock.

use anyhow::{Context, Result};
use futures_util::future::try_join_all;
use serde_json::json;
use testkit::receiver::Reply;

use super::{Page, Visitor};
use crate::support::{Receiver, cluster, created, eventually, merchant, ok, sale};

#[tokio::test]
async fn a_key_is_created_rotated_and_revoked() -> Result<()> {
    let (merchant, other) = (merchant().await?, merchant().await?);
    let mut visitor = Visitor::signed_in(&merchant, "developer").await?;
    let page = visitor.open("/test/keys").await?;
    let nonce = page.nonce("/test/keys/new")?;
    let form = [("kind", "secret"), ("entitlements", "payments.list"), ("entitlements", "payments.retrieve")];
    let sent = try_join_all((0..5).map(|_| visitor.send("/test/keys/new", nonce, &form))).await?;
    assert!(sent.iter().all(|page| page.status == 303 && page.location() == sent[0].location()), "{}", sent[0].html);
    let shown = visitor.open(sent[0].location()).await?;
    let key = shown.text_after("<dt>Key</dt><dd><code>")?.to_owned();
    assert!(key.starts_with("svc_sk_test_"), "{key}");
    let again = visitor.open(sent[0].location()).await?;
    assert!(again.html.contains("Done.") && !again.html.contains(&key), "a secret is shown once");
    let stored: i64 = sqlx::query_scalar("SELECT count(*) FROM user_actions WHERE nonce = $1 AND secret IS NULL")
        .bind(nonce)
        .fetch_one(&merchant.books.db)
        .await?;
    assert_eq!(stored, 1);

    let with = |key: &str| merchant.api.bearer(key);
    ok(&with(&key)?.get("/v1/payments").await?);
    assert_eq!(with(&key)?.get("/v1/customers").await?.status, 403);
    let id = format!("key_{}", key["svc_sk_test_".len()..].get(..26).context("an id")?);
    assert_eq!(again.html.matches(&format!("<td>{id}</td>")).count(), 1, "five forms made one key");
    let (rotate, revoke) = (format!("/test/keys/{id}/rotate"), format!("/test/keys/{id}/revoke"));
    let asked = visitor.act("/test/keys", &rotate, &[]).await?;
    assert!(asked.status == 200 && asked.html.contains("Confirm: Rotate"), "{}", asked.html);
    let done = visitor.send(&rotate, asked.nonce(&rotate)?, &[("confirm", "yes")]).await?;
    let rotated = visitor.open(done.location()).await?;
    let second = rotated.text_after("<dt>Key</dt><dd><code>")?.to_owned();
    ok(&with(&second)?.get("/v1/payments").await?);
    assert!(second != key && rotated.html.contains("Expiring</span> <time"), "{}", rotated.html);

    let foreign = Visitor::signed_in(&other, "owner").await?;
    for address in [&rotate, &revoke] {
        let nonce = format!("{}{:02}", &foreign.cookie[..30], address.len());
        assert_eq!(foreign.send(address, &nonce, &[("confirm", "yes")]).await?.status, 404, "{address}");
    }
    let asked = visitor.act("/test/keys", &revoke, &[]).await?;
    assert!(asked.status == 200 && asked.html.contains("Confirm: Revoke"), "{}", asked.html);
    let done = visitor.send(&revoke, asked.nonce(&revoke)?, &[("confirm", "yes")]).await?;
    assert_eq!(done.status, 303, "{}", done.html);
    let is_refused = async || Ok((with(&key)?.get("/v1/payments").await?.status == 401).then_some(()));
    eventually("the key is refused", is_refused).await?;
    ok(&with(&second)?.get("/v1/payments").await?);

    let publishable = visitor.act("/test/keys", "/test/keys/new", &[("kind", "publishable")]).await?;
    let text = publishable.text_after("<dt>Key</dt><dd><code>")?;
    let list = visitor.open("/test/keys").await?;
    assert!(list.html.contains(&format!("<code>{text}</code>")), "a publishable key stays visible: {}", list.html);
    let viewer = Visitor::signed_in(&merchant, "viewer").await?;
    let seen = viewer.open("/test/keys").await?;
    assert!(seen.status == 200 && !seen.html.contains("/test/keys/new"), "{}", seen.html);
    let nonce = format!("{}00", &viewer.cookie[..30]);
    assert_eq!(viewer.send("/test/keys/new", &nonce, &[("kind", "secret")]).await?.status, 403);
    Ok(())
}

#[tokio::test]
async fn concurrent_requests_do_not_exceed_the_number_of_keys() -> Result<()> {
    let merchant = merchant().await?;
    let visitor = Visitor::signed_in(&merchant, "developer").await?;
    let account = merchant.books.account;
    let valid = "SELECT count(*) FROM api_keys WHERE account_id = $1 AND user_id IS NULL AND revoked_at IS NULL";
    let count = async || {
        let count = sqlx::query_scalar::<_, i64>(valid).bind(account);
        anyhow::Ok(count.fetch_one(&merchant.books.db).await?)
    };
    let all_but_one = "INSERT INTO api_keys (id, account_id, kind, key_hash, pepper_id, created_at)
                       SELECT gen_random_uuid(), k.account_id, k.kind, k.key_hash, k.pepper_id, k.created_at
                       FROM (SELECT * FROM api_keys WHERE account_id = $1 AND kind = 'secret' AND user_id IS NULL LIMIT 1) k,
                           generate_series(1, 199 - $2)";
    sqlx::query(all_but_one).bind(account).bind(count().await?).execute(&merchant.books.db).await?;
    let nonces = (0..8).map(|nth| format!("{}{nth:02}", &visitor.cookie[..30]));
    let sent = nonces.map(async |nonce| visitor.send("/test/keys/new", &nonce, &[("kind", "secret")]).await);
    let sent = try_join_all(sent).await?;
    let refused = |page: &&Page| page.status == 422 && page.html.contains("at most 200 valid keys");
    assert_eq!((count().await?, sent.iter().filter(refused).count()), (200, 7));
    Ok(())
}

#[tokio::test]
async fn a_key_has_the_name_that_the_merchant_gives_it() -> Result<()> {
    let merchant = merchant().await?;
    let mut visitor = Visitor::signed_in(&merchant, "developer").await?;
    let form = [("kind", "secret"), ("name", " Check<out> ")];
    let made = visitor.act("/test/keys", "/test/keys/new", &form).await?;
    assert!(made.html.contains("<td>Check&lt;out&gt;</td>"), "{}", made.html);
    let id = |page: &Page| {
        let key = page.text_after("<dt>Key</dt><dd><code>")?.strip_prefix("svc_sk_test_").context("a test key")?;
        Ok::<_, anyhow::Error>(format!("key_{}", key.get(..26).context("an id")?))
    };
    let first = id(&made)?;
    let rename = format!("/test/keys/{first}/rename");
    let long = "é".repeat(65);
    let refused = visitor.act("/test/keys", &rename, &[("name", &long)]).await?;
    assert!(refused.status == 422 && refused.html.contains("at most 64 characters"), "{}", refused.html);
    let longest = &*"é".repeat(64);
    for name in [longest, ""] {
        let renamed = visitor.act("/test/keys", &rename, &[("name", name)]).await?;
        let is_shown = renamed.html.contains(&format!("<td>{longest}</td>"));
        assert!(renamed.html.contains("Done.") && is_shown == (name == longest), "{}", renamed.html);
    }
    visitor.act("/test/keys", &rename, &[("name", "Till")]).await?;

    let rotate = format!("/test/keys/{first}/rotate");
    let asked = visitor.open(&rotate).await?;
    assert!(asked.html.contains("<strong>Till</strong>") && asked.html.contains("value=\"Till\""), "{}", asked.html);
    let done = visitor.send(&rotate, asked.nonce(&rotate)?, &[("confirm", "yes"), ("name", "New till")]).await?;
    let rotated = visitor.open(done.location()).await?;
    assert!(rotated.html.contains("<td>Till</td>") && rotated.html.contains("<td>New till</td>"), "{}", rotated.html);
    let second = id(&rotated)?;
    let log = visitor.open("/test/activity").await?;
    for part in ["Keys rename".to_owned(), format!("{first}</a> Till"), format!("{second}</a> New till")] {
        assert!(log.html.contains(&part), "{part} in {}", log.html);
    }
    let cluster = cluster().await?;
    let rotated = cluster.ctl(&["keys", "rotate", &second]).await?;
    let listed = cluster.ctl(&["keys", "list", "--account", &merchant.account.id]).await?;
    let row = listed["keys"].as_array().context("keys")?.iter().find(|row| row["id"] == rotated["id"]);
    assert_eq!(row.context("the key")?["name"], "New till", "an operator's rotation keeps the name");
    Ok(())
}

#[tokio::test]
async fn origins_are_checked_and_replaced() -> Result<()> {
    let merchant = merchant().await?;
    let mut visitor = Visitor::signed_in(&merchant, "owner").await?;
    let mut save = async |lines: &str| visitor.act("/test/keys", "/test/keys/origins", &[("origins", lines)]).await;
    let page = save("https://SHOP.example%0Ahttps://two.example:8443").await?;
    assert!(page.html.contains("<li>https://shop.example</li><li>https://two.example:8443</li>"), "{}", page.html);
    let page = save("https://shop.example/path").await?;
    assert!(page.status == 422 && page.html.contains("https://shop.example/path"), "{}", page.html);
    let page = save("").await?;
    assert!(!page.html.contains("<li>https://"), "{}", page.html);
    Ok(())
}

#[tokio::test]
async fn an_endpoint_is_created_tested_and_removed() -> Result<()> {
    let merchant = merchant().await?;
    let mut visitor = Visitor::signed_in(&merchant, "developer").await?;
    let receiver = Receiver::start(|_| Reply::status(200)).await?;
    let url = receiver.url("/hook");
    let page = visitor.act("/test/webhooks/new", "/test/webhooks/new", &[("url", &url)]).await?;
    assert!(page.text_after("<dt>Secret</dt><dd><code>")?.starts_with("whsec_"), "{}", page.html);
    let listed = ok(&merchant.api.get("/v1/webhook_endpoints").await?)["data"][0].clone();
    let id = listed["id"].as_str().context("an id")?;
    let object = format!("/test/webhooks/{id}");
    assert!(page.html.contains(&url) && !visitor.open(&object).await?.html.contains("whsec_"));
    let page = visitor.act(&object, &format!("{object}/test"), &[]).await?;
    assert!(page.html.contains("Done."), "{}", page.html);
    receiver.wait_for_requests("/hook", 1).await?;
    let is_shown = async || {
        let page = visitor.open(&format!("/test/deliveries?endpointId={id}&status=succeeded")).await?;
        Ok(page.html.contains("whd_").then_some(()))
    };
    eventually("the delivery is shown", is_shown).await?;
    let delivery = ok(&merchant.api.get("/v1/webhook_deliveries").await?)["data"][0]["id"].clone();
    let delivery = format!("/test/deliveries/{}", delivery.as_str().context("an id")?);
    let page = visitor.act(&delivery, &format!("{delivery}/replay"), &[]).await?;
    assert!(page.html.contains("Done."), "{}", page.html);
    receiver.wait_for_requests("/hook", 2).await?;
    let save = format!("{object}/save");
    let form = [("url", url.as_str()), ("status", "disabled"), ("enabledEvents", "payment.captured")];
    let page = visitor.act(&object, &save, &form).await?;
    assert!(page.html.contains("Disabled") && page.html.contains("payment.captured"), "{}", page.html);
    let page = visitor.act(&object, &format!("{object}/rotate_secret"), &[]).await?;
    assert!(page.text_after("<dt>Secret</dt><dd><code>")?.starts_with("whsec_"), "{}", page.html);
    assert_eq!(visitor.confirm(&format!("{object}/remove")).await?.status, 303);
    assert_eq!(visitor.open(&object).await?.status, 404);
    Ok(())
}

#[tokio::test]
async fn the_test_clock_is_advanced() -> Result<()> {
    let merchant = merchant().await?;
    let visitor = Visitor::signed_in(&merchant, "developer").await?;
    let payment = created(&merchant.api.post("/v1/payments", sale(500)).await?).clone();
    let page = visitor.open("/test/clock").await?;
    let later = r#"SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC' + interval '2 days', 'YYYY-MM-DD"T"HH24:MI')"#;
    let to: String = sqlx::query_scalar(later).fetch_one(&merchant.books.db).await?;
    let sent = visitor.send("/test/clock/advance", page.nonce("/test/clock/advance")?, &[("to", &to)]).await?;
    assert_eq!(sent.status, 303, "{}", sent.html);
    let shown = visitor.open(sent.location()).await?;
    assert!(shown.html.contains(&to[..10]), "{to} in {}", shown.html);
    let payment = format!("/v1/payments/{}", payment["id"].as_str().context("an id")?);
    assert_eq!(ok(&merchant.api.get(&payment).await?)["status"], json!("settled"));
    Ok(())
}
