-- The user name of the account at the card gateway. field_key, which was to keep two accounts from sharing one, changes
-- with the keys. NULL for accounts connected by the previous version, until the next one is connected.
ALTER TABLE provider_accounts ADD COLUMN gateway_account text;
-- upgrade: the table has a few rows for each merchant, and the previous version leaves the column NULL.
CREATE UNIQUE INDEX provider_accounts_gateway_account ON provider_accounts (gateway_account)
    WHERE gateway_account IS NOT NULL;
