//! The people of a merchant: who they are, and invitations.

use std::time::Duration;

use sqlx::{PgConnection, PgPool};

use foundation::crypto::{Secret, random_hex, sha256};
use foundation::db::begin;
use foundation::error::{Error, Result};
use foundation::id::{InvitationId, MerchantId, UserId};
use foundation::time::Timestamp;

use super::{Role, Session, SignedIn, actions, passkeys, password, sessions, stored_email, taken};

/// How long an invitation can be accepted.
pub const INVITATION_LIFETIME: Duration = Duration::from_secs(7 * 86_400);
/// Open invitations of a merchant, and those that it sends in a day: each may be sent to an address of its choice.
const MAX_INVITATIONS: i64 = 100;

/// A user of a merchant.
#[derive(Debug)]
pub struct Member {
    pub id: UserId,
    pub email: String,
    pub role: Role,
    /// Whether the user has a second factor.
    pub has_factor: bool,
    /// When the user's latest session was used, to about a minute.
    pub last_used_at: Option<Timestamp>,
}

/// An invitation that can be accepted.
#[derive(Debug)]
pub struct Invitation {
    pub id: InvitationId,
    pub merchant_id: MerchantId,
    /// The merchant's name.
    pub merchant: String,
    pub email: String,
    pub role: Role,
    /// The code of the language in which the inviting user saw the portal.
    pub language: Option<String>,
    pub created_at: Timestamp,
}

/// The users of a merchant, by e-mail address.
///
/// # Errors
/// Database errors only.
pub async fn members(db: &PgPool, merchant: MerchantId) -> Result<Vec<Member>> {
    let rows = sqlx::query_as!(
        Member,
        r#"SELECT id, email, role, totp_secret IS NOT NULL AS "has_factor!",
               (SELECT max(last_used_at) FROM user_sessions s WHERE s.user_id = u.id) AS last_used_at
           FROM users u WHERE merchant_id = $1 AND removed_at IS NULL ORDER BY email"#,
        merchant.uuid(),
    );
    Ok(rows.fetch_all(db).await?)
}

/// Invitations that can be accepted. The parameters begin with their lifetime.
macro_rules! select_open {
    ($rest:literal, $($arg:expr),* $(,)?) => {
        sqlx::query_as!(
            Invitation,
            "SELECT v.id, v.merchant_id, m.name AS merchant, v.email, v.role, v.language, v.created_at
             FROM user_invitations v JOIN users i ON i.id = v.invited_by JOIN merchants m ON m.id = v.merchant_id
             WHERE v.ended_at IS NULL AND v.created_at > clock_timestamp() - make_interval(secs => $1)
                 AND i.role = 'owner' AND i.removed_at IS NULL AND " + $rest,
            INVITATION_LIFETIME.as_secs_f64(),
            $($arg),*
        )
    };
}

/// The invitations of a merchant that can be accepted, newest first.
///
/// # Errors
/// Database errors only.
pub async fn invitations(db: &PgPool, merchant: MerchantId) -> Result<Vec<Invitation>> {
    let rows = select_open!("v.merchant_id = $2 ORDER BY v.created_at DESC", merchant.uuid());
    Ok(rows.fetch_all(db).await?)
}

/// Locks the user of a session in the transaction of a change. What removes the user, gives the user another role, or replaces
/// the password either waits for the change or is seen here. Returns the user as of now, unless the session has ended.
///
/// # Errors
/// Database errors only.
pub async fn lock_user(tx: &mut PgConnection, user: &SignedIn, cookie: &str) -> Result<Option<SignedIn>> {
    // First: the change may lock other users of the merchant.
    lock_merchant(tx, user.merchant_id).await?;
    sqlx::query!("SELECT FROM users WHERE id = $1 FOR NO KEY UPDATE", user.id.uuid()).execute(&mut *tx).await?;
    // A statement of its own, which sees what was committed while the lock was awaited.
    sessions::find(tx, cookie).await
}

