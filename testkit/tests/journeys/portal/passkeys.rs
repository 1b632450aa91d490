//! Passkeys: who gets in with one, and who makes and removes them.

use anyhow::{Context, Result};
use serde_json::Value;
use testkit::PortalUser;

use super::authenticator::Authenticator;
use super::team::code;
use super::{Page, Visitor, user};
use crate::support::{Merchant, cluster, merchant};

const PAGE: &str = "/test/security";
const ADD: &str = "/test/security/add-passkey";
const NAME: &str = "Laptop";

/// What is entered to add a passkey.
fn form<'a>(password: &'a str, credential: &'a str) -> [(&'static str, &'a str); 3] {
    [("name", NAME), ("current", password), ("credential", credential)]
}

/// A new authenticator, and what the visitor's browser says about the passkey that it has made.
pub(super) async fn made(visitor: &Visitor) -> Result<(Authenticator, String)> {
    let options = visitor.post("/passkeys/registration", &visitor.url, &[]).await?;
    let mut authenticator = Authenticator::new(&visitor.url)?;
    let credential = authenticator.create(&serde_json::from_str(&options.html).context(options.html)?)?;
    Ok((authenticator, credential))
}

/// Adds a passkey of the visitor.
pub(super) async fn add(visitor: &mut Visitor, password: &str) -> Result<Authenticator> {
    let (authenticator, credential) = made(visitor).await?;
    let page = visitor.act(PAGE, ADD, &form(password, &credential)).await?;
    assert!(page.html.contains("Done.") && page.html.contains(NAME), "{}", page.html);
    Ok(authenticator)
}

/// A new user with a passkey, and the browser in which it was made.
async fn with_passkey(merchant: &Merchant) -> Result<(PortalUser, Visitor, Authenticator)> {
    let user = user(merchant, "viewer").await?;
    let mut visitor = Visitor::new().await?.with_session(&user).await?;
    let authenticator = add(&mut visitor, &user.password).await?;
    Ok((user, visitor, authenticator))
}

/// What another browser gets to sign in, which keeps the cookie.
async fn begin(visitor: &mut Visitor) -> Result<Value> {
    let page = visitor.post("/passkeys/sign-in", &visitor.url, &[]).await?;
    page.cookie_named("__Host-passkey").with_context(|| page.html.clone())?.clone_into(&mut visitor.passkey);
    Ok(serde_json::from_str(&page.html)?)
}

async fn send(visitor: &Visitor, credential: &str) -> Result<Page> {
    visitor.post("/sign-in/passkey", &visitor.url, &[("credential", credential)]).await
}

/// Signs in with a passkey in a new browser.
async fn sign_in(authenticator: &mut Authenticator) -> Result<Page> {
    let mut visitor = Visitor::new().await?;
    let options = begin(&mut visitor).await?;
    send(&visitor, &authenticator.sign(&options)?).await
}

fn assert_refused(page: &Page, why: &str) {
    assert_eq!((page.status, page.cookie()), (422, None), "{why}: {}", page.html);
    assert!(page.html.contains("The passkey was not accepted."), "{why}: {}", page.html);
}

