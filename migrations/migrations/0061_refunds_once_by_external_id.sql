-- no-transaction
-- Of two requests with the same id of the merchant's own, one makes a refund.
-- upgrade: the former release writes no such id.
CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS refunds_external_id ON refunds (account_id, payment_id, external_id)
    WHERE external_id IS NOT NULL;
