//! The columns with ciphertexts, and their SQL, which is identical for all of them.

use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use domain::accounts::signing_secret_place;
use domain::idempotency::response_place;
use domain::mails::link_place;
use domain::users::totp_place;
use domain::webhooks::{previous_secret_place, secret_place};
use foundation::crypto::Place;
use foundation::error::Result;
use foundation::id::{
    AccountId, CreationKeyId, InvitationId, KeyId, MerchantId, ProviderAccountId, UserId, WebhookEndpointId,
};
use providers::credentials::place as credentials_place;

/// A ciphertext and the id of its row.
pub(super) struct Sealed {
    pub(super) id: Uuid,
    /// The account or the merchant.
    pub(super) owner: Uuid,
    pub(super) sealed: Vec<u8>,
    /// Whether it may be needed again.
    pub(super) in_use: bool,
}

/// Former and new ciphertexts, row by row.
#[derive(Default)]
pub(super) struct Batch {
    ids: Vec<Uuid>,
    former: Vec<Vec<u8>>,
    new: Vec<Vec<u8>>,
}

impl Batch {
    pub(super) fn push(&mut self, row: Sealed, new: Vec<u8>) {
        self.ids.push(row.id);
        self.former.push(row.sealed);
        self.new.push(new);
    }

    pub(super) fn len(&self) -> u64 {
        self.ids.len() as u64
    }
}

