//! Values that are stored in columns of type text.

/// Reads this type from a column of type text by parsing it.
macro_rules! text_column {
    ($type:ty) => {
        impl sqlx::Type<sqlx::Postgres> for $type {
            fn type_info() -> sqlx::postgres::PgTypeInfo {
                <str as sqlx::Type<sqlx::Postgres>>::type_info()
            }
        }

        impl sqlx::Decode<'_, sqlx::Postgres> for $type {
            fn decode(value: sqlx::postgres::PgValueRef<'_>) -> Result<Self, sqlx::error::BoxDynError> {
                Ok(<&str as sqlx::Decode<sqlx::Postgres>>::decode(value)?.parse()?)
            }
        }
    };
}

pub(crate) use text_column;
