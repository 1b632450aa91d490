//! Who gets in, and for how long.

use anyhow::{Context, Result};
use reqwest::header::COOKIE;

use super::Visitor;
use crate::support::{cluster, merchant};

#[tokio::test]
async fn a_session_begins_with_the_password_and_ends_with_the_sign_out() -> Result<()> {
    let merchant = merchant().await?;
    let user = super::user(&merchant, "owner").await?;
    let mut visitor = Visitor::new().await?;
    let outside = visitor.open("/test").await?;
    assert_eq!((outside.status, outside.location()), (303, "/sign-in"));
    assert!(!outside.html.contains("Payments"));

    visitor.cookie = "0".repeat(64);
    let page = visitor.sign_in(&user.email.to_uppercase(), &user.password).await?;
    assert_eq!((page.status, page.location()), (303, "/"), "{}", page.html);
    let set = page.headers["set-cookie"].to_str()?;
    assert!(set.ends_with("; Path=/; Max-Age=43200; Secure; HttpOnly; SameSite=Lax"), "{set}");
    let cookie = page.cookie().context("a cookie")?;
    assert!(cookie.len() == 64 && cookie != visitor.cookie, "the cookie that was sent is not used");
    visitor.cookie = cookie.to_owned();
    assert_eq!(visitor.open("/").await?.location(), "/test");
    let home = visitor.open("/test").await?;
    assert!(home.status == 200 && home.html.contains(&user.email), "{}", home.html);
    assert_eq!(visitor.open("/live").await?.status, 404, "the merchant has no live account");

    let out = visitor.post("/sign-out", &visitor.url, &[]).await?;
    assert_eq!((out.status, out.location(), out.cookie()), (303, "/sign-in", Some("")));
    assert_eq!(visitor.open("/test").await?.location(), "/sign-in", "the session has ended at the server");
    Ok(())
}

#[tokio::test]
async fn passwords_cannot_be_guessed() -> Result<()> {
    let merchant = merchant().await?;
    let (user, other) = (super::user(&merchant, "viewer").await?, super::user(&merchant, "viewer").await?);
    let visitor = Visitor::new().await?;
    let device = visitor.sign_in(&user.email, &user.password).await?;
    // What was not checked does not count: one network has ten attempts.
    let db = &merchant.books.db;
    let stored = sqlx::query_scalar("SELECT password_hash FROM users WHERE email = $1").bind(&user.email);
    let stored: String = stored.fetch_one(db).await?;
    for (hash, attempts, status) in [("malformed", 11, 500), (stored.as_str(), 1, 303)] {
        let set = sqlx::query("UPDATE users SET password_hash = $2 WHERE email = $1").bind(&user.email).bind(hash);
        set.execute(db).await?;
        for attempt in 1..=attempts {
            assert_eq!(visitor.sign_in(&user.email, &user.password).await?.status, status, "attempt {attempt}");
        }
    }
    let unknown = visitor.sign_in("nobody@shop.example", "wrong password").await?;
    let mut wrong = 0;
    let limited = loop {
        let page = visitor.sign_in(&user.email, "wrong password").await?;
        assert!(page.cookie().is_none());
        if page.status == 429 {
            break page;
        }
        assert_eq!(page.status, 422);
        let without_email = |html: &str, email: &str| html.replace(email, "");
        assert_eq!(
            without_email(&page.html, &user.email),
            without_email(&unknown.html, "nobody@shop.example"),
            "the page does not show whether there is such a user"
        );
        wrong += 1;
        assert!(wrong <= 10, "{wrong} wrong passwords");
    };
    assert!(limited.html.contains("too many attempts"), "{}", limited.html);
    assert_eq!(visitor.sign_in(&user.email, &user.password).await?.status, 429);
    let device = device.cookie_named("__Host-device").context("a cookie")?;
    for (cookie, status) in [("0123456789abcdef.00", 429), (device, 303)] {
        let known = Visitor { device: cookie.to_owned(), ..Visitor::new().await? };
        assert_eq!(
            known.sign_in(&user.email, &user.password).await?.status,
            status,
            "a browser that is known: {cookie}"
        );
        assert_eq!(known.sign_in(&other.email, "wrong password").await?.status, 422, "and only for this user");
    }
    let known = Visitor { device: device.to_owned(), ..Visitor::new().await? };
    let mut statuses = Vec::new();
    for _ in 0..11 {
        statuses.push(known.sign_in(&user.email, "wrong password").await?.status);
    }
    assert_eq!(statuses, [&[422; 10][..], &[429]].concat(), "it is limited as well");
    assert_eq!(visitor.sign_in(&other.email, &other.password).await?.status, 303, "another user is not limited");
    Ok(())
}

