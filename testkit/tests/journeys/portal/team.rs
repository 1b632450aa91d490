//! The merchant's people, and what protects each of them.

use anyhow::{Context, Result};
use mail_parser::MessageParser;
use totp_rs::{Builder, Secret};

use super::{Page, Visitor};
use crate::support::{Merchant, cluster, eventually, merchant};

/// What an authenticator app shows now, or some steps later.
pub(super) fn code(secret: &str, steps: u64) -> Result<String> {
    let totp = Builder::new().with_secret(Secret::try_from_base32(secret)?).build()?;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_secs();
    Ok(totp.generate(now + steps * 30).to_string())
}

/// Invites a person and accepts the invitation with this password.
async fn join(owner: &mut Visitor, email: &str, role: &str, password: &str) -> Result<(String, Page)> {
    let page = owner.act("/test/team", "/test/team/new", &[("email", email), ("role", role)]).await?;
    let link = page.text_after("<dt>Link</dt><dd><code>")?;
    let path = link.strip_prefix(&owner.url).context("a link to the portal")?.to_owned();
    let visitor = Visitor::new().await?;
    let page = visitor.open(&path).await?;
    assert!(page.status == 200 && page.html.contains(email), "{}", page.html);
    let short = visitor.post(&path, &visitor.url, &[("password", "short")]).await?;
    assert!(short.status == 422 && short.html.contains("12 to 128"), "{}", short.html);
    let page = visitor.post(&path, &visitor.url, &[("password", password)]).await?;
    Ok((path, page))
}

pub(super) fn email(merchant: &Merchant, name: &str) -> String {
    format!("{name}-{}@shop.example", merchant.account.id.to_lowercase())
}

#[tokio::test]
async fn an_invitation_makes_one_user() -> Result<()> {
    let merchant = merchant().await?;
    let mut owner = Visitor::signed_in(&merchant, "owner").await?;
    let (bea, password) = (email(&merchant, "bea"), "a long password");
    let (path, page) = join(&mut owner, &bea, "support", password).await?;
    assert_eq!((page.status, page.location()), (303, "/"), "{}", page.html);
    let mut visitor = Visitor::new().await?;
    page.cookie().context("a session")?.clone_into(&mut visitor.cookie);
    assert!(visitor.open("/test").await?.html.contains("(support)"));
    assert_eq!(visitor.open(&path).await?.status, 404, "it works once");
    assert_eq!(visitor.post(&path, &visitor.url, &[("password", password)]).await?.status, 404);
    assert_eq!(visitor.sign_in(&bea, password).await?.status, 303);
    let page = owner.act("/test/team", "/test/team/new", &[("email", &bea), ("role", "viewer")]).await?;
    assert!(page.status == 422 && page.html.contains("there is a user"), "{}", page.html);

    let page =
        owner.act("/test/team", "/test/team/new", &[("email", &email(&merchant, "cy")), ("role", "viewer")]).await?;
    let link = page.text_after("<dt>Link</dt><dd><code>")?.replace(&owner.url, "");
    let revoke = page.html.split("action=\"").find(|part| part.contains("uinv_")).context("a form")?;
    let revoke = revoke.split('"').next().context("an address")?;
    assert_eq!(owner.send(revoke, page.nonce(revoke)?, &[]).await?.status, 303);
    assert_eq!(visitor.open(&link).await?.status, 404, "it is revoked");
    let log = owner.open("/test/activity").await?;
    for part in ["Team new", "Team accept", "Team revoke"] {
        assert!(log.html.contains(part), "{part} in {}", log.html);
    }
    Ok(())
}

/// What came of the e-mail of the merchant's invitation, once it has ended; its link must be gone.
pub(super) async fn mailed(merchant: &Merchant) -> Result<String> {
    let ended = "SELECT outcome || ': ' || coalesce(reason, '') FROM mails
                 WHERE account_id = $1 AND kind = 'invitation' AND outcome IS NOT NULL AND link IS NULL";
    eventually("the e-mail has ended", async || {
        let ended = sqlx::query_scalar::<_, String>(ended).bind(merchant.books.account);
        Ok(ended.fetch_optional(&merchant.books.db).await?)
    })
    .await
}

