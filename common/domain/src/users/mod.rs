//! The people who work in a merchant's accounts, and their sessions in the portal.

mod actions;
mod cleanup;
mod passkeys;
mod password;
mod role;
mod second_factor;
mod sessions;
mod team;

pub use actions::{Action, ActionFilter, Begun, Change, Entry, Outcome, find_action, list_actions, take_secret};
pub use cleanup::clean_up;
pub use passkeys::{
    CHALLENGE_LIFETIME, MAX_PASSKEYS, Passkey, PasskeySignIn, PasskeySite, add_passkey, begin_passkey,
    begin_passkey_sign_in, passkeys, remove_passkey, sign_in_with_passkey,
};
pub use role::{Area, Role};
pub use second_factor::{NewFactor, add_factor, new_factor, remove_factor, replace_recovery_codes, totp_place};
pub use sessions::{
    Awaited, CODE_LIFETIME, LIFETIME, Session, SessionRow, SignedIn, awaited_user, delete_session, end_session,
    find_session, sessions,
};
pub use team::{
    INVITATION_LIFETIME, Invitation, Member, accept_invitation, find_invitation, invitations, invite, lock_user,
    members, open_invitation, remove, revoke_invitation, set_role,
};

use sqlx::{PgConnection, PgExecutor, PgPool};
use uuid::Uuid;

use foundation::crypto::{KeyRing, Secret, random_hex};
use foundation::db::begin;
use foundation::email::is_internet_email;
use foundation::error::{Error, Result};
use foundation::id::{AccountId, KeyId, MerchantId, UserId};
use foundation::time::Timestamp;

use crate::accounts::Mode;

/// A user as operators see it.
#[derive(Debug)]
pub struct UserRow {
    pub id: UserId,
    pub merchant_id: MerchantId,
    pub email: String,
    pub role: Role,
    pub created_at: Timestamp,
    pub removed_at: Option<Timestamp>,
}

/// Creates a user.
///
/// # Errors
/// 422 `email` or `password`; [`Error::NotFound`] for an unknown merchant; [`Error::Conflict`] if there is a user with
/// this e-mail address.
pub async fn create(
    tx: &mut PgConnection,
    now: Timestamp,
    merchant: MerchantId,
    email: &str,
    role: Role,
    password: Secret<String>,
) -> Result<UserId> {
    let email = stored_email(email)?;
    let hash = password::hash(password).await?;
    insert(tx, now, merchant, &email, role, &hash).await
}

/// The address in lower case, as it is stored.
fn stored_email(email: &str) -> Result<String> {
    let email = email.to_lowercase();
    match is_internet_email(&email) {
        true => Ok(email),
        false => Err(Error::invalid("email", "must be an e-mail address")),
    }
}

async fn insert(
    tx: &mut PgConnection,
    now: Timestamp,
    merchant: MerchantId,
    email: &str,
    role: Role,
    hash: &str,
) -> Result<UserId> {
    let id = UserId::new(now);
    sqlx::query!(
        "INSERT INTO users (id, merchant_id, email, role, password_hash, created_at) VALUES ($1, $2, $3, $4, $5, $6)",
        id.uuid(),
        merchant.uuid(),
        email,
        role as Role,
        hash,
        now,
    )
    .execute(tx)
    .await
    .map_err(|error| match error.as_database_error().and_then(|error| error.constraint()) {
        Some("users_email") => taken(),
        Some("users_merchant_id_fkey") => Error::no_such("merchant", merchant),
        _ => error.into(),
    })?;
    Ok(id)
}

fn taken() -> Error {
    Error::conflict("there is a user with this e-mail address")
}

/// The users of a merchant or of all, by e-mail address.
///
/// # Errors
/// Database errors only.
pub async fn list(db: impl PgExecutor<'_>, merchant: Option<MerchantId>) -> Result<Vec<UserRow>> {
    let query = sqlx::query_as!(
        UserRow,
        "SELECT id, merchant_id, email, role, created_at, removed_at
         FROM users WHERE $1::uuid IS NULL OR merchant_id = $1 ORDER BY email, id",
        merchant.map(MerchantId::uuid),
    );
    Ok(query.fetch_all(db).await?)
}

