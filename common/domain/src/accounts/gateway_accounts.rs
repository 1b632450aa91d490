//! Which account of the card gateway each of ours is connected to: no two to the same one.

use std::collections::BTreeMap;

use sqlx::{PgConnection, PgExecutor};

use foundation::crypto::KeyRing;
use foundation::error::Result;
use foundation::id::{AccountId, ProviderAccountId};
use foundation::rule_enabled;
use providers::card_gateway::Credentials;

struct Sealed {
    id: ProviderAccountId,
    account_id: AccountId,
    gateway_account: Option<String>,
    credentials: Vec<u8>,
}

/// All connected accounts. There are as many as merchants, and this is read only when an operator connects one or
/// examines the system.
async fn connected(db: impl PgExecutor<'_>) -> Result<Vec<Sealed>> {
    let query = sqlx::query_as!(
        Sealed,
        r#"SELECT id, account_id, gateway_account, credentials AS "credentials!" FROM provider_accounts
           WHERE provider = 'card_gateway' AND credentials IS NOT NULL ORDER BY id"#
    );
    Ok(query.fetch_all(db).await?)
}

impl Sealed {
    /// `None` if no configured key opens its credentials.
    fn username(&self, encryption: &KeyRing) -> Option<String> {
        Credentials::open(encryption, &self.credentials, self.account_id, self.id).as_ref().map(name)
    }
}

/// The user name as the gateway compares it.
pub(super) fn name(credentials: &Credentials) -> String {
    if !rule_enabled!(Account) {
        return credentials.field_key();
    }
    credentials.username.trim().to_owned()
}

/// Writes the names of accounts that the previous version has connected, so that the unique index covers them. Leaves
/// out those that share one, which [`shared`] reports.
pub(super) async fn write_missing_names(tx: &mut PgConnection, encryption: &KeyRing) -> Result<()> {
    for row in connected(&mut *tx).await?.into_iter().filter(|row| row.gateway_account.is_none()) {
        let Some(name) = row.username(encryption) else { continue };
        sqlx::query!(
            "UPDATE provider_accounts SET gateway_account = $2
             WHERE id = $1 AND NOT EXISTS (SELECT FROM provider_accounts WHERE gateway_account = $2)",
            row.id.uuid(),
            name,
        )
        .execute(&mut *tx)
        .await?;
    }
    Ok(())
}

/// Returns the accounts that share an account at the gateway with another, by its name.
///
/// # Errors
/// Database errors only.
pub async fn shared(db: impl PgExecutor<'_>, encryption: &KeyRing) -> Result<Vec<(String, Vec<AccountId>)>> {
    let mut accounts: BTreeMap<String, Vec<AccountId>> = BTreeMap::new();
    for row in connected(db).await? {
        if let Some(name) = row.username(encryption) {
            accounts.entry(name).or_default().push(row.account_id);
        }
    }
    Ok(accounts.into_iter().filter(|(_, accounts)| accounts.len() > 1).collect())
}