#[tokio::test]
async fn an_invitation_is_sent_by_email() -> Result<()> {
    let merchant = merchant().await?;
    let mut owner = Visitor::signed_in(&merchant, "owner").await?;
    let bea = email(&merchant, "bea");
    let page = owner.act("/test/team", "/test/team/new", &[("email", &bea), ("role", "viewer")]).await?;
    assert!(page.html.contains("gets an e-mail"), "{}", page.html);
    let link = page.text_after("<dt>Link</dt><dd><code>")?.to_owned();
    let id = page.html.split('/').find(|part| part.starts_with("uinv_")).context("an id")?;
    let name = format!("{id}.eml");
    let mail = eventually("the e-mail", async || Ok(cluster().await?.sent_mail().remove(&name))).await?;
    let mail = MessageParser::default().parse(&mail).context("a message")?;
    assert_eq!(mail.to().and_then(|to| to.first()?.address()), Some(bea.as_str()));
    let text = mail.body_text(0).context("a text")?;
    assert!(text.contains(&link) && text.contains("invites you as viewer"), "{text}");
    assert_eq!(mailed(&merchant).await?, "sent: ");
    let path = link.strip_prefix(&owner.url).context("a link to the portal")?;
    let visitor = Visitor::new().await?;
    assert_eq!(visitor.post(path, &visitor.url, &[("password", "a long password")]).await?.status, 303);
    Ok(())
}

#[tokio::test]
async fn a_merchant_makes_100_invitations_a_day() -> Result<()> {
    let merchant = merchant().await?;
    let mut owner = Visitor::signed_in(&merchant, "owner").await?;
    let ended = "INSERT INTO user_invitations (id, merchant_id, email, role, token_hash, invited_by, created_at, ended_at)
                 SELECT new_ulid(clock_timestamp()), u.merchant_id, 'bea@shop.example', 'viewer',
                     sha256(gen_random_uuid()::text::bytea), u.id, clock_timestamp(), clock_timestamp()
                 FROM accounts a JOIN users u ON u.merchant_id = a.merchant_id, generate_series(1, 100) WHERE a.id = $1";
    sqlx::query(ended).bind(merchant.books.account).execute(&merchant.books.db).await?;
    let form = [("email", &*email(&merchant, "cy")), ("role", "viewer")];
    let page = owner.act("/test/team", "/test/team/new", &form).await?;
    assert!(page.status == 422 && page.html.contains("can be sent in a day"), "{}", page.html);
    Ok(())
}

#[tokio::test]
async fn invitations_end_with_the_role_of_who_has_sent_them() -> Result<()> {
    let merchant = merchant().await?;
    let mut owner = Visitor::signed_in(&merchant, "owner").await?;
    let (_, page) = join(&mut owner, &email(&merchant, "bea"), "owner", "a long password").await?;
    let mut bea = Visitor::new().await?;
    page.cookie().context("a session")?.clone_into(&mut bea.cookie);
    let mut invite = async |name: &str| {
        let address = email(&merchant, name);
        let form = [("email", address.as_str()), ("role", "viewer")];
        let page = bea.act("/test/team", "/test/team/new", &form).await?;
        anyhow::Ok(page.text_after("<dt>Link</dt><dd><code>")?.replace(&bea.url, ""))
    };
    let (first, visitor) = (invite("cy").await?, Visitor::new().await?);
    let name: String = sqlx::query_scalar(
        "SELECT m.name FROM user_invitations v JOIN merchants m ON m.id = v.merchant_id WHERE v.email = $1",
    )
    .bind(email(&merchant, "cy"))
    .fetch_one(&merchant.books.db)
    .await?;
    let shown = visitor.open(&first).await?;
    assert!(shown.html.contains(&format!("<strong>{name}</strong> invites you as")), "{}", shown.html);

    let team = owner.open("/test/team").await?;
    let row = team.html.split("<tr>").find(|row| row.contains("bea-")).context("a row")?;
    let save = row.split("action=\"").find(|part| part.contains("/save\"")).context("a form")?;
    let save = save.split('"').next().context("an address")?;
    for role in ["viewer", "owner"] {
        let changed = owner.act("/test/team", save, &[("role", role)]).await?;
        assert!(changed.html.contains("Done."), "{}", changed.html);
    }
    assert_eq!(visitor.open(&first).await?.status, 404, "another role does not bring it back");
    let second = invite("dan").await?;
    assert_eq!(visitor.open(&second).await?.status, 200);
    assert_eq!(owner.confirm(&save.replace("/save", "/remove")).await?.status, 303);
    let open: i64 =
        sqlx::query_scalar("SELECT count(*) FROM user_invitations WHERE email = ANY ($1) AND ended_at IS NULL")
            .bind(vec![email(&merchant, "cy"), email(&merchant, "dan")])
            .fetch_one(&merchant.books.db)
            .await?;
    assert_eq!(open, 0);
    Ok(())
}

