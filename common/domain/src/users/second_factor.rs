//! Second factors: codes of an authenticator app (RFC 6238), and recovery codes for when it is lost.

use sqlx::{PgConnection, PgPool};
use totp_rs::{Algorithm, Builder, Secret as Key, Totp};

use foundation::crypto::{KeyRing, Place, Secret, random_hex, sha256};
use foundation::db::begin;
use foundation::error::{Error, Result};
use foundation::id::{MerchantId, UserId};

use super::{Confirmed, sessions};

/// Seconds of a time step.
const STEP: u64 = 30;
/// Recovery codes of a user, and their bytes.
const RECOVERY_CODES: usize = 10;
const RECOVERY_BYTES: usize = 8;

/// Where the secret of a second factor is stored.
pub fn totp_place(merchant: MerchantId, user: UserId) -> Place {
    Place::new("users.totp_secret", merchant, user)
}

/// A second factor that is not stored yet.
pub struct NewFactor {
    /// Base32, as users enter it.
    pub secret: Secret<String>,
    /// The same for an app, as an `otpauth` URL.
    pub url: Secret<String>,
}

/// A second factor for this user at this site: a random one, or that of `secret`, which was shown before.
///
/// # Errors
/// Never with a valid e-mail address and host.
pub fn new_factor(email: &str, host: &str, secret: Option<&str>) -> Result<NewFactor> {
    let mut key = [0; 20];
    getrandom::fill(&mut key).map_err(|error| Error::internal(error.to_string()))?;
    let shown = secret.and_then(|secret| Key::try_from_base32(secret).ok()).filter(|key| key.as_bytes().len() == 20);
    let key = shown.unwrap_or_else(|| Key::from(key.to_vec()));
    let secret = key.to_base32();
    let builder = builder(key).with_account_name(email).with_issuer(Some(host.replace(':', " ")));
    let url = builder.build().and_then(|totp| totp.to_url()).map_err(|error| Error::internal(error.to_string()))?;
    Ok(NewFactor { secret: Secret::new(secret), url: Secret::new(url) })
}

fn builder(key: Key) -> Builder {
    Builder::new().with_algorithm(Algorithm::SHA1).with_digits(6).with_skew(1).with_step_duration(STEP).with_secret(key)
}

fn totp(secret: &Secret<String>) -> Result<Totp> {
    let invalid = || Error::invalid("secret", "the secret is not valid: please begin again");
    let key = Key::try_from_base32(secret.expose()).map_err(|_| invalid())?;
    builder(key).build().map_err(|_| invalid())
}