#[tokio::test]
async fn a_passkey_signs_in_without_password_and_code_until_it_is_removed() -> Result<()> {
    let merchant = merchant().await?;
    let (user, mut visitor, mut authenticator) = with_passkey(&merchant).await?;
    let secret = visitor.open(PAGE).await?.text_after("Secret: <code>")?.to_owned();
    let form = [("code", &*code(&secret, 0)?), ("current", &user.password), ("secret", &secret)];
    let on = visitor.act(PAGE, "/test/security/factor", &form).await?;
    assert!(on.html.contains("Done."), "{}", on.html);

    let mut other = Visitor::new().await?;
    let options = begin(&mut other).await?;
    assert_eq!(
        (&options["allowCredentials"], &options["userVerification"]),
        (&Value::Array(vec![]), &"required".into())
    );
    let page = send(&other, &authenticator.sign(&options)?).await?;
    assert_eq!((page.status, page.location()), (303, "/"), "{}", page.html);
    assert_eq!(page.cookie_named("__Host-passkey"), Some(""), "the cookie of the challenge is removed");
    assert!(page.cookie_named("__Host-device").is_some(), "the browser is known from now on");
    page.cookie().context("a session")?.clone_into(&mut other.cookie);
    assert!(other.open("/test").await?.html.contains(&user.email));

    let page = visitor.open(PAGE).await?;
    let row = page.html.split("<tr>").find(|row| row.contains(NAME)).context("a row")?;
    assert_eq!(row.matches("<time").count(), 2, "when it was made and used: {row}");
    let remove = row.split("action=\"").nth(1).and_then(|rest| rest.split('"').next()).context("a form")?.to_owned();
    let refused = visitor.act(PAGE, &remove, &[("current", "wrong password")]).await?;
    assert!(refused.status == 422 && refused.html.contains("the current password is wrong"), "{}", refused.html);
    assert_eq!(sign_in(&mut authenticator).await?.status, 303);
    let colleague = user_of(&merchant).await?;
    let foreign = colleague.0.send(&remove, &nonce(&colleague.0), &[("current", &colleague.1.password)]).await?;
    assert_eq!(foreign.status, 404, "a passkey of another user of the merchant: {}", foreign.html);
    let removed = visitor.act(PAGE, &remove, &[("current", &user.password)]).await?;
    assert!(removed.html.contains("Done.") && !removed.html.contains(NAME), "{}", removed.html);
    assert_refused(&sign_in(&mut authenticator).await?, "it is removed");
    assert_eq!(other.open("/test").await?.status, 200, "its sessions go on");
    let log = visitor.open("/test/activity").await?;
    for part in ["Security add-passkey", "Security remove-passkey"] {
        assert!(log.html.contains(part), "{part} in {}", log.html);
    }
    Ok(())
}

/// Another user of the merchant, signed in.
async fn user_of(merchant: &Merchant) -> Result<(Visitor, PortalUser)> {
    let user = user(merchant, "owner").await?;
    Ok((Visitor::new().await?.with_session(&user).await?, user))
}

/// A nonce that the visitor has not used.
fn nonce(visitor: &Visitor) -> String {
    visitor.cookie.chars().rev().take(32).collect()
}

#[tokio::test]
async fn an_assertion_is_accepted_once_and_of_its_browser_only() -> Result<()> {
    let merchant = merchant().await?;
    let (_, _, mut authenticator) = with_passkey(&merchant).await?;
    let (mut visitor, mut thief) = (Visitor::new().await?, Visitor::new().await?);
    let (options, of_thief) = (begin(&mut visitor).await?, begin(&mut thief).await?);
    let assertion = authenticator.sign(&options)?;
    assert_refused(&send(&Visitor::new().await?, &assertion).await?, "without the cookie");
    assert_refused(&send(&thief, &assertion).await?, "with the cookie of another challenge");
    assert_refused(&send(&thief, &authenticator.sign(&of_thief)?).await?, "a challenge is used up by a failed attempt");
    let first = send(&visitor, &assertion).await?;
    assert_eq!(first.status, 303, "{}", first.html);
    assert_refused(&send(&visitor, &assertion).await?, "again");
    begin(&mut visitor).await?;
    assert_refused(&send(&visitor, &assertion).await?, "with a new challenge");

    let options = begin(&mut visitor).await?;
    let older = "UPDATE user_passkey_challenges SET created_at = created_at - interval '5 minutes'
                 WHERE cookie_hash = sha256($1)";
    let done = sqlx::query(older).bind(visitor.passkey.as_bytes()).execute(&merchant.books.db).await?;
    assert_eq!(done.rows_affected(), 1);
    assert_refused(&send(&visitor, &authenticator.sign(&options)?).await?, "after five minutes");
    assert_eq!(sign_in(&mut authenticator).await?.status, 303);
    Ok(())
}