/// Sets another password and removes the second factor and the passkeys, for a user who has lost any of them. The user's
/// sessions end.
///
/// # Errors
/// 422 `password`; [`Error::NotFound`] for an unknown user.
pub async fn set_password(tx: &mut PgConnection, user: UserId, password: Secret<String>) -> Result<()> {
    let hash = password::hash(password).await?;
    let query = sqlx::query_scalar!(
        "UPDATE users SET password_hash = $2, totp_secret = NULL, totp_step = NULL, recovery_code_hashes = '{}'
         WHERE id = $1 RETURNING id",
        user.uuid(),
        hash
    );
    query.fetch_optional(&mut *tx).await?.ok_or_else(|| Error::no_such("user", user))?;
    passkeys::remove_all(tx, user).await?;
    sessions::delete_all(tx, user).await
}

/// A user who has just entered the right password.
pub struct Confirmed {
    user: UserId,
    hash: String,
}

impl Confirmed {
    pub const fn id(&self) -> UserId {
        self.user
    }
}

/// Checks a user's password again before something that a stolen session must not do.
///
/// # Errors
/// 422 `current` if it is not the password; [`Error::Busy`] if it cannot be checked in time.
pub async fn confirm(db: &PgPool, user: UserId, current: Secret<String>) -> Result<Confirmed> {
    let hash = sqlx::query_scalar!("SELECT password_hash FROM users WHERE id = $1", user.uuid()).fetch_one(db).await?;
    match password::verify(current, Some(hash.clone())).await? {
        true => Ok(Confirmed { user, hash }),
        false => Err(Error::invalid("current", "the current password is wrong")),
    }
}

/// The hash of a new password.
pub struct NewPassword(String);

impl NewPassword {
    /// # Errors
    /// 422 `password` if it is too short or too long.
    pub async fn hash(password: Secret<String>) -> Result<Self> {
        password::hash(password).await.map(Self)
    }
}

/// Replaces a password. The session with this cookie gets another one, which is returned, and the user's other sessions end.
///
/// # Errors
/// [`Error::Conflict`] if the password was replaced since it was confirmed, or the session has ended.
pub async fn change_password(
    tx: &mut PgConnection,
    confirmed: &Confirmed,
    cookie: &str,
    new: NewPassword,
) -> Result<Secret<String>> {
    let done = sqlx::query!(
        "UPDATE users SET password_hash = $3 WHERE id = $1 AND password_hash = $2",
        confirmed.user.uuid(),
        confirmed.hash,
        new.0,
    );
    if done.execute(&mut *tx).await?.rows_affected() == 0 {
        return Err(Error::conflict("the password was changed meanwhile"));
    }
    sessions::renew(tx, confirmed.user, cookie).await
}

/// Stores the language in which a user sees the portal; `None` is that of the browser.
///
/// # Errors
/// Database errors only.
pub async fn set_language(tx: &mut PgConnection, user: UserId, language: Option<&str>) -> Result<()> {
    sqlx::query!("UPDATE users SET language = $2 WHERE id = $1", user.uuid(), language).execute(tx).await?;
    Ok(())
}

/// What a right password leads to.
#[derive(Debug)]
pub enum Passed {
    /// The user has no second factor and is signed in.
    In(Session),
    /// A code is awaited, for as long as [`CODE_LIFETIME`]. The value of the cookie for it.
    Awaiting(Secret<String>),
}

/// Checks the password. Takes as long if there is no such user.
///
/// # Errors
/// [`Error::Busy`] if the password cannot be checked in time; otherwise database errors only.
pub async fn sign_in(db: &PgPool, email: &str, password: Secret<String>, user_agent: &str) -> Result<Option<Passed>> {
    let user = match stored_email(email) {
        Ok(email) => {
            let user = sqlx::query!(
                r#"SELECT id, password_hash, totp_secret IS NOT NULL AS "has_factor!"
                   FROM users WHERE email = $1 AND removed_at IS NULL"#,
                email
            );
            user.fetch_optional(db).await?
        }
        Err(_) => None,
    };
    let is_right = password::verify(password, user.as_ref().map(|user| user.password_hash.clone())).await?;
    let Some(user) = user.filter(|_| is_right) else { return Ok(None) };
    let mut tx = begin(db).await?;
    // What has changed since is not overtaken: a new password ends the sessions that are committed before it.
    let is_current = sqlx::query_scalar!(
        "SELECT id FROM users WHERE id = $1 AND password_hash = $2 AND removed_at IS NULL AND (totp_secret IS NOT NULL) = $3
         FOR SHARE",
        user.id.uuid(),
        user.password_hash,
        user.has_factor,
    );
    if is_current.fetch_optional(&mut *tx).await?.is_none() {
        return Ok(None);
    }
    let passed = match user.has_factor {
        true => Passed::Awaiting(sessions::await_code(&mut tx, user.id).await?),
        false => Passed::In(sessions::create(&mut tx, user.id, user_agent).await?),
    };
    tx.commit().await?;
    Ok(Some(passed))
}

