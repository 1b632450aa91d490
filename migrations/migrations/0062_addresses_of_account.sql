-- no-transaction
-- What refers to an address names its account too, as it does of every other object.
-- upgrade: the id alone is unique already, so this refuses nothing.
CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS addresses_of_account ON addresses (account_id, id);