#[tokio::test]
async fn only_what_the_authenticator_signs_for_this_site_and_user_is_accepted() -> Result<()> {
    let merchant = merchant().await?;
    let (_, _, mut authenticator) = with_passkey(&merchant).await?;
    let (_, _, other) = with_passkey(&merchant).await?;
    assert_ne!(authenticator.handle, other.handle, "users have handles of their own");
    let (origin, host, handle) =
        (authenticator.origin.clone(), authenticator.host.clone(), authenticator.handle.clone());
    for origin in ["https://evil.example", "http://localhost", &format!("{origin}/")] {
        origin.clone_into(&mut authenticator.origin);
        assert_refused(&sign_in(&mut authenticator).await?, origin);
    }
    authenticator.origin = origin;
    authenticator.host = "evil.example".to_owned();
    assert_refused(&sign_in(&mut authenticator).await?, "of another host");
    authenticator.host = host;
    authenticator.is_verified = false;
    assert_refused(&sign_in(&mut authenticator).await?, "without verification of the user");
    authenticator.is_verified = true;
    for foreign in [other.handle.clone(), Value::Null] {
        authenticator.handle = foreign;
        assert_refused(&sign_in(&mut authenticator).await?, "the handle of another user, or none");
    }
    authenticator.handle = handle;
    assert_eq!(sign_in(&mut authenticator).await?.status, 303);
    authenticator.counter -= 1;
    assert_refused(&sign_in(&mut authenticator).await?, "a copy, whose counter is behind");

    let mut visitor = Visitor::new().await?;
    let options = begin(&mut visitor).await?;
    let mut changed: Value = serde_json::from_str(&authenticator.sign(&options)?)?;
    let mut unknown = Authenticator::new(&authenticator.origin)?;
    let signed: Value = serde_json::from_str(&unknown.sign(&options)?)?;
    changed["response"]["signature"] = signed["response"]["signature"].clone();
    assert_refused(&send(&visitor, &changed.to_string()).await?, "signed with another key");
    assert_refused(&sign_in(&mut unknown).await?, "not known");
    for malformed in ["", "{}", "[]", "no JSON"] {
        begin(&mut visitor).await?;
        assert_refused(&send(&visitor, malformed).await?, malformed);
    }
    assert_eq!(sign_in(&mut authenticator).await?.status, 303);
    Ok(())
}

#[tokio::test]
async fn a_passkey_is_added_in_its_session_with_the_password() -> Result<()> {
    let merchant = merchant().await?;
    let user = user(&merchant, "viewer").await?;
    let stranger = Visitor::new().await?;
    let options = stranger.post("/passkeys/registration", &stranger.url, &[]).await?;
    assert_eq!((options.status, options.location()), (303, "/sign-in"));
    let mut visitor = Visitor::new().await?.with_session(&user).await?;
    let mut second = Visitor::new().await?.with_session(&user).await?;
    assert_eq!(visitor.post("/passkeys/registration", "https://evil.example", &[]).await?.status, 403);
    let (_, credential) = made(&visitor).await?;
    let refused = visitor.act(PAGE, ADD, &form("wrong password", &credential)).await?;
    assert!(refused.status == 422 && refused.html.contains("the current password is wrong"), "{}", refused.html);
    let refused = second.act(PAGE, ADD, &form(&user.password, &credential)).await?;
    assert!(refused.status == 422 && refused.html.contains("the passkey was not accepted"), "{}", refused.html);
    let added = visitor.act(PAGE, ADD, &form(&user.password, &credential)).await?;
    assert!(added.html.contains("Done."), "{}", added.html);
    let refused = visitor.act(PAGE, ADD, &form(&user.password, &credential)).await?;
    assert!(refused.status == 422 && refused.html.contains("the passkey was not accepted"), "once: {}", refused.html);
    for missing in ["name", "credential"] {
        let (_, credential) = made(&visitor).await?;
        let fields = form(&user.password, &credential).into_iter().filter(|(name, _)| *name != missing);
        let refused = visitor.act(PAGE, ADD, &fields.collect::<Vec<_>>()).await?;
        assert!(refused.status == 422 && refused.html.contains("is missing"), "{missing}: {}", refused.html);
    }
    let (mut unverified, _) = made(&visitor).await?;
    unverified.is_verified = false;
    let options = visitor.post("/passkeys/registration", &visitor.url, &[]).await?;
    let credential = unverified.create(&serde_json::from_str(&options.html)?)?;
    let refused = visitor.act(PAGE, ADD, &form(&user.password, &credential)).await?;
    assert!(refused.status == 422 && refused.html.contains("the passkey was not accepted"), "{}", refused.html);
    assert_eq!(stored(&merchant, &user).await?, 1);
    Ok(())
}