/// Signs in the user whose code is awaited, if it is right. `cookie` is that of [`Passed::Awaiting`].
///
/// # Errors
/// Database errors; [`Error::Internal`] if the secret of the second factor cannot be decrypted.
pub async fn sign_in_with_code(
    db: &PgPool,
    encryption: &KeyRing,
    (user, cookie): (UserId, &str),
    code: &str,
    user_agent: &str,
) -> Result<Option<Session>> {
    match second_factor::accept_code(db, encryption, user, code).await? {
        true => sessions::complete(db, user, cookie, user_agent).await,
        false => Ok(None),
    }
}

/// The e-mail addresses of the users who act as these keys. Other keys are left out.
///
/// # Errors
/// Database errors only.
pub async fn of_keys(db: &PgPool, merchant: MerchantId, keys: &[KeyId]) -> Result<Vec<(KeyId, String)>> {
    let keys: Vec<Uuid> = keys.iter().map(|key| key.uuid()).collect();
    let found = sqlx::query!(
        r#"SELECT k.id, u.email FROM api_keys k JOIN users u ON u.id = k.user_id
           WHERE k.id = ANY ($1) AND u.merchant_id = $2"#,
        &keys,
        merchant.uuid(),
    );
    Ok(found.fetch_all(db).await?.into_iter().map(|row| (row.id, row.email)).collect())
}

/// An account in which a user works, and the key as which the user acts there.
#[derive(Debug)]
pub struct UserAccount {
    pub id: AccountId,
    pub key: KeyId,
    pub name: String,
    /// Whether the merchant has an account in the other mode as well.
    pub has_other: bool,
}

/// The merchant's account in this mode, if there is one.
///
/// # Errors
/// Database errors only.
pub async fn account(db: &PgPool, user: &SignedIn, mode: Mode, now: Timestamp) -> Result<Option<UserAccount>> {
    let found = sqlx::query!(
        r#"SELECT a.id, a.name, k.id AS "key?",
               EXISTS (SELECT FROM accounts o WHERE o.merchant_id = a.merchant_id AND o.id <> a.id) AS "has_other!"
           FROM accounts a LEFT JOIN api_keys k ON k.account_id = a.id AND k.user_id = $1
           WHERE a.merchant_id = $2 AND a.mode = $3"#,
        user.id.uuid(),
        user.merchant_id.uuid(),
        mode as Mode,
    );
    let Some(found) = found.fetch_optional(db).await? else { return Ok(None) };
    let key = match found.key {
        Some(key) => key,
        None => issue_key(db, user.id, found.id, now).await?,
    };
    Ok(Some(UserAccount { id: found.id, key, name: found.name, has_other: found.has_other }))
}

/// The key as which a user acts in an account. No text with its hash is known, and without the role it has no
/// entitlement.
async fn issue_key(db: &PgPool, user: UserId, account: AccountId, now: Timestamp) -> Result<KeyId> {
    let key = sqlx::query_scalar!(
        r#"INSERT INTO api_keys (id, account_id, kind, key_hash, entitlements, created_at, user_id)
           VALUES ($1, $2, 'secret', decode($3, 'hex'), '{}', $4, $5)
           ON CONFLICT (user_id, account_id) WHERE user_id IS NOT NULL DO UPDATE SET user_id = excluded.user_id
           RETURNING id"#,
        KeyId::new(now).uuid(),
        account.uuid(),
        random_hex(32),
        now,
        user.uuid(),
    );
    Ok(key.fetch_one(db).await?)
}
