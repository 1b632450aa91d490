//! Changes of a merchant's own data on objects that have no other update.

/// Changes `metadata` and `external_id` of a row, which this locks.
macro_rules! change_merchant_data {
    ($tx:ident, $table:literal, $what:literal, $account:expr, $id:expr, $change:expr) => {
        let row = sqlx::query!(
            "SELECT metadata, external_id, version FROM "
                + $table
                + " WHERE account_id = $1 AND id = $2 FOR NO KEY UPDATE",
            $account.uuid(),
            $id.uuid(),
        )
        .fetch_optional(&mut *$tx)
        .await?;
        let row = row.ok_or_else(|| foundation::error::Error::no_such($what, $id))?;
        let merchant_data =
            foundation::merchant_data::MerchantData { metadata: row.metadata, external_id: row.external_id };
        let merchant_data = $change.apply(merchant_data, row.version)?;
        sqlx::query!(
            "UPDATE " + $table + " SET metadata = $3, external_id = $4 WHERE account_id = $1 AND id = $2",
            $account.uuid(),
            $id.uuid(),
            merchant_data.metadata.as_ref() as Option<&foundation::merchant_data::Metadata>,
            merchant_data.external_id.as_deref(),
        )
        .execute(&mut *$tx)
        .await?;
    };
}

pub(crate) use change_merchant_data;