#[tokio::test]
async fn an_owner_remains() -> Result<()> {
    let merchant = merchant().await?;
    let mut owner = Visitor::signed_in(&merchant, "owner").await?;
    let (_, page) = join(&mut owner, &email(&merchant, "bea"), "developer", "a long password").await?;
    let mut bea = Visitor::new().await?;
    page.cookie().context("a session")?.clone_into(&mut bea.cookie);
    let page = owner.open("/test/team").await?;
    let mut forms =
        page.html.split("action=\"").filter(|part| part.contains("/save\"")).filter_map(|part| part.split('"').next());
    let (first, second) = (forms.next().context("a user")?, forms.next().context("two users")?);
    let is_bea = |address: &str| -> Result<bool> {
        let row = page.html.split("<tr>").find(|row| row.contains(address)).context("a row")?;
        Ok(row.contains("bea-"))
    };
    let (own, of_bea) = if is_bea(first)? { (second, first) } else { (first, second) };
    let refused = owner.act("/test/team", own, &[("role", "viewer")]).await?;
    assert!(refused.status == 422 && refused.html.contains("an owner must remain"), "{}", refused.html);
    let remove = own.replace("/save", "/remove");
    let refused = owner.confirm(&remove).await?;
    assert!(refused.status == 422 && refused.html.contains("an owner must remain"), "{}", refused.html);
    assert_eq!(bea.send(own, &format!("{}00", &bea.cookie[..30]), &[("role", "viewer")]).await?.status, 403);

    let changed = owner.act("/test/team", of_bea, &[("role", "viewer")]).await?;
    assert!(changed.html.contains("Done."), "{}", changed.html);
    assert!(bea.open("/test").await?.html.contains("(viewer)"), "at once");
    let remove = of_bea.replace("/save", "/remove");
    assert_eq!(owner.confirm(&remove).await?.status, 303);
    assert_eq!(bea.open("/test").await?.location(), "/sign-in", "the session has ended");
    Ok(())
}

#[tokio::test]
async fn a_second_factor_is_asked_for() -> Result<()> {
    let merchant = merchant().await?;
    let user = super::user(&merchant, "viewer").await?;
    let mut visitor = Visitor::new().await?;
    let page = visitor.sign_in(&user.email, &user.password).await?;
    page.cookie().context("a session")?.clone_into(&mut visitor.cookie);
    let page = visitor.open("/test/security").await?;
    assert!(page.html.contains("<svg"), "{}", page.html);
    let secret = page.text_after("Secret: <code>")?.to_owned();
    let (address, former) = ("/test/security/factor", visitor.cookie.clone());
    let mut add = async |code: &str, current: &str| {
        let form = [("code", code), ("current", current), ("secret", &secret)];
        visitor.act("/test/security", address, &form).await
    };
    let refused = add("000000", &user.password).await?;
    assert!(refused.status == 422 && refused.html.contains("the code is wrong"), "{}", refused.html);
    assert_eq!(refused.text_after("Secret: <code>")?, secret, "the secret stays the one that was scanned");
    let first = code(&secret, 0)?;
    let refused = add(&first, "wrong password").await?;
    assert!(refused.status == 422 && refused.html.contains("the current password is wrong"), "{}", refused.html);
    assert!(add(&first, "").await?.html.contains("Current password: is missing"));
    let on = add(&first, &user.password).await?;
    let codes: Vec<String> = on.text_after("<dt>Recovery codes</dt><dd><code>")?.lines().map(str::to_owned).collect();
    assert_eq!(codes.len(), 10, "{codes:?}");
    let stolen = Visitor { cookie: former, ..Visitor::new().await? };
    assert_eq!(stolen.open("/test").await?.location(), "/sign-in", "the session has another cookie");
    let stored: (bool, i64) = sqlx::query_as(
        "SELECT bool_and(position($2 IN u::text) = 0), count(*) FROM users u WHERE email = $1 AND totp_secret IS NOT NULL",
    )
    .bind(&user.email)
    .bind(&secret)
    .fetch_one(&merchant.books.db)
    .await?;
    assert_eq!(stored, (true, 1), "the secret is sealed");

    let mut second = Visitor::new().await?;
    let page = second.sign_in(&user.email, &user.password).await?;
    assert_eq!((page.location(), page.cookie()), ("/sign-in/code", None), "the password alone opens nothing");
    page.cookie_named("__Host-sign-in").context("a cookie")?.clone_into(&mut second.awaiting);
    second.cookie.clone_from(&second.awaiting);
    assert_eq!(second.open("/test").await?.location(), "/sign-in", "it is no session");
    second.cookie.clear();
    let send =
        async |visitor: &Visitor, code: &str| visitor.post("/sign-in/code", &visitor.url, &[("code", code)]).await;
    for wrong in ["000000", "", &first] {
        let page = send(&second, wrong).await?;
        assert!(page.status == 422 && page.cookie().is_none(), "{wrong}: {}", page.html);
    }
    let page = send(&second, &codes[0]).await?;
    assert_eq!((page.status, page.location()), (303, "/"), "{}", page.html);
    assert!(page.cookie().is_some());
    assert_eq!(send(&second, &codes[1]).await?.location(), "/sign-in", "the sign-in is complete");
    let page = second.sign_in(&user.email, &user.password).await?;
    page.cookie_named("__Host-sign-in").context("a cookie")?.clone_into(&mut second.awaiting);
    assert_eq!(send(&second, &codes[0]).await?.status, 422, "a recovery code is accepted once");
    // The next time step, which the clock of a device may have reached.
    let page = send(&second, &code(&secret, 1)?).await?;
    assert_eq!((page.status, page.location()), (303, "/"), "{}", page.html);

    let off = "/test/security/remove-factor";
    let refused = visitor.act("/test/security", off, &[("current", "wrong password")]).await?;
    assert!(refused.status == 422 && refused.html.contains("the current password is wrong"), "{}", refused.html);
    let done = visitor.act("/test/security", off, &[("current", &user.password)]).await?;
    assert!(done.html.contains("Done."), "{}", done.html);
    assert_eq!(Visitor::new().await?.sign_in(&user.email, &user.password).await?.location(), "/");
    Ok(())
}

