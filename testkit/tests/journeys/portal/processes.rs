//! What needs processes of its own: a portal that nobody else uses and that is killed, and a worker that starts late.

use anyhow::{Context, Result};
use serde_json::json;
use testkit::{Cluster, PortalUser, ProcessKind};

use super::Visitor;
use super::team::{email, mailed};
use crate::support::{Merchant, failpoint_hits, metric};

/// Where a refund is held at the portal: before and after it is committed. Each once.
const HELD: [&str; 2] = ["change_payment.written", "change_payment.committed"];

#[tokio::test]
async fn invitations_stay_sealed_guesses_cost_the_same_and_a_killed_portal_refunds_once() -> Result<()> {
    let points = HELD.map(|point| format!("{point}=1*return(hold=/nowhere)")).join(";");
    let builder = Cluster::builder().api(1).portal(1).env("RUST_LOG", "debug").env("FAILPOINTS", &points);
    let mut cluster = builder.start().await?;
    cluster.set_env("FAILPOINTS", "");
    let merchant = Merchant::new(&cluster).await?;
    let user = cluster.portal_user(&merchant.account, "owner").await?;
    let mut owner = Visitor::at(cluster.portal_url(0))?.with_session(&user).await?;
    a_guess_costs_the_same_whether_or_not_there_is_the_user(&cluster, &merchant, &user).await?;
    the_link_of_an_invitation_is_stored_sealed_and_not_sent_after_its_end(&mut cluster, &merchant, &mut owner).await?;
    a_refund_is_made_once_although_the_portal_is_killed(&mut cluster, &merchant, &owner).await
}

/// By the number of hashes that are computed: times would depend on the machine.
async fn a_guess_costs_the_same_whether_or_not_there_is_the_user(
    cluster: &Cluster,
    merchant: &Merchant,
    user: &PortalUser,
) -> Result<()> {
    let removed = cluster.portal_user(&merchant.account, "viewer").await?;
    let remove = sqlx::query("UPDATE users SET removed_at = now() WHERE email = $1").bind(&removed.email);
    assert_eq!(remove.execute(&merchant.books.db).await?.rows_affected(), 1);
    let computed = async || metric(cluster, ProcessKind::Portal, "password_computations_total").await;
    let visitor = Visitor::at(cluster.portal_url(0))?;
    for (password, expected) in [("wrong password", 1.0), (&*"x".repeat(129), 0.0)] {
        for address in ["nobody@shop.example", &user.email, &removed.email, "no address"] {
            let before = computed().await?;
            assert_eq!(visitor.sign_in(address, password).await?.status, 422, "{address}");
            assert_eq!(computed().await? - before, expected, "{address}, {} characters", password.len());
        }
    }
    Ok(())
}

async fn the_link_of_an_invitation_is_stored_sealed_and_not_sent_after_its_end(
    cluster: &mut Cluster,
    merchant: &Merchant,
    owner: &mut Visitor,
) -> Result<()> {
    let form = [("email", &*email(merchant, "bea")), ("role", "viewer")];
    let page = owner.act("/test/team", "/test/team/new", &form).await?;
    let token = page.text_after("<dt>Link</dt><dd><code>")?.rsplit('/').next().context("a token")?.to_owned();
    let in_clear: (i64, i64) = sqlx::query_as(
        "SELECT count(*), count(*) FILTER (WHERE position($2 IN m::text) > 0
             OR position(encode(convert_to($2, 'UTF8'), 'hex') IN m::text) > 0)
         FROM mails m WHERE account_id = $1 AND link IS NOT NULL",
    )
    .bind(merchant.books.account)
    .bind(&token)
    .fetch_one(&merchant.books.db)
    .await?;
    assert_eq!(in_clear, (1, 0));
    let revoke = page.html.split("action=\"").find(|part| part.contains("uinv_")).context("a form")?;
    let revoke = revoke.split('"').next().context("an address")?;
    assert_eq!(owner.send(revoke, page.nonce(revoke)?, &[]).await?.status, 303);
    cluster.add(ProcessKind::Worker).await?;
    assert_eq!(mailed(merchant).await?, "not_sent: the invitation has ended");
    assert!(!cluster.sent_mail().values().any(|mail| mail.contains(&token)));
    for program in ["portal-0.log", "worker-0.log"] {
        let log = std::fs::read_to_string(cluster.logs().join(program))?;
        assert!(!log.contains(&token), "{program}");
    }
    Ok(())
}

/// With `kill -9`, while it makes two refunds: one is not committed, the other one is. The browser sends both forms again.
async fn a_refund_is_made_once_although_the_portal_is_killed(
    cluster: &mut Cluster,
    merchant: &Merchant,
    owner: &Visitor,
) -> Result<()> {
    let payments = [merchant.charge(5_000).await?, merchant.charge(5_000).await?];
    let (mut addresses, mut nonces) = (Vec::new(), Vec::new());
    for payment in &payments {
        let object = format!("/test/payments/{payment}");
        let address = format!("{object}/refund");
        nonces.push(owner.open(&object).await?.nonce(&address)?.to_owned());
        addresses.push(address);
    }
    let send = async |nth: usize| owner.send(&addresses[nth], &nonces[nth], &[("amount", "12.34")]).await;
    let log = cluster.process(ProcessKind::Portal, 0).log_path().to_owned();
    let second = async {
        failpoint_hits(&log, HELD[0], 1).await?;
        send(1).await
    };
    let kill = async {
        failpoint_hits(&log, HELD[1], 1).await?;
        let portal = cluster.process(ProcessKind::Portal, 0);
        portal.set_env("FAILPOINTS", "");
        portal.restart().await
    };
    let (first, second, killed) = tokio::join!(send(0), second, kill);
    killed?;
    assert!(first.is_err() && second.is_err(), "the browser got no response");
    let stored: (i64, i64) = sqlx::query_as(
        "SELECT (SELECT count(*) FROM refunds WHERE account_id = $1),
             (SELECT count(*) FROM user_actions WHERE nonce = ANY ($2) AND status IS NULL)",
    )
    .bind(merchant.books.account)
    .bind(&nonces)
    .fetch_one(&merchant.books.db)
    .await?;
    assert_eq!(stored, (1, 2), "one refund, and the result of neither form is known");
    let (first, second) = tokio::try_join!(send(0), send(1))?;
    for (page, payment) in [first, second].iter().zip(&payments) {
        assert_eq!(page.status, 303, "{}", page.html);
        let payment = merchant.wait_for_status(payment, "partially_refunded").await?;
        let refunds = payment["refunds"].as_array().map(Vec::len);
        assert_eq!((&payment["amountRefunded"], refunds), (&json!(1_234), Some(1)), "{payment}");
    }
    Ok(())
}
