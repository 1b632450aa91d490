//! The people who work in a merchant's accounts, and their sessions in the portal.

mod actions;
mod password;
mod role;
mod sessions;

pub use actions::{Action, Begun, Entry, Outcome, find_action, latest_actions};
pub use role::Role;
pub use sessions::{IDLE_LIMIT, LIFETIME, Session, SignedIn, delete_session, find_session};

use sqlx::{PgConnection, PgExecutor, PgPool};

use foundation::crypto::{Secret, random_hex};
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
    let email = email.to_lowercase();
    if !is_internet_email(&email) {
        return Err(Error::invalid("email", "must be an e-mail address"));
    }
    let (id, hash) = (UserId::new(now), password::hash(password).await?);
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
        Some("users_email") => Error::conflict("there is a user with this e-mail address"),
        Some("users_merchant_id_fkey") => Error::no_such("merchant", merchant),
        _ => error.into(),
    })?;
    Ok(id)
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

/// Removes a user, who stays in the log. The user's sessions end.
///
/// # Errors
/// [`Error::NotFound`] for an unknown user.
pub async fn remove(tx: &mut PgConnection, now: Timestamp, user: UserId) -> Result<()> {
    let query = sqlx::query_scalar!(
        "UPDATE users SET removed_at = coalesce(removed_at, $2) WHERE id = $1 RETURNING id",
        user.uuid(),
        now,
    );
    query.fetch_optional(&mut *tx).await?.ok_or_else(|| Error::no_such("user", user))?;
    sessions::delete_all(tx, user).await
}

/// Sets another password. The user's sessions end.
///
/// # Errors
/// 422 `password`; [`Error::NotFound`] for an unknown user.
pub async fn set_password(tx: &mut PgConnection, user: UserId, password: Secret<String>) -> Result<()> {
    let hash = password::hash(password).await?;
    let query =
        sqlx::query_scalar!("UPDATE users SET password_hash = $2 WHERE id = $1 RETURNING id", user.uuid(), hash);
    query.fetch_optional(&mut *tx).await?.ok_or_else(|| Error::no_such("user", user))?;
    sessions::delete_all(tx, user).await
}

/// Signs a user in, if the password is right. Takes as long if there is no such user.
///
/// # Errors
/// Database errors only.
pub async fn sign_in(db: &PgPool, email: &str, password: Secret<String>) -> Result<Option<Session>> {
    let email = email.to_lowercase();
    let user = match is_internet_email(&email) {
        true => {
            let user =
                sqlx::query!("SELECT id, password_hash FROM users WHERE email = $1 AND removed_at IS NULL", email);
            user.fetch_optional(db).await?
        }
        false => None,
    };
    let id = user.as_ref().map(|user| user.id);
    let is_right = password::verify(password, user.map(|user| user.password_hash)).await?;
    match id.filter(|_| is_right) {
        Some(id) => sessions::create(db, id).await.map(Some),
        None => Ok(None),
    }
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

/// The key as which a user acts in an account. Nobody knows a text with its hash, and without the role it has no
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