macro_rules! columns {
    ($($(#[doc = $what:literal])+ $column:ident = $table:literal . $sealed:literal, of $id:ident, owned by $owner:ident = $owner_id:literal, at $place:path, in_use $in_use:literal;)+) => {
        /// A column with ciphertexts sealed under the configured encryption key.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Column {
            $($(#[doc = $what])+ $column,)+
        }

        impl Column {
            /// All such columns. A test compares them with the catalog.
            pub(super) const ALL: &'static [Self] = &[$(Self::$column,)+];

            /// As `table.column`.
            pub(super) const fn name(self) -> &'static str {
                match self {
                    $(Self::$column => concat!($table, ".", $sealed),)+
                }
            }

            /// The prefixed id of a row.
            pub(super) fn row(self, id: Uuid) -> String {
                match self {
                    $(Self::$column => $id::from_uuid(id).to_string(),)+
                }
            }

            /// What the ciphertext in a row is sealed for.
            pub(super) fn place(self, owner: Uuid, id: Uuid) -> Place {
                match self {
                    $(Self::$column => $place($owner::from_uuid(owner), $id::from_uuid(id)),)+
                }
            }

            /// Returns the ciphertexts of the rows after this one.
            pub(super) async fn page(self, db: &PgPool, after: Uuid, limit: i64) -> Result<Vec<Sealed>> {
                Ok(match self {
                    $(Self::$column => sqlx::query_as!(
                        Sealed,
                        r#"SELECT id AS "id!: Uuid", "# + $owner_id + r#" AS "owner!: Uuid", "# + $sealed + r#" AS "sealed!", ("# + $in_use + r#") AS "in_use!" FROM "#
                            + $table + " WHERE " + $sealed + " IS NOT NULL AND id > $1 ORDER BY id LIMIT $2",
                        after,
                        limit,
                    )
                    .fetch_all(db)
                    .await?,)+
                })
            }

            /// Writes the new ciphertexts where the former ones are unchanged. Returns how many.
            pub(super) async fn replace(self, tx: &mut PgConnection, batch: &Batch) -> Result<u64> {
                let done = match self {
                    $(Self::$column => sqlx::query!(
                        // A page is in id order, so rows are locked in a consistent order.
                        "WITH held AS MATERIALIZED (
                             SELECT n.id, n.former, n.new FROM unnest($1::uuid[], $2::bytea[], $3::bytea[]) AS n (id, former, new)
                             CROSS JOIN LATERAL (SELECT t.id FROM "
                            + $table
                            + " AS t WHERE t.id = n.id FOR NO KEY UPDATE) locked)
                         UPDATE " + $table + " AS t SET " + $sealed + " = held.new
                         FROM held WHERE t.id = held.id AND t." + $sealed + " = held.former",
                        &batch.ids,
                        &batch.former,
                        &batch.new,
                    )
                    .execute(tx)
                    .await?,)+
                };
                Ok(done.rows_affected())
            }
        }
    };
}

columns! {
    /// Secrets with which clients of live keys sign requests.
    SigningSecret = "api_keys"."signing_secret", of KeyId, owned by AccountId = "account_id", at signing_secret_place,
        in_use "revoked_at IS NULL AND (expires_at IS NULL OR expires_at > clock_timestamp())";
    /// Secrets that sign webhook deliveries.
    WebhookSecret = "webhook_endpoints"."secret", of WebhookEndpointId, owned by AccountId = "account_id", at secret_place,
        in_use "deleted_at IS NULL";
    /// Previous secrets, which sign too for a time after a rotation.
    FormerWebhookSecret = "webhook_endpoints"."previous_secret", of WebhookEndpointId, owned by AccountId = "account_id", at previous_secret_place,
        in_use "deleted_at IS NULL AND previous_secret_until > clock_timestamp()";
    /// Stored responses with a secret, for replays of a creation.
    StoredResponse = "creation_keys"."sealed_answer", of CreationKeyId, owned by AccountId = "account_id", at response_place, in_use "true";
    /// Credentials of accounts at providers.
    Credentials = "provider_accounts"."credentials", of ProviderAccountId, owned by AccountId = "account_id", at credentials_place, in_use "true";
    /// Secrets of second factors.
    Totp = "users"."totp_secret", of UserId, owned by MerchantId = "merchant_id", at totp_place,
        in_use "removed_at IS NULL";
    /// Links of invitations that are to be sent by e-mail.
    InvitationLink = "mails"."link", of InvitationId, owned by AccountId = "account_id", at link_place, in_use "true";
}

/// Returns the secrets that a starting process tests its keys with: the newest and the oldest of each kind in use.
pub(super) async fn samples(db: &PgPool) -> Result<Vec<(Place, Vec<u8>)>> {
    let keys = sqlx::query!(
        r#"(SELECT id AS "id!: KeyId", account_id AS "account_id!: AccountId", signing_secret AS "sealed!" FROM api_keys
            WHERE signing_secret IS NOT NULL AND revoked_at IS NULL ORDER BY id DESC LIMIT 1)
           UNION ALL (SELECT id, account_id, signing_secret FROM api_keys
            WHERE signing_secret IS NOT NULL AND revoked_at IS NULL ORDER BY id LIMIT 1)"#
    );
    let endpoints = sqlx::query!(
        r#"(SELECT id AS "id!: WebhookEndpointId", account_id AS "account_id!: AccountId", secret AS "sealed!" FROM webhook_endpoints
            WHERE deleted_at IS NULL ORDER BY id DESC LIMIT 1)
           UNION ALL (SELECT id, account_id, secret FROM webhook_endpoints WHERE deleted_at IS NULL ORDER BY id LIMIT 1)"#
    );
    let accounts = sqlx::query!(
        r#"(SELECT id AS "id!: ProviderAccountId", account_id AS "account_id!: AccountId", credentials AS "sealed!" FROM provider_accounts
            WHERE credentials IS NOT NULL ORDER BY id DESC LIMIT 1)
           UNION ALL (SELECT id, account_id, credentials FROM provider_accounts WHERE credentials IS NOT NULL ORDER BY id LIMIT 1)"#
    );
    let mut samples = Vec::new();
    for row in keys.fetch_all(db).await? {
        samples.push((signing_secret_place(row.account_id, row.id), row.sealed));
    }
    for row in endpoints.fetch_all(db).await? {
        samples.push((secret_place(row.account_id, row.id), row.sealed));
    }
    for row in accounts.fetch_all(db).await? {
        samples.push((credentials_place(row.account_id, row.id), row.sealed));
    }
    Ok(samples)
}
