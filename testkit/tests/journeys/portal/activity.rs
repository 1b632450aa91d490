//! The log of what users did.

use anyhow::{Context, Result};

use super::Visitor;
use crate::support::{id, merchant, ok};

#[tokio::test]
async fn every_action_is_found_on_some_page_and_by_each_filter() -> Result<()> {
    let merchant = merchant().await?;
    let (first, second) = (super::user(&merchant, "owner").await?, super::user(&merchant, "support").await?);
    let mut owner = Visitor::new().await?.with_session(&first).await?;
    let mut support = Visitor::new().await?.with_session(&second).await?;
    support.act("/test/customers/new", "/test/customers/new", &[("email", "ada@shop.example")]).await?;
    owner.act("/test/keys", "/test/keys/new", &[("kind", "secret"), ("name", "Till")]).await?;
    let listed = merchant.api.get("/v1/customers").await?;
    let customer = id(&ok(&listed)["data"][0])?;
    // Two pages of older entries of the same user.
    let older = "INSERT INTO user_actions (nonce, user_id, account_id, action, content, object, status, began_at)
                 SELECT md5(n::text || a.nonce), a.user_id, a.account_id, 'plans.create', a.content, 'plan_' || n, 200,
                     a.began_at - n * interval '1 hour'
                 FROM user_actions a, generate_series(1, 150) n WHERE a.account_id = $1 AND a.action = 'customers.create'";
    let made = sqlx::query(older).bind(merchant.books.account).execute(&merchant.books.db).await?;
    assert_eq!(made.rows_affected(), 150);

    let page = owner.open("/test/activity").await?.html;
    assert_eq!(page.matches("<tr>").count(), 1 + 100);
    for part in [
        format!("<td>{}</td><td>Customers create</td><td><a href=\"/test/customers/{customer}\">", second.email),
        format!("<td>{}</td><td>Keys new</td><td><a href=\"/test/keys\">key_", first.email),
        "Plans create".to_owned(),
    ] {
        assert!(page.contains(&part), "{part} in {page}");
    }
    let (_, next) = page.split_once("href=\"/test/activity?before=").context("a next page")?;
    let next = format!("/test/activity?before={}", next.split('"').next().unwrap_or_default());
    let rest = owner.open(&next).await?.html;
    assert_eq!(rest.matches("<tr>").count(), 1 + 52, "{rest}");
    assert!(rest.contains("First page") && !rest.contains("Next page"), "{rest}");
    for nth in 1..=150 {
        let object = format!(">plan_{nth}</a>");
        assert_eq!(page.matches(&object).count() + rest.matches(&object).count(), 1, "{object}");
    }

    for (query, count) in [
        (format!("q={}", first.email.to_uppercase()), 1),
        (format!("q={customer}"), 1),
        ("q=plan_7".to_owned(), 1),
        ("q=plan_%00".to_owned(), 0),
        ("action=keys.new".to_owned(), 1),
        ("action=keys.revoke".to_owned(), 0),
        (format!("q={}&action=customers.create", second.email), 1),
        ("to=2020-01-01".to_owned(), 0),
        ("from=2090-01-01".to_owned(), 0),
    ] {
        let found = owner.open(&format!("/test/activity?{query}")).await?.html;
        assert_eq!(found.matches("<tr>").count(), if count == 0 { 0 } else { 1 + count }, "{query}: {found}");
        assert_eq!(found.contains("Nothing found."), count == 0, "{query}: {found}");
    }
    let wrong = owner.open("/test/activity?from=yesterday").await?;
    assert!(wrong.status == 200 && wrong.html.contains("Enter a date such as 2026-01-31."), "{}", wrong.html);
    let foreign = crate::support::merchant().await?;
    let other = Visitor::signed_in(&foreign, "owner").await?.open(&format!("/test/activity?q={customer}")).await?;
    assert!(other.html.contains("Nothing found."), "{}", other.html);
    Ok(())
}
