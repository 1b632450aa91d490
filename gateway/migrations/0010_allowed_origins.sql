-- Origins whose pages may frame the account's capture field, as the operator registers them. An account of a former release has
-- none, and no field until one is registered.

ALTER TABLE gateway.accounts ADD COLUMN allowed_origins text[] NOT NULL DEFAULT '{}';