/// Invites a person, on behalf of an owner who is locked. An e-mail to the person is in this language. The token in the link is
/// returned only here.
///
/// # Errors
/// 422 `email`; [`Error::Conflict`] if there is a user with this e-mail address, or there are too many invitations.
pub async fn invite(
    tx: &mut PgConnection,
    now: Timestamp,
    owner: &SignedIn,
    (email, language): (&str, &str),
    role: Role,
) -> Result<(InvitationId, Secret<String>)> {
    let email = stored_email(email)?;
    // Concurrent invitations cannot exceed their number.
    lock_merchant(tx, owner.merchant_id).await?;
    let open = sqlx::query_scalar!(
        r#"SELECT count(*) AS "count!" FROM user_invitations
           WHERE merchant_id = $1 AND ended_at IS NULL AND created_at > clock_timestamp() - make_interval(secs => $2)"#,
        owner.merchant_id.uuid(),
        INVITATION_LIFETIME.as_secs_f64(),
    );
    if open.fetch_one(&mut *tx).await? >= MAX_INVITATIONS {
        return Err(Error::conflict(format!("at most {MAX_INVITATIONS} invitations can be open: revoke some")));
    }
    let of_today = sqlx::query_scalar!(
        r#"SELECT count(*) AS "count!" FROM user_invitations
           WHERE id >= ulid_floor((SELECT clock_timestamp()) - interval '1 day') AND merchant_id = $1"#,
        owner.merchant_id.uuid(),
    );
    if of_today.fetch_one(&mut *tx).await? >= MAX_INVITATIONS {
        return Err(Error::conflict(format!("at most {MAX_INVITATIONS} invitations can be sent in a day")));
    }
    let exists = sqlx::query_scalar!(
        r#"SELECT EXISTS (SELECT FROM users WHERE email = $1 AND removed_at IS NULL) AS "exists!""#,
        email
    );
    if exists.fetch_one(&mut *tx).await? {
        return Err(taken());
    }
    let (id, token) = (InvitationId::new(now), random_hex(32));
    sqlx::query!(
        "INSERT INTO user_invitations (id, merchant_id, email, role, token_hash, invited_by, language, created_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, clock_timestamp())",
        id.uuid(),
        owner.merchant_id.uuid(),
        email,
        role as Role,
        &sha256(token.as_bytes())[..],
        owner.id.uuid(),
        language,
    )
    .execute(tx)
    .await?;
    Ok((id, Secret::new(token)))
}

/// The invitation with this token, if it can be accepted.
///
/// # Errors
/// Database errors only.
pub async fn find_invitation(db: &PgPool, token: &str) -> Result<Option<Invitation>> {
    let row = select_open!("v.token_hash = $2", &sha256(token.as_bytes())[..]);
    Ok(row.fetch_optional(db).await?)
}

/// The invitation with this id, if it can be accepted.
///
/// # Errors
/// Database errors only.
pub async fn open_invitation(db: &PgPool, id: InvitationId) -> Result<Option<Invitation>> {
    let row = select_open!("v.id = $2", id.uuid());
    Ok(row.fetch_optional(db).await?)
}

/// Accepts an invitation, once: creates the user with this password, logs it, and signs the user in.
///
/// # Errors
/// 422 `password`; [`Error::NotFound`] if the invitation cannot be accepted; [`Error::Conflict`] if there is a user with
/// this e-mail address; [`Error::Busy`] if the password cannot be hashed in time.
pub async fn accept_invitation(
    db: &PgPool,
    now: Timestamp,
    token: &str,
    password: Secret<String>,
    user_agent: &str,
) -> Result<Session> {
    let hash = password::hash(password).await?;
    let mut tx = begin(db).await?;
    let accepted = sqlx::query!(
        "UPDATE user_invitations SET ended_at = clock_timestamp()
         WHERE token_hash = $1 AND ended_at IS NULL AND created_at > clock_timestamp() - make_interval(secs => $2)
             AND EXISTS (SELECT FROM users i WHERE i.id = invited_by AND i.role = 'owner' AND i.removed_at IS NULL)
         RETURNING id, merchant_id, email, role",
        &sha256(token.as_bytes())[..],
        INVITATION_LIFETIME.as_secs_f64(),
    );
    let accepted = accepted.fetch_optional(&mut *tx).await?.ok_or_else(|| Error::no_such("invitation", ""))?;
    let id = super::insert(&mut tx, now, accepted.merchant_id, &accepted.email, accepted.role, &hash).await?;
    let (who, invitation) = ((id, accepted.merchant_id), accepted.id.to_string());
    actions::record(&mut tx, who, "team.accept", &invitation).await?;
    let session = sessions::create(&mut tx, id, user_agent).await?;
    tx.commit().await?;
    Ok(session)
}

