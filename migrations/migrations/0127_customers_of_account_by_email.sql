-- no-transaction
-- The list of customers by e-mail address.
CREATE INDEX CONCURRENTLY IF NOT EXISTS customers_of_account_by_email ON customers (account_id, lower(email), id);
