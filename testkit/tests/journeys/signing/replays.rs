//! A signature is accepted once, whichever process sees it again and whatever Redis has forgotten.

use anyhow::{Context, Result};
use reqwest::Method;
use testkit::{Client, Cluster};

use super::{Signed, customers, live};
use crate::support::{Merchant, cluster, created, eventually, refused, together};

const ADA: &str = r#"{"email":"ada@example.com"}"#;

#[tokio::test]
async fn a_replay_is_refused_everywhere_and_for_good() -> Result<()> {
    let mut cluster = Cluster::builder().api(2).worker(1).scheduler(1).start().await?;
    let merchant = live(&cluster).await?;
    let second = Client::new(&cluster.api_url(1))?.bearer(&merchant.account.secret_key)?;
    let request = Signed::new(&merchant, Method::POST, "/v1/customers", Some(ADA))?.sign();
    created(&request.send(&merchant.api).await?);
    refused(&request.send(&merchant.api).await?, 401, "authentication_failed");
    refused(&request.send(&second).await?, 401, "authentication_failed");
    cluster.redis.flush_all().await?;
    refused(&request.send(&merchant.api).await?, 401, "authentication_failed");
    refused(&request.send(&second).await?, 401, "authentication_failed");
    cluster.redis.kill9()?;
    cluster.api(0).restart().await?;
    refused(&request.send(&merchant.api).await?, 401, "authentication_failed");
    // Without Redis, new ones are accepted as ever, and once.
    let request = Signed::new(&merchant, Method::POST, "/v1/customers", Some(ADA))?.sign();
    created(&request.send(&second).await?);
    refused(&request.send(&merchant.api).await?, 401, "authentication_failed");
    assert_eq!(customers(&merchant).await?, 2);
    Ok(())
}

#[tokio::test]
async fn of_one_signature_many_times_at_once_one_is_accepted() -> Result<()> {
    let merchant = live(cluster().await?).await?;
    let request = Signed::new(&merchant, Method::POST, "/v1/customers", Some(ADA))?.sign();
    let answers = together(30, async |_| request.send(&merchant.api).await).await?;
    assert_eq!(answers.iter().filter(|answer| answer.status == 201).count(), 1);
    for answer in answers.iter().filter(|answer| answer.status != 201) {
        refused(answer, 401, "authentication_failed");
    }
    assert_eq!(customers(&merchant).await?, 1);
    Ok(())
}

#[tokio::test]
async fn a_refused_signature_uses_nothing_up() -> Result<()> {
    let merchant = live(cluster().await?).await?;
    let request = Signed::new(&merchant, Method::POST, "/v1/customers", Some(ADA))?.sign();
    let mut tampered = request.clone();
    tampered.body = Some(r#"{"email":"eve@example.com"}"#.into());
    refused(&tampered.send(&merchant.api).await?, 401, "authentication_failed");
    created(&request.send(&merchant.api).await?);
    // A nonce belongs to its key: another may use the same.
    let other = live(cluster().await?).await?;
    let mut same = Signed::new(&other, Method::POST, "/v1/customers", Some(ADA))?;
    same.nonce.clone_from(&request.nonce);
    created(&same.sign().send(&other.api).await?);
    // And with this key it is used up, whatever else it signs.
    let mut again = Signed::new(&merchant, Method::GET, "/v1/payments", None)?;
    again.nonce = request.nonce;
    refused(&again.sign().send(&merchant.api).await?, 401, "authentication_failed");
    Ok(())
}

#[tokio::test]
async fn what_the_limit_refuses_is_not_used_up_and_costs_the_database_nothing() -> Result<()> {
    let cluster = cluster().await?;
    let options = ["--mode", "live", "--provider", "mock", "--rate-limit", "1", "--burst", "3"];
    let merchant = Merchant::of(cluster, cluster.account_with(&options).await?)?;
    let requests = (0..20)
        .map(|_| Ok(Signed::new(&merchant, Method::GET, "/v1/payments", None)?.sign()))
        .collect::<Result<Vec<_>>>()?;
    let statuses = together(20, async |i| Ok(requests[i].send(&merchant.api).await?.status)).await?;
    let let_in = statuses.iter().filter(|status| **status == 200).count();
    assert!(statuses.iter().all(|status| [200, 429].contains(status)), "{statuses:?}");
    assert!((3..20).contains(&let_in), "{let_in} of 20 were let in");
    let used: i64 = sqlx::query_scalar("SELECT count(*) FROM request_nonces WHERE account_id = $1")
        .bind(merchant.books.account)
        .fetch_one(&merchant.books.db)
        .await?;
    assert_eq!(usize::try_from(used)?, let_in);
    // As it stands it may be sent again.
    let refused = statuses.iter().position(|status| *status == 429).context("one that was refused")?;
    eventually("its turn", async || Ok((requests[refused].send(&merchant.api).await?.status == 200).then_some(())))
        .await
}