#[tokio::test]
async fn codes_cannot_be_guessed_with_the_password() -> Result<()> {
    let merchant = merchant().await?;
    let user = super::user(&merchant, "viewer").await?;
    let mut devices = vec![String::new()];
    let mut visitor = Visitor::new().await?;
    for _ in 0..2 {
        let page = visitor.sign_in(&user.email, &user.password).await?;
        devices.push(page.cookie_named("__Host-device").context("a cookie")?.to_owned());
        page.cookie().context("a session")?.clone_into(&mut visitor.cookie);
    }
    let page = visitor.open("/test/security").await?;
    let secret = page.text_after("Secret: <code>")?.to_owned();
    let form = [("code", &*code(&secret, 0)?), ("current", &user.password), ("secret", &secret)];
    let on = visitor.act("/test/security", "/test/security/factor", &form).await?;
    let codes: Vec<_> = on.text_after("<dt>Recovery codes</dt><dd><code>")?.lines().collect();
    let begin = async |device: &str| {
        let mut visitor = Visitor { device: device.to_owned(), ..Visitor::new().await? };
        let page = visitor.sign_in(&user.email, &user.password).await?;
        page.cookie_named("__Host-sign-in").context("a cookie")?.clone_into(&mut visitor.awaiting);
        anyhow::Ok(visitor)
    };
    let send =
        async |visitor: &Visitor, code: &str| visitor.post("/sign-in/code", &visitor.url, &[("code", code)]).await;
    let own = send(&begin("").await?, codes[0]).await?.cookie_named("__Host-device").context("a device")?.to_owned();

    // What was not checked does not count.
    let sealed = sqlx::query_scalar("SELECT totp_secret FROM users WHERE email = $1").bind(&user.email);
    let sealed: Vec<u8> = sealed.fetch_one(&merchant.books.db).await?;
    let set = async |secret: &[u8]| {
        let set = sqlx::query("UPDATE users SET totp_secret = $2 WHERE email = $1").bind(&user.email).bind(secret);
        set.execute(&merchant.books.db).await
    };
    set(b"unreadable").await?;
    let guess = begin("").await?;
    for attempt in 1..=21 {
        assert_eq!(send(&guess, "000000").await?.status, 500, "attempt {attempt}");
    }
    set(&sealed).await?;

    let mut statuses = Vec::new();
    for device in &devices {
        let guess = begin(device).await?;
        for _ in 0..8 {
            statuses.push(send(&guess, "000000").await?.status);
        }
    }
    assert_eq!(
        statuses,
        [&[422; 20][..], &[429; 4]].concat(),
        "devices that had only the password share their attempts"
    );
    let right = send(&begin(&devices[2]).await?, &code(&secret, 1)?).await?;
    assert_eq!(right.status, 429, "{}", right.html);
    let own = begin(&own).await?;
    assert_eq!(
        send(&own, "000000").await?.status,
        422,
        "a device that has passed the second factor has attempts of its own"
    );
    let page = send(&own, codes[1]).await?;
    assert_eq!((page.status, page.location()), (303, "/"), "{}", page.html);
    Ok(())
}

