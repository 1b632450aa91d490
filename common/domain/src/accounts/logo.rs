//! The logo of an account, which payers see on pages, in documents and in e-mails. It is public: anyone may have its URL.

use sqlx::{PgConnection, PgExecutor};

use foundation::error::Result;
use foundation::id::{AccountId, LogoId};
use foundation::time::Timestamp;

/// A logo as it is stored: a PNG that this service has encoded, so that nothing of an uploaded file is in it but what it shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    pub png: Vec<u8>,
    /// In pixels, at most 600.
    pub width: i32,
    /// In pixels, at most 200.
    pub height: i32,
}

/// The present logo of an account, without its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Logo {
    /// The picture's id: another picture has another one.
    pub id: LogoId,
    /// In pixels.
    pub width: i32,
    /// In pixels.
    pub height: i32,
}

impl Logo {
    /// The path of its URL, without a slash at the beginning. What is at this path never changes, until it is gone. It does
    /// not name the account, whose id is known to its merchant and its provider only.
    pub fn path(&self) -> String {
        format!("logos/{}.png", self.id)
    }

    /// Its width and height where it has this much room: not enlarged, and in the same proportion unless it is only a line.
    pub fn within(&self, width: i32, height: i32) -> (i32, i32) {
        let shown = self.width.min(width).min(self.width * height / self.height).max(1);
        (shown, (self.height * shown / self.width).clamp(1, height))
    }
}

/// The bytes of the logo with this id, if it was neither replaced nor removed.
///
/// # Errors
/// Database errors only.
pub async fn logo(db: impl PgExecutor<'_>, id: LogoId) -> Result<Option<Vec<u8>>> {
    Ok(sqlx::query_scalar!("SELECT png FROM logos WHERE id = $1", id.uuid()).fetch_optional(db).await?)
}

/// The account whose logo has this id, if it was neither replaced nor removed.
///
/// # Errors
/// Database errors only.
pub async fn owner_of_logo(db: impl PgExecutor<'_>, id: LogoId) -> Result<Option<AccountId>> {
    Ok(sqlx::query_scalar!("SELECT account_id FROM logos WHERE id = $1", id.uuid()).fetch_optional(db).await?)
}

/// Gives an account this logo, instead of the one that it may have.
///
/// # Errors
/// Database errors only.
pub async fn set_logo(tx: &mut PgConnection, now: Timestamp, account: AccountId, picture: &Picture) -> Result<()> {
    sqlx::query!(
        "INSERT INTO logos (id, account_id, png, width, height, created_at) VALUES ($1, $2, $3, $4, $5, $6)
         ON CONFLICT (account_id) DO UPDATE SET id = excluded.id, png = excluded.png, width = excluded.width,
             height = excluded.height, created_at = excluded.created_at",
        LogoId::new(now).uuid(),
        account.uuid(),
        &picture.png[..],
        picture.width,
        picture.height,
        now,
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Removes the logo of an account, if it has one.
///
/// # Errors
/// Database errors only.
pub async fn remove_logo(tx: &mut PgConnection, account: AccountId) -> Result<()> {
    sqlx::query!("DELETE FROM logos WHERE account_id = $1", account.uuid()).execute(tx).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn a_logo_fits_and_keeps_its_proportion() {
        for (size, room, shown) in [
            ((600, 200), (180, 48), (144, 48)),
            ((600, 100), (180, 48), (180, 30)),
            ((40, 20), (180, 48), (40, 20)),
            ((1, 200), (180, 48), (1, 48)),
            ((600, 1), (180, 48), (180, 1)),
        ] {
            let logo = Logo { id: LogoId::from_uuid(Uuid::nil()), width: size.0, height: size.1 };
            assert_eq!(logo.within(room.0, room.1), shown, "{size:?}");
        }
    }
}
