-- no-transaction
-- What refers to an address names its account too, as it does of every other object.
CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS addresses_of_account ON addresses (account_id, id);
