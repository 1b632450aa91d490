//! Passwords, stored as Argon2id hashes (RFC 9106).

use std::sync::LazyLock;
use std::time::Duration;

use argon2::Argon2;
use argon2::password_hash::{PasswordHasher as _, PasswordVerifier as _, phc::PasswordHash};
use foundation::concurrency::ConcurrencyLimit;
use foundation::crypto::Secret;
use foundation::error::{Error, Result};
use tokio::task::spawn_blocking;

/// The length of a password in characters.
const LENGTH: std::ops::RangeInclusive<usize> = 12..=128;

/// Each computation needs 19 MiB and some tens of milliseconds of a processor.
static COMPUTATIONS: LazyLock<ConcurrencyLimit> =
    LazyLock::new(|| ConcurrencyLimit::new(AT_ONCE, Duration::from_secs(5), "too many passwords are being checked"));
const AT_ONCE: usize = 4;

/// Verified if there is no such user, so that this takes as long as for one that exists. No password is known to have this
/// hash, which was chosen at random. It is not computed when it is first needed, because that attempt would take longer.
const OF_NOBODY: &str =
    "$argon2id$v=19$m=19456,t=2,p=1$OxfO0xYE9G9D/xZ4XQU2Zw$gvo83r7gDC20NFjLmD09NNdO1sbHs8kxx/2cyntlxkA";

/// The hash of a new password.
///
/// # Errors
/// 422 `password` if it is too short or too long; [`Error::Busy`] if others take too long.
pub(super) async fn hash(password: Secret<String>) -> Result<String> {
    if !LENGTH.contains(&password.expose().chars().count()) {
        return Err(Error::invalid("password", format!("must have {} to {} characters", LENGTH.start(), LENGTH.end())));
    }
    blocking(move || compute(password.expose())).await?
}

/// Whether this is the password of the hash; `None` is the hash of a user who does not exist.
///
/// # Errors
/// [`Error::Busy`] if others take too long; otherwise only if the hash is malformed.
pub(super) async fn verify(password: Secret<String>, hash: Option<String>) -> Result<bool> {
    if password.expose().chars().count() > *LENGTH.end() {
        return Ok(false);
    }
    blocking(move || {
        let exists = hash.is_some();
        let hash = hash.unwrap_or_else(|| OF_NOBODY.to_owned());
        let parsed =
            PasswordHash::new(&hash).map_err(|error| Error::internal(format!("a password's hash: {error}")))?;
        let is_right = Argon2::default().verify_password(password.expose().as_bytes(), &parsed).is_ok();
        Ok(exists && is_right)
    })
    .await?
}

fn compute(password: &str) -> Result<String> {
    let hash = Argon2::default().hash_password(password.as_bytes());
    Ok(hash.map_err(|error| Error::internal(format!("a password's hash: {error}")))?.to_string())
}

/// Computes a hash once, for as many clients at once as is planned for.
async fn blocking<T: Send + 'static>(compute: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    let permit = COMPUTATIONS.acquire().await?;
    metrics::counter!("password_computations_total").increment(1);
    let computing = spawn_blocking(move || {
        // Held to the end of the computation, although the client may be gone.
        let _permit = permit;
        compute()
    });
    computing.await.map_err(|error| Error::internal(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(text: &str) -> Secret<String> {
        Secret::new(text.to_owned())
    }

    #[tokio::test]
    async fn only_the_password_itself_is_right() -> Result<()> {
        let stored = hash(secret("correct horse")).await?;
        assert!(stored.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{stored}");
        assert!(!stored.contains("correct"));
        assert_ne!(stored, hash(secret("correct horse")).await?, "the salt is random");
        for (text, is_right) in
            [("correct horse", true), ("correct hors", false), ("", false), (&"x".repeat(1_000), false)]
        {
            assert_eq!(verify(secret(text), Some(stored.clone())).await?, is_right, "{text}");
        }
        assert!(!verify(secret("correct horse"), None).await?);
        let shape = |hash: &str| hash.split('$').map(str::len).collect::<Vec<_>>();
        assert_eq!(shape(OF_NOBODY), shape(&stored), "it takes as much to verify");
        assert_eq!(OF_NOBODY.split('$').nth(3), stored.split('$').nth(3), "with the same parameters");
        Ok(())
    }

    #[tokio::test(start_paused = true)]
    async fn a_password_that_is_not_checked_in_time_is_not_wrong() -> Result<()> {
        let mut all = Vec::new();
        // Other tests hold permits for moments, during which no time passes here.
        while all.len() < AT_ONCE {
            all.extend(COMPUTATIONS.acquire().await);
        }
        let checked = verify(secret("correct horse"), None).await;
        assert!(matches!(checked, Err(Error::Busy(_))), "{checked:?}");
        Ok(())
    }

    #[tokio::test]
    async fn a_new_password_is_neither_short_nor_long() {
        for text in ["x".repeat(11), "x".repeat(129)] {
            assert!(hash(secret(&text)).await.is_err_and(|error| error.to_string().contains("12 to 128")));
        }
        assert!(hash(secret(&"é".repeat(128))).await.is_ok());
    }
}
