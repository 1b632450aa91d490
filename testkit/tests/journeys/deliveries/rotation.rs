//! Rotation of an endpoint's secret: the previous secret also signs for a while.

use anyhow::Result;

use super::{Endpoint, is_signed_with, replay};
use crate::support::{Receiver, Reply, merchant, ok};

#[tokio::test]
async fn both_secrets_sign_until_the_previous_one_expires() -> Result<()> {
    let receiver = Receiver::start(|_| Reply::ok()).await?;
    let merchant = merchant().await?;
    let endpoint = Endpoint::new(&merchant, &receiver, "/in", &[]).await?;
    let first = endpoint.secret.as_str();
    merchant.customer().await?;
    let delivery = endpoint.done(1).await?.remove(0);
    let second = endpoint.rotate().await?;
    assert_ne!(first, second);
    assert!(
        endpoint
            .is("previous_secret_until BETWEEN now() + interval '23 hours' AND now() + interval '25 hours'")
            .await?
    );
    merchant.customer().await?;
    let requests = receiver.wait_for_requests("/in", 2).await?;
    assert!(is_signed_with(&requests[0], &[first])?);
    assert!(is_signed_with(&requests[1], &[&second, first])?, "{:?}", requests[1].headers);

    endpoint.set("previous_secret_until = now() - interval '1 second'").await?;
    merchant.customer().await?;
    assert!(
        is_signed_with(&receiver.wait_for_requests("/in", 3).await?[2], &[&second])?,
        "the previous secret has expired"
    );

    let third = endpoint.rotate().await?;
    let fourth = endpoint.rotate().await?;
    // A replay is signed with the current secrets, not with those of the first delivery.
    ok(&replay(&merchant, &delivery).await?);
    let request = receiver.wait_for_requests("/in", 4).await?.remove(3);
    assert!(is_signed_with(&request, &[&fourth, &third])?, "at most two secrets sign: {:?}", request.headers);
    Ok(())
}