/// The time of the database, which decides about codes.
async fn now(db: &mut PgConnection) -> Result<u64> {
    let seconds = sqlx::query_scalar!(r#"SELECT extract(epoch FROM clock_timestamp())::bigint AS "seconds!""#);
    Ok(u64::try_from(seconds.fetch_one(db).await?).unwrap_or_default())
}

/// Gives a user who has confirmed the password a second factor, if the code is right, and returns the recovery codes, which
/// replace earlier ones. The session with this cookie gets another one, which is returned, and the user's other sessions end.
///
/// # Errors
/// 422 `code`; [`Error::Conflict`] if the user has one, or the session has ended.
pub async fn add_factor(
    tx: &mut PgConnection,
    encryption: &KeyRing,
    (confirmed, cookie): (&Confirmed, &str),
    secret: Secret<String>,
    code: &str,
) -> Result<(Vec<String>, Secret<String>)> {
    let user = confirmed.id();
    let step = totp(&secret)?.check(code, now(tx).await?);
    let step = step.ok_or_else(|| Error::invalid("code", "the code is wrong"))?;
    let merchant = sqlx::query_scalar!(
        "SELECT merchant_id FROM users WHERE id = $1 AND totp_secret IS NULL FOR NO KEY UPDATE",
        user.uuid()
    );
    let merchant = merchant.fetch_optional(&mut *tx).await?;
    let merchant = merchant.ok_or_else(|| Error::conflict("there is a second factor already: remove it first"))?;
    let (codes, hashes) = recovery_codes();
    sqlx::query!(
        "UPDATE users SET totp_secret = $2, totp_step = $3, recovery_code_hashes = $4 WHERE id = $1",
        user.uuid(),
        encryption.seal(secret.expose(), &totp_place(merchant, user)),
        i64::try_from(step).unwrap_or(i64::MAX),
        &hashes,
    )
    .execute(&mut *tx)
    .await?;
    Ok((codes, sessions::renew(tx, user, cookie).await?))
}

fn recovery_codes() -> (Vec<String>, Vec<Vec<u8>>) {
    let codes: Vec<String> = (0..RECOVERY_CODES).map(|_| random_hex(RECOVERY_BYTES)).collect();
    let hashes = codes.iter().map(|code| sha256(code.as_bytes()).to_vec()).collect();
    (codes, hashes)
}

/// Replaces the recovery codes of a user who has confirmed the password.
///
/// # Errors
/// [`Error::Conflict`] if the user has no second factor.
pub async fn replace_recovery_codes(tx: &mut PgConnection, user: &Confirmed) -> Result<Vec<String>> {
    let (codes, hashes) = recovery_codes();
    let done = sqlx::query!(
        "UPDATE users SET recovery_code_hashes = $2 WHERE id = $1 AND totp_secret IS NOT NULL",
        user.id().uuid(),
        &hashes
    );
    match done.execute(tx).await?.rows_affected() {
        0 => Err(Error::conflict("there is no second factor")),
        _ => Ok(codes),
    }
}

/// Removes the second factor and the recovery codes of a user who has confirmed the password.
///
/// # Errors
/// Database errors only.
pub async fn remove_factor(tx: &mut PgConnection, user: &Confirmed) -> Result<()> {
    sqlx::query!(
        "UPDATE users SET totp_secret = NULL, totp_step = NULL, recovery_code_hashes = '{}' WHERE id = $1",
        user.id().uuid()
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Whether the code is one of the user's second factor. Each is accepted once.
///
/// # Errors
/// Database errors; [`Error::Internal`] if the secret cannot be decrypted.
pub(super) async fn accept_code(db: &PgPool, encryption: &KeyRing, user: UserId, code: &str) -> Result<bool> {
    let code: String = code.chars().filter(|letter| !letter.is_whitespace()).collect();
    let mut tx = begin(db).await?;
    let found = sqlx::query!(
        r#"SELECT merchant_id, totp_secret AS "totp_secret!", coalesce(totp_step, 0) AS "step!", recovery_code_hashes
           FROM users WHERE id = $1 AND removed_at IS NULL AND totp_secret IS NOT NULL FOR NO KEY UPDATE"#,
        user.uuid()
    );
    let Some(found) = found.fetch_optional(&mut *tx).await? else { return Ok(false) };
    let secret = encryption.open(&found.totp_secret, &totp_place(found.merchant_id, user));
    let secret = secret.ok_or_else(|| Error::internal(format!("the second factor of {user} cannot be decrypted")))?;
    let step = totp(&secret)?.check(&code, now(&mut tx).await?).and_then(|step| i64::try_from(step).ok());
    if let Some(step) = step.filter(|step| *step > found.step) {
        sqlx::query!("UPDATE users SET totp_step = $2 WHERE id = $1", user.uuid(), step).execute(&mut *tx).await?;
    } else {
        let hash = sha256(code.to_lowercase().as_bytes()).to_vec();
        if !found.recovery_code_hashes.contains(&hash) {
            return Ok(false);
        }
        sqlx::query!(
            "UPDATE users SET recovery_code_hashes = array_remove(recovery_code_hashes, $2) WHERE id = $1",
            user.uuid(),
            hash
        )
        .execute(&mut *tx)
        .await?;
    }
    tx.commit().await?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vectors of RFC 6238, Appendix B, to six digits.
    #[test]
    fn codes_are_those_of_the_standard() -> Result<()> {
        let secret = Secret::new("GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ".to_owned());
        let totp = totp(&secret)?;
        for (time, code) in [(59, "287082"), (1_111_111_109, "081804"), (2_000_000_000, "279037")] {
            assert_eq!(totp.check(code, time), Some(time / STEP), "{code}");
            assert_eq!(totp.check(code, time + 2 * STEP), None, "{code} is too old");
        }
        Ok(())
    }

    #[test]
    fn a_new_factor_is_complete_for_an_app() -> Result<()> {
        let new = new_factor("ada@shop.example", "pay.example:8443", None)?;
        assert_eq!(new.secret.expose().len(), 32);
        let expected = format!(
            "otpauth://totp/pay.example%208443:ada%40shop.example?secret={}&issuer=pay.example%208443",
            new.secret.expose()
        );
        assert_eq!(*new.url.expose(), expected);
        let again = new_factor("ada@shop.example", "pay.example:8443", Some(new.secret.expose()))?;
        assert_eq!(again.url, new.url, "a mistyped code does not change the secret");
        Ok(())
    }
}
