-- no-transaction
CREATE INDEX CONCURRENTLY IF NOT EXISTS customers_by_name ON customers
    USING gin (array_to_tsvector(customer_name_words(account_id, name))) WITH (fastupdate = off) WHERE deleted_at IS NULL;
