-- no-transaction
-- What was done at a provider account of late, which is looked for in the provider's books.
CREATE INDEX CONCURRENTLY IF NOT EXISTS operations_succeeded ON operations (provider_account_id, finished_at)
    WHERE state = 'succeeded';
