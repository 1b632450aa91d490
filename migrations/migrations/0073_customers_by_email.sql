-- no-transaction
-- Customers of any account by their address, without regard to case, for an operator who knows nothing else.
CREATE INDEX CONCURRENTLY IF NOT EXISTS customers_by_email ON customers (lower(email));
