-- no-transaction
CREATE INDEX CONCURRENTLY IF NOT EXISTS users_of_merchant ON users (merchant_id);
