//! Forms that end long after they began: by then their sender may no longer be allowed to do what they ask for.

use std::time::Duration;

use anyhow::{Context, Result};
use sqlx::{Connection, PgConnection};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use super::Visitor;
use crate::support::{Merchant, api_id, cluster, eventually, merchant};

/// A form of which the last byte is not sent yet.
struct Unfinished {
    stream: TcpStream,
    last: [u8; 1],
}

impl Unfinished {
    async fn begin(visitor: &Visitor, path: &str, form: &str) -> Result<Self> {
        let mut stream = TcpStream::connect(visitor.url.strip_prefix("http://").context("an address")?).await?;
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: portal\r\nOrigin: {}\r\nCookie: {}\r\nConnection: close\r\n\
             Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n",
            visitor.url,
            visitor.cookies(),
            form.len()
        );
        let (last, first) = form.as_bytes().split_last().context("a form")?;
        stream.write_all(&[head.as_bytes(), first].concat()).await?;
        Ok(Self { stream, last: [*last] })
    }

    /// The response.
    async fn end(mut self) -> Result<String> {
        self.stream.write_all(&self.last).await?;
        let mut response = String::new();
        timeout(Duration::from_secs(30), self.stream.read_to_string(&mut response)).await??;
        Ok(response.to_lowercase())
    }
}

async fn user_id(merchant: &Merchant, email: &str) -> Result<uuid::Uuid> {
    let id = sqlx::query_scalar("SELECT id FROM users WHERE email = $1").bind(email);
    Ok(id.fetch_one(&merchant.books.db).await?)
}

async fn assert_role(merchant: &Merchant, user: uuid::Uuid, role: &str, why: &str) -> Result<()> {
    let stored = sqlx::query_scalar("SELECT role::text FROM users WHERE id = $1").bind(user);
    let stored: String = stored.fetch_one(&merchant.books.db).await?;
    assert_eq!(stored, role, "{why}");
    Ok(())
}

#[tokio::test]
async fn a_form_that_ends_too_late_does_nothing() -> Result<()> {
    let merchant = merchant().await?;
    let mut owner = Visitor::signed_in(&merchant, "owner").await?;
    let accomplice = user_id(&merchant, &super::user(&merchant, "viewer").await?.email).await?;
    let payment = merchant.charge(5_000).await?;
    let promote = format!("/test/team/{}/save", api_id("usr_", accomplice));
    for (what, response) in [
        ("removed", "http/1.1 303 "),
        ("another role", "http/1.1 403 "),
        ("signed out", "http/1.1 303 "),
        ("another password", "http/1.1 303 "),
    ] {
        let user = super::user(&merchant, "owner").await?;
        let visitor = Visitor::new().await?.with_session(&user).await?;
        let mut second = Visitor::new().await?.with_session(&user).await?;
        let own = format!("/test/team/{}", api_id("usr_", user_id(&merchant, &user.email).await?));
        let (first_nonce, second_nonce) = visitor.cookie.split_at(32);
        let promotion = format!("nonce={first_nonce}&role=owner");
        let refund = format!("nonce={second_nonce}&amount=1.00");
        let forms = [
            Unfinished::begin(&visitor, &promote, &promotion).await?,
            Unfinished::begin(&visitor, &format!("/test/payments/{payment}/refund"), &refund).await?,
        ];
        // Until both wait for the last byte.
        sleep(Duration::from_millis(300)).await;
        match what {
            "removed" => assert_eq!(owner.confirm(&format!("{own}/remove")).await?.status, 303),
            "another role" => {
                let page = owner.act("/test/team", &format!("{own}/save"), &[("role", "viewer")]).await?;
                assert!(page.html.contains("Done."), "{}", page.html);
            }
            "signed out" => assert_eq!(visitor.post("/sign-out", &visitor.url, &[]).await?.status, 303),
            _ => {
                let form = [("current", &*user.password), ("password", "another long password")];
                let page = second.act("/test/security", "/test/security/password", &form).await?;
                assert!(page.html.contains("Done."), "{}", page.html);
            }
        }
        for form in forms {
            let ended = form.end().await?;
            assert!(ended.starts_with(response), "{what}: {ended}");
            assert_eq!(ended.contains("\r\nlocation: /sign-in\r\n"), response.contains("303"), "{what}: {ended}");
        }
        assert_role(&merchant, accomplice, "viewer", what).await?;
    }
    let shown = merchant.payment(&payment).await?;
    assert_eq!(shown["refunds"], serde_json::json!([]), "{shown}");
    Ok(())
}

/// The form has arrived in time, and waits for what takes the right to it away.
#[tokio::test]
async fn a_change_sees_what_it_has_waited_for() -> Result<()> {
    let merchant = merchant().await?;
    let accomplice = user_id(&merchant, &super::user(&merchant, "viewer").await?.email).await?;
    let promote = format!("/test/team/{}/save", api_id("usr_", accomplice));
    for (taken, status) in [
        (&["UPDATE users SET removed_at = now() WHERE id = $1"][..], 303),
        (&["UPDATE users SET role = 'viewer' WHERE id = $1"], 403),
        (&["UPDATE users SET password_hash = '' WHERE id = $1", "DELETE FROM user_sessions WHERE user_id = $1"], 303),
    ] {
        let user = super::user(&merchant, "owner").await?;
        let visitor = Visitor::new().await?.with_session(&user).await?;
        let id = user_id(&merchant, &user.email).await?;
        let mut holder = PgConnection::connect(cluster().await?.database_url()).await?;
        let pid: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut holder).await?;
        sqlx::query("BEGIN").execute(&mut holder).await?;
        for statement in taken {
            sqlx::query(*statement).bind(id).execute(&mut holder).await?;
        }
        let (done, ()) =
            tokio::try_join!(visitor.send(&promote, &visitor.cookie[..32], &[("role", "owner")]), async {
                eventually("the change waits", async || {
                    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE $1 = ANY (pg_blocking_pids(pid))";
                    let waiting: i64 = sqlx::query_scalar(waiting).bind(pid).fetch_one(&merchant.books.db).await?;
                    Ok((waiting > 0).then_some(()))
                })
                .await?;
                sqlx::query("COMMIT").execute(&mut holder).await?;
                anyhow::Ok(())
            })?;
        assert_eq!(done.status, status, "{taken:?}: {}", done.html);
        assert_role(&merchant, accomplice, "viewer", taken[0]).await?;
    }
    Ok(())
}