#[tokio::test]
async fn forms_of_other_sites_are_refused_and_no_site_shows_a_page() -> Result<()> {
    let merchant = merchant().await?;
    let visitor = Visitor::signed_in(&merchant, "owner").await?;
    for origin in ["https://evil.example", "null", ""] {
        let page = visitor.post("/sign-out", origin, &[]).await?;
        assert_eq!((page.status, page.cookie()), (403, None), "{origin}");
    }
    // As programs send it, and no browser.
    let without_origin = visitor.client.post(format!("{}/sign-out", visitor.url)).header(COOKIE, visitor.cookies());
    assert_eq!(without_origin.send().await?.status(), 403);
    assert_eq!(visitor.open("/test").await?.status, 200, "the session goes on");
    for path in ["/test", "/test/payments.csv", "/test/nothing", "/live", "/nothing", "/sign-in", "/assets/portal.js"] {
        let page = visitor.open(path).await?;
        let policy = page.headers["content-security-policy"].to_str()?;
        assert!(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"), "{path}: {policy}");
        for (name, value) in [("x-frame-options", "DENY"), ("x-content-type-options", "nosniff")] {
            assert_eq!(page.headers[name], value, "{path}");
        }
        assert!(
            path.starts_with("/assets/") || page.headers["cache-control"] == "no-store",
            "{path}: {:?}",
            page.headers
        );
    }
    Ok(())
}

#[tokio::test]
async fn a_session_expires() -> Result<()> {
    let merchant = merchant().await?;
    for older in [
        "UPDATE user_sessions SET created_at = created_at - interval '12 hours' WHERE cookie_hash = sha256($1)",
        "UPDATE user_sessions SET last_used_at = last_used_at - interval '2 hours' WHERE cookie_hash = sha256($1)",
    ] {
        let visitor = Visitor::signed_in(&merchant, "owner").await?;
        assert_eq!(visitor.open("/test").await?.status, 200);
        let done = sqlx::query(older).bind(visitor.cookie.as_bytes()).execute(&merchant.books.db).await?;
        assert_eq!(done.rows_affected(), 1);
        assert_eq!(visitor.open("/test").await?.location(), "/sign-in", "{older}");
    }
    Ok(())
}

#[tokio::test]
async fn a_sign_in_leads_to_the_page_that_was_asked_for() -> Result<()> {
    let merchant = merchant().await?;
    let user = super::user(&merchant, "viewer").await?;
    let mut visitor = Visitor::new().await?;
    let page = "/test/payments?status=declined";
    let refused = visitor.open(page).await?;
    refused.cookie_named("__Host-asked").context("a cookie")?.clone_into(&mut visitor.asked);
    let signed_in = visitor.sign_in(&user.email, &user.password).await?;
    assert_eq!((signed_in.location(), signed_in.cookie_named("__Host-asked")), (page, Some("")), "once");
    signed_in.cookie_named("__Host-device").context("a device")?.clone_into(&mut visitor.device);
    assert_eq!(visitor.sign_in(&user.email, &user.password).await?.location(), page, "the same user");
    let other = super::user(&merchant, "viewer").await?;
    let page = visitor.sign_in(&other.email, &other.password).await?;
    assert_eq!((page.location(), page.cookie_named("__Host-asked")), ("/", Some("")), "another user of the browser");
    for other in ["//evil.example", "/\\evil.example", "/%5Cevil.example", "https://evil.example/"] {
        visitor.asked = other.bytes().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(visitor.sign_in(&user.email, &user.password).await?.location(), "/", "{other}");
    }
    Ok(())
}

#[tokio::test]
async fn the_key_of_a_user_is_not_a_key_of_the_merchant() -> Result<()> {
    let merchant = merchant().await?;
    let visitor = Visitor::signed_in(&merchant, "owner").await?;
    assert_eq!(visitor.open("/test").await?.status, 200);
    let keys = cluster().await?.ctl(&["keys", "list", "--account", &merchant.account.id]).await?;
    assert_eq!(keys["keys"].as_array().map(Vec::len), Some(2), "{keys}");
    cluster().await?.ctl(&["keys", "revoke", "--account", &merchant.account.id]).await?;
    assert_eq!(visitor.open("/test/payments").await?.status, 200, "the user still works");
    Ok(())
}

#[tokio::test]
async fn a_removed_user_is_signed_out_and_stays_out() -> Result<()> {
    let (merchant, cluster) = (merchant().await?, cluster().await?);
    let user = super::user(&merchant, "owner").await?;
    let mut visitor = Visitor::new().await?;
    let sign_in = async |visitor: &Visitor, password: &str| {
        anyhow::Ok(visitor.sign_in(&user.email, password).await?.cookie().map(str::to_owned))
    };
    visitor.cookie = sign_in(&visitor, &user.password).await?.context("a cookie")?;
    let listed = cluster.ctl(&["users", "list"]).await?;
    let rows = listed["users"].as_array().context("users")?;
    let row = rows.iter().find(|row| row["email"] == user.email.as_str()).context("the user")?;
    let id = row["id"].as_str().context("an id")?;

    let reset = cluster.ctl(&["users", "reset-password", id]).await?;
    assert_eq!(visitor.open("/test").await?.location(), "/sign-in", "the session has ended");
    assert_eq!(sign_in(&visitor, &user.password).await?, None);
    let password = reset["password"].as_str().context("a password")?;
    visitor.cookie = sign_in(&visitor, password).await?.context("a cookie")?;
    assert_eq!(visitor.open("/test").await?.status, 200);

    let refused = cluster.ctl(&["users", "remove", id]).await;
    assert!(refused.is_err_and(|error| error.to_string().contains("an owner must remain")));
    super::user(&merchant, "owner").await?;
    cluster.ctl(&["users", "remove", id]).await?;
    assert_eq!(visitor.open("/test").await?.location(), "/sign-in");
    assert_eq!(sign_in(&visitor, password).await?, None);
    Ok(())
}

#[tokio::test]
async fn a_sign_in_takes_over_no_session() -> Result<()> {
    let merchant = merchant().await?;
    let user = super::user(&merchant, "viewer").await?;
    let former = Visitor::signed_in(&merchant, "owner").await?.cookie;
    let chosen = "ab".repeat(32);
    for cookie in [&former, &chosen] {
        let mut visitor = Visitor { cookie: cookie.clone(), ..Visitor::new().await? };
        let page = visitor.sign_in(&user.email, &user.password).await?;
        let new = page.cookie().context("a cookie")?;
        assert_ne!(new, cookie);
        assert_eq!(visitor.open("/test").await?.location(), "/sign-in", "the former session has ended");
        new.clone_into(&mut visitor.cookie);
        assert!(visitor.open("/test").await?.html.contains("(viewer)"));
    }
    Ok(())
}