#[tokio::test]
async fn a_new_password_ends_the_other_sessions() -> Result<()> {
    let merchant = merchant().await?;
    let user = super::user(&merchant, "viewer").await?;
    let mut sessions = Vec::new();
    for _ in 0..3 {
        let mut visitor = Visitor::new().await?;
        let page = visitor.sign_in(&user.email, &user.password).await?;
        page.cookie().context("a session")?.clone_into(&mut visitor.cookie);
        sessions.push(visitor);
    }
    let [own, second, third] = &mut sessions[..] else { anyhow::bail!("three sessions") };
    let page = own.open("/test/security").await?;
    assert_eq!(page.html.matches("/end\"").count(), 2, "{}", page.html);
    let end = page.html.split("action=\"").find(|part| part.contains("/end\"")).context("a form")?;
    let end = end.split('"').next().context("an address")?;
    assert_eq!(own.send(end, page.nonce(end)?, &[]).await?.status, 303);
    let left = [second.open("/test").await?.status, third.open("/test").await?.status];
    assert!(left.contains(&200) && left.contains(&303), "one has ended: {left:?}");

    let mut change = async |current: &str, new: &str| {
        let form = [("current", current), ("password", new)];
        own.act("/test/security", "/test/security/password", &form).await
    };
    let refused = change("wrong password", "another password").await?;
    assert!(refused.status == 422 && refused.html.contains("the current password is wrong"), "{}", refused.html);
    assert!(!refused.html.contains("another password"), "{}", refused.html);
    assert!(change(&user.password, "short").await?.html.contains("12 to 128"));
    let (page, address) = (own.open("/test/security").await?, "/test/security/password");
    let form = [("current", &*user.password), ("password", "another password")];
    let done = own.send(address, page.nonce(address)?, &form).await?;
    for former in [own, second, third] {
        assert_eq!(former.open("/test").await?.status, 303, "the former cookies have ended");
    }
    let cookie = done.cookie().context("another cookie")?.to_owned();
    let renewed = Visitor { cookie, ..Visitor::new().await? };
    let page = renewed.open(done.location()).await?;
    assert!(page.html.contains("Done.") && page.html.contains("This one"), "{}", page.html);
    assert!(!page.html.contains("/end\""), "{}", page.html);
    let visitor = Visitor::new().await?;
    assert_eq!(visitor.sign_in(&user.email, &user.password).await?.status, 422);
    assert_eq!(visitor.sign_in(&user.email, "another password").await?.status, 303);
    assert_guesses_of_the_current_password_are_limited(renewed, "another password").await?;
    let kept: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM user_actions WHERE action = 'security.password' AND content = sha256($1)",
    )
    .bind(format!("/password {{\"current\":\"{}\",\"password\":\"another password\"}}", user.password).as_bytes())
    .fetch_one(&merchant.books.db)
    .await?;
    assert_eq!(kept, 0, "no hash of a password is in the log");
    Ok(())
}

/// Whoever has a session of the user does not find the password with it. The password itself is refused then, too.
async fn assert_guesses_of_the_current_password_are_limited(mut visitor: Visitor, password: &str) -> Result<()> {
    let mut confirm = async |current: &str| {
        let form = [("current", current), ("password", "a third password")];
        anyhow::Ok(visitor.act("/test/security", "/test/security/password", &form).await?.html)
    };
    for guess in 0..=10 {
        let html = confirm("wrong password").await?;
        if html.contains("too many attempts") {
            assert!(confirm(password).await?.contains("too many attempts"));
            return Ok(());
        }
        assert!(html.contains("the current password is wrong"), "guess {guess}: {html}");
    }
    anyhow::bail!("guesses are not limited")
}
