//! A signature is accepted once, whichever process sees it again and whatever Redis has forgotten.

use anyhow::Result;
use reqwest::Method;
use testkit::{Client, Cluster};

use super::{Signed, customers, live};
use crate::support::{cluster, created, refused, together};

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
