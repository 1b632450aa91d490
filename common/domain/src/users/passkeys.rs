//! Passkeys (WebAuthn): keys on devices of a user, of which each signs in without the password. The device verifies its user, so
//! a passkey counts as both factors.

use std::fmt::Display;
use std::time::Duration;

use passki::{
    AuthenticationCredential, AuthenticationOptions, AuthenticationState, Passki, PasskiError, RegistrationCredential,
    RegistrationOptions, RegistrationState, ResidentKeyRequirement, StoredPasskey, UserVerificationRequirement,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use sqlx::{PgConnection, PgPool};

use foundation::crypto::{Secret, hex, random_hex, sha256};
use foundation::db::begin;
use foundation::error::{Error, Result};
use foundation::id::{PasskeyId, UserId};
use foundation::time::Timestamp;

use super::sessions::{self, Session};
use super::{Confirmed, SignedIn};
use crate::accounts::stored_name;

/// The passkeys that a user can have.
pub const MAX_PASSKEYS: usize = 10;
/// How long a challenge can be used.
pub const CHALLENGE_LIFETIME: Duration = Duration::from_secs(300);
/// Bytes of a cookie and of a user's handle.
const RANDOM: usize = 32;
/// The algorithms whose signatures can be verified, by their numbers in COSE: EdDSA, ES256, ES384, RS256 and RS384.
const ALGORITHMS: [i32; 5] = [-8, -7, -35, -257, -258];

/// The site at which passkeys are valid.
pub struct PasskeySite(Passki);

impl PasskeySite {
    /// `host` is the name of the site's host, and `origin` what browsers send as its origin.
    pub fn new(host: &str, origin: &str, name: &str) -> Self {
        Self(Passki::new(host, &[origin], name))
    }
}

/// A passkey as its user sees it.
#[derive(Debug)]
pub struct Passkey {
    pub id: PasskeyId,
    pub name: String,
    pub created_at: Timestamp,
    pub last_used_at: Option<Timestamp>,
}

/// The passkeys of a user, the oldest first.
///
/// # Errors
/// Database errors only.
pub async fn passkeys(db: &PgPool, user: UserId) -> Result<Vec<Passkey>> {
    let rows = sqlx::query_as!(
        Passkey,
        "SELECT id, name, created_at, last_used_at FROM user_passkeys WHERE user_id = $1 ORDER BY id",
        user.uuid(),
    );
    Ok(rows.fetch_all(db).await?)
}

/// What the browser of a session needs to make a passkey. `cookie` is that of the session: another one cannot add the passkey.
///
/// # Errors
/// Database errors only.
pub async fn begin_passkey(db: &PgPool, site: &PasskeySite, user: &SignedIn, cookie: &str) -> Result<Value> {
    let mut tx = begin(db).await?;
    // The same for all passkeys of the user: a device keeps one for each handle.
    let handle = sqlx::query_scalar!(
        r#"UPDATE users SET passkey_handle = coalesce(passkey_handle, decode($2, 'hex')) WHERE id = $1
           RETURNING passkey_handle AS "handle!""#,
        user.id.uuid(),
        random_hex(RANDOM),
    );
    let handle = handle.fetch_one(&mut *tx).await?;
    let existing = sqlx::query_scalar!("SELECT credential_id FROM user_passkeys WHERE user_id = $1", user.id.uuid());
    let existing = existing.fetch_all(&mut *tx).await?;
    let existing: Vec<_> = existing.into_iter().map(|id| stored(id, Vec::new(), 0, 0)).collect();
    let mut options = RegistrationOptions::default();
    options.timeout = lifetime_ms();
    options.resident_key = ResidentKeyRequirement::Required;
    options.user_verification = UserVerificationRequirement::Required;
    options.exclude_credentials = Some(&existing);
    let begun = site.0.start_passkey_registration(&handle, &user.email, &user.email, options);
    let (shown, state) = begun.map_err(unexpected)?;
    await_response(&mut tx, cookie, Some(user.id), &state).await?;
    tx.commit().await?;
    serde_json::to_value(&shown).map_err(unexpected)
}

fn stored(credential_id: Vec<u8>, public_key: Vec<u8>, algorithm: i32, counter: u32) -> StoredPasskey {
    let mut passkey = StoredPasskey::default();
    passkey.credential_id = credential_id;
    passkey.public_key = public_key;
    passkey.algorithm = algorithm;
    passkey.counter = counter;
    passkey
}

fn lifetime_ms() -> u64 {
    CHALLENGE_LIFETIME.as_secs() * 1_000
}

fn unexpected(error: impl Display) -> Error {
    Error::internal(format!("a passkey: {error}"))
}

/// Stores the challenge that the browser with this cookie gets, in place of one that it has got before.
async fn await_response(
    tx: &mut PgConnection,
    cookie: &str,
    user: Option<UserId>,
    state: &impl Serialize,
) -> Result<()> {
    let state = serde_json::to_value(state).map_err(unexpected)?;
    sqlx::query!(
        "INSERT INTO user_passkey_challenges (cookie_hash, user_id, state, created_at)
         VALUES ($1, $2, $3, clock_timestamp())
         ON CONFLICT (cookie_hash) DO UPDATE SET user_id = excluded.user_id, state = excluded.state,
             created_at = excluded.created_at",
        &sha256(cookie.as_bytes())[..],
        user.map(UserId::uuid),
        state,
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Takes the challenge of the browser with this cookie, which no later request finds, unless it has expired.
async fn take_challenge<State: DeserializeOwned>(
    db: &mut PgConnection,
    cookie: &str,
    user: Option<UserId>,
) -> Result<Option<State>> {
    let taken = sqlx::query!(
        r#"DELETE FROM user_passkey_challenges WHERE cookie_hash = $1 AND user_id IS NOT DISTINCT FROM $2
           RETURNING state, created_at > clock_timestamp() - make_interval(secs => $3) AS "is_valid!""#,
        &sha256(cookie.as_bytes())[..],
        user.map(UserId::uuid),
        CHALLENGE_LIFETIME.as_secs_f64(),
    );
    match taken.fetch_optional(db).await?.filter(|taken| taken.is_valid) {
        Some(taken) => serde_json::from_value(taken.state).map(Some).map_err(unexpected),
        None => Ok(None),
    }
}

/// Adds the passkey that the browser of this session has made, for a user who has confirmed the password and whose row is locked.
/// `credential` is what the browser says about it, in JSON.
///
/// # Errors
/// 422 `name` or `credential`; [`Error::Conflict`] if the user has [`MAX_PASSKEYS`], or somebody has this one.
pub async fn add_passkey(
    tx: &mut PgConnection,
    site: &PasskeySite,
    now: Timestamp,
    (user, cookie): (&Confirmed, &str),
    name: &str,
    credential: &str,
) -> Result<PasskeyId> {
    let name = stored_name(Some(name))?.ok_or_else(|| Error::invalid("name", "name is required"))?;
    let refused = || Error::invalid("credential", "the passkey was not accepted: please try again");
    let state = take_challenge::<RegistrationState>(tx, cookie, Some(user.id())).await?.ok_or_else(refused)?;
    let credential: RegistrationCredential = serde_json::from_str(credential).map_err(|_| refused())?;
    let passkey = site.0.finish_passkey_registration(&credential, &state).map_err(|_| refused())?;
    if !ALGORITHMS.contains(&passkey.algorithm) {
        return Err(refused());
    }
    let count =
        sqlx::query_scalar!(r#"SELECT count(*) AS "count!" FROM user_passkeys WHERE user_id = $1"#, user.id().uuid());
    if usize::try_from(count.fetch_one(&mut *tx).await?).unwrap_or(MAX_PASSKEYS) >= MAX_PASSKEYS {
        return Err(Error::conflict(format!("a user has at most {MAX_PASSKEYS} passkeys: remove one first")));
    }
    let id = PasskeyId::new(now);
    sqlx::query!(
        "INSERT INTO user_passkeys (id, user_id, name, credential_id, public_key, algorithm, counter, created_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, clock_timestamp())",
        id.uuid(),
        user.id().uuid(),
        name,
        passkey.credential_id,
        passkey.public_key,
        passkey.algorithm,
        i64::from(passkey.counter),
    )
    .execute(tx)
    .await
    .map_err(|error| match error.as_database_error().and_then(|error| error.constraint()) {
        Some("user_passkeys_once") => Error::conflict("this passkey is in use already"),
        Some("user_passkeys_credential_id" | "user_passkeys_public_key") => refused(),
        _ => error.into(),
    })?;
    Ok(id)
}

/// Removes a passkey of a user who has confirmed the password. No session ends.
///
/// # Errors
/// [`Error::NotFound`] if the user has no such passkey.
pub async fn remove_passkey(tx: &mut PgConnection, user: &Confirmed, id: PasskeyId) -> Result<()> {
    let done = sqlx::query!("DELETE FROM user_passkeys WHERE id = $1 AND user_id = $2", id.uuid(), user.id().uuid());
    match done.execute(tx).await?.rows_affected() {
        0 => Err(Error::no_such("passkey", id)),
        _ => Ok(()),
    }
}

/// Removes all passkeys of a user whose row is locked.
pub(super) async fn remove_all(tx: &mut PgConnection, user: UserId) -> Result<()> {
    sqlx::query!("DELETE FROM user_passkeys WHERE user_id = $1", user.uuid()).execute(tx).await?;
    Ok(())
}

/// What a browser needs to sign in with a passkey of whatever user, and the value of the cookie that it must send with the
/// response.
///
/// # Errors
/// Database errors only.
pub async fn begin_passkey_sign_in(db: &PgPool, site: &PasskeySite) -> Result<(Value, Secret<String>)> {
    let mut options = AuthenticationOptions::default();
    options.timeout = lifetime_ms();
    options.user_verification = UserVerificationRequirement::Required;
    let (shown, state) = site.0.start_passkey_authentication(&[], options).map_err(unexpected)?;
    let cookie = random_hex(RANDOM);
    await_response(&mut *db.acquire().await?, &cookie, None, &state).await?;
    Ok((serde_json::to_value(&shown).map_err(unexpected)?, Secret::new(cookie)))
}

/// A user who has signed in with a passkey.
#[derive(Debug)]
pub struct PasskeySignIn {
    pub session: Session,
    pub email: String,
    /// As [`super::Awaited::factor`], if the user has a second factor: the passkey is as good as a code of it.
    pub factor: Option<String>,
}

/// Signs in the user whose passkey has signed the challenge of the browser with this cookie, which is used up. `credential` is
/// what the browser has got from the authenticator, in JSON. `None` if it is not accepted.
///
/// # Errors
/// Database errors only.
pub async fn sign_in_with_passkey(
    db: &PgPool,
    site: &PasskeySite,
    (cookie, credential): (&str, &str),
    user_agent: &str,
) -> Result<Option<PasskeySignIn>> {
    let state = take_challenge::<AuthenticationState>(&mut *db.acquire().await?, cookie, None).await?;
    let credential = serde_json::from_str::<AuthenticationCredential>(credential).ok();
    let (Some(state), Some(credential)) = (state, credential) else { return Ok(None) };
    let Ok(credential_id) = Passki::base64_decode(&credential.raw_id) else { return Ok(None) };
    let found = sqlx::query!("SELECT id, user_id FROM user_passkeys WHERE credential_id = $1", credential_id);
    let Some(found) = found.fetch_optional(db).await? else { return Ok(None) };
    let mut tx = begin(db).await?;
    // What removes the user or the passkey waits for this session, and ends it, or is seen here.
    let user = sqlx::query!(
        "SELECT email, passkey_handle, totp_secret FROM users WHERE id = $1 AND removed_at IS NULL FOR SHARE",
        found.user_id.uuid(),
    );
    let Some(user) = user.fetch_optional(&mut *tx).await? else { return Ok(None) };
    // Of two sign-ins with one passkey, the second one sees the counter of the first one.
    let key = sqlx::query!(
        "SELECT public_key, algorithm, counter FROM user_passkeys WHERE id = $1 FOR NO KEY UPDATE",
        found.id.uuid(),
    );
    let Some(key) = key.fetch_optional(&mut *tx).await? else { return Ok(None) };
    let counter = u32::try_from(key.counter).unwrap_or(u32::MAX);
    let passkey = stored(credential_id, key.public_key, key.algorithm, counter);
    let accepted = match site.0.finish_passkey_authentication(&credential, &state, &passkey) {
        Ok(accepted) => accepted,
        Err(PasskiError::CounterRegression) => {
            tracing::warn!(passkey = %found.id, "the counter of a passkey went back: it may have been copied");
            return Ok(None);
        }
        Err(_) => return Ok(None),
    };
    if accepted.user_handle.is_none() || accepted.user_handle != user.passkey_handle {
        return Ok(None);
    }
    sqlx::query!(
        "UPDATE user_passkeys SET counter = $2, last_used_at = clock_timestamp() WHERE id = $1",
        found.id.uuid(),
        i64::from(accepted.counter),
    )
    .execute(&mut *tx)
    .await?;
    let session = sessions::create(&mut tx, found.user_id, user_agent).await?;
    tx.commit().await?;
    let factor = user.totp_secret.map(|secret| hex(&sha256(&secret)));
    Ok(Some(PasskeySignIn { session, email: user.email, factor }))
}