/// Revokes an invitation.
///
/// # Errors
/// [`Error::NotFound`] if the merchant has no such invitation that can be accepted.
pub async fn revoke_invitation(tx: &mut PgConnection, merchant: MerchantId, id: InvitationId) -> Result<()> {
    let done = sqlx::query!(
        "UPDATE user_invitations SET ended_at = clock_timestamp() WHERE id = $1 AND merchant_id = $2 AND ended_at IS NULL",
        id.uuid(),
        merchant.uuid(),
    );
    match done.execute(tx).await?.rows_affected() {
        0 => Err(Error::no_such("invitation", id)),
        _ => Ok(()),
    }
}

/// Ends the invitations that a user has sent.
async fn end_invitations(tx: &mut PgConnection, merchant: MerchantId, user: UserId) -> Result<()> {
    sqlx::query!(
        "WITH held AS MATERIALIZED (
             SELECT locked.id FROM unnest(ARRAY(
                 SELECT id FROM user_invitations WHERE merchant_id = $1 AND invited_by = $2 AND ended_at IS NULL ORDER BY id))
                 AS u (id)
             CROSS JOIN LATERAL (SELECT v.id FROM user_invitations v WHERE v.id = u.id AND v.ended_at IS NULL
                 FOR NO KEY UPDATE) locked)
         UPDATE user_invitations v SET ended_at = clock_timestamp() FROM held WHERE v.id = held.id",
        merchant.uuid(),
        user.uuid(),
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Gives a user of the merchant another role. The invitations of a user who is no longer an owner end.
///
/// # Errors
/// [`Error::NotFound`]; [`Error::Conflict`] if no owner would remain.
pub async fn set_role(tx: &mut PgConnection, merchant: MerchantId, user: UserId, role: Role) -> Result<()> {
    if role != Role::Owner {
        require_another_owner(tx, merchant, user).await?;
    }
    let done = sqlx::query!(
        "UPDATE users SET role = $3 WHERE id = $1 AND merchant_id = $2 AND removed_at IS NULL",
        user.uuid(),
        merchant.uuid(),
        role as Role,
    );
    if done.execute(&mut *tx).await?.rows_affected() == 0 {
        return Err(Error::no_such("user", user));
    }
    match role {
        Role::Owner => Ok(()),
        Role::Developer | Role::Support | Role::Viewer => end_invitations(tx, merchant, user).await,
    }
}

/// Removes a user, of this merchant if one is given. The user stays in the log; the passkeys, the sessions and the invitations
/// that the user has sent end.
///
/// # Errors
/// [`Error::NotFound`]; [`Error::Conflict`] if no owner would remain.
pub async fn remove(tx: &mut PgConnection, now: Timestamp, merchant: Option<MerchantId>, user: UserId) -> Result<()> {
    let unknown = || Error::no_such("user", user);
    let found = sqlx::query_scalar!(
        "SELECT merchant_id FROM users WHERE id = $1 AND ($2::uuid IS NULL OR merchant_id = $2)",
        user.uuid(),
        merchant.map(MerchantId::uuid),
    );
    let merchant = found.fetch_optional(&mut *tx).await?.ok_or_else(unknown)?;
    require_another_owner(tx, merchant, user).await?;
    let removed = sqlx::query_scalar!(
        "UPDATE users SET removed_at = $2 WHERE id = $1 AND removed_at IS NULL RETURNING id",
        user.uuid(),
        now,
    );
    removed.fetch_optional(&mut *tx).await?.ok_or_else(unknown)?;
    end_invitations(tx, merchant, user).await?;
    passkeys::remove_all(tx, user).await?;
    sessions::delete_all(tx, user).await
}

/// Changes of a merchant's users and their invitations wait for each other.
async fn lock_merchant(tx: &mut PgConnection, merchant: MerchantId) -> Result<()> {
    sqlx::query!("SELECT FROM merchants WHERE id = $1 FOR NO KEY UPDATE", merchant.uuid()).execute(tx).await?;
    Ok(())
}

/// Unless the user is no owner.
async fn require_another_owner(tx: &mut PgConnection, merchant: MerchantId, user: UserId) -> Result<()> {
    lock_merchant(tx, merchant).await?;
    let exists = sqlx::query_scalar!(
        r#"SELECT EXISTS (SELECT FROM users WHERE merchant_id = $1 AND removed_at IS NULL AND (role = 'owner') = (id <> $2))
               AS "exists!""#,
        merchant.uuid(),
        user.uuid(),
    );
    match exists.fetch_one(tx).await? {
        true => Ok(()),
        false => Err(Error::conflict("an owner must remain")),
    }
}