async fn stored(merchant: &Merchant, user: &PortalUser) -> Result<i64> {
    let count = "SELECT count(*) FROM user_passkeys p JOIN users u ON u.id = p.user_id WHERE u.email = $1";
    Ok(sqlx::query_scalar(count).bind(&user.email).fetch_one(&merchant.books.db).await?)
}

#[tokio::test]
async fn a_user_has_at_most_ten_passkeys() -> Result<()> {
    let merchant = merchant().await?;
    let (user, mut visitor, _) = with_passkey(&merchant).await?;
    // One form, which is shown before there are ten.
    let (_, credential) = made(&visitor).await?;
    let shown = visitor.open(PAGE).await?;
    let nine = "INSERT INTO user_passkeys (id, user_id, name, credential_id, public_key, algorithm, counter, created_at)
                SELECT new_ulid(clock_timestamp()), u.id, 'Key', sha256(gen_random_uuid()::text::bytea), 'x', -7, 0, clock_timestamp()
                FROM users u, generate_series(1, 9) WHERE u.email = $1";
    sqlx::query(nine).bind(&user.email).execute(&merchant.books.db).await?;
    let refused = visitor.send(ADD, shown.nonce(ADD)?, &form(&user.password, &credential)).await?;
    assert!(refused.status == 422 && refused.html.contains("a user has at most 10 passkeys"), "{}", refused.html);
    let page = visitor.open(PAGE).await?;
    assert!(page.html.contains("There are 10 passkeys.") && !page.html.contains(ADD), "{}", page.html);
    assert_eq!(stored(&merchant, &user).await?, 10);
    let remove = page.html.split("action=\"").find(|part| part.contains("/remove-passkey\"")).context("a form")?;
    let remove = remove.split('"').next().context("an address")?;
    let removed = visitor.act(PAGE, remove, &[("current", &user.password)]).await?;
    assert!(removed.html.contains("Done.") && removed.html.contains(ADD), "{}", removed.html);
    Ok(())
}

#[tokio::test]
async fn passkeys_end_with_their_user_and_with_a_reset_but_not_with_a_new_password() -> Result<()> {
    let (merchant, cluster) = (merchant().await?, cluster().await?);
    let (user, mut visitor, mut authenticator) = with_passkey(&merchant).await?;
    let form = [("current", &*user.password), ("password", "another long password")];
    let changed = visitor.act(PAGE, "/test/security/password", &form).await?;
    assert!(changed.html.contains("Done."), "{}", changed.html);
    let signed_in = sign_in(&mut authenticator).await?;
    assert_eq!(signed_in.status, 303, "a new password leaves passkeys as they are");
    let session = Visitor { cookie: signed_in.cookie().context("a session")?.to_owned(), ..Visitor::new().await? };

    let listed = cluster.ctl(&["users", "list"]).await?;
    let rows = listed["users"].as_array().context("users")?;
    let row = rows.iter().find(|row| row["email"] == user.email.as_str()).context("the user")?;
    let id = row["id"].as_str().context("an id")?;
    let reset = cluster.ctl(&["users", "reset-password", id]).await?;
    assert_eq!(session.open("/test").await?.location(), "/sign-in");
    assert_refused(&sign_in(&mut authenticator).await?, "after a reset");

    let password = reset["password"].as_str().context("a password")?.to_owned();
    let user = PortalUser { password, ..user };
    let mut visitor = Visitor::new().await?.with_session(&user).await?;
    let mut authenticator = add(&mut visitor, &user.password).await?;
    assert_eq!(sign_in(&mut authenticator).await?.status, 303);
    // As if the removal had not deleted the passkey.
    let set = async |is_removed: bool| {
        let set = "UPDATE users SET removed_at = CASE WHEN $2 THEN clock_timestamp() END WHERE email = $1";
        sqlx::query(set).bind(&user.email).bind(is_removed).execute(&merchant.books.db).await
    };
    set(true).await?;
    assert_refused(&sign_in(&mut authenticator).await?, "the user is removed");
    set(false).await?;
    assert_eq!(sign_in(&mut authenticator).await?.status, 303);
    cluster.ctl(&["users", "remove", id]).await?;
    assert_refused(&sign_in(&mut authenticator).await?, "removed by an operator");
    assert_eq!(stored(&merchant, &user).await?, 0);
    Ok(())
}
